package probe

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// TestInitialList yields more goroutines than fit in a chunk: each once, in the order of their IDs, as they were added.
func TestInitialList(t *testing.T) {
	const n = 3*initialChunk + 5
	stack := []event.StackFrame{{Frame: event.Frame{Func: "main.f", File: "/f.go", Line: 1}}}
	start := event.Frame{Func: "main.start"}
	list := newInitialList()
	for _, i := range rand.Perm(n) {
		id := uint64(i + 1)
		g := event.Goroutine{ID: id, Parent: 7, State: event.StateWaiting, Reason: "select", Stack: stack, Start: start, TID: int32(i), Wait: 5}
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

// TestFirstMoves: marks of missing events, and events of collections, are not moves of goroutines. Such a mark has no time.
func TestFirstMoves(t *testing.T) {
	s := &Session{decoder: &decoder{}, buffered: &backlog{}}
	for _, r := range []csrc.Record{
		{Kind: csrc.KindStack, Time: 1},
		{Kind: uint8(event.Lost)},
		{Kind: uint8(event.GoUnblock), G: 5, Time: 100, Tid: 71},
		{Kind: uint8(event.Lost), G: 5},
		{Kind: uint8(event.GoStart), G: 5, Time: 110},
		{Kind: uint8(event.GoCreate), G: 6, Time: 90, Tid: 71},
		{Kind: uint8(event.GoStop), G: 7, Time: 120, Tid: 72},
		{Kind: uint8(event.GoBlock), G: 8, Time: 130, Tid: 73},
		{Kind: uint8(event.STWBegin), G: 9, Time: 140, Tid: 73},
	} {
		s.buffered.add(unsafe.Slice((*byte)(unsafe.Pointer(&r)), recordSize))
	}
	moves, first := s.firstMoves()
	want := map[uint64]move{5: {kind: uint8(event.GoUnblock), tid: 71}, 6: {kind: uint8(event.GoCreate), created: true, tid: 71},
		7: {kind: uint8(event.GoStop), tid: 72}, 8: {kind: uint8(event.GoBlock), tid: 73}}
	if !maps.Equal(moves, want) || first != 90 {
		t.Errorf("%v since %d, want %v since 90", moves, first, want)
	}
}

// TestCorrectThreads: a goroutine that the snapshot found running had been running on another thread when the probes were enabled, or
// had been waiting.
func TestCorrectThreads(t *testing.T) {
	s, list := &Session{decoder: &decoder{}}, newInitialList()
	for _, id := range []uint64{5, 6, 7} {
		list.add(&event.Goroutine{ID: id, State: event.StateRunning, TID: 70})
	}
	s.correct(list, map[uint64]move{5: {kind: uint8(event.GoUnblock), tid: 71}, 7: {kind: uint8(event.GoStop), tid: 72},
		8: {kind: uint8(event.GoBlock), tid: 73}, 9: {kind: uint8(event.GoBlock)}}, func(id uint64) bool { return id != 9 })
	got := map[uint64]string{}
	for i := range list.n {
		g := list.at(i)
		got[g.id] = fmt.Sprint(list.states.of(uint16(g.state)), " ", g.tid)
	}
	want := map[uint64]string{5: "waiting 0", 6: "running 70", 7: "running 72", 8: "running 73"}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
