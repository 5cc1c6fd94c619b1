package inline

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestClockError compares times by the counter with those of the kernel, while it is calibrated now and then. Times near a sample
// are left out if the machine was busy with something else during it: then they may be wrong by as much as that took.
func TestClockError(t *testing.T) {
	c, err := NewClock()
	if err != nil {
		t.Fatal(err)
	}
	type reading struct {
		before, after int64
		tick          uint64
	}
	wrong, sum, n := 0, int64(0), 0
	// A time is as exact as the two samples around it, which an emulator takes more slowly. Samples that are far wider than the
	// narrowest one were interrupted.
	width := func() int64 { return int64(c.points[len(c.points)-1].width()) }
	narrowest, was := int64(500), width()
	for end := time.Now().Add(time.Minute); n < 400 && time.Now().Before(end); {
		var rs []reading
		for range 20 {
			rs = append(rs, reading{monotonic(), 0, ticks()})
			rs[len(rs)-1].after = monotonic()
			time.Sleep(time.Millisecond)
		}
		c.Sample()
		before := was
		was = width()
		narrowest = max(500, min(narrowest, was, before))
		if max(was, before) > 4*narrowest {
			continue
		}
		limit := 1000 + max(was, before)
		for _, r := range rs {
			got := int64(c.Nanos(r.tick))
			n++
			switch {
			case got < r.before:
				sum += r.before - got
				wrong += count(r.before-got > limit)
			case got > r.after:
				sum += got - r.after
				wrong += count(got-r.after > limit)
			}
		}
	}
	if n < 400 || wrong > n/100 { // the machine may have been busy with something else between two readings
		t.Errorf("%d of %d times are wrong by more than a microsecond and the width of a sample", wrong, n)
	}
	t.Logf("%d times, wrong by %d ns on average", n, sum/int64(n))
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// madeUpClock is a clock whose counter and time the test sets: a counter of a rate that drifts, read with delays.
func madeUpClock(rate func(nanos int64) float64) (c *Clock, advance func(nanos int64)) {
	nanos, tick := int64(1_000_000), float64(1<<40)
	advance = func(d int64) {
		nanos += d
		tick += float64(d) * rate(nanos)
	}
	c = &Clock{}
	c.now = func() int64 { advance(int64(10 + rand.IntN(40))); return nanos }
	c.read = func() uint64 { return uint64(tick) }
	c.begin(func() { advance(int64(warmup)) })
	return c, advance
}

// TestClockMonotone: over hours, with a rate that drifts, no later tick has an earlier time, neither those of now nor old
// ones, and memory stays bounded.
func TestClockMonotone(t *testing.T) {
	c, advance := madeUpClock(func(nanos int64) float64 { return 3 * (1 + 1e-5*float64(nanos%1e10)/1e10) })
	type seen struct{ tick, nanos uint64 }
	var all []seen
	last := seen{}
	for i := range 20_000 {
		advance(rand.Int64N(1 << rand.IntN(30)))
		tick, truth := c.read(), c.now()
		c.Sample()
		s := seen{tick, c.Nanos(tick)}
		if s.nanos < last.nanos {
			t.Fatalf("tick %d at %d, after tick %d at %d", s.tick, s.nanos, last.tick, last.nanos)
		}
		if d := int64(s.nanos) - truth; d < -1000 || d > 1000 {
			t.Fatalf("tick %d at %d, wrong by %d ns", s.tick, s.nanos, d)
		}
		last = s
		if i%100 == 0 {
			all = append(all, s)
		}
	}
	if len(c.points) > maxPoints {
		t.Errorf("%d points are kept", len(c.points))
	}
	before := uint64(0)
	for _, s := range all {
		now := c.Nanos(s.tick)
		if now < before {
			t.Fatalf("tick %d at %d, after one at %d", s.tick, now, before)
		}
		if d := int64(now - s.nanos); d < -200_000 || d > 200_000 {
			t.Errorf("tick %d was at %d, is at %d", s.tick, s.nanos, now)
		}
		before = now
	}
	if c.Nanos(0) > c.Nanos(1<<39) || c.Nanos(last.tick+1<<40) < last.nanos {
		t.Error("ticks beyond the points are not in order")
	}
}

func TestClockTicks(t *testing.T) {
	c, _ := madeUpClock(func(int64) float64 { return 2.5 })
	for d, want := range map[time.Duration]uint64{-5: 0, 0: 0, time.Second: 2_500_000_000, 24 * time.Hour: 216_000_000_000_000} {
		if got := c.Ticks(d); got < want-want/1000 || got > want+want/1000 {
			t.Errorf("%v are %d ticks, want %d", d, got, want)
		}
	}
}
