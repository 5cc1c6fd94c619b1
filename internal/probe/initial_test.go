package probe

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
)

// TestInitialList yields more goroutines than fit in a chunk: each once, in the order of their IDs, as they were added.
func TestInitialList(t *testing.T) {
	const n = 3*initialChunk + 5
	stack := []goproc.Frame{{Frame: event.Frame{Func: "main.f", File: "/f.go", Line: 1}}}
	start := event.Frame{Func: "main.start"}
	list := newInitialList()
	for _, i := range rand.Perm(n) {
		id := uint64(i + 1)
		g := goproc.Goroutine{ID: id, Parent: 7, State: event.StateWaiting, Reason: "select", Stack: stack, Start: start, TID: int32(i), Wait: 5}
		switch id % 4 {
		case 1:
			g.State, g.Reason = event.StatePreempted, ""
		case 2:
			g.SystemStack = true
		}
		list.add(&g)
		list.at(list.n - 1).created = id%4 == 3
	}
	list.sort()
	list.event = event.Event{Kind: event.GoStatus, Time: 99, PID: 4}
	last, count := uint64(0), 0
	var shared *event.Stack
	list.yield(func(e *event.Event) bool {
		if e.G <= last || e.G%4 == 3 {
			t.Fatalf("goroutine %d after %d", e.G, last)
		}
		last = e.G
		count++
		want := map[uint64]event.Event{
			0: {State: event.StateWaiting, Reason: "select", Value: 5},
			1: {State: event.StateWaiting, Reason: "preempted", Value: 5},
			2: {State: event.StateRunning},
		}[e.G%4]
		if e.State != want.State || e.Reason != want.Reason || e.Value != want.Value || e.Kind != event.GoStatus || e.Time != 99 || e.PID != 4 ||
			e.Parent != 7 || e.TID != int32(e.G-1) || e.Origin.Start != start || len(e.Stack.Frames) != 1 {
			t.Fatalf("%+v", e)
		}
		if shared == nil {
			shared = e.Stack
		}
		if e.Stack != shared {
			t.Fatal("equal stacks are not shared")
		}
		return true
	})
	if count != n-n/4 {
		t.Errorf("%d of %d goroutines", count, n-n/4)
	}
	if list.chunks[0] != nil {
		t.Error("what was yielded is kept")
	}
	if size := unsafe.Sizeof(initial{}); size != 48 {
		t.Errorf("%d bytes for a goroutine", size)
	}
}
