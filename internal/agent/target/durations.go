package target

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/sched"
	"github.com/loupe-go/loupe/spans"
)

// durations are those of the requests of a process.
type durations struct {
	mu sync.Mutex
	of map[requestKey]*requestDurations
}

// A requestKey has the labels of metric.Requests.
type requestKey struct{ library, kind, status string }

type requestDurations struct {
	all sched.Histogram

	// exemplars have the newest sampled span of each power of two of the duration.
	exemplars map[int]metric.Exemplar
}

// own is the library of spans that a program makes itself: it chooses their names.
const own = "own"

// add adds a request that has ended.
func (d *durations) add(s *spans.Span) {
	key := requestKey{library: s.Library, kind: strings.ToLower(s.Kind.String()), status: "ok"}
	if s.Own || s.Exported {
		key.library = own
	}
	if s.Status == codes.Error {
		key.status = "error"
	}
	took := max(0, s.End-s.Start)
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.of[key]
	if r == nil {
		r = &requestDurations{exemplars: map[int]metric.Exemplar{}}
		if d.of == nil {
			d.of = map[requestKey]*requestDurations{}
		}
		d.of[key] = r
	}
	r.all.Add(time.Duration(took))
	if s.Context.IsSampled() {
		r.exemplars[bits.Len64(uint64(took))] = metric.Exemplar{Seconds: float64(took) / 1e9, At: s.End, TraceID: s.Context.TraceID(), SpanID: s.Context.SpanID()}
	}
}

// points are the points of all requests.
func (d *durations) points() []metric.Point {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]metric.Point, 0, len(d.of))
	for key, r := range d.of {
		h := r.all
		p := metric.Requests.Distribution(&h, key.library, key.kind, key.status)
		for _, e := range r.exemplars {
			p.Durations.Exemplars = append(p.Durations.Exemplars, e)
		}
		slices.SortFunc(p.Durations.Exemplars, func(a, b metric.Exemplar) int { return cmp.Compare(a.Seconds, b.Seconds) })
		list = append(list, p)
	}
	return list
}
