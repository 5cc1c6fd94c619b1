package join

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// ended collects the spans of a tracker that have ended.
func ended(o Options) (*Tracker, *[]*spans.Span) {
	list := new([]*spans.Span)
	o.Handle = func(s *spans.Span) { *list = append(*list, s) }
	return NewTracker(o), list
}

func beginClient(t *Tracker, g uint64, at int64) *spans.Span {
	return t.Begin(&spans.Span{Library: "lib", Kind: trace.SpanKindClient, G: g, Start: at})
}

// TestDetach ends operations in another order than they began, and on other goroutines.
func TestDetach(t *testing.T) {
	tracker, list := ended(Options{})
	server := tracker.Begin(&spans.Span{Library: "lib", Kind: trace.SpanKindServer, G: 1, Start: 1})
	first := beginClient(tracker, 1, 2)
	tracker.Detach(first, 100)
	second := beginClient(tracker, 1, 3)
	if second.Parent.SpanID() != server.Context.SpanID() {
		t.Error("a detached span is a parent")
	}
	tracker.Detach(second, 200)
	if tracker.Innermost(1, "lib", trace.SpanKindClient) != nil || tracker.Find("lib", 100) != first || tracker.Find("lib", 200) != second ||
		tracker.Find("other", 100) != nil || tracker.Find("lib", 0) != nil {
		t.Error("a detached span is not found by its object alone")
	}
	tracker.End(first, 4)
	tracker.End(server, 5)
	tracker.Event(&event.Event{Kind: event.GoDestroy, G: 1, Time: 6})
	tracker.End(second, 7)
	tracker.End(second, 8)
	if len(*list) != 3 || (*list)[0] != first || (*list)[1] != server || (*list)[2] != second || second.End != 7 || second.Ending != spans.Returned {
		t.Errorf("ended: %+v", *list)
	}
	if len(tracker.goroutines) != 0 || len(tracker.detached) != 0 {
		t.Errorf("%d goroutines and %d objects remain", len(tracker.goroutines), len(tracker.detached))
	}
}

// TestDetachAgain loses the ends of operations.
func TestDetachAgain(t *testing.T) {
	tracker, list := ended(Options{})
	lost := beginClient(tracker, 1, 1)
	tracker.Detach(lost, 100)
	tracker.Detach(lost, 100)
	next := beginClient(tracker, 2, 5)
	tracker.Detach(next, 100)
	if lost.Ending != spans.Unobserved || lost.End != 5 || tracker.Find("lib", 100) != next {
		t.Errorf("%+v did not end with the next operation of its object", lost)
	}
	for i := uint64(1); i < maxDetached; i++ {
		tracker.Detach(beginClient(tracker, 3, 6), 1000+i)
	}
	full := beginClient(tracker, 3, 7)
	tracker.Detach(full, 1)
	if full.Ending != spans.Unobserved || len(*list) != 2 {
		t.Errorf("%d spans have ended", len(*list))
	}
	tracker.Close()
	if c := tracker.Counts(); c.Open != maxDetached || c.Unobserved != 2 || c.Begun != maxDetached+2 {
		t.Errorf("counts %+v", c)
	}
}
