package agent

import (
	"testing"
	"time"
)

// TestWallClock has a clock that is set forward and back. The real clock of the machine is not set in tests.
func TestWallClock(t *testing.T) {
	c := wallClock{time.Now()}
	for _, want := range []time.Duration{0, time.Hour, -3 * time.Second, 0} {
		passed := 10 * time.Second
		wall := c.read.Round(0).Add(passed + want)
		if got := c.stepOf(wall, passed, c.read.Add(passed)); got != want {
			t.Errorf("a step of %v, want %v", got, want)
		}
	}
	wall := c.read.Round(0).Add(time.Second + leastStep/2)
	if got := c.stepOf(wall, time.Second, c.read.Add(time.Second)); got != 0 {
		t.Errorf("a difference of %v is a step of %v", leastStep/2, got)
	}
	if d := c.step(time.Now()); d != 0 {
		t.Errorf("a step of %v without one", d)
	}
}
