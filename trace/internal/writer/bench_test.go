package writer

import (
	"fmt"
	"io"
	"testing"

	"github.com/loupe-go/loupe/event"
)

// pingPong makes a stream of pairs of goroutines that wait for each other, each pair on a thread, without an end: the
// events of one round, which can be repeated with later times.
func pingPong(pairs int) (first, round []event.Event) {
	stacks := newSimulation(1, simOptions{procs: 1}).stacks[:40]
	at := func(i int) (int32, event.Proc) { return int32(100 + i%8), event.ProcOf(int32(i % 8)) }
	g := func(i, k int) uint64 { return uint64(i*2 + k + 1) }
	for i := range pairs {
		first = append(first, event.Event{Kind: event.GoStatus, G: g(i, 0), State: event.StateRunnable},
			event.Event{Kind: event.GoStatus, G: g(i, 1), State: event.StateWaiting})
	}
	for i := range pairs {
		tid, p := at(i)
		for k := range 2 {
			a, b := g(i, k), g(i, 1-k)
			stack := stacks[(i+k)%len(stacks)]
			for _, e := range []event.Event{
				{Kind: event.GoStart, G: a}, {Kind: event.GoUnblock, G: b, By: a, Stack: stack},
				{Kind: event.GoBlock, G: a, Reason: "chan receive", TraceReason: "chan receive", Stack: stack},
			} {
				e.TID, e.P = tid, p
				round = append(round, e)
			}
		}
	}
	return first, round
}

// BenchmarkWriter measures the cost of an event. In pingpong nothing is new; in simulated, goroutines come and go and all
// kinds of events happen.
func BenchmarkWriter(b *testing.B) {
	for _, pairs := range []int{100, 20_000} {
		first, round := pingPong(pairs)
		b.Run(fmt.Sprintf("pingpong/goroutines=%d", 2*pairs), func(b *testing.B) {
			w, err := New(io.Discard, Options{})
			if err != nil {
				b.Fatal(err)
			}
			now := int64(1_700_000_000_000_000_000)
			write := func(e *event.Event) {
				now += 500
				e.Time = now
				if err := w.Write(e); err != nil {
					b.Fatal(err)
				}
			}
			for _, e := range first {
				write(&e)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i, at := 0, 0; i < b.N; i++ {
				write(&round[at])
				if at++; at == len(round) {
					at = 0
				}
			}
			b.StopTimer()
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			s := w.Stats()
			if s.Repaired > 0 || s.Bridged > 0 {
				b.Fatalf("stats %+v", s)
			}
			b.ReportMetric(float64(s.Bytes)/float64(s.Events), "bytes/event")
		})
	}
	events := newSimulation(1, simOptions{procs: 8, known: true, syscalls: true, ops: true}).run(15_000).events
	b.Run("simulated", func(b *testing.B) {
		b.ReportAllocs()
		bytes := uint64(0)
		for n := 0; n < b.N; {
			w, err := New(io.Discard, Options{})
			if err != nil {
				b.Fatal(err)
			}
			for i := 0; i < len(events) && n < b.N; i++ {
				if err := w.Write(&events[i]); err != nil {
					b.Fatal(err)
				}
				n++
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			bytes += w.Stats().Bytes
		}
		b.ReportMetric(float64(bytes)/float64(b.N), "bytes/event")
	})
}
