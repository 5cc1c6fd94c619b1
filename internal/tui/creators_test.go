package tui

import (
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
)

// TestCreators looks at goroutines whose creators have ended: each page knows when and by whom its goroutine was created,
// and P goes on from page to page.
func TestCreators(t *testing.T) {
	w := shop(1)
	for g := uint64(9001); g <= 9003; g++ {
		w.apply(event.Event{Kind: event.GoCreate, G: g, Parent: g - 1, Origin: leakOrigin, Stack: stackMake})
		w.pass(time.Millisecond)
		if g > 9001 {
			w.apply(event.Event{Kind: event.GoDestroy, G: g - 1})
		}
	}
	d := sit(t, w, 140, 40)
	d.press("4", "/", "9", "0", "0", "3", "enter", "enter")
	d.wait(1)
	d.shows("goroutine 9003", "by goroutine 9002 search.askReplica < 9001 search.askReplica < 9000")
	d.press("P")
	d.wait(1)
	d.shows("goroutine 9002", "CREATED", " ago by goroutine 9001 search.askReplica", "created by goroutine 9001")
	d.lacks("before the observation")
	d.press("P")
	d.wait(1)
	d.shows("goroutine 9001", "by goroutine 9000")
}

// TestCreatorsBeyondHistory has more events come than the history holds: the chain of creators is as long as before.
func TestCreatorsBeyondHistory(t *testing.T) {
	w := shop(1)
	for g := uint64(9001); g <= 9003; g++ {
		w.apply(event.Event{Kind: event.GoCreate, G: g, Parent: g - 1, Origin: leakOrigin, Stack: stackMake})
		if g > 9001 {
			w.apply(event.Event{Kind: event.GoDestroy, G: g - 1})
		}
	}
	holds, _ := w.machine.HistorySize()
	for range holds {
		w.apply(event.Event{Kind: event.GoStart, G: 9003})
	}
	d := sit(t, w, 140, 40)
	d.press("4", "/", "9", "0", "0", "3", "enter", "enter")
	d.wait(1)
	d.shows("goroutine 9003", "by goroutine 9002 search.askReplica < 9001 search.askReplica < 9000")
	d.press("P", "P")
	d.wait(1)
	d.shows("goroutine 9001", "by goroutine 9000")
}
