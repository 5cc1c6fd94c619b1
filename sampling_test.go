package loupe_test

import (
	"testing"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/sampling"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestSample observes one of seven goroutines.
func TestSample(t *testing.T) {
	p := startMill(t, testtarget.Latest())
	c := during(t, p, loupe.Options{SampleOneIn: 7}, "spawn 70000")
	c.expectSound(t)
	c.expect(t, event.GoCreate, 10000, 500) // five standard deviations
	rule := sampling.OneIn(7)
	for g := range c.states {
		if !rule.Selects(g) {
			t.Errorf("goroutine %d is observed", g)
		}
	}
}
