package loupe_test

import (
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/realtarget"
)

// TestRealPrograms observes programs that were not written for Loupe while clients make them work and check their answers.
func TestRealPrograms(t *testing.T) {
	for _, spec := range realtarget.Chosen(t) {
		t.Run(spec.Name, func(t *testing.T) {
			target := spec.Start(t)
			load := target.StartLoad()
			load.Await(t, 20)
			c := observe(t, target.PID(), 1500*time.Millisecond, loupe.Options{System: true})
			answered, err := load.Stop()
			if err != nil {
				t.Errorf("a wrong answer while observed: %v", err)
			}
			c.expectSound(t)
			for _, kind := range []event.Kind{event.GoStatus, event.GoStart, event.GoBlock, event.GoUnblock} {
				c.expectAtLeast(t, kind, 10)
			}
			t.Logf("%d requests answered, %d events", answered, c.stats.Events)
		})
	}
}
