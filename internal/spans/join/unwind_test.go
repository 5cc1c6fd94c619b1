package join

import (
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// TestUnwind ends a goroutine that serves a request and sends another one, by its deferred functions. Its end may be observed later, or not.
func TestUnwind(t *testing.T) {
	for _, observed := range []bool{false, true} {
		w := newWorld(t, nil)
		served := w.begin(1, server, "serve")
		sent := w.begin(1, client, "send")
		w.tracker.Unwind(1, w.tick())
		at := w.now
		w.tracker.Unwind(1, w.tick()) // there is nothing more
		w.tracker.Unwind(2, w.tick())
		if observed {
			w.event(event.GoDestroy, 1, nil)
		}
		for _, s := range []*spans.Span{served, sent} {
			if s.Ending != spans.Panicked || s.End != at || s.Work != nil && int64(s.Work.Own.Total()) != s.End-s.Start {
				t.Errorf("%+v, want an end by a panic at %d", s, at)
			}
		}
		if c := w.tracker.Counts(); c.Panicked != 2 || c.Open != 0 || len(w.tracker.goroutines) != 0 {
			t.Errorf("%+v, %d goroutines", c, len(w.tracker.goroutines))
		}
		later := w.begin(3, server, "serve") // after the time for which goroutines are kept that may send again
		w.now += 2 * releaseAfter
		w.event(event.GoBlock, 3, func(e *event.Event) { e.Reason = "sleep" })
		w.end(later)
		if released := len(w.released) > 0; released == observed {
			t.Errorf("with its end observed: %v; released: %v", observed, w.released)
		}
	}
}
