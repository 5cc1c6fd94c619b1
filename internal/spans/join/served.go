package join

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/spans"
)

// A request is one that the program serves.
type request struct {
	span     *spans.Span
	children []*goroutine // those created for it that are alive
	losses   uint64       // of the Tracker, when it began
	found    Place        // where its route was found
	served   *Served      // or nil
}

// forget removes a goroutine from those that are alive.
func (r *request) forget(g *goroutine) {
	if i := slices.Index(r.children, g); i >= 0 {
		last := len(r.children) - 1
		r.children[i] = r.children[last]
		r.children[last] = nil
		r.children = r.children[:last]
	}
}

// A Served is a request that the program serves, and the memory that its span requires. NewServed returns one, Serve begins its span.
// Its texts must be valid UTF-8.
type Served struct {
	Span spans.Span

	work    spans.Work
	request request
	room    [16]attribute.KeyValue // for Span.Attributes

	passed [2]uint64 // addresses by which the program passes the span on: see Pass
	place  int       // in passed.waiting, from 1 on; 0: passed.spans has the addresses
}

// maxReusable bounds the memory that is kept for other requests.
const maxReusable = 1 << 10

// NewServed returns the memory for a request. Span is empty, and has room for the attributes that a request has.
func (t *Tracker) NewServed() *Served {
	var r *Served
	if n := len(t.reusable); n > 0 {
		r, t.reusable = t.reusable[n-1], t.reusable[:n-1]
		r.Span = spans.Span{}
	} else {
		r = new(Served)
	}
	r.Span.Attributes = r.room[:0]
	return r
}

// Serve begins the span of a request, as Begin does. The program passes it on by values with two addresses: see Pass.
func (t *Tracker) Serve(r *Served, passed [2]uint64) {
	t.begin(&r.Span, r, nil)
	if r.Span.Work == nil { // a request in another one of the same goroutine
		t.Pass(&r.Span, passed[:]...)
		return
	}
	r.passed = passed
	t.passed.wait(r)
}

// serve begins to account what a goroutine does to a request, unless it serves one already.
func (t *Tracker) serve(g *goroutine, s *spans.Span, served *Served) {
	if g.request != nil && !g.child {
		return
	}
	g.spend(s.Start)
	if g.child {
		g.request.forget(g)
	}
	r := &request{}
	if served != nil {
		r, s.Work = &served.request, &served.work
		*s.Work = spans.Work{}
	} else {
		s.Work = &spans.Work{}
	}
	*r = request{span: s, losses: t.loss.count, served: served, children: r.children[:0]}
	if t.allocs {
		s.Work.Allocated = &spans.Allocations{}
	}
	g.allocated = t.allocated.of(g.id)
	g.request, g.child, g.since = r, false, s.Start
	g.state, g.class = gostate.Running, spans.Running
}

// endServed removes what is kept of a request that was passed on, and keeps its memory for another one if nothing refers to it.
func (t *Tracker) endServed(r *Served) {
	s := &r.Span
	t.passed.remove(r)
	if !t.opt.Reuse {
		return
	}
	if t.kept[s] {
		delete(t.kept, s)
		return
	}
	if t.heirs[s] == 0 && len(t.reusable) < maxReusable {
		t.reusable = append(t.reusable, r)
	}
}

// keep notes that something refers to a span, possibly for longer than it is open: its memory cannot be used for another one. That of a span
// that has ended is not.
func (t *Tracker) keep(s *spans.Span) {
	if t.opt.Reuse && s.Work != nil && s.End == 0 {
		t.kept[s] = true
	}
}
