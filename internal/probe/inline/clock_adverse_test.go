package inline

import (
	"math/rand/v2"
	"testing"
	"time"
)

// adverse is a machine whose counter and time the test sets, and which may take the processor away before each reading.
type adverse struct {
	rng         *rand.Rand
	nanos, tick float64 // now
	rate        float64 // ticks per nanosecond
	delay       func() time.Duration
	clock       *Clock
	last        uint64 // the latest time that the clock gave
}

func newAdverse(seed uint64, delay func(*rand.Rand) time.Duration) *adverse {
	a := &adverse{rng: rand.New(rand.NewPCG(seed, 1)), nanos: 1e15, tick: 1 << 50, rate: 2.6}
	a.delay = func() time.Duration { return delay(a.rng) }
	a.clock = &Clock{
		now:  func() int64 { a.pass(a.delay()); return int64(a.nanos) },
		read: func() uint64 { a.pass(a.delay()); return uint64(a.tick) },
	}
	a.clock.begin(func() { a.pass(warmup) })
	return a
}

// pass lets time pass, and the 20 ns that a reading takes.
func (a *adverse) pass(d time.Duration) {
	a.nanos += float64(d) + 20
	a.tick += (float64(d) + 20) * a.rate
}

// prompt is a machine that is never busy; busy is one on which nearly every reading waits for the processor.
func prompt(*rand.Rand) time.Duration { return 0 }

func busy(rng *rand.Rand) time.Duration {
	if rng.IntN(20) == 0 {
		return 0
	}
	return time.Duration(rng.Int64N(int64(70 * time.Millisecond)))
}

// round lets some time pass with events in it, takes a sample, and returns the largest error of the times of these events. No
// time may be before an earlier one, and none beyond the two readings around the sample.
func (a *adverse) round(t *testing.T) (worst time.Duration) {
	t.Helper()
	type moment struct {
		tick  uint64
		nanos float64
	}
	var events []moment
	for range 5 {
		a.pass(time.Duration(a.rng.Int64N(int64(time.Millisecond))))
		events = append(events, moment{uint64(a.tick), a.nanos})
	}
	tick, nanos := a.clock.Sample()
	p := a.clock.points[len(a.clock.points)-1]
	if p.nanos < p.low || p.nanos > p.high || p.nanos != nanos || p.tick != tick {
		t.Fatalf("a point is not between its readings: %+v", p)
	}
	for _, e := range append(events, moment{tick, float64(nanos)}) {
		at := a.clock.Nanos(e.tick)
		if at < a.last {
			t.Fatalf("an event at %d comes after one at %d", at, a.last)
		}
		a.last = at
		worst = max(worst, time.Duration(at)-time.Duration(e.nanos), time.Duration(e.nanos)-time.Duration(at))
	}
	return worst
}

func (a *adverse) rounds(t *testing.T, n int) (worst time.Duration) {
	t.Helper()
	for range n {
		worst = max(worst, a.round(t))
	}
	return worst
}

// TestClockBusy takes the processor away between the readings of nearly every sample. A steady counter tells the time
// nevertheless.
func TestClockBusy(t *testing.T) {
	for seed := range uint64(20) {
		a := newAdverse(seed, prompt)
		if worst := a.rounds(t, 50); worst > time.Microsecond {
			t.Errorf("seed %d: wrong by %v on a machine that is not busy", seed, worst)
		}
		a.delay = func() time.Duration { return busy(a.rng) }
		if worst := a.rounds(t, 300); worst > 100*time.Microsecond {
			t.Errorf("seed %d: wrong by %v on a busy machine", seed, worst)
		}
	}
}

// TestClockBusyFromBegin is TestClockBusy for a clock that begins on a busy machine, which then is so no more.
func TestClockBusyFromBegin(t *testing.T) {
	for seed := range uint64(20) {
		a := newAdverse(seed, busy)
		a.rounds(t, 20)
		a.delay = func() time.Duration { return 0 }
		a.rounds(t, 2*rateOver)
		a.delay = func() time.Duration { return busy(a.rng) }
		if worst := a.rounds(t, 100); worst > 100*time.Microsecond {
			t.Errorf("seed %d: wrong by %v", seed, worst)
		}
	}
}

// TestClockRate changes the counter's rate by 5 %, as when a virtual machine moves to another host. Only the events between
// the two samples around that moment have wrong times, by at most 5 % of the time between.
func TestClockRate(t *testing.T) {
	for _, factor := range []float64{1.05, 0.95} {
		a := newAdverse(1, prompt)
		a.rounds(t, 100)
		a.pass(500 * time.Microsecond)
		a.rate *= factor
		if worst := a.round(t); worst > 200*time.Microsecond {
			t.Errorf("rate times %v: wrong by %v", factor, worst)
		}
		if worst := a.rounds(t, 2*rateOver); worst > time.Microsecond {
			t.Errorf("rate times %v: later wrong by %v", factor, worst)
		}
		a.delay = func() time.Duration { return busy(a.rng) }
		if worst := a.rounds(t, 100); worst > 100*time.Microsecond {
			t.Errorf("rate times %v: wrong by %v on a busy machine", factor, worst)
		}
	}
}

// TestClockSuspended stops the machine for three seconds in which only one of the counter and CLOCK_MONOTONIC goes on, or the
// counter begins anew. The times after that are right.
func TestClockSuspended(t *testing.T) {
	for name, suspend := range map[string]func(*adverse){
		"the counter goes on":   func(a *adverse) { a.tick += 3e9 * a.rate },
		"the clock goes on":     func(a *adverse) { a.nanos += 3e9 },
		"both go on":            func(a *adverse) { a.pass(3 * time.Second) },
		"the counter goes back": func(a *adverse) { a.tick = 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			a := newAdverse(2, prompt)
			a.rounds(t, 100)
			suspend(a)
			a.clock.Sample()
			if worst := a.rounds(t, 2*rateOver); worst > time.Microsecond {
				t.Errorf("wrong by %v", worst)
			}
			a.delay = func() time.Duration { return busy(a.rng) }
			if worst := a.rounds(t, 100); worst > 100*time.Microsecond {
				t.Errorf("wrong by %v on a busy machine", worst)
			}
		})
	}
}

// TestDoubt asks a coarse clock how far its times can be off, on a busy machine: the truth is never further away, nor is the
// doubt larger than the time between the samples.
func TestDoubt(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	nanos, number := uint64(1e12), uint64(0)
	c := &Clock{coarse: true}
	c.now = func() int64 { nanos += uint64(busy(rng)) + 20; return int64(nanos) }
	c.read = func() uint64 { number++; return number - 1 }
	c.begin(func() { nanos += uint64(spacing) })
	for range 1000 {
		type counted struct{ number, nanos uint64 }
		var events []counted
		began := c.points[len(c.points)-1].low
		for range rng.IntN(50) {
			nanos += rng.Uint64N(1 << rng.IntN(22))
			events = append(events, counted{c.read(), nanos})
		}
		c.Sample()
		for _, e := range events {
			at, doubt := c.Nanos(e.number), c.Doubt(e.number)
			if wrong := max(at, e.nanos) - min(at, e.nanos); wrong > doubt || doubt > nanos-began {
				t.Fatalf("an event at %d has the time %d, wrong by %d; the doubt is %d", e.nanos, at, wrong, doubt)
			}
		}
	}
}
