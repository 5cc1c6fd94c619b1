package join

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// TestPresume presumes that an operation has ended, and lets different things follow.
func TestPresume(t *testing.T) {
	destroy := func(tr *Tracker, g uint64) { tr.Event(&event.Event{Kind: event.GoDestroy, G: g, Time: 9}) }
	for name, test := range map[string]struct {
		at    int64 // of Presume
		after func(tr *Tracker, server, s *spans.Span)
		end   int64
		how   spans.Ending
	}{
		"an operation of the same goroutine": {5, func(tr *Tracker, server, _ *spans.Span) {
			if next := beginClient(tr, 1, 7); next.Parent.SpanID() != server.Context.SpanID() {
				t.Error("an operation that has ended is a parent")
			}
		}, 5, spans.Returned},
		"a new goroutine": {5, func(tr *Tracker, server, _ *spans.Span) {
			tr.Event(&event.Event{Kind: event.GoCreate, G: 2, Parent: 1, Time: 7})
			if child := beginClient(tr, 2, 8); child.Parent.SpanID() != server.Context.SpanID() {
				t.Error("an operation that has ended is the parent of a goroutine")
			}
		}, 5, spans.Returned},
		"the end of the span around it": {5, func(tr *Tracker, server, _ *spans.Span) { tr.End(server, 7) }, 5, spans.Returned},
		"the end of the goroutine":      {5, func(tr *Tracker, _, _ *spans.Span) { destroy(tr, 1) }, 5, spans.Returned},
		"the end of the observation":    {5, func(tr *Tracker, _, _ *spans.Span) { tr.Close() }, 5, spans.Returned},
		"its own end":                   {5, func(tr *Tracker, _, s *spans.Span) { tr.End(s, 7) }, 7, spans.Returned},
		"no end": {5, func(tr *Tracker, server, s *spans.Span) {
			tr.Continue(s)
			if inner := beginClient(tr, 1, 6); inner.Parent.SpanID() != s.Context.SpanID() {
				t.Error("an operation that goes on is no parent")
			}
			tr.End(server, 8)
		}, 8, spans.Unobserved},
		"without a time, the end of the goroutine":           {0, func(tr *Tracker, _, _ *spans.Span) { destroy(tr, 1) }, 9, spans.Returned},
		"without a time, the end of the span around it":      {0, func(tr *Tracker, server, _ *spans.Span) { tr.End(server, 7) }, 7, spans.Returned},
		"without a time, an operation, then its own end":     {0, func(tr *Tracker, _, s *spans.Span) { beginClient(tr, 1, 6); tr.End(s, 7) }, 7, spans.Returned},
		"without a time, the end of the observation: no end": {0, func(tr *Tracker, _, _ *spans.Span) { tr.Close() }, 0, spans.Returned},
	} {
		t.Run(name, func(t *testing.T) {
			tracker, list := ended(Options{})
			server := tracker.Begin(&spans.Span{Library: "lib", Kind: trace.SpanKindServer, G: 1, Start: 1})
			s := beginClient(tracker, 1, 2)
			tracker.Presume(s, test.at)
			test.after(tracker, server, s)
			times := 0
			for _, e := range *list {
				if e == s {
					times++
				}
			}
			if s.End != test.end || s.Ending != test.how || s.Status != 0 || (times == 1) != (test.end != 0) || len(tracker.presumed) != 0 {
				t.Errorf("ended %d times, at %d, ending %d, status %v, %d presumed", times, s.End, s.Ending, s.Status, len(tracker.presumed))
			}
			tracker.Presume(s, 20)
			if s.End != 0 && len(tracker.presumed) != 0 {
				t.Error("presumed after its end")
			}
		})
	}
}
