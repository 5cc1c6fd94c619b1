package inline

import (
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/probe"
)

// Source is where the times of events come from, by the names of loupe.Clock. Any other value means the processor's counter,
// or a coarse clock with a warning where that counter is no clock.
type Source string

const (
	SourcePrecise Source = "precise" // the processor's counter
	SourceCoarse  Source = "coarse"  // events are numbered; a time is exact to the interval between two samples of the reader
)

// Clock turns ticks of the processor's counter into CLOCK_MONOTONIC, by lines between points at which both were read. It is
// used by one goroutine.
//
// The counter is read between two readings of CLOCK_MONOTONIC. The time of a point is within these, whatever happened
// meanwhile to this thread or machine; where they are far apart, the line through the points before says where within.
//
// A coarse clock does the same with a number that all hits of probes increase, and the clock itself whenever it reads it. The
// times of events between two samples are spread evenly over the time between. Doubt returns how far one can be off.
type Clock struct {
	coarse bool
	delay  uint64 // ticks by which a time can precede the moment its lane was taken
	points []point
	last   int // index of the segment used last

	read       func() uint64 // the counter
	now        func() int64  // CLOCK_MONOTONIC, in nanoseconds
	start      time.Time     // the time that now counts from
	startNanos int64         // its CLOCK_MONOTONIC
}

// reading is a reading of the counter between two of CLOCK_MONOTONIC.
type reading struct{ tick, low, high uint64 }

// point is the start of a line segment: a moment, and the slope to the next point.
type point struct {
	reading
	nanos uint64 // between low and high
	slope uint64 // nanoseconds per tick, times 2^32
}

const (
	maxPoints = 1 << 10
	// spacing is the smallest distance of points.
	spacing = 20 * time.Microsecond
	// warmup is how long the rate is measured at the start.
	warmup = 5 * time.Millisecond
	// rateOver is the number of points over which the rate is measured that selects a time within two distant readings.
	rateOver = 32
	// goodRead is the distance of two readings of CLOCK_MONOTONIC below which the time between them is exact enough.
	goodRead = 200 * time.Nanosecond
	maxReads = 20
	// firstReads is maxReads for the first two points, which no earlier segment predicts.
	firstReads = 1000
)

// NewClock returns a clock. The error wraps probe.ErrUnsupported when the machine's counter is no clock.
func NewClock() (*Clock, error) {
	if err := checkTicks(); err != nil {
		return nil, fmt.Errorf("%w: %w", probe.ErrUnsupported, err)
	}
	c := &Clock{read: ticks, delay: readDelay}
	if err := c.anchor(); err != nil {
		return nil, err
	}
	c.now = func() int64 { return c.startNanos + int64(time.Since(c.start)) }
	c.begin(func() { time.Sleep(warmup) })
	return c, nil
}

// NewCoarseClock returns a coarse clock. It is of use after count.
func NewCoarseClock() (*Clock, error) {
	c := &Clock{coarse: true}
	if err := c.anchor(); err != nil {
		return nil, err
	}
	c.now = func() int64 { return c.startNanos + int64(time.Since(c.start)) }
	return c, nil
}

// count sets the number that a coarse clock uses as its counter.
func (c *Clock) count(number *uint64) {
	c.read = func() uint64 { return atomic.AddUint64(number, 1) - 1 } // later events have larger numbers
	c.begin(func() { time.Sleep(spacing) })
}

// begin measures the first two points.
func (c *Clock) begin(wait func()) {
	c.add(c.take(firstReads))
	wait()
	for !c.add(c.take(firstReads)) {
	}
}

// anchor measures CLOCK_MONOTONIC at a time of this process, so that later readings need no system call.
func (c *Clock) anchor() error {
	best := int64(1 << 62)
	for range 200 {
		var ts unix.Timespec
		before := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			return fmt.Errorf("cannot read CLOCK_MONOTONIC: %w", err)
		}
		if width := int64(time.Since(before)); width < best {
			best = width
			c.start, c.startNanos = before, ts.Nano()-width/2
		}
	}
	return nil
}

// take reads the counter between two readings of CLOCK_MONOTONIC, the closest of at most most tries.
func (c *Clock) take(most int) reading {
	var best reading
	for i := range most {
		low := uint64(c.now())
		r := reading{tick: c.read(), low: low}
		r.high = uint64(c.now())
		if i == 0 || r.width() < best.width() {
			best = r
		}
		if best.width() < uint64(goodRead) {
			break
		}
	}
	return best
}

func (r reading) width() uint64 { return r.high - r.low }

// Sample reads both clocks. Ticks up to that one have their final time from then on. It waits for some microseconds when it
// was called just before.
func (c *Clock) Sample() (tick, nanos uint64) {
	for !c.add(c.take(maxReads)) {
	}
	p := &c.points[len(c.points)-1]
	return p.tick, p.nanos
}

// add adds a point, unless it is too close to the last one.
func (c *Clock) add(r reading) bool {
	p := point{reading: r, nanos: r.low + r.width()/2}
	if n := len(c.points); n > 0 {
		last := &c.points[n-1]
		p.slope = last.slope // for later ticks
		switch {
		case r.low < last.nanos+uint64(spacing):
			return false
		case r.tick <= last.tick:
			// The counter was reset, as after a suspend of the machine. Drop all points.
			c.points = c.points[:0]
		default:
			p.nanos = c.choose(r)
			last.slope = slopeOf(*last, p)
			p.slope = last.slope
		}
	}
	if len(c.points) == maxPoints {
		c.thin()
	}
	c.points = append(c.points, p)
	c.last = min(c.last, len(c.points)-1)
	return true
}

// choose returns the time of a tick that was read between two readings of CLOCK_MONOTONIC: the time that the line through
// earlier points predicts, clamped to the two readings.
func (c *Clock) choose(r reading) uint64 {
	n := len(c.points)
	if n < 2 || c.coarse { // numbers do not increase evenly
		return r.low + r.width()/2
	}
	last := c.points[n-1]
	rate := slopeOf(c.points[max(0, n-1-rateOver)], last)
	return min(max(last.nanos+scale(r.tick-last.tick, rate), r.low), r.high)
}

// thin drops every second point of the older half: few records are that old. Newer points are kept
// for as long as a record can be delayed (see stuckAfter), so that times never go backward.
func (c *Clock) thin() {
	kept := c.points[:0]
	for i, p := range c.points {
		if i > maxPoints/2 || i%2 == 0 {
			kept = append(kept, p)
		}
	}
	for i := range kept[:len(kept)-1] {
		kept[i].slope = slopeOf(kept[i], kept[i+1])
	}
	c.points, c.last = kept, 0
}

func slopeOf(a, b point) uint64 {
	ticks, nanos := b.tick-a.tick, b.nanos-a.nanos
	hi, lo := nanos>>32, nanos<<32
	if hi >= ticks {
		return 1 << 62 // the counter does not run; NewClock refuses such a counter
	}
	q, _ := bits.Div64(hi, lo, ticks)
	return q
}

// Nanos returns the CLOCK_MONOTONIC of a tick. A later tick never has an earlier time.
func (c *Clock) Nanos(tick uint64) uint64 {
	p := &c.points[c.last]
	if tick < p.tick || c.last+1 < len(c.points) && tick >= c.points[c.last+1].tick {
		p = c.find(tick)
	}
	if tick < p.tick { // before the first point
		return p.nanos - scale(p.tick-tick, p.slope)
	}
	return p.nanos + scale(tick-p.tick, p.slope)
}

// Doubt returns how far the time that Nanos returns for an event of a coarse clock can be off: the event was counted between
// the samples around its number.
func (c *Clock) Doubt(tick uint64) uint64 {
	at := c.Nanos(tick)
	low, high := c.points[c.last].low, uint64(0)
	if next := c.last + 1; next < len(c.points) {
		high = c.points[next].high
	} else {
		high = uint64(c.now())
	}
	return max(at-min(at, low), high-min(high, at))
}

// find returns the last point at or before a tick, or the first point if the tick is before all points.
func (c *Clock) find(tick uint64) *point {
	i, exact := slices.BinarySearchFunc(c.points, tick, func(p point, t uint64) int {
		switch {
		case p.tick < t:
			return -1
		case p.tick > t:
			return 1
		}
		return 0
	})
	if !exact && i > 0 {
		i--
	}
	c.last = i
	return &c.points[i]
}

func scale(ticks, slope uint64) uint64 {
	hi, lo := bits.Mul64(ticks, slope)
	return hi<<32 | lo>>32
}

// Ticks returns how many ticks a time takes.
func (c *Clock) Ticks(d time.Duration) uint64 {
	a, b := c.points[0], c.points[len(c.points)-1]
	hi, lo := bits.Mul64(uint64(max(d, 0)), b.tick-a.tick)
	if hi >= b.nanos-a.nanos {
		return ^uint64(0)
	}
	q, _ := bits.Div64(hi, lo, b.nanos-a.nanos)
	return q
}
