package join

import (
	"slices"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// Options configures a Tracker.
type Options struct {
	PID int32

	// Handle receives each span when it ends, in the goroutine that calls the Tracker.
	Handle func(*spans.Span)

	// Waits reports that the events include those of waits. Then a goroutine belongs to the span in which it was created until that
	// has ended and the goroutine waits for another one. Otherwise it belongs to the span until that has ended.
	Waits bool

	// Release is called for a goroutine that does not belong to a request any more, although it is alive. It may be nil.
	Release func(goroutine uint64)

	// Sample decides whether a span is sampled. If it is nil, spans without a parent are sampled, others if their parent is.
	Sample func(*spans.Span) bool
}

// A Tracker makes the spans of one process. Its methods are called by one goroutine, in the order of the event stream.
type Tracker struct {
	opt        Options
	ids        ids
	goroutines map[uint64]*goroutine
	heirs      map[*spans.Span]int // the number of goroutines that have inherited a span
	free       []*goroutine
	counts     counts
}

type counts struct{ begun, ended, panicked, unobserved, strays, mismatched atomic.Uint64 }

// Counts are the numbers of spans so far.
type Counts struct {
	Begun      uint64
	Ended      uint64 // passed to Options.Handle
	Panicked   uint64 // of these, ended with their goroutine
	Unobserved uint64 // of these, ended at an unknown time
	Open       uint64 // that have not ended
	Strays     uint64 // ends of operations whose begin was not observed
	Mismatched uint64 // notes that do not fit their operation: a layout is wrong, or notes were lost
}

// A goroutine is one that is in a span, or was created in one.
type goroutine struct {
	id   uint64
	open []*spans.Span // innermost last

	// inherited is the innermost span of the goroutine's creator when it was created. It is the parent of the first spans of
	// this one, until it waits for other work: see Tracker.block.
	inherited *spans.Span
	waits     int // since inherited has ended

	request *request // that it serves, or nil
	child   bool     // it was created for the request
	class   spans.Class
	since   int64 // when class began
}

// NewTracker returns a Tracker without spans.
func NewTracker(o Options) *Tracker {
	return &Tracker{opt: o, ids: newIDs(), goroutines: map[uint64]*goroutine{}, heirs: map[*spans.Span]int{}}
}

// Counts returns the numbers of spans. It may be called from any goroutine.
func (t *Tracker) Counts() Counts {
	c := Counts{Ended: t.counts.ended.Load(), Panicked: t.counts.panicked.Load(), Unobserved: t.counts.unobserved.Load(),
		Strays: t.counts.strays.Load(), Mismatched: t.counts.mismatched.Load()}
	c.Begun = t.counts.begun.Load() // last, so that Open is not negative
	c.Open = c.Begun - c.Ended
	return c
}

// Stray counts the end of an operation whose begin was not observed.
func (t *Tracker) Stray() { t.counts.strays.Add(1) }

// Mismatch counts a note that does not fit its operation.
func (t *Tracker) Mismatch() { t.counts.mismatched.Add(1) }

func (t *Tracker) add(id uint64, at int64) *goroutine {
	g := t.goroutines[id]
	if g != nil {
		return g
	}
	if n := len(t.free); n > 0 {
		g, t.free = t.free[n-1], t.free[:n-1]
	} else {
		g = new(goroutine)
	}
	g.id, g.since = id, at
	t.goroutines[id] = g
	return g
}

func (t *Tracker) remove(g *goroutine) {
	delete(t.goroutines, g.id)
	t.inherit(g, nil)
	if g.child {
		g.request.forget(g)
	}
	clear(g.open[:cap(g.open)])
	*g = goroutine{open: g.open[:0]}
	if len(t.free) < 1<<12 {
		t.free = append(t.free, g)
	}
}

// inherit sets the span that a goroutine has inherited. A span that another goroutine was to end is over when none is left.
func (t *Tracker) inherit(g *goroutine, s *spans.Span) {
	old := g.inherited
	if g.inherited = s; s != nil {
		t.heirs[s]++
	}
	if old == nil {
		return
	}
	if t.heirs[old]--; t.heirs[old] > 0 {
		return
	}
	delete(t.heirs, old)
	if old.End == 0 && !t.isOpen(old) {
		old.Ending = spans.Unobserved
		t.finish(old, g.since)
	}
}

// isOpen reports whether a span is one of those in which its goroutine is.
func (t *Tracker) isOpen(s *spans.Span) bool {
	g := t.goroutines[s.G]
	return g != nil && slices.Contains(g.open, s)
}

// A request is one that the program serves.
type request struct {
	span     *spans.Span
	children []*goroutine // those created for it that are alive
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

// Begin begins a span. Start has its goroutine, library, kind, name, start and attributes, and as Parent the context in the
// headers of a request, if there is one.
func (t *Tracker) Begin(s *spans.Span) *spans.Span {
	g := t.add(s.G, s.Start)
	s.PID = t.opt.PID
	switch parent, rule := t.scope(g); {
	case s.Parent.IsValid():
		s.Rule = spans.RuleHeader
	case parent != nil && s.Kind != trace.SpanKindServer:
		s.Parent, s.Rule = parent.Context, rule
	}
	c := trace.SpanContextConfig{TraceID: s.Parent.TraceID(), SpanID: t.ids.span(), TraceState: s.Parent.TraceState()}
	if s.Rule == spans.RuleRoot {
		c.TraceID = t.ids.trace()
	}
	s.Context = trace.NewSpanContext(c)
	if t.sampled(s) {
		s.Context = s.Context.WithTraceFlags(trace.FlagsSampled)
	}
	if s.Kind == trace.SpanKindServer || s.Kind == trace.SpanKindConsumer {
		g.serve(s)
	}
	g.open = append(g.open, s)
	t.counts.begun.Add(1)
	return s
}

// serve begins to account what the goroutine does to a request, unless it serves one already.
func (g *goroutine) serve(s *spans.Span) {
	if g.request != nil && !g.child {
		return
	}
	g.spend(s.Start)
	if g.child {
		g.request.forget(g)
	}
	s.Work = &spans.Work{}
	g.request, g.child, g.class, g.since = &request{span: s}, false, spans.Running, s.Start
}

func (t *Tracker) sampled(s *spans.Span) bool {
	switch {
	case t.opt.Sample != nil:
		return t.opt.Sample(s)
	case s.Parent.IsValid():
		return s.Parent.IsSampled()
	}
	return true
}

// scope returns the span that a new operation of the goroutine belongs to, or nil.
func (t *Tracker) scope(g *goroutine) (*spans.Span, spans.Rule) {
	if n := len(g.open); n > 0 {
		return g.open[n-1], spans.RuleGoroutine
	}
	if !t.opt.Waits && g.inherited != nil && g.inherited.End != 0 {
		t.inherit(g, nil)
	}
	return g.inherited, spans.RuleCreator
}

// Innermost returns the innermost open span of a goroutine that a library has begun, or nil.
func (t *Tracker) Innermost(id uint64, library string, kind trace.SpanKind) *spans.Span {
	g := t.goroutines[id]
	if g == nil {
		return nil
	}
	for _, s := range slices.Backward(g.open) {
		if s.Library == library && s.Kind == kind {
			return s
		}
	}
	return nil
}

// Inherited returns the open span in which a goroutine was created, if that is of a library and a kind; else nil. The goroutine may do
// the work of the span.
func (t *Tracker) Inherited(id uint64, library string, kind trace.SpanKind) *spans.Span {
	g := t.goroutines[id]
	if g == nil || g.inherited == nil || g.inherited.End != 0 || g.inherited.Library != library || g.inherited.Kind != kind {
		return nil
	}
	return g.inherited
}

// Leave ends the part of a span that happens on its own goroutine. If goroutines that were created in it are alive, one of them ends the
// span. If not, its end was not observed.
func (t *Tracker) Leave(s *spans.Span, at int64) {
	if t.heirs[s] == 0 {
		s.Ending = spans.Unobserved
		t.End(s, at)
		return
	}
	if g := t.goroutines[s.G]; g != nil {
		g.open = slices.DeleteFunc(g.open, func(o *spans.Span) bool { return o == s })
	}
}

// End ends a span, and those that were begun in it on the same goroutine and have not ended.
func (t *Tracker) End(s *spans.Span, at int64) {
	g := t.goroutines[s.G]
	i := -1
	if g != nil {
		i = slices.Index(g.open, s)
	}
	if i < 0 {
		if s.End == 0 { // see Leave
			t.finish(s, at)
		}
		return
	}
	for _, inner := range slices.Backward(g.open[i+1:]) {
		inner.Ending = spans.Unobserved
		t.end(g, inner, at)
	}
	t.end(g, s, at)
	clear(g.open[i:])
	g.open = g.open[:i]
	if len(g.open) == 0 && g.inherited == nil && g.request == nil {
		t.remove(g)
		if s.Work == nil { // else the probe has removed it from the filter
			t.release(s.G)
		}
	}
}

func (t *Tracker) release(goroutine uint64) {
	if t.opt.Release != nil {
		t.opt.Release(goroutine)
	}
}

func (t *Tracker) end(g *goroutine, s *spans.Span, at int64) {
	at = max(at, s.Start)
	if r := g.request; r != nil && r.span == s {
		g.spend(at)
		for _, child := range r.children {
			child.spend(at)
			child.request, child.child = nil, false
		}
		g.request = nil
	}
	t.finish(s, at)
}

// finish sets the end of a span, and passes it on.
func (t *Tracker) finish(s *spans.Span, at int64) {
	s.End = max(at, s.Start)
	switch s.Ending {
	case spans.Panicked:
		t.counts.panicked.Add(1)
	case spans.Unobserved:
		t.counts.unobserved.Add(1)
	}
	t.counts.ended.Add(1)
	t.opt.Handle(s)
}

// Event takes an event of a goroutine.
func (t *Tracker) Event(e *event.Event) {
	if e.Kind == event.GoCreate {
		t.create(e)
		return
	}
	g := t.goroutines[e.G]
	if g == nil {
		return
	}
	switch e.Kind {
	case event.GoDestroy:
		g.spend(e.Time)
		t.exit(g, e.Time)
		return
	case event.GoBlock:
		if g.idle(e) {
			t.remove(g)
			t.release(e.G)
			return
		}
	case event.GoUnblock:
		g.release(e)
	case event.GoStart, event.GoStop, event.GoSyscallBegin, event.GoSyscallEnd:
	default:
		return
	}
	g.spend(e.Time)
	g.class = classOf(e)
}

// create notes a goroutine that was created in a span.
func (t *Tracker) create(e *event.Event) {
	creator := t.goroutines[e.Parent]
	if creator == nil {
		return
	}
	scope, _ := t.scope(creator)
	if scope == nil && creator.request == nil {
		return
	}
	g := t.add(e.G, e.Time)
	t.inherit(g, scope)
	g.class, g.since = classOf(e), e.Time
	if r := creator.request; r != nil {
		g.request, g.child = r, true
		r.children = append(r.children, g)
		r.span.Work.Created++
	}
}

// Limits of idle.
const (
	maxWaits  = 16 // waits for the network or a clock of a goroutine that still belongs to a request that has ended
	loopDepth = 2  // calls from the start function of a worker to the function in which it waits for work
)

// idle reports whether a goroutine that begins to wait no longer belongs to the span in which it was created: the span has ended, and
// the goroutine waits for another one in its start function or in a function that this calls. So it is a worker, and what it does next
// is not part of that span. Deeper waits, and those for the network or a clock, can be for the request, but not for ever.
func (g *goroutine) idle(e *event.Event) bool {
	if g.request != nil || len(g.open) > 0 || g.inherited != nil && g.inherited.End == 0 {
		return false
	}
	switch classOf(e) {
	case spans.Chan, spans.Select, spans.Sync, spans.Other:
		if depth(e.Stack) <= loopDepth {
			return true
		}
	}
	g.waits++
	return g.waits > maxWaits
}

// exit ends the spans of a goroutine that has ended.
func (t *Tracker) exit(g *goroutine, at int64) {
	for _, s := range slices.Backward(g.open) {
		s.Ending = spans.Panicked
		s.Fail("goroutine ended by a panic or by runtime.Goexit")
		t.end(g, s, at)
	}
	g.open = g.open[:0]
	t.remove(g)
}

// Close drops the spans that are open, because the process is no longer observed. They are still counted as open.
func (t *Tracker) Close() {
	clear(t.goroutines)
	clear(t.heirs)
}
