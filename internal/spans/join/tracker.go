package join

import (
	"slices"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/spans"
)

// Options configures a Tracker.
type Options struct {
	PID int32

	// Handle receives each span when it ends, in the goroutine that calls the Tracker.
	Handle func(*spans.Span)

	// Reuse reports that Handle does not keep spans, nor what they refer to: the memory of requests is used for others then.
	Reuse bool

	// Begun is called for each span when it has begun, Left when it goes on but not on its goroutine, and Dropped instead of Handle when
	// it ends and the span of a library stands for it. They may be nil.
	Begun, Left, Dropped func(*spans.Span)

	// Kinds are the kinds of events that are observed. If they include those of waits, a goroutine belongs to the span in which it
	// was created until that has ended and the goroutine waits for another one. Otherwise it belongs to the span until that has ended.
	Kinds event.Kinds

	// Disown is called for a goroutine that does not belong to the request any more in which it was created, although it is alive: what it
	// sends is not part of that. Release is called later, when it has been in no span for some time, and for goroutines that never will
	// be: the probes need not report it. Meanwhile it may have begun another operation that the Tracker does not know yet, and the
	// goroutines that it creates for that must be reported. They may be nil.
	Disown, Release func(goroutine uint64)

	// Sample decides whether a span is sampled. If it is nil, spans without a parent are sampled, others if their parent is.
	Sample func(*spans.Span) bool

	// Identified is set if the probes choose the IDs of spans, but not whether they are sampled.
	Identified bool

	// InGap reports whether events that precede the current one may be lost, without a Lost event between them. It may be nil.
	InGap func() bool

	// Unbuffered reports whether a channel has no buffer. It may be nil: no channel is known to have none then.
	Unbuffered func(channel uint64) bool

	// Alive returns the goroutines that are alive and the current time. After a loss of events it is called at most once a
	// second, to find those that have ended unobserved. It may be nil.
	Alive func() (goroutines []uint64, now int64, err error)
}

// A Tracker makes the spans of one process. Its methods are called by one goroutine, in the order of the event stream.
type Tracker struct {
	opt        Options
	ids        ids
	goroutines map[uint64]*goroutine
	recent     [64]*goroutine      // of these, found without hashing
	heirs      map[*spans.Span]int // the number of goroutines that have inherited a span
	free       []*goroutine
	reusable   []*Served            // the memory of requests that have ended
	kept       map[*spans.Span]bool // open spans whose memory cannot be used for others: see keep
	detached   map[object]*spans.Span
	latest     map[uint64]*spans.Span      // by goroutine: the detached span after which it has begun no other
	presumed   map[*spans.Span]int64       // when those have probably ended: see Presume
	entered    map[*spans.Span]bool        // those of Enter, Made and Call that have not ended
	calls      map[*spans.Span]bool        // of these, those of Call
	replaced   map[*spans.Span]bool        // open spans that have the identity of one of the program
	made       map[trace.SpanID]*Made      // spans of the program that have not ended
	madeOrder  []*Made                     // in the order of their starts; those that have ended are among them
	places     map[*spans.Span]*Place      // where the routes of requests that are in other ones were found
	awaited    map[*spans.Span]*Made       // operations whose spans those of the program may turn out to be
	held       []*spans.Span               // of these, those that have ended, oldest first; others that were passed on are among them
	above      map[*spans.Span]*spans.Span // the parents of open spans, if they were open, too
	passed     passed
	leaving    leaving
	handOffs   map[uint64]handOff // by the goroutine that has received it
	now        int64              // time of the newest event or span
	counts     counts
	rules      gostate.Rules
	waits      bool // Options.Kinds includes waits
	allocs     bool // allocations are counted
	allocated  allocated
	loss       loss
}

type counts struct {
	begun, ended, own, panicked, unobserved, uncertain, strays, mismatched, noHeader, noState, unsearched atomic.Uint64
}

// Counts are the numbers of spans so far.
type Counts struct {
	Begun      uint64
	Ended      uint64 // passed to Options.Handle
	Own        uint64 // of these, sampled ones that the program exports itself
	Panicked   uint64 // of these, ended with their goroutine
	Unobserved uint64 // of these, ended at an unknown time
	Open       uint64 // that have not ended
	Uncertain  uint64 // of those that ended, requests whose Work is uncertain
	Strays     uint64 // ends of operations whose begin was not observed
	NoHeader   uint64 // requests that were sent without a traceparent header, although they were to have one
	NoState    uint64 // requests whose tracestate or baggage is not carried on: it is too long or not valid, or does not fit where it is written
	Unsearched uint64 // spans whose parent or links may be missing, because not all headers were searched: there are too many, or some could not be read
	Mismatched uint64 // notes that do not fit their operation: a layout is wrong, or notes were lost
}

// A goroutine is one that is in a span, or was created in one.
type goroutine struct {
	id     uint64
	open   []*spans.Span // innermost last
	losses uint64        // of the Tracker, when the outermost of these began

	// inherited is the innermost span of the goroutine's creator when it was created. It is the parent of the first spans of
	// this one, until it waits for other work: see idle.
	inherited *spans.Span
	created   uint64 // losses of the Tracker when it was created
	within    bool   // it was created in a span
	waits     int    // since inherited has ended

	request  *request // that it serves, or nil
	child    bool     // it was created for the request
	state    gostate.State
	class    spans.Class // of state
	since    int64       // when class began
	returned bool        // from a system call, by the last event
	sending  uint64      // the channel at which it waits until another goroutine receives, or 0

	// listed is set if the filter of the probes may list the goroutine, so that it must be released when it has no more spans. That of
	// a goroutine whose only spans are those of Call does not.
	listed bool

	allocated spans.Allocations // as of the last note or event that had it
}

// NewTracker returns a Tracker without spans.
func NewTracker(o Options) *Tracker {
	o.Reuse = o.Reuse && o.Begun == nil // what that is called for may keep them
	return &Tracker{opt: o, kept: map[*spans.Span]bool{}, ids: newIDs(), goroutines: map[uint64]*goroutine{}, heirs: map[*spans.Span]int{}, detached: map[object]*spans.Span{}, latest: map[uint64]*spans.Span{},
		presumed: map[*spans.Span]int64{}, entered: map[*spans.Span]bool{}, replaced: map[*spans.Span]bool{}, made: map[trace.SpanID]*Made{},
		above: map[*spans.Span]*spans.Span{}, passed: passed{spans: map[uint64]*spans.Span{}, addresses: map[*spans.Span][]uint64{}},
		leaving: leaving{since: map[uint64]int64{}}, handOffs: map[uint64]handOff{},
		calls: map[*spans.Span]bool{}, places: map[*spans.Span]*Place{}, awaited: map[*spans.Span]*Made{},
		rules: gostate.RulesFor(o.Kinds.Union(event.KindsOf(event.GoStatus)), 0), waits: o.Kinds.Has(event.GoBlock)}
}

// Counts returns the numbers of spans. It may be called from any goroutine.
func (t *Tracker) Counts() Counts {
	c := Counts{Ended: t.counts.ended.Load(), Own: t.counts.own.Load(), Panicked: t.counts.panicked.Load(), Unobserved: t.counts.unobserved.Load(),
		Uncertain: t.counts.uncertain.Load(), Strays: t.counts.strays.Load(), Mismatched: t.counts.mismatched.Load(),
		NoHeader: t.counts.noHeader.Load(), NoState: t.counts.noState.Load(), Unsearched: t.counts.unsearched.Load()}
	c.Begun = t.counts.begun.Load() // last, so that Open is not negative
	c.Open = c.Begun - c.Ended
	return c
}

// Stray counts the end of an operation whose begin was not observed.
func (t *Tracker) Stray() { t.counts.strays.Add(1) }

// NoHeader counts a request that was sent without a traceparent header, although it was to have one.
func (t *Tracker) NoHeader() { t.counts.noHeader.Add(1) }

// NoState counts a request whose tracestate or baggage is not carried on.
func (t *Tracker) NoState() { t.counts.noState.Add(1) }

// Searched takes the result of the search for the parent of a new span in the headers of its request or message: the number of parents, and
// the problems of the search. A span that may have a parent that was not found is counted.
func (t *Tracker) Searched(parents, problems uint64) {
	if parents == 0 && problems != 0 {
		t.counts.unsearched.Add(1)
	}
}

// Mismatch counts a note that does not fit its operation.
func (t *Tracker) Mismatch() { t.counts.mismatched.Add(1) }

// goroutine returns a goroutine that is in a span or was created in one, or nil.
func (t *Tracker) goroutine(id uint64) *goroutine {
	recent := &t.recent[id%uint64(len(t.recent))]
	if g := *recent; g != nil && g.id == id {
		return g
	}
	g := t.goroutines[id]
	if g != nil {
		*recent = g
	}
	return g
}

func (t *Tracker) add(id uint64, at int64) *goroutine {
	g := t.goroutine(id)
	if g != nil {
		return g
	}
	if n := len(t.free); n > 0 {
		g, t.free = t.free[n-1], t.free[:n-1]
	} else {
		g = new(goroutine)
	}
	g.id, g.since, g.state = id, at, gostate.Running
	t.goroutines[id] = g
	return g
}

func (t *Tracker) remove(g *goroutine) {
	delete(t.goroutines, g.id)
	if recent := &t.recent[g.id%uint64(len(t.recent))]; *recent == g {
		*recent = nil
	}
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
	if old.End == 0 && !t.entered[old] && !t.isOpen(old) && t.detached[object{old.Library, old.Object}] != old {
		old.Ending = spans.Unobserved
		t.finish(old, g.since)
	}
}

// isOpen reports whether a span is one of those in which its goroutine is.
func (t *Tracker) isOpen(s *spans.Span) bool {
	g := t.goroutine(s.G)
	return g != nil && slices.Contains(g.open, s)
}

// Begin begins a span. Start has its goroutine, library, kind, name, start and attributes, and as Parent the context in the
// headers of a request, if there is one. If the probes have chosen its context, Start has that, too. passed are the addresses of the
// context.Context that the program passes to the operation and of those that it was made from, innermost first: see Pass.
func (t *Tracker) Begin(s *spans.Span, passed ...uint64) *spans.Span {
	t.begin(s, nil, passed)
	return s
}

// begin begins a span. served is the memory of the request whose span it is, or nil.
func (t *Tracker) begin(s *spans.Span, served *Served, passed []uint64) {
	t.bury(s.Start)
	t.now = max(t.now, s.Start)
	t.passHeld(maxHeld)
	g := t.add(s.G, s.Start)
	delete(t.latest, s.G)
	s.PID = t.opt.PID
	parent, rule := t.parent(g, passed)
	if s.Kind == trace.SpanKindServer {
		parent = nil
	}
	chosen := s.Context.IsValid()
	switch {
	case chosen:
		t.adopt(s, parent, rule)
		if t.opt.Identified {
			t.sample(s, s.Context)
		}
	case s.Parent.IsValid():
		s.Rule = spans.RuleHeader
		t.identify(s)
	case parent != nil:
		t.attach(s, parent, rule)
		t.identify(s)
	default:
		t.linkHandOff(s)
		t.identify(s)
	}
	if s.Kind == trace.SpanKindServer || s.Kind == trace.SpanKindConsumer {
		t.serve(g, s, served)
	} else {
		g.listed = true
	}
	t.describe(g, s, chosen)
	if len(g.open) == 0 {
		g.losses = t.loss.count
	}
	g.open = append(g.open, s)
	t.begun(s)
}

// attach sets the parent of a span.
func (t *Tracker) attach(s, parent *spans.Span, rule spans.Rule) {
	t.keepIdentity(parent)
	t.keep(parent)
	s.Parent, s.Rule = parent.Context, rule
	t.above[s] = parent
}

// begun notes that a span has begun.
func (t *Tracker) begun(s *spans.Span) {
	t.counts.begun.Add(1)
	if t.opt.Begun != nil {
		t.opt.Begun(s)
	}
}

// left notes that a span goes on, but not on its goroutine.
func (t *Tracker) left(s *spans.Span) {
	if t.opt.Left != nil {
		t.opt.Left(s)
	}
}

// identify gives a span its context, given its parent.
func (t *Tracker) identify(s *spans.Span) {
	c := trace.SpanContextConfig{TraceID: s.Parent.TraceID(), SpanID: t.ids.span(), TraceState: s.Parent.TraceState()}
	if s.Rule == spans.RuleRoot {
		c.TraceID = t.ids.trace()
	}
	t.sample(s, trace.NewSpanContext(c))
}

// sample decides whether a span with a parent is sampled, and sets its context.
func (t *Tracker) sample(s *spans.Span, c trace.SpanContext) {
	s.Context = c
	sampled := s.Rule == spans.RuleRoot || s.Parent.IsSampled()
	if t.opt.Sample != nil {
		sampled = t.opt.Sample(s)
	}
	if sampled {
		s.Context = c.WithTraceFlags(trace.FlagsSampled)
	}
}

// adopt sets the parent of a span whose context the probes have chosen, because it is sent to other services. A parent in another trace
// can only be a link.
func (t *Tracker) adopt(s, parent *spans.Span, rule spans.Rule) {
	trace := s.Context.TraceID()
	switch {
	case s.Parent.IsValid() && s.Parent.TraceID() == trace:
		s.Rule = spans.RuleHeader
		s.Context = s.Context.WithTraceState(s.Parent.TraceState())
		return
	case s.Parent.IsValid():
		s.Links = append(s.Links, s.Parent)
	case parent != nil && parent.Context.TraceID() == trace:
		t.attach(s, parent, rule)
		s.Context = s.Context.WithTraceState(s.Parent.TraceState())
		return
	case parent != nil:
		t.keepIdentity(parent)
		s.Links = append(s.Links, parent.Context)
	default:
		t.linkHandOff(s)
	}
	s.Parent = none
}

// none is the parent of the root of a trace.
var none trace.SpanContext

// scope returns the span that a new operation of the goroutine belongs to, or nil.
func (t *Tracker) scope(g *goroutine) (*spans.Span, spans.Rule) {
	t.confirm(g)
	if n := len(g.open); n > 0 {
		return g.open[n-1], spans.RuleGoroutine
	}
	if g.inherited != nil && g.inherited.End != 0 && (!t.waits || g.created != t.loss.count) {
		t.inherit(g, nil)
	}
	return g.inherited, spans.RuleCreator
}

// Innermost returns the innermost open span of a goroutine that a library has begun, or nil.
func (t *Tracker) Innermost(id uint64, library string, kind trace.SpanKind) *spans.Span {
	g := t.goroutine(id)
	if g == nil {
		return nil
	}
	for _, s := range slices.Backward(g.open) {
		if s.Library == library && s.Kind == kind && !t.entered[s] {
			return s
		}
	}
	return nil
}

// Inherited returns the open span in which a goroutine was created, if that is of a library and a kind; else nil. The goroutine may do
// the work of the span.
func (t *Tracker) Inherited(id uint64, library string, kind trace.SpanKind) *spans.Span {
	g := t.goroutine(id)
	if g == nil || g.inherited == nil || g.inherited.End != 0 || g.inherited.Library != library || g.inherited.Kind != kind || t.entered[g.inherited] {
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
	if g := t.goroutine(s.G); g != nil {
		g.open = slices.DeleteFunc(g.open, func(o *spans.Span) bool { return o == s })
	}
	t.left(s)
}

// End ends a span, and those that were begun in it on the same goroutine and have not ended. Messages that the goroutine processes are
// processed then. Those of Enter do not end; if the span is a request, the goroutine is no longer in them.
func (t *Tracker) End(s *spans.Span, at int64) {
	g := t.goroutine(s.G)
	i := -1
	if g != nil {
		i = slices.Index(g.open, s)
	}
	if i < 0 {
		t.endDetached(s, at)
		return
	}
	for _, inner := range slices.Backward(g.open[i+1:]) {
		if t.entered[inner] {
			continue
		}
		ending := spans.Unobserved
		if inner.Kind == trace.SpanKindConsumer { // this is how the last message of a goroutine ends
			ending = inner.Ending
		}
		t.abandon(g, inner, at, ending)
	}
	served := s.Work != nil
	t.end(g, s, at)
	g.open = append(g.open[:i], slices.DeleteFunc(g.open[i:], func(o *spans.Span) bool { return served || !t.entered[o] })...)
	t.settle(g, !served)
}

// Rest notes that a goroutine waits for its next message. What it does is not observed until that arrives, and it does not belong to the
// span in which it was created any more. A request in which it waits is uncertain.
func (t *Tracker) Rest(id uint64, at int64) {
	g := t.goroutine(id)
	if g == nil {
		return
	}
	if r := g.request; r != nil {
		r.span.Work.Uncertain = true
		if g.child {
			g.spend(at)
			r.forget(g)
			g.request, g.child = nil, false
		}
	}
	t.inherit(g, nil)
	t.settle(g, false)
}

// settle removes a goroutine that has no more spans. listed reports whether the filter of the probes still has it.
func (t *Tracker) settle(g *goroutine, listed bool) {
	if len(g.open) > 0 || g.inherited != nil || g.request != nil {
		return
	}
	id, within := g.id, g.within
	t.remove(g)
	switch {
	case !listed:
	case within:
		t.disown(id)
	default:
		t.leave(id)
	}
}

func (t *Tracker) end(g *goroutine, s *spans.Span, at int64) {
	at = max(at, s.Start)
	r := g.request
	if r == nil || r.span != s {
		t.finish(s, at)
		return
	}
	g.spend(at)
	for _, child := range r.children {
		child.spend(at)
		child.request, child.child = nil, false
	}
	g.request = nil
	if !t.waits {
		s.Work.Own, s.Work.Started = spans.Times{}, spans.Times{}
	}
	if s.Work.Uncertain = s.Work.Uncertain || t.lostSince(r.losses); s.Work.Uncertain {
		t.counts.uncertain.Add(1)
	}
	if r.served == nil {
		t.finish(s, at)
		return
	}
	t.close(s, at)
	t.handle(s)
	t.endServed(r.served)
}

// finish sets the end of a span, and passes it on unless that has to wait for a span of the program.
func (t *Tracker) finish(s *spans.Span, at int64) {
	t.close(s, at)
	if t.awaited[s] != nil {
		t.hold(s)
	} else {
		t.pass(s)
	}
}

// close sets the end of a span, and removes what is kept of open spans.
func (t *Tracker) close(s *spans.Span, at int64) {
	s.End = max(at, s.Start)
	t.now = max(t.now, s.End)
	delete(t.presumed, s)
	delete(t.places, s)
	t.forget(s)
	delete(t.replaced, s)
}

// pass passes a span on that has ended.
func (t *Tracker) pass(s *spans.Span) {
	makeValid(s)
	t.handle(s)
}

// handle passes a span on that has ended, and whose texts are valid.
func (t *Tracker) handle(s *spans.Span) {
	if s.Exported && s.Context.IsSampled() {
		t.counts.own.Add(1)
	}
	switch s.Ending {
	case spans.Panicked:
		t.counts.panicked.Add(1)
	case spans.Unobserved:
		t.counts.unobserved.Add(1)
	}
	t.counts.ended.Add(1)
	t.opt.Handle(s)
}

// Close drops the spans that are open, because the process is no longer observed. They are still counted as open. Those that have
// probably ended are passed on.
func (t *Tracker) Close() {
	t.confirmAll()
	t.passHeld(0)
	clear(t.goroutines)
	clear(t.recent[:])
	clear(t.heirs)
	clear(t.detached)
	clear(t.latest)
	clear(t.entered)
	clear(t.above)
	clear(t.handOffs)
	clear(t.passed.spans)
	clear(t.passed.addresses)
	t.passed.waiting, t.reusable = nil, nil
	clear(t.kept)
	clear(t.places)
	clear(t.replaced)
	clear(t.made)
	t.madeOrder = nil
	clear(t.calls)
	clear(t.awaited)
}
