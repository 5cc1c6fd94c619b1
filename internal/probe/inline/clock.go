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

// Source is where the times of events come from, by the names of loupe.Clock. Unless it is one of these, it is the
// processor's counter, or where that is no clock coarse times with a warning.
type Source string

const (
	SourcePrecise Source = "precise" // the processor's counter
	SourceCoarse  Source = "coarse"  // events are counted, and the reader tells when it looked: their order is exact, their times are not
)

// Clock turns the ticks of the processor's counter into CLOCK_MONOTONIC, by lines between points at which both were read.
// It is used by one goroutine.
//
// A coarse clock does the same with a number that all hits of probes increase, and the clock itself whenever it reads it: the
// times of events between two samples are spread evenly over the time between.
type Clock struct {
	coarse bool
	delay  uint64 // ticks that a time can be older than the moment its lane was taken
	points []point
	last   int // where the line that was used last begins

	read       func() uint64 // the counter
	now        func() int64  // CLOCK_MONOTONIC, in nanoseconds
	start      time.Time     // what now counts from
	startNanos int64         // its CLOCK_MONOTONIC
}

// point is a moment, and the slope of the line to the next.
type point struct {
	tick, nanos uint64
	slope       uint64 // nanoseconds per tick, times 2^32
}

const (
	maxPoints = 1 << 10
	// spacing is the least distance of points.
	spacing = 20 * time.Microsecond
	// warmup is how long the rate is measured at the beginning.
	warmup = 5 * time.Millisecond
	// goodRead is how close together two readings of CLOCK_MONOTONIC are that leave no doubt about a tick between them.
	goodRead = 200 * time.Nanosecond
	maxReads = 20
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

// count begins with the number that a coarse clock goes by.
func (c *Clock) count(number *uint64) {
	c.read = func() uint64 { return atomic.AddUint64(number, 1) - 1 } // what is counted later is larger
	c.begin(func() { time.Sleep(spacing) })
}

// begin takes the first two points.
func (c *Clock) begin(wait func()) {
	c.add(c.pair())
	wait()
	c.add(c.pair())
}

// anchor finds CLOCK_MONOTONIC at a time of this process. The kernel need not be asked again then.
func (c *Clock) anchor() error {
	best := int64(1 << 62)
	for range 200 {
		var ts unix.Timespec
		before := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			return fmt.Errorf("reading CLOCK_MONOTONIC: %w", err)
		}
		if width := int64(time.Since(before)); width < best {
			best = width
			c.start, c.startNanos = before, ts.Nano()-width/2
		}
	}
	return nil
}

// pair reads both clocks at one moment: the tick is between two readings of the time, the closest of some.
func (c *Clock) pair() (tick, nanos uint64) {
	best := int64(1 << 62)
	for range maxReads {
		before := c.now()
		t := c.read()
		width := c.now() - before
		if width < best {
			best, tick, nanos = width, t, uint64(before+width/2)
		}
		if best < int64(goodRead) {
			break
		}
	}
	return tick, nanos
}

// Sample reads both clocks. Ticks up to that one have their final time from then on. It waits for some microseconds when it
// was called just before.
func (c *Clock) Sample() (tick, nanos uint64) {
	for {
		tick, nanos := c.pair()
		if c.add(tick, nanos) {
			return tick, nanos
		}
	}
}

// add adds a point, unless it is too close to the last one.
func (c *Clock) add(tick, nanos uint64) bool {
	n := len(c.points)
	if n > 0 {
		last := &c.points[n-1]
		if tick <= last.tick || nanos < last.nanos+uint64(spacing) {
			return false
		}
		last.slope = slopeOf(*last, point{tick: tick, nanos: nanos})
	}
	if len(c.points) == maxPoints {
		c.thin()
	}
	c.points = append(c.points, point{tick: tick, nanos: nanos})
	c.last = min(c.last, len(c.points)-1)
	if n := len(c.points); n > 1 {
		c.points[n-1].slope = c.points[n-2].slope // for what comes after
	}
	return true
}

// thin drops every second one of the older half of the points: few records are that old. The newer ones stay as they are
// for as long as a record can be held back (see stuckAfter), so that what comes later has no earlier time.
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
		return 1 << 62 // a counter that stands still is none; NewClock refuses it before this matters
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

// find looks for the last point that is not after a tick; the first one when there is none.
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
