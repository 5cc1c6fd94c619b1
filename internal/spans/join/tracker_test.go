package join

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// A world is a Tracker whose events a test makes up. Each step takes a millisecond.
type world struct {
	t        *testing.T
	tracker  *Tracker
	now      int64
	ended    []*spans.Span
	released []uint64
	disowned []uint64
}

func newWorld(t *testing.T, change func(*Options)) *world {
	w := &world{t: t}
	o := Options{PID: 7, Kinds: allKinds, Handle: func(s *spans.Span) { w.ended = append(w.ended, s) },
		Release: func(g uint64) { w.released = append(w.released, g) }, Disown: func(g uint64) { w.disowned = append(w.disowned, g) }}
	if change != nil {
		change(&o)
	}
	w.tracker = NewTracker(o)
	return w
}

func (w *world) tick() int64 {
	w.now += int64(time.Millisecond)
	return w.now
}

func (w *world) begin(g uint64, kind trace.SpanKind, name string) *spans.Span {
	return w.tracker.Begin(&spans.Span{G: g, Library: "lib", Kind: kind, Name: name, Start: w.tick()})
}

func (w *world) end(s *spans.Span) { w.tracker.End(s, w.tick()) }

func (w *world) event(kind event.Kind, g uint64, change func(*event.Event)) {
	e := event.Event{Kind: kind, G: g, Time: w.tick()}
	if change != nil {
		change(&e)
	}
	w.tracker.Event(&e)
}

func (w *world) create(g, parent uint64) {
	w.event(event.GoCreate, g, func(e *event.Event) { e.Parent = parent })
}

func (w *world) block(g uint64, reason string, stack ...string) {
	w.event(event.GoBlock, g, func(e *event.Event) {
		e.Reason, e.Stack = reason, &event.Stack{}
		for _, f := range stack {
			e.Stack.Frames = append(e.Stack.Frames, event.Frame{Func: f})
		}
	})
}

// allKinds are the kinds of events that a breakdown can use.
var allKinds = event.KindsGoroutine.Union(event.KindsSyscall)

const (
	server = trace.SpanKindServer
	client = trace.SpanKindClient
)

// isChild reports whether a span is the child of another by a rule.
func isChild(s, of *spans.Span, rule spans.Rule) bool {
	return s.Parent.SpanID() == of.Context.SpanID() && s.Context.TraceID() == of.Context.TraceID() && s.Rule == rule
}

func TestParents(t *testing.T) {
	w := newWorld(t, nil)
	request := w.begin(1, server, "request")
	inner := w.begin(1, client, "inner")
	innermost := w.begin(1, client, "innermost")
	w.create(2, 1)
	w.create(3, 2)
	grandchild := w.begin(3, client, "grandchild")
	w.end(innermost)
	w.end(inner)
	w.create(4, 1)
	child := w.begin(4, client, "child")
	own := w.begin(4, server, "a request that the child serves")
	other := w.begin(9, client, "other")
	for name, ok := range map[string]bool{
		"request":    request.Rule == spans.RuleRoot && !request.Parent.IsValid() && request.Context.IsSampled() && request.PID == 7,
		"inner":      isChild(inner, request, spans.RuleGoroutine),
		"innermost":  isChild(innermost, inner, spans.RuleGoroutine),
		"grandchild": isChild(grandchild, innermost, spans.RuleCreator),
		"child":      isChild(child, request, spans.RuleCreator),
		"own":        own.Rule == spans.RuleRoot && own.Context.TraceID() != request.Context.TraceID(),
		"other":      other.Rule == spans.RuleRoot && other.Context.TraceID() != request.Context.TraceID(),
	} {
		if !ok {
			t.Errorf("%s has the wrong parent", name)
		}
	}
}

// TestEndings ends spans in other ways than by their own end.
func TestEndings(t *testing.T) {
	w := newWorld(t, nil)
	outer := w.begin(1, server, "outer")
	w.begin(1, client, "inner")
	w.end(outer) // the end of inner was lost
	w.begin(2, server, "panics")
	w.begin(2, client, "in it")
	w.event(event.GoDestroy, 2, nil)
	w.begin(3, server, "goes on")
	w.tracker.Close()
	var got []string
	for _, s := range w.ended {
		got = append(got, fmt.Sprintf("%s %d %v", s.Name, s.Ending, s.Status == codes.Error))
	}
	want := []string{"inner 2 false", "outer 0 false", "in it 1 true", "panics 1 true"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if c := w.tracker.Counts(); c != (Counts{Begun: 5, Ended: 4, Panicked: 2, Unobserved: 1, Open: 1}) {
		t.Errorf("%+v", c)
	}
	if len(w.tracker.goroutines) != 0 {
		t.Errorf("%d goroutines are kept", len(w.tracker.goroutines))
	}
}

// TestWorkers checks until when a goroutine belongs to the request in which it was created.
func TestWorkers(t *testing.T) {
	deep := []string{"runtime.gopark", "lib.read", "lib.do", "main.fetch", "main.later"}
	loop := []string{"main.next", "main.worker"}
	for _, c := range []struct {
		name   string
		before func(w *world) // while the request lasts
		after  func(w *world)
		child  bool
	}{
		{name: "at once", child: true},
		{name: "waits for work", after: func(w *world) { w.block(2, "chan receive", loop...) }},
		{name: "waits for work in select", after: func(w *world) { w.block(2, "select", "main.worker", "runtime.goexit") }},
		{name: "waited during the request", before: func(w *world) { w.block(2, "chan receive", loop...) }, child: true},
		{name: "deeper waits", after: func(w *world) { w.block(2, "chan receive", deep...) }, child: true},
		{name: "waits for the network", after: func(w *world) { w.block(2, "IO wait", loop...) }, child: true},
		{name: "many waits", after: func(w *world) {
			for range maxWaits + 1 {
				w.block(2, "IO wait", deep...)
			}
		}},
		{name: "waits in a span", after: func(w *world) {
			s := w.begin(2, client, "first")
			w.block(2, "select", loop...)
			w.end(s)
		}, child: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			request := w.begin(1, server, "request")
			w.create(2, 1)
			if c.before != nil {
				c.before(w)
			}
			w.end(request)
			if c.after != nil {
				c.after(w)
			}
			s := w.begin(2, client, "work")
			if got := isChild(s, request, spans.RuleCreator); got != c.child || !got && s.Rule != spans.RuleRoot {
				t.Errorf("parent %v by rule %q; want a child: %v", s.Parent, s.Rule, c.child)
			}
			if disowned := slices.Contains(w.disowned, 2); disowned == c.child || len(w.released) > 0 {
				t.Errorf("disowned %v, released %v", w.disowned, w.released)
			}
		})
	}
	w := newWorld(t, func(o *Options) { o.Kinds = event.KindsOf(event.GoCreate, event.GoDestroy) })
	request := w.begin(1, server, "request")
	w.create(2, 1)
	w.end(request)
	if s := w.begin(2, client, "work"); s.Rule != spans.RuleRoot {
		t.Errorf("without waits: rule %q", s.Rule)
	}
}

// TestWork accounts the time of a request.
func TestWork(t *testing.T) {
	w := newWorld(t, nil)
	s := w.begin(1, server, "request")
	step := func(kind event.Kind, reason string) {
		w.event(kind, 1, func(e *event.Event) { e.Reason, e.By = reason, 5 })
	}
	for _, reason := range []string{"sync.Mutex.Lock", "chan receive", "chan send", "select", "IO wait", "sleep", "sync.WaitGroup.Wait", "GC assist wait", "trace reader (blocked)"} {
		step(event.GoBlock, reason) // a millisecond each
		if reason == "sync.Mutex.Lock" {
			w.event(event.GoUnblock, 1, func(e *event.Event) {
				e.By, e.Stack = 5, &event.Stack{Frames: []event.Frame{{Func: "sync.(*Mutex).Unlock"}, {Func: "main.free"}}}
			})
		} else {
			step(event.GoUnblock, "")
		}
		step(event.GoStart, "")
	}
	step(event.GoSyscallBegin, "")
	step(event.GoSyscallEnd, "")
	step(event.GoStop, event.StopPreempted)
	step(event.GoStart, "")
	w.create(2, 1)
	w.event(event.GoStart, 2, nil)
	w.end(s)
	w.event(event.GoStop, 2, nil) // after the request
	const ms = time.Millisecond
	want := spans.Times{spans.Running: 14 * ms, spans.Runnable: 10 * ms, spans.Mutex: ms, spans.Chan: 2 * ms, spans.Select: ms, spans.Network: ms,
		spans.Sleep: ms, spans.Sync: ms, spans.Assist: ms, spans.Other: ms, spans.Syscall: ms}
	if s.Work.Own != want || s.Work.Own.Total() != time.Duration(s.End-s.Start) {
		t.Errorf("%v, want %v", s.Work.Own, want)
	}
	if s.Work.Created != 1 || s.Work.Started != (spans.Times{spans.Runnable: ms, spans.Running: ms}) {
		t.Errorf("%d goroutines started, %v", s.Work.Created, s.Work.Started)
	}
	if h := s.Work.Holder; h != (spans.Holder{Wait: ms, G: 5, Func: "main.free"}) {
		t.Errorf("holder %+v", h)
	}
	var keys []string
	for _, kv := range s.AllAttributes() {
		keys = append(keys, string(kv.Key))
	}
	if text := strings.Join(keys, " "); !strings.Contains(text, "loupe.go.blocked.gc_assist") || !strings.Contains(text, "loupe.go.goroutines.running") || !strings.Contains(text, "loupe.go.runnable") {
		t.Errorf("attributes %s", text)
	}
}

// TestGoroutinesOfRuntime checks that goroutines that the runtime starts while a goroutine serves a request do not belong to that.
func TestGoroutinesOfRuntime(t *testing.T) {
	w := newWorld(t, nil)
	s := w.begin(1, server, "request")
	w.event(event.GoCreate, 2, func(e *event.Event) { e.Parent, e.Origin = 1, &event.Origin{System: true} })
	w.end(s)
	if s.Work.Created != 0 || !slices.Equal(w.released, []uint64{2}) {
		t.Errorf("%d goroutines started, %v released", s.Work.Created, w.released)
	}
}

// TestSample checks that a sampler decides about each span, and that its context says so.
func TestSample(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Sample = func(s *spans.Span) bool { return s.Name == "kept" && s.Context.TraceID().IsValid() }
	})
	if s := w.begin(1, server, "kept"); !s.Context.IsSampled() {
		t.Error("a span that the sampler keeps is not sampled")
	}
	if s := w.begin(2, server, "dropped"); s.Context.IsSampled() {
		t.Error("a span that the sampler drops is sampled")
	}
}

// TestLeave ends a span on another goroutine than the one that began it.
func TestLeave(t *testing.T) {
	w := newWorld(t, nil)
	first := w.begin(1, client, "first")
	w.create(2, 1)
	w.tracker.Leave(first, w.tick())
	second := w.begin(1, client, "second")
	w.create(3, 1)
	w.tracker.Leave(second, w.tick())
	third := w.begin(1, client, "third")
	w.tracker.Leave(third, w.tick()) // no goroutine is left that could end it
	if got := w.tracker.Inherited(3, "lib", client); got != second {
		t.Errorf("goroutine 3 has inherited %v", got)
	}
	w.end(second)
	w.event(event.GoDestroy, 3, nil)
	w.event(event.GoDestroy, 2, nil) // without an end of first
	var got []string
	for _, s := range w.ended {
		got = append(got, fmt.Sprint(s.Name, s.Ending))
	}
	if want := []string{"third2", "second0", "first2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if second.Rule != spans.RuleRoot || third.Rule != spans.RuleRoot {
		t.Errorf("rules %q, %q", second.Rule, third.Rule)
	}
	if len(w.tracker.goroutines)+len(w.tracker.heirs) != 0 {
		t.Errorf("%d goroutines and %d heirs are kept", len(w.tracker.goroutines), len(w.tracker.heirs))
	}
}

// TestSemaphores distinguishes the waits for semaphores.
func TestSemaphores(t *testing.T) {
	for _, c := range []struct {
		stack []string
		want  spans.Class
	}{
		{[]string{"sync.runtime_Semacquire", "sync.(*WaitGroup).Wait", "main.main"}, spans.Sync},
		{[]string{"sync.runtime_SemacquireMutex", "sync.(*Mutex).Lock", "main.main"}, spans.Mutex},
		{[]string{"internal/poll.runtime_Semacquire", "internal/poll.(*fdMutex).rwlock"}, spans.Sync},
		{[]string{"main.allocate", "main.main"}, spans.Assist},
		{[]string{"runtime.GC", "main.main"}, spans.Assist},
		{[]string{"sync.(*Pool).Get", "main.main"}, spans.Assist},
		{nil, spans.Sync},
	} {
		w := newWorld(t, nil)
		s := w.begin(1, server, "request")
		w.block(1, "semacquire", c.stack...)
		w.end(s)
		if s.Work.Own[c.want] != time.Millisecond {
			t.Errorf("%q: %v, want %v", c.stack, s.Work.Own, c.want)
		}
	}
}

// TestExitWithHeir ends the goroutine that has begun a request before the one that receives the response.
func TestExitWithHeir(t *testing.T) {
	w := newWorld(t, nil)
	s := w.begin(1, client, "sent")
	w.create(2, 1)
	w.event(event.GoDestroy, 1, nil)
	if len(w.ended) != 0 || w.tracker.Inherited(2, "lib", client) != s {
		t.Errorf("%d spans have ended with the goroutine that began them", len(w.ended))
	}
	w.end(s)
	w.event(event.GoDestroy, 2, nil)
	if c := w.tracker.Counts(); c != (Counts{Begun: 1, Ended: 1}) {
		t.Errorf("%+v", c)
	}
}

// TestConsumer checks how the processing of messages ends, and what a goroutine belongs to that asks for the next one.
func TestConsumer(t *testing.T) {
	const consumer = trace.SpanKindConsumer
	w := newWorld(t, nil)
	outer := w.begin(1, server, "request")
	w.create(2, 1)
	message := w.begin(2, consumer, "message")
	if !isChild(message, outer, spans.RuleCreator) || message.Work == nil {
		t.Errorf("%+v", message)
	}
	inner := w.begin(2, client, "client")
	w.end(message)
	if inner.Ending != spans.Unobserved || message.Ending != spans.Returned {
		t.Errorf("endings %d and %d", inner.Ending, message.Ending)
	}
	w.tracker.Rest(2, w.tick())
	second := w.begin(2, consumer, "second")
	if second.Parent.IsValid() {
		t.Errorf("the goroutine belongs to %s", second.Rule)
	}
	w.event(event.GoDestroy, 2, nil)
	if second.Ending != spans.Returned || second.End != w.now || second.Status == codes.Error {
		t.Errorf("%+v", second)
	}

	nested := w.begin(1, consumer, "nested")
	w.tracker.Rest(1, w.tick())
	w.end(outer)
	if nested.Ending != spans.Returned || nested.End != outer.End || !outer.Work.Uncertain {
		t.Errorf("%+v in %+v", nested, outer.Work)
	}
	if n := len(w.tracker.goroutines); n != 0 {
		t.Errorf("%d goroutines are left", n)
	}
}

// TestServing finds the requests that goroutines work for.
func TestServing(t *testing.T) {
	w := newWorld(t, nil)
	s := w.begin(1, server, "request")
	w.begin(1, client, "call")
	w.create(2, 1)
	w.create(3, 2)
	for g := range uint64(5) {
		want := s
		if g == 0 || g == 4 {
			want = nil
		}
		if got, _ := w.tracker.Serving(g, "lib"); got != want {
			t.Errorf("goroutine %d serves %v, want %v", g, got, want)
		}
		if got, _ := w.tracker.Serving(g, "other"); got != nil {
			t.Errorf("goroutine %d serves %v of another library", g, got)
		}
	}
	own := w.begin(2, server, "request on a goroutine of another")
	if got, _ := w.tracker.Serving(2, "lib"); got != own {
		t.Errorf("goroutine 2 serves %v, want its own request", got)
	}
	w.end(s)
	if got, _ := w.tracker.Serving(3, "lib"); got != nil {
		t.Errorf("goroutine 3 serves %v, which has ended", got)
	}
}

// TestEnter makes spans that end in any order.
func TestEnter(t *testing.T) {
	w := newWorld(t, nil)
	enter := func(g uint64, name string, parent *spans.Span) *spans.Span {
		return w.tracker.Enter(&spans.Span{G: g, Library: "own", Kind: server, Name: name, Start: w.tick()}, parent, name == "root", nil)
	}
	exit := func(s *spans.Span) { w.tracker.Exit(s, w.tick()) }
	request := w.begin(1, server, "request")
	a := enter(1, "a", nil)
	b := enter(1, "b", a)
	c := enter(1, "c", nil)
	if !isChild(a, request, spans.RuleGoroutine) || !isChild(b, a, spans.RuleContext) || !isChild(c, request, spans.RuleGoroutine) {
		t.Errorf("wrong parents: %+v %+v %+v", a, b, c)
	}
	if w.tracker.Innermost(1, "own", server) != nil {
		t.Error("a span of Enter is that of a library")
	}
	if root := enter(1, "root", a); root.Parent.IsValid() || root.Rule != spans.RuleRoot || root.Context.TraceID() == a.Context.TraceID() {
		t.Errorf("%+v has a parent", root)
	} else {
		exit(root)
	}
	call := w.begin(1, client, "call")
	if !isChild(call, c, spans.RuleGoroutine) {
		t.Errorf("wrong parent: %+v", call)
	}
	w.end(call)
	exit(a)
	w.create(2, 1)
	later := w.begin(2, client, "later")
	if !isChild(later, c, spans.RuleCreator) {
		t.Errorf("wrong parent: %+v", later)
	}
	w.end(later)
	w.end(request)
	w.event(event.GoDestroy, 2, nil)
	w.event(event.GoDestroy, 1, nil)
	exit(c)
	exit(c)
	var got []string
	for _, s := range w.ended {
		got = append(got, fmt.Sprint(s.Name, " ", s.Ending))
	}
	if want := []string{"root 0", "call 0", "a 0", "later 0", "request 0", "c 0"}; !slices.Equal(got, want) {
		t.Errorf("ended: %q, want %q", got, want)
	}
	if n := w.tracker.Counts(); n.Begun != 7 || n.Ended != 6 || n.Open != 1 {
		t.Errorf("%+v", n)
	}
	exit(b)
	if len(w.tracker.entered) > 0 || len(w.tracker.goroutines) > 0 {
		t.Errorf("%d spans and %d goroutines are left", len(w.tracker.entered), len(w.tracker.goroutines))
	}
}
