package sched

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/loupe-go/loupe/event"
)

// benchStacks returns n different stacks.
func benchStacks(n int) []*event.Stack {
	list := make([]*event.Stack, n)
	for i := range list {
		list[i] = &event.Stack{Frames: []event.Frame{{Func: fmt.Sprintf("main.f%d", i), Line: i}}}
	}
	return list
}

var benchReasons = []string{"chan receive", "chan send", "select", "IO wait", "sync.Mutex.Lock", "sleep"}

// step is one event of a benchmark. It is small, so that reading the script is cheap compared with applying it.
type step struct {
	g, by uint32
	kind  event.Kind
	stack uint8
	proc  uint8 // the P that runs g, or by for GoUnblock
}

// benchScript returns the events of goroutines that run on two Ps, unblock other goroutines and block, at one of several
// places each. At the end all goroutines wait as at the start, so the script can be repeated.
func benchScript(goroutines, events int) []step {
	rng := rand.New(rand.NewPCG(1, 2))
	var script []step
	on := [2]uint32{1, 2} // the goroutine that each P runs
	for p := range on {
		script = append(script, step{on[p], 0, event.GoUnblock, 0, 0}, step{on[p], 0, event.GoStart, 0, uint8(p)})
	}
	for len(script) < events {
		p := uint8(rng.IntN(len(on)))
		by := on[p]
		next := rng.Uint32N(uint32(goroutines)) + 1
		if slices.Contains(on[:], next) {
			continue
		}
		stack := uint8((by*4 + rng.Uint32N(4)) % 64)
		if rng.IntN(8) == 0 {
			script = append(script, step{by, 0, event.GoStop, stack, p}, step{by, 0, event.GoStart, 0, p})
		}
		script = append(script, step{next, by, event.GoUnblock, uint8(by % 64), p}, step{by, 0, event.GoBlock, stack, p},
			step{next, 0, event.GoStart, 0, p})
		on[p] = next
	}
	for p, g := range on {
		script = append(script, step{g, 0, event.GoBlock, 0, uint8(p)})
	}
	return script
}

func BenchmarkApply(b *testing.B) {
	for _, goroutines := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) { benchApply(b, goroutines, Options{}) })
	}
	b.Run("goroutines=10000/history", func(b *testing.B) { benchApply(b, 10_000, Options{History: 100_000}) })
}

func benchApply(b *testing.B, goroutines int, opt Options) {
	stacks := benchStacks(64)
	origins := make([]*event.Origin, 32)
	for i := range origins {
		origins[i] = &event.Origin{Start: event.Frame{Func: fmt.Sprintf("main.g%d", i)}}
	}
	m := New(opt)
	m.Account(event.Usage{Procs: 2})
	now := int64(1)
	for g := range goroutines {
		now++
		m.Apply(&event.Event{Kind: event.GoStatus, Time: now, G: uint64(g + 1), State: event.StateWaiting,
			Reason: benchReasons[g%6], Stack: stacks[g%64], Origin: origins[g%32]})
	}
	script := benchScript(goroutines, max(1<<16, 4*goroutines))
	var e event.Event
	i := 0
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		s := &script[i]
		if i++; i == len(script) {
			i = 0
		}
		now += 100
		e.Kind, e.Time, e.G, e.By = s.kind, now, uint64(s.g), uint64(s.by)
		e.TID, e.P, e.Stack, e.Reason = 1000+int32(s.proc), 0, nil, ""
		switch s.kind {
		case event.GoStart:
			e.P = event.ProcOf(int32(s.proc))
		case event.GoBlock:
			e.Stack, e.Reason = stacks[s.stack], benchReasons[s.stack%6]
		case event.GoUnblock:
			e.Stack = stacks[s.stack]
		case event.GoStop:
			e.Stack, e.Reason = stacks[s.stack], event.StopPreempted
		}
		m.Apply(&e)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/event")
	if t := m.Totals(); t.Repairs > 0 {
		b.Fatalf("%d repairs", t.Repairs)
	}
}

// BenchmarkCreateEnd measures the events of goroutines that are created, run and end immediately.
func BenchmarkCreateEnd(b *testing.B) {
	stack := benchStacks(1)[0]
	origin := &event.Origin{Start: event.Frame{Func: "main.work"}}
	m := New(Options{})
	var e event.Event
	b.ReportAllocs()
	for i := range b.N {
		g, t := uint64(i/3+1), int64(i+1)*100
		switch i % 3 {
		case 0:
			e = event.Event{Kind: event.GoCreate, Time: t, G: g, Parent: 1, Origin: origin, Stack: stack}
		case 1:
			e = event.Event{Kind: event.GoStart, Time: t, G: g}
		default:
			e = event.Event{Kind: event.GoDestroy, Time: t, G: g}
		}
		m.Apply(&e)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/event")
}

// liveHeap returns the size of the reachable heap objects in bytes.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// fill creates n goroutines with consecutive IDs.
func fill(m *Machine, from, n int) {
	origin := &event.Origin{Start: event.Frame{Func: "main.work"}}
	for g := range n {
		m.Apply(&event.Event{Kind: event.GoCreate, Time: int64(g + 1), G: uint64(from + g), Parent: 1, Origin: origin})
	}
}

func BenchmarkMemory(b *testing.B) {
	const n = 1_000_000
	for range b.N {
		before := liveHeap()
		m := New(Options{})
		fill(m, 1, n)
		b.ReportMetric(float64(liveHeap()-before)/n, "bytes/goroutine")
		runtime.KeepAlive(m)
	}
}

func BenchmarkViews(b *testing.B) {
	m := New(Options{})
	fill(m, 1, 1_000_000)
	b.Run("totals", func(b *testing.B) {
		for range b.N {
			m.Totals()
		}
	})
	b.Run("sites", func(b *testing.B) {
		for range b.N {
			m.Sites()
		}
	})
	b.Run("goroutines of 1000000", func(b *testing.B) {
		for range b.N {
			m.Goroutines(Filter{}, ByOldest, 100)
		}
	})
}
