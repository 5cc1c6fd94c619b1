package sched

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/loupe-go/loupe/event"
)

// TestMemory measures the memory of live goroutines, and verifies that it is reused and released.
func TestMemory(t *testing.T) {
	before := liveHeap()
	var start, grown runtime.MemStats
	runtime.ReadMemStats(&start)
	m := New(Options{})
	const n = 1_000_000
	fill(m, 1, n)
	runtime.ReadMemStats(&grown)
	if perG := float64(liveHeap()-before) / n; perG > 128 {
		t.Errorf("%.1f bytes for a goroutine, want at most 128", perG)
	} else {
		t.Logf("%.1f bytes for a goroutine", perG)
	}
	// The total of all allocations is an upper bound of the peak.
	if all := float64(grown.TotalAlloc-start.TotalAlloc) / n; all > 220 {
		t.Errorf("%.1f bytes were allocated for a goroutine while the table grew", all)
	}
	for g := range uint64(n) {
		m.Apply(&event.Event{Kind: event.GoDestroy, Time: n + 1, G: g + 1})
	}
	if left := liveHeap() - before; left > n {
		t.Errorf("%d bytes are kept when all goroutines have ended", left)
	}
	fill(m, n+1, n)
	if perG := float64(liveHeap()-before) / n; perG > 128 {
		t.Errorf("%.1f bytes for a goroutine the second time, want at most 128", perG)
	}
	runtime.KeepAlive(m)
}

// TestMemoryAtEveryFill measures many numbers of goroutines, because the index has the most free space right after it grew.
func TestMemoryAtEveryFill(t *testing.T) {
	before := liveHeap()
	m := New(Options{})
	have := 0
	for n := 150_000; n < 320_000; n += n / 20 {
		fill(m, have+1, n-have)
		have = n
		if perG := float64(liveHeap()-before) / float64(n); perG > 128 {
			t.Errorf("%d goroutines: %.1f bytes for each, want at most 128", n, perG)
		}
	}
	runtime.KeepAlive(m)
}

// TestApplyAllocatesNothing verifies that frequent events do not allocate memory.
func TestApplyAllocatesNothing(t *testing.T) {
	m := New(Options{History: 1000})
	var events []event.Event
	for g := range uint64(100) {
		g += 2
		for _, e := range []event.Event{
			ev(0, event.GoCreate, from(originA), on(stackA)), ev(0, event.GoStart), ev(0, event.ChanSend, on(stackA)),
			ev(0, event.GoBlock, because("select"), on(stackA)), ev(0, event.GoUnblock, by(1), on(stackB)), ev(0, event.GoStart),
			ev(0, event.GoStop, because(event.StopPreempted), on(stackB)), ev(0, event.GoStart), ev(0, event.GoDestroy),
		} {
			e.G = g
			events = append(events, e)
		}
	}
	now := int64(0)
	once := func() {
		for i := range events {
			now++
			events[i].Time = now
			m.Apply(&events[i])
		}
		e := event.Event{Kind: event.Lost, Time: now, Value: 1}
		m.Apply(&e)
	}
	for range 10 {
		once()
	}
	if n := testing.AllocsPerRun(50, once); n > 0 {
		t.Errorf("%v allocations for %d events", n, len(events))
	}
}

// TestBounds exceeds the limits for stacks, reasons, origins and goroutines.
func TestBounds(t *testing.T) {
	m := New(Options{MaxGoroutines: 50, MaxSites: 20, MaxPlaces: 30})
	reasons := maxReasons + 100
	for i := range 4 * reasons {
		g, at := uint64(i%100+1), int64(i*10+1)
		stack := &event.Stack{}
		origin := &event.Origin{Start: event.Frame{Line: i}}
		reason := fmt.Sprintf("reason %d", i%reasons)
		for _, e := range []event.Event{
			ev(at, event.GoCreate, from(origin), on(stack)), ev(at+1, event.GoStart),
			ev(at+2, event.GoBlock, because(reason), on(stack)), ev(at+3, event.GoUnblock, on(stack)), ev(at+4, event.GoStart),
			ev(at+5, event.GoDestroy),
		} {
			if e.G = g; e.Kind == event.GoDestroy && i%100 < 60 {
				continue // these 60 goroutines stay alive, more than MaxGoroutines
			}
			m.Apply(&e)
		}
	}
	check(t, m)
	total := m.Totals()
	if total.Live != 50 || total.Untracked == 0 || total.Overflow.Places == 0 || total.Overflow.Reasons == 0 || total.Overflow.Sites == 0 {
		t.Errorf("%d live, %d untracked, overflow %+v", total.Live, total.Untracked, total.Overflow)
	}
	if len(m.reasons) > maxReasons || len(m.placeIDs) > 30+5*maxReasons || len(m.siteIDs) > 2*20 || len(m.origins) > 20 || len(m.originIDs) > 40 {
		t.Errorf("%d reasons, %d places, %d sites, %d origins by %d pointers", len(m.reasons), len(m.placeIDs), len(m.siteIDs),
			len(m.origins), len(m.originIDs))
	}
	other := 0
	for _, p := range m.Places(Waits) {
		if p.Other {
			other++
			if p.Stack != nil || p.Reason == "" {
				t.Errorf("place of other stacks %+v", p)
			}
		}
	}
	marked := 0
	for _, s := range m.Sites() {
		if s.Other {
			marked++
		}
	}
	if other == 0 || marked != 1 {
		t.Errorf("%d places and %d sites are marked as others, put together", other, marked)
	}
}

func TestEntrySize(t *testing.T) {
	if size := unsafe.Sizeof(entry{}); size != 104 {
		t.Errorf("an entry has %d bytes: with its ID, 512 of 104 bytes fill pages of the heap exactly", size)
	}
}
