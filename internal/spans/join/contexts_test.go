package join

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// send begins a span to which the program passes contexts.
func (w *world) send(g uint64, name string, passed ...uint64) *spans.Span {
	return w.tracker.Begin(&spans.Span{G: g, Library: "lib", Kind: client, Name: name, Start: w.tick()}, passed...)
}

// serve begins a request, and passes it on.
func (w *world) serve(g, addr uint64) *spans.Span {
	s := w.begin(g, server, "request")
	w.tracker.Pass(s, addr)
	return s
}

func TestPassed(t *testing.T) {
	w := newWorld(t, nil)
	one, two := w.serve(1, 0x1000), w.serve(2, 0x2000)
	check := func(name string, s, parent *spans.Span, rule spans.Rule) {
		t.Helper()
		if parent == nil && s.Rule != spans.RuleRoot || parent != nil && !isChild(s, parent, rule) {
			t.Errorf("%s: parent %v by rule %q", name, s.Parent, s.Rule)
		}
		w.end(s)
	}
	check("by a worker", w.send(9, "", 0x5000, 0x1000, 0x6000), one, spans.RuleContext)
	check("the innermost", w.send(9, "", 0x2000, 0x1000), two, spans.RuleContext)
	check("unknown", w.send(9, "", 0x5000), nil, "")
	check("by its own goroutine", w.send(1, "", 0x1000), one, spans.RuleGoroutine)
	check("by the goroutine of another", w.send(1, "", 0x2000), two, spans.RuleContext)
	outer := w.send(1, "outer", 0x1000)
	check("in an operation", w.send(1, "", 0x1000), outer, spans.RuleGoroutine)
	check("in an operation for another", w.send(1, "", 0x2000), two, spans.RuleContext)
	w.create(3, 1)
	check("in a goroutine of an operation", w.send(3, "", 0x1000), outer, spans.RuleCreator)
	check("in one for another", w.send(3, "", 0x2000), two, spans.RuleContext)
	long := w.send(9, "long", 0x1000)
	check("in an operation of a worker", w.send(9, "", 0x1000), long, spans.RuleGoroutine)
	w.end(long)
	w.end(outer)
	other := w.serve(4, 0x2000) // the end of two is unknown
	check("an address that is used again", w.send(9, "", 0x2000), other, spans.RuleContext)
	w.end(two)
	check("after the end of the older one", w.send(9, "", 0x2000), other, spans.RuleContext)
	w.end(other)
	check("after its end", w.send(9, "", 0x2000), nil, "")
	w.event(event.Lost, 0, nil)
	check("after a loss", w.send(9, "", 0x1000), nil, "")
	w.end(one)
	if n := len(w.tracker.passed.spans) + len(w.tracker.passed.addresses) + len(w.tracker.above); n != 0 {
		t.Errorf("%d addresses and parents are kept", n)
	}
}

// TestPassedOwn passes spans that the program makes itself.
func TestPassedOwn(t *testing.T) {
	w := newWorld(t, nil)
	request := w.serve(1, 0x1000)
	enter := func(parent *spans.Span, addr uint64) *spans.Span {
		s := w.tracker.Enter(&spans.Span{G: 1, Library: "own", Start: w.tick()}, parent, false, nil)
		w.tracker.Pass(s, addr)
		return s
	}
	first, second := enter(nil, 0x2000), enter(nil, 0x3000)
	if s := w.send(1, "", 0x2000, 0x1000); !isChild(s, first, spans.RuleGoroutine) {
		t.Errorf("parent %v by rule %q, want the first span of the program", s.Parent, s.Rule)
	} else {
		w.end(s)
	}
	if s := w.send(1, "", 0x1000); !isChild(s, request, spans.RuleGoroutine) {
		t.Errorf("parent %v by rule %q, want the request", s.Parent, s.Rule)
	} else {
		w.end(s)
	}
	if s := w.send(9, "", 0x3000, 0x1000); !isChild(s, second, spans.RuleContext) {
		t.Errorf("parent %v by rule %q, want the second span of the program", s.Parent, s.Rule)
	}
	work := w.tracker.Enter(&spans.Span{G: 7, Library: "own", Start: w.tick()}, nil, false, request)
	if !isChild(work, request, spans.RuleContext) {
		t.Errorf("parent %v by rule %q, want the request", work.Parent, work.Rule)
	}
	w.tracker.Exit(second, w.tick())
	if s := w.send(8, "", 0x3000, 0x1000); !isChild(s, request, spans.RuleContext) {
		t.Errorf("parent %v by rule %q, want the request", s.Parent, s.Rule)
	}
}

// TestPassedTrace passes a request to an operation whose context the probes have chosen in another trace: the request is a link.
func TestPassedTrace(t *testing.T) {
	w := newWorld(t, nil)
	request := w.serve(1, 0x1000)
	chosen := func(id trace.TraceID) *spans.Span {
		c := trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{1}})
		return w.tracker.Begin(&spans.Span{G: 9, Library: "lib", Kind: client, Start: w.tick(), Context: c}, 0x1000)
	}
	if s := chosen(request.Context.TraceID()); !isChild(s, request, spans.RuleContext) || s.Links != nil {
		t.Errorf("parent %v by rule %q", s.Parent, s.Rule)
	} else {
		w.end(s)
	}
	if s := chosen(trace.TraceID{1}); s.Rule != spans.RuleRoot || s.Parent.IsValid() || len(s.Links) != 1 || !s.Links[0].Equal(request.Context) {
		t.Errorf("parent %v by rule %q, links %v", s.Parent, s.Rule, s.Links)
	}
}
