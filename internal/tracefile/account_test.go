package tracefile

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/sched"
	"github.com/loupe-go/loupe/trace"
)

// TestSpread compares with sorted lists, of a few lengths and of many, put together from parts.
func TestSpread(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, maxFew, maxFew + 1, 1000} {
		for _, parts := range []int{1, 2, 7} {
			spreads := make([]Spread, parts)
			var all []time.Duration
			sum := time.Duration(0)
			for range n {
				d := time.Duration(rng.Uint64() >> (10 + rng.IntN(50)))
				all = append(all, d)
				sum += d
				spreads[rng.IntN(parts)].Add(d)
			}
			s := &spreads[0]
			for i := 1; i < parts; i++ {
				s.merge(&spreads[i])
			}
			slices.Sort(all)
			if n == 0 {
				if s.Count() != 0 || s.Min() != 0 || s.Mean() != 0 || s.Max() != 0 || s.Quantile(0.5) != 0 {
					t.Errorf("empty: %+v", s)
				}
				continue
			}
			if int(s.Count()) != n || s.Min() != all[0] || s.Max() != all[n-1] || s.Total() != sched.NanosOf(sum) || s.Mean() != sum/time.Duration(n) {
				t.Errorf("%d in %d parts: %d, from %v to %v, %v in all", n, parts, s.Count(), s.Min(), s.Max(), s.Total().Duration())
			}
			for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 1} {
				rank := max(1, int(q*float64(n)+0.999999))
				want, got := all[rank-1], s.Quantile(q)
				if off := got - want; n <= maxFew && off != 0 || max(off, -off) > want/32+1 {
					t.Errorf("%d in %d parts: quantile %v is %v, want %v", n, parts, q, got, want)
				}
			}
		}
	}
}

// TestWaitTimes compares with a simple account of the same events, at random, with losses and goroutines that end.
func TestWaitTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	w := newWaitTimes()
	type wait struct {
		since  int64
		reason string
		losses int
	}
	waiting := map[uint64]wait{}
	want := map[uint64]map[string][2]int64{}
	losses := 0
	check := func(g uint64, now int64) {
		got := map[string][2]int64{}
		for _, r := range w.take(g, now) {
			if r.count > 0 {
				got[r.reason] = [2]int64{int64(r.count), r.time}
			}
		}
		if x, ok := waiting[g]; ok && x.losses == losses {
			c := want[g][x.reason]
			want[g][x.reason] = [2]int64{c[0] + 1, c[1] + now - x.since}
		}
		delete(waiting, g)
		if fmt.Sprint(got) != fmt.Sprint(want[g]) && len(got)+len(want[g]) > 0 {
			t.Fatalf("goroutine %d: %v, want %v", g, got, want[g])
		}
		delete(want, g)
	}
	now := int64(1000)
	for range 200_000 {
		now += rng.Int64N(50)
		g := rng.Uint64N(600) + 1
		if want[g] == nil {
			want[g] = map[string][2]int64{}
		}
		switch n := rng.IntN(100); {
		case n == 0:
			losses++
			w.losses++
		case n == 1:
			check(g, now)
		case n < 50:
			reason := fmt.Sprint("reason ", rng.IntN(5))
			w.apply(&event.Event{Kind: event.GoBlock, G: g, Time: now, Reason: reason})
			waiting[g] = wait{now, reason, losses}
		default:
			w.apply(&event.Event{Kind: event.GoUnblock, G: g, Time: now})
			if x, ok := waiting[g]; ok && x.losses == losses {
				c := want[g][x.reason]
				want[g][x.reason] = [2]int64{c[0] + 1, c[1] + now - x.since}
			}
			delete(waiting, g)
		}
	}
	for g := range uint64(602) {
		if want[g] == nil {
			want[g] = map[string][2]int64{}
		}
		check(g, now)
	}
	if w.byG.Len() != 0 {
		t.Errorf("%d goroutines are left", w.byG.Len())
	}
}

// TestReasonsAreBounded gives a goroutine more reasons than are told apart, and groups too.
func TestReasonsAreBounded(t *testing.T) {
	w := newWaitTimes()
	for i := range 10 * maxReasonsOfG {
		w.apply(&event.Event{Kind: event.GoBlock, G: 1, Time: int64(2 * i), Reason: fmt.Sprint(i)})
		w.apply(&event.Event{Kind: event.GoUnblock, G: 1, Time: int64(2*i + 1)})
	}
	list := w.take(1, 1e6)
	count := uint64(0)
	for _, r := range list {
		count += r.count
	}
	if len(list) != maxReasonsOfG+1 || count != 10*maxReasonsOfG || list[maxReasonsOfG].reason != otherReasons {
		t.Errorf("%d reasons, %d waits", len(list), count)
	}
	s := newGroups(&StatOptions{By: ByStart, System: true})
	for i := range maxGroups + 100 {
		g := &sched.Goroutine{ID: uint64(i + 1), Origin: &event.Origin{Start: event.Frame{Func: fmt.Sprint("f", i)}}}
		waits := make([]reasonTime, 6)
		for j := range waits {
			waits[j] = reasonTime{reason: fmt.Sprint(i, j), count: 1, time: 1}
		}
		s.add(g, waits, true, 10)
	}
	groups, rest := s.list(0)
	reasons, goroutines := 0, rest.Count
	for _, gr := range groups {
		goroutines += gr.Count
		for i := range gr.Reasons {
			if gr.Reasons[i].Name != otherReasons {
				reasons++
			}
		}
	}
	if len(groups) != maxGroups || rest.Count != 100 || goroutines != maxGroups+100 || reasons != maxGroupReasons {
		t.Errorf("%d groups with %d reasons, %d goroutines, %d in the rest", len(groups), reasons, goroutines, rest.Count)
	}
}

// TestStatMemory counts a long trace in which goroutines come and go. It takes no more memory in the end than at a quarter.
func TestStatMemory(t *testing.T) {
	origin := &event.Origin{Start: event.Frame{Func: "main.work", File: "main.go", Line: 7}, CreatedBy: event.Frame{Func: "main.main", File: "main.go", Line: 3}}
	stack := &event.Stack{Frames: []event.Frame{{Func: "runtime.chanrecv1"}, {Func: "main.work", File: "main.go", Line: 9}}}
	const lives = 200_000
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var quarter, end int64
	r, pipe := io.Pipe()
	go func() {
		w, err := trace.NewWriter(pipe, trace.WriterOptions{})
		now := time.Now().UnixNano()
		write := func(e event.Event) {
			now += 1000
			e.Time = now
			if err == nil {
				err = w.Write(&e)
			}
		}
		write(event.Event{Kind: event.GoStatus, G: 1, State: event.StateRunning, TID: 1, P: event.ProcOf(0), Origin: origin})
		for g := uint64(2); g < lives+2; g++ {
			write(event.Event{Kind: event.GoCreate, G: g, Parent: 1, TID: 1, P: event.ProcOf(0), Origin: origin, Stack: stack})
			write(event.Event{Kind: event.GoStart, G: g, TID: 2, P: event.ProcOf(1)})
			write(event.Event{Kind: event.GoBlock, G: g, TID: 2, P: event.ProcOf(1), Reason: "chan receive", Stack: stack})
			write(event.Event{Kind: event.GoUnblock, G: g, By: 1, TID: 1, P: event.ProcOf(0), Stack: stack})
			write(event.Event{Kind: event.GoStart, G: g, TID: 2, P: event.ProcOf(1)})
			write(event.Event{Kind: event.GoDestroy, G: g, TID: 2, P: event.ProcOf(1)})
			switch g {
			case lives / 4:
				quarter = heap()
			case lives:
				end = heap()
			}
		}
		if err == nil {
			err = w.Close()
		}
		pipe.CloseWithError(err)
	}()
	in, err := Open(t.Context(), Stdin, r)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Stat(t.Context(), in, StatOptions{By: ByNone, Top: 100})
	if err != nil || s.Err != nil {
		t.Fatal(err, s.Err)
	}
	if s.Totals.Ended != lives || len(s.Groups) != 100 || s.Rest.Count != lives+1-100 {
		t.Errorf("%d ended, %d groups, %d in the rest", s.Totals.Ended, len(s.Groups), s.Rest.Count)
	}
	const slack = 8 << 20
	if quarter == 0 || end-quarter > slack {
		t.Errorf("%d bytes at a quarter, %d at the end", quarter, end)
	}
}
