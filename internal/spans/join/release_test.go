package join

import (
	"slices"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// pass lets time pass until n nanoseconds later.
func (w *world) pass(n int64) {
	w.now += n
	w.event(event.GoStart, 99, nil)
}

// TestReleaseWorker has a worker that was created in a request begin its next operation before the Tracker knows that it has waited for
// that: the probes must not stop reporting what it creates.
func TestReleaseWorker(t *testing.T) {
	w := newWorld(t, nil)
	request := w.begin(1, server, "request")
	w.create(2, 1)
	w.end(request)
	w.block(2, "chan receive", "runtime.chanrecv", "main.worker")
	if !slices.Equal(w.disowned, []uint64{2}) || len(w.released) != 0 {
		t.Errorf("disowned %v, released %v", w.disowned, w.released)
	}
	work := w.begin(2, client, "work")
	w.create(3, 2)
	if s := w.begin(3, client, "part"); !isChild(s, work, spans.RuleCreator) {
		t.Errorf("parent %v by rule %q", s.Parent, s.Rule)
	} else {
		w.end(s)
	}
	w.event(event.GoDestroy, 3, nil)
	w.pass(2 * releaseAfter)
	if len(w.released) != 0 {
		t.Errorf("released %v in a span", w.released)
	}
	w.end(work)
	w.pass(2 * releaseAfter)
	if !slices.Equal(w.released, []uint64{2}) {
		t.Errorf("released %v, want 2", w.released)
	}
	w.create(4, 2) // the probes report it, because they had not stopped yet
	w.pass(2 * releaseAfter)
	if !slices.Equal(w.disowned, []uint64{2, 4}) || !slices.Equal(w.released, []uint64{2, 4}) {
		t.Errorf("disowned %v, released %v, want 2 and 4", w.disowned, w.released)
	}
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
