package tui

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/sched"
)

// TestSelection holds lists of goroutines against sorting all of them.
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
	for order := range goroutineOrders {
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
					t.Fatalf("order %s, reverse %v: goroutine %d is number %d, not %d", goroutineOrders[order].column, reverse, d.Goroutines[i].ID, i, all.Goroutines[i].ID)
				}
			}
		}
	}
}

// TestFeed gives events one by one and looks meanwhile.
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

// TestCatchUp takes a picture after this process was stopped, before the reader has read what came meanwhile: the picture has
// all of it, and so has the next one nothing of it.
func TestCatchUp(t *testing.T) {
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
	// When nothing comes, it does not wait for long.
	began := time.Now()
	f.CatchUp(catchUpLimit)
	if waited := time.Since(began); waited >= catchUpLimit {
		t.Errorf("waited %v for nothing", waited)
	}
}

// BenchmarkTake is a picture of a million goroutines for each page.
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
		"goroutines": {About: AboutGoroutines, Limit: listLimit}, "filtered": {About: AboutGoroutines, Limit: listLimit, Filter: "replica"}, "one": {About: AboutOne, ID: 5},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w.pass(time.Second)
				w.sampler.Take(q)
			}
		})
	}
}

// BenchmarkView is a large frame in colours.
func BenchmarkView(b *testing.B) {
	w := shop(20)
	m := NewModel(testTarget, time.Second, true)
	m.Update(Resize{200, 60})
	m.Update(w.sampler.Take(m.Query()))
	for b.Loop() {
		m.View(200, 60)
	}
}
