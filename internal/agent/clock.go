package agent

import "time"

// leastStep is the least step of the wall clock that counts. Clocks are read one after the other, so on a busy machine they can seem to
// differ by some milliseconds.
const leastStep = 50 * time.Millisecond

// A wallClock detects that the wall clock was set: by a person, by a time server after a long time without one, or because the machine was
// suspended. The sessions read it once, when they begin.
type wallClock struct {
	read time.Time // when the sessions read it last, also by the monotonic clock
}

// step returns by how much the wall clock was set since the last call that returned a step, or 0. now has the reading of the monotonic
// clock, too.
func (c *wallClock) step(now time.Time) time.Duration {
	return c.stepOf(now.Round(0), now.Sub(c.read), now)
}

// stepOf is step for a reading of the wall clock, and the time that has passed since c.read on the monotonic clock.
func (c *wallClock) stepOf(wall time.Time, passed time.Duration, now time.Time) time.Duration {
	step := wall.Sub(c.read.Round(0)) - passed
	if step.Abs() < leastStep {
		return 0
	}
	c.read = now
	return step
}
