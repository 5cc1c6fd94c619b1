package tasks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/spans"
)

// Categories of the messages of a task.
const (
	CategoryTraceID = "trace_id"
	CategorySpanID  = "span_id"
	CategoryStatus  = "status"
	CategoryMemory  = "allocated" // if that is counted
	CategoryName    = "name"      // if the task begins before its name is known
)

// Limits of what a Recorder keeps.
const (
	maxEnded = 1 << 12 // spans that have ended and can be parents
	maxLate  = 1 << 12 // goroutines whose regions end when they run again
)

// A Recorder makes the events of the spans of one process. One goroutine calls its methods, in the order of the event stream.
type Recorder struct {
	pid   int32
	ready []event.Event // to be yielded before the current event of the stream
	at    place
	last  int64 // ID of a task

	open    map[*spans.Span]*task
	regions map[uint64][]*task // by goroutine, innermost last
	late    map[uint64][]*task // regions that end when the goroutine runs again
	ids     map[trace.SpanID]int64
	ended   []trace.SpanID // those in ids that have ended: a ring
	oldest  int            // in ended

	names  *Names // nil: nobody waits for names
	counts [event.NumKinds]atomic.Uint64
}

// A place is where the program is when a note or an event of the stream happens.
type place struct {
	g    uint64 // the goroutine that runs; 0: unknown
	tid  int32
	time int64
}

// A task is a span that has begun.
type task struct {
	id   int64
	span *spans.Span
	name string // when it began, in all of its events
}

// NewRecorder returns a Recorder without spans.
func NewRecorder(pid int32) *Recorder {
	return &Recorder{pid: pid, open: map[*spans.Span]*task{}, regions: map[uint64][]*task{}, late: map[uint64][]*task{}, ids: map[trace.SpanID]int64{}}
}

// Names returns the names of the tasks. It must be called before the first span begins.
func (r *Recorder) Names() *Names {
	if r.names == nil {
		r.names = &Names{of: map[int64]*name{}}
	}
	return r.names
}

// Note is called before a note of a goroutine is decoded.
func (r *Recorder) Note(g uint64, tid int32, at int64) {
	r.at = place{g, tid, at}
	r.settle(g)
}

// Noted is called after a note was decoded, which can have changed the name of a span.
func (r *Recorder) Noted() {
	if r.names != nil {
		for _, t := range r.regions[r.at.g] {
			r.names.set(t.id, nameOf(t.span), false)
		}
	}
	r.at = place{}
}

// Before is called before an event of the stream has consequences for spans.
func (r *Recorder) Before(e *event.Event) {
	r.at = place{0, e.TID, e.Time}
	switch e.Kind {
	case event.GoBlock, event.GoStop, event.GoSyscallBegin:
		r.at.g = e.G
	case event.GoDestroy:
		r.at.g = e.G
		r.settle(e.G)
	case event.GoCreate:
		r.at.g = e.Parent
	case event.GoUnblock:
		r.at.g = e.By
	}
}

// Ready returns the events that precede an event of the stream, which has had its consequences. They are valid until the next call of
// another method.
func (r *Recorder) Ready(e *event.Event) []event.Event {
	if e.Kind == event.GoDestroy { // operations go on elsewhere
		for _, t := range slices.Backward(r.regions[e.G]) {
			r.emit(event.UserRegionEnd, t, e.G, e.Time)
		}
		delete(r.regions, e.G)
	}
	return r.take()
}

// After returns the events that follow an event of the stream.
func (r *Recorder) After(e *event.Event) []event.Event {
	r.at = place{}
	if e.Kind != event.GoStart || len(r.late) == 0 {
		return nil
	}
	r.at = place{e.G, e.TID, e.Time}
	r.settle(e.G)
	r.at = place{}
	return r.take()
}

// Rest returns the events that follow the last one of the stream.
func (r *Recorder) Rest() []event.Event { return r.take() }

func (r *Recorder) take() []event.Event {
	list := r.ready
	r.ready = r.ready[:0]
	return list
}

// Begin begins a task.
func (r *Recorder) Begin(s *spans.Span) {
	r.last++
	t := &task{id: r.last, span: s, name: nameOf(s)}
	r.open[s] = t
	r.ids[s.Context.SpanID()] = t.id
	if r.names != nil {
		r.names.add(t.id, t.name)
	}
	e := r.add(event.UserTaskBegin, t, r.at.g, s.Start)
	e.Text, e.Object = t.name, uint64(r.ids[s.Parent.SpanID()])
	r.log(t, s.Start, CategoryTraceID, s.Context.TraceID().String())
	r.log(t, s.Start, CategorySpanID, s.Context.SpanID().String())
	if r.at.g == s.G && s.G != 0 && !s.Own {
		r.regions[s.G] = append(r.regions[s.G], t)
		r.emit(event.UserRegionBegin, t, s.G, s.Start)
	}
}

// Leave notes that a span goes on, but not on its goroutine.
func (r *Recorder) Leave(s *spans.Span) {
	if t := r.open[s]; t != nil {
		r.endRegion(t, cmp.Or(r.at.time, s.Start))
	}
}

// End ends the task of a span that has ended.
func (r *Recorder) End(s *spans.Span) {
	t := r.open[s]
	if t == nil {
		return
	}
	delete(r.open, s)
	if r.names != nil {
		r.names.set(t.id, nameOf(s), true)
	}
	r.endRegion(t, s.End)
	r.log(t, s.End, CategoryStatus, statusOf(s))
	if s.Work != nil && s.Work.Allocated != nil {
		r.log(t, s.End, CategoryMemory, fmt.Sprintf("%s in %s", english.Count(s.Work.Allocated.Bytes, "byte"), english.Count(s.Work.Allocated.Objects, "object")))
	}
	r.emit(event.UserTaskEnd, t, r.at.g, s.End)
	r.forget(s.Context.SpanID())
}

// forget makes room in ids for another span that has ended.
func (r *Recorder) forget(ended trace.SpanID) {
	if len(r.ended) < maxEnded {
		r.ended = append(r.ended, ended)
		return
	}
	delete(r.ids, r.ended[r.oldest])
	r.ended[r.oldest] = ended
	r.oldest = (r.oldest + 1) % maxEnded
}

// endRegion ends the region of a task, if there is one.
func (r *Recorder) endRegion(t *task, at int64) {
	g := t.span.G
	list := r.regions[g]
	i := slices.Index(list, t)
	switch {
	case i < 0:
		return
	case r.at.g != g:
		if len(r.late) >= maxLate {
			clear(r.late) // of goroutines whose ends were lost
		}
		if !slices.Contains(r.late[g], t) {
			r.late[g] = append(r.late[g], t)
		}
		return
	}
	inner := list[i+1:]
	for _, other := range slices.Backward(inner) {
		r.emit(event.UserRegionEnd, other, g, at)
	}
	r.emit(event.UserRegionEnd, t, g, at)
	for _, other := range inner {
		r.emit(event.UserRegionBegin, other, g, at)
	}
	if r.regions[g] = slices.Delete(list, i, i+1); len(r.regions[g]) == 0 {
		delete(r.regions, g)
	}
}

// settle ends the regions of a goroutine that another one has ended. The goroutine runs.
func (r *Recorder) settle(g uint64) {
	if len(r.late) == 0 {
		return
	}
	late := r.late[g]
	delete(r.late, g)
	for _, t := range slices.Backward(late) {
		r.endRegion(t, r.at.time)
	}
}

// emit adds an event with the name of its task.
func (r *Recorder) emit(kind event.Kind, t *task, g uint64, at int64) {
	e := r.add(kind, t, g, at)
	if kind != event.UserTaskEnd {
		e.Text = t.name
	}
}

func (r *Recorder) log(t *task, at int64, category, text string) {
	e := r.add(event.UserLog, t, r.at.g, at)
	e.Reason, e.Text = category, text
}

func (r *Recorder) add(kind event.Kind, t *task, g uint64, at int64) *event.Event {
	r.counts[kind].Add(1)
	r.ready = append(r.ready, event.Event{Time: at, Kind: kind, PID: r.pid, TID: r.at.tid, G: g, Value: t.id})
	return &r.ready[len(r.ready)-1]
}

// Counts returns the number of events by kind. It may be called from any goroutine.
func (r *Recorder) Counts() map[event.Kind]uint64 {
	counts := map[event.Kind]uint64{}
	for kind := range r.counts {
		if n := r.counts[kind].Load(); n > 0 {
			counts[event.Kind(kind)] = n
		}
	}
	return counts
}

// nameOf returns the current name of a span.
func nameOf(s *spans.Span) string { return strings.ToValidUTF8(s.Name, "\uFFFD") }

// statusOf returns the status of a span that has ended, such as "200", "error: canceled" or "ok".
func statusOf(s *spans.Span) string {
	text := ""
	for _, key := range []attribute.Key{"http.response.status_code", "rpc.response.status_code", "error.type"} {
		if i := slices.IndexFunc(s.Attributes, func(kv attribute.KeyValue) bool { return kv.Key == key }); i >= 0 {
			text = s.Attributes[i].Value.String()
			break
		}
	}
	switch detail := cmp.Or(s.Message, text); {
	case s.Ending == spans.Unobserved:
		return "end not observed"
	case s.Status != codes.Error:
		return cmp.Or(text, "ok")
	case detail == "":
		return "error"
	default:
		return "error: " + detail
	}
}
