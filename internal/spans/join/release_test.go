package join

import (
	"slices"
	"testing"

	"github.com/loupe-go/loupe/event"
)

// pass lets time pass until n nanoseconds later.
func (w *world) pass(n int64) {
	w.now += n
	w.event(event.GoStart, 99, nil)
}

// TestRelease releases goroutines some time after their last span.
func TestRelease(t *testing.T) {
	w := newWorld(t, nil)
	w.end(w.begin(1, client, "first"))
	w.create(2, 1) // between two spans
	w.pass(releaseAfter / 2)
	w.end(w.begin(1, client, "second"))
	w.end(w.begin(3, client, "of a goroutine that ends"))
	w.event(event.GoDestroy, 3, nil)
	w.pass(releaseAfter * 2 / 3)
	if !slices.Equal(w.released, []uint64{2}) {
		t.Errorf("released %v, want 2", w.released)
	}
	w.pass(releaseAfter / 2)
	if !slices.Equal(w.released, []uint64{2, 1}) {
		t.Errorf("released %v, want 2 and 1", w.released)
	}
	request := w.begin(4, server, "request")
	w.create(5, 4)
	w.end(w.begin(6, client, "before a longer one"))
	w.begin(6, client, "a longer one")
	w.end(request)
	w.pass(2 * releaseAfter)
	if !slices.Equal(w.released, []uint64{2, 1}) || len(w.tracker.leaving.order)+len(w.tracker.leaving.since) != 0 {
		t.Errorf("released %v, want 2 and 1; %v are left", w.released, w.tracker.leaving)
	}
}
