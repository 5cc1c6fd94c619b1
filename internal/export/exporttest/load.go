package exporttest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loupe-go/loupe/event"
)

// Bench measures an exporter, which open makes, with and without tracks for threads.
func Bench(b *testing.B, open func(threads bool) Exporter) {
	for _, threads := range []bool{false, true} {
		for _, goroutines := range []int{100, 10_000, 1_000_000} {
			b.Run(fmt.Sprintf("goroutines=%d/threads=%v", goroutines, threads), func(b *testing.B) {
				l := newLoad(goroutines)
				run(b, open(threads), goroutines+100_000, l.next)
			})
		}
		b.Run(fmt.Sprintf("create and end/threads=%v", threads), func(b *testing.B) {
			run(b, open(threads), 100_000, churn())
		})
	}
}

// run measures the events that next returns, after a warm-up.
func run(b *testing.B, w Exporter, before int, next func(*event.Event)) {
	var e event.Event
	for n := range before + b.N {
		if n == before {
			b.ReportAllocs()
			b.ResetTimer()
		}
		next(&e)
		if err := w.Write(&e); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/event")
}

// churn generates the events of goroutines that are created, start and end.
func churn() func(*event.Event) {
	o := &event.Origin{Start: event.Frame{Func: "main.work"}}
	s := &event.Stack{Frames: []event.Frame{{Func: "main.main", File: "main.go", Line: 1}}}
	i := 0
	return func(e *event.Event) {
		*e = event.Event{Time: Start + int64(i)*100, G: uint64(i/3 + 2), TID: 7}
		switch i % 3 {
		case 0:
			e.Kind, e.Parent, e.Origin, e.Stack = event.GoCreate, 1, o, s
		case 1:
			e.Kind = event.GoStart
		default:
			e.Kind = event.GoDestroy
		}
		i++
	}
}

// load makes events without end: those of a busy service, whose goroutines wait at one of some places, are woken by each other, run, are
// preempted now and then, and wait again.
type load struct {
	script  []loadStep
	i, born int
	now     int64
	count   int
	stacks  [64]*event.Stack
}

type loadStep struct {
	g, by uint32
	kind  event.Kind
	stack uint8
}

func newLoad(goroutines int) *load {
	rng := rand.New(rand.NewPCG(1, 2))
	l := &load{now: Start, count: goroutines}
	for i := range l.stacks {
		for d := range 8 {
			l.stacks[i] = &event.Stack{Frames: append([]event.Frame{{Func: fmt.Sprintf("main.f%d", i), File: "/src/f.go", Line: d}}, make([]event.Frame, d)...)}
		}
	}
	for len(l.script) < max(1<<16, 4*goroutines) {
		g, by := rng.Uint32N(uint32(goroutines))+1, rng.Uint32N(uint32(goroutines))+1
		stack := uint8((g*4 + rng.Uint32N(4)) % 64)
		l.script = append(l.script, loadStep{g, by, event.GoUnblock, uint8(by % 64)}, loadStep{g, 0, event.GoStart, 0})
		if rng.IntN(8) == 0 {
			l.script = append(l.script, loadStep{g, 0, event.GoStop, stack}, loadStep{g, 0, event.GoStart, 0})
		}
		l.script = append(l.script, loadStep{g, 0, event.GoBlock, stack})
	}
	return l
}

func (l *load) next(e *event.Event) {
	l.now += 100
	if l.born < l.count {
		l.born++
		*e = event.Event{Time: l.now, Kind: event.GoStatus, G: uint64(l.born), State: event.StateWaiting, Reason: waitReasons[l.born%5], Stack: l.stacks[l.born%64]}
		return
	}
	s := &l.script[l.i]
	if l.i++; l.i == len(l.script) {
		l.i = 0
	}
	e.Time, e.Kind, e.G, e.By, e.PID, e.TID, e.P = l.now, s.kind, uint64(s.g), uint64(s.by), 1234, int32(s.g%4+7), event.ProcOf(int32(s.g%4))
	e.Stack, e.Reason, e.State = nil, "", ""
	switch s.kind {
	case event.GoBlock:
		e.Stack, e.Reason = l.stacks[s.stack], waitReasons[s.stack%5]
	case event.GoUnblock:
		e.Stack = l.stacks[s.stack]
	case event.GoStop:
		e.Stack, e.Reason = l.stacks[s.stack], event.StopPreempted
	}
}
