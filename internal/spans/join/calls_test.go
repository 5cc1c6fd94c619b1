package join

import (
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

func beginCall(t *Tracker, g uint64, at int64) *spans.Span {
	return t.Call(&spans.Span{Library: "main", Name: "main.f", G: g, Start: at})
}

// in reports whether a span is directly in another one of the same trace.
func in(s, parent *spans.Span) bool {
	return s.Parent.SpanID() == parent.Context.SpanID() && s.Context.TraceID() == parent.Context.TraceID()
}

// TestCalls nests calls and operations of libraries, some of which end after the call in which they began.
func TestCalls(t *testing.T) {
	tracker, list := ended(Options{})
	server := tracker.Begin(&spans.Span{Library: "lib", Kind: trace.SpanKindServer, G: 1, Start: 1})
	outer := beginCall(tracker, 1, 2)
	client := beginClient(tracker, 1, 3)
	inner := beginCall(tracker, 1, 4)
	if !in(outer, server) || !in(client, outer) || !in(inner, client) || outer.Kind != trace.SpanKindInternal || outer.Rule != spans.RuleGoroutine {
		t.Error("wrong parents")
	}
	if tracker.Innermost(1, "lib", trace.SpanKindClient) != client {
		t.Error("a call hides an operation")
	}
	tracker.Return(inner, 5, spans.Returned)
	tracker.Return(outer, 6, spans.Returned)
	next := beginClient(tracker, 1, 7)
	if !in(next, client) {
		t.Error("an operation has ended with the call in which it began")
	}
	tracker.End(next, 8)
	tracker.End(client, 9)
	late := beginCall(tracker, 1, 10)
	tracker.End(server, 11)
	if late.End != 0 {
		t.Error("a call has ended with the request around it")
	}
	tracker.Return(late, 12, spans.Returned)
	tracker.Return(late, 13, spans.Unobserved)
	if len(*list) != 6 || late.End != 12 || late.Ending != spans.Returned || outer.End != 6 {
		t.Errorf("ended: %+v", *list)
	}
	if c := tracker.Counts(); c.Begun != 6 || c.Ended != 6 || c.Unobserved != 0 {
		t.Errorf("counts %+v", c)
	}
	if len(tracker.goroutines) != 0 || len(tracker.entered) != 0 || len(tracker.calls) != 0 {
		t.Error("something remains")
	}
}

// TestCallExit ends a goroutine in calls. What another goroutine does for a call does not keep it open.
func TestCallExit(t *testing.T) {
	tracker, list := ended(Options{})
	tracker.Begin(&spans.Span{Library: "lib", Kind: trace.SpanKindServer, G: 1, Start: 1})
	call := beginCall(tracker, 1, 2)
	tracker.Event(&event.Event{Kind: event.GoCreate, G: 2, Parent: 1, Time: 3})
	child := beginCall(tracker, 2, 4)
	if !in(child, call) || child.Rule != spans.RuleCreator {
		t.Error("wrong parent of a call on a new goroutine")
	}
	tracker.Event(&event.Event{Kind: event.GoDestroy, G: 1, Time: 5})
	if call.Ending != spans.Panicked || call.Status != codes.Error || call.End != 5 {
		t.Errorf("%+v", call)
	}
	tracker.Return(child, 6, spans.Returned)
	tracker.Event(&event.Event{Kind: event.GoDestroy, G: 2, Time: 7})
	if len(*list) != 3 || len(tracker.goroutines) != 0 || len(tracker.calls) != 0 {
		t.Errorf("%d spans, %d goroutines remain", len(*list), len(tracker.goroutines))
	}
}

// TestCallRelease releases goroutines that the filter of the probes may list, and no others.
func TestCallRelease(t *testing.T) {
	released := map[uint64]int{}
	tracker, _ := ended(Options{Release: func(g uint64) { released[g]++ }})
	tracker.Return(beginCall(tracker, 1, 1), 2, spans.Returned)
	own := tracker.Enter(&spans.Span{Library: "own", G: 2, Start: 3}, nil, false, nil)
	call := beginCall(tracker, 2, 4)
	if !in(call, own) {
		t.Error("a call is not in a span of the program")
	}
	tracker.Exit(own, 5)
	if len(released) != 0 {
		t.Errorf("released %v while a call is open", released)
	}
	tracker.Return(call, 6, spans.Returned)
	tracker.Event(&event.Event{Kind: event.GoStart, G: 99, Time: 7 + 2*releaseAfter})
	if len(released) != 1 || released[2] != 1 || len(tracker.goroutines) != 0 {
		t.Errorf("released %v", released)
	}
	now := 8 + 2*releaseAfter
	around := beginCall(tracker, 3, now)
	tracker.End(beginClient(tracker, 3, now+1), now+2)
	tracker.Return(around, now+3, spans.Returned)
	tracker.Event(&event.Event{Kind: event.GoStart, G: 99, Time: now + 4 + 2*releaseAfter})
	if released[3] != 1 || len(tracker.goroutines) != 0 {
		t.Errorf("released %v after a call with a request in it", released)
	}
}
