package live

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/sched"
)

// TestSelection compares limited lists of goroutines with the sorted list of all goroutines.
func TestSelection(t *testing.T) {
	w := newWorld()
	r := rand.New(rand.NewPCG(3, 4))
	const n = 5000
	for g := uint64(1); g <= n; g++ {
		w.apply(event.Event{Kind: event.GoCreate, G: g, Origin: leakOrigin, Stack: stackMake})
		w.pass(time.Duration(r.UintN(1000)) * time.Microsecond)
	}
	for _, i := range r.Perm(n) {
		w.apply(event.Event{Kind: event.GoStart, G: uint64(i + 1)})
		w.pass(time.Duration(r.UintN(1000)) * time.Microsecond)
	}
	for _, order := range []sched.Order{sched.ByID, sched.ByOldest, sched.ByRunning, sched.ByRunnable, sched.ByBlocked, sched.ByBlocks} {
		for _, reverse := range []bool{false, true} {
			q := Query{About: AboutGoroutines, Order: order, Reverse: reverse, Limit: 100}
			d := w.sampler.Take(q).Detail
			q.Limit = 0
			all := w.sampler.Take(q).Detail
			if d.Matched != n || all.Matched != n || len(d.Goroutines) != 100 || len(all.Goroutines) != n {
				t.Fatalf("%d of %d, %d of %d", len(d.Goroutines), d.Matched, len(all.Goroutines), all.Matched)
			}
			for i := range d.Goroutines {
				if d.Goroutines[i].ID != all.Goroutines[i].ID {
					t.Fatalf("order %v, reverse %v: goroutine %d is number %d, not %d", order, reverse, d.Goroutines[i].ID, i, all.Goroutines[i].ID)
				}
			}
		}
	}
}

// TestPlaces expects lines in the order of the time of all their stacks.
func TestPlaces(t *testing.T) {
	w := newWorld()
	wait := func(g uint64, seconds time.Duration, stack *event.Stack) {
		w.apply(event.Event{Kind: event.GoCreate, G: g, Origin: leakOrigin})
		w.apply(event.Event{Kind: event.GoStart, G: g})
		w.apply(event.Event{Kind: event.GoBlock, G: g, Reason: "chan send", Stack: stack})
		w.pass(seconds * time.Second)
		w.apply(event.Event{Kind: event.GoUnblock, G: g, By: 1})
	}
	wait(2, 3, stackMake)
	wait(3, 2, stackSend)
	wait(4, 2, &event.Stack{Frames: []event.Frame{atReplica, atSearch}})
	places := w.sampler.Take(Query{About: AboutPlaces}).Detail.Places
	if len(places) != 2 || places[0].At.Frame != atReplica || places[0].Stacks != 2 || places[1].At.Frame != atSearch {
		t.Errorf("%+v", places)
	}
}

// TestFeed adds events while pictures are taken.
func TestFeed(t *testing.T) {
	f := NewFeed(sched.New(sched.Options{}))
	s := NewSampler(f, SamplerOptions{Clock: f.Now, Health: func() Health { return Health{} }, Window: time.Nanosecond})
	const n = 20_000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for g := uint64(1); g <= n; g++ {
			f.Add(&event.Event{Kind: event.GoCreate, Time: f.Now(), G: g})
		}
	}()
	last := uint64(0)
	for looking := true; looking; {
		select {
		case <-done:
			looking = false
		default:
		}
		p := s.Take(Query{About: AboutGoroutines, Limit: 3})
		if p.Totals.Live < last {
			t.Fatalf("%d goroutines after %d", p.Totals.Live, last)
		}
		last = p.Totals.Live
	}
	if last != n {
		t.Errorf("%d of %d events were seen: a batch that is not full must not wait", last, n)
	}
	f.End()
	end := s.Take(Query{}).Now
	time.Sleep(2 * time.Millisecond)
	if now := s.Take(Query{}).Now; now != end {
		t.Errorf("time goes on after the end, by %v", time.Duration(now-end))
	}
}

// TestCatchUp takes a picture before the events of the preceding two seconds have been added, as after a stop of this process.
// The picture must include all of these events.
func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFeed(sched.New(sched.Options{}))
		s := NewSampler(f, SamplerOptions{Clock: f.Now, CatchUp: f.CatchUp, Health: func() Health { return Health{} }, Window: 50 * time.Millisecond})
		s.Take(Query{})
		stopped := f.Now()
		time.Sleep(2 * time.Second)
		const n = 1000
		go func() {
			time.Sleep(20 * time.Millisecond)
			step := (f.Now() - stopped) / n
			for g := uint64(1); g <= n; g++ {
				f.Add(&event.Event{Kind: event.GoCreate, Time: stopped + int64(g)*step, G: g})
				if g%100 == 0 {
					time.Sleep(10 * time.Millisecond)
				}
			}
		}()
		p := s.Take(Query{})
		if p.TotalsDelta.Created != n || p.Interval < 2*time.Second {
			t.Errorf("%d of %d goroutines in a picture of %v", p.TotalsDelta.Created, n, p.Interval)
		}
		// Without new events, CatchUp returns before the limit.
		began := time.Now()
		f.CatchUp(catchUpLimit)
		if waited := time.Since(began); waited >= catchUpLimit {
			t.Errorf("waited %v for nothing", waited)
		}
	})
}

// BenchmarkTake measures pictures of a million goroutines for different queries.
func BenchmarkTake(b *testing.B) {
	w := newWorld()
	for g := uint64(1); g <= 1_000_000; g++ {
		w.apply(event.Event{Kind: event.GoCreate, G: g, Origin: leakOrigin, Stack: stackMake})
		w.apply(event.Event{Kind: event.GoStart, G: g})
		w.apply(event.Event{Kind: event.GoBlock, G: g, Reason: "chan send", Stack: stackSend})
		w.pass(time.Microsecond)
	}
	for name, q := range map[string]Query{
		"sites": {About: AboutSites}, "states": {About: AboutGroups}, "contention": {About: AboutPlaces},
		"goroutines": {About: AboutGoroutines, Limit: 1000}, "filtered": {About: AboutGoroutines, Limit: 1000, Filter: "replica"}, "one": {About: AboutOne, ID: 5},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w.pass(time.Second)
				w.sampler.Take(q)
			}
		})
	}
}
