package loupe_test

import (
	"fmt"
	"testing"
	"time"

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

// TestCountsSampled has targets create and end as many goroutines as they can. The counts are those of the target, whichever goroutines
// are sampled, which kinds of events are observed, and how many events are lost.
func TestCountsSampled(t *testing.T) {
	const each = 50_000
	for _, version := range testtarget.Among(t, "1.12.17", "1.23.12", testtarget.Latest()) {
		for _, opt := range []loupe.Options{
			{SampleOneIn: 100, StackDepth: -1},
			{SampleOneIn: 100, Kinds: event.KindsOf(event.GoCreate, event.GoDestroy)},
			{BufferBytes: 64 << 10, StackDepth: -1},
		} {
			t.Run(fmt.Sprintf("go%s/one in %d/%d kinds", version, opt.SampleOneIn, len(opt.Kinds.List())), func(t *testing.T) {
				p := startMill(t, version)
				s := attach(t, p.PID(), opt)
				p.Command(fmt.Sprint("spawn ", each)) // nobody reads the events
				p.Command(fmt.Sprint("spawn ", each))
				for numGoroutine(t, p) > 2 {
				}
				s.Detach()
				stats, peak := s.Stats(), s.BufferPeak()
				t.Logf("%d hits, %d events lost, %d created, %d ended", stats.Hits, stats.Lost, stats.Created, stats.Ended)
				if stats.Created != 2*each || stats.Ended != 2*each {
					t.Errorf("%d goroutines created, %d ended; the target made %d", stats.Created, stats.Ended, 2*each)
				}
				if lost := stats.Lost > 0; lost != (opt.BufferBytes > 0) {
					t.Errorf("%d events lost", stats.Lost)
				}
				if full := stats.BufferUsed > 0.9; full != (opt.BufferBytes > 0) || peak < stats.BufferUsed || peak > 1 {
					t.Errorf("%.3f of the buffer is used, at most %.3f was", stats.BufferUsed, peak)
				}
				if stats.Hits < 4*each {
					t.Errorf("%d hits, want %d or more", stats.Hits, 4*each)
				}
				for range s.Events() {
				}
				stats = s.Stats()
				if got, most := stats.Delays.Count(), stats.Events/64; got == 0 && most > 1 || got > most {
					t.Errorf("%d delays of %d events", got, stats.Events)
				}
				if least := stats.Delays.Quantile(0); stats.Delays.Count() > 0 && least < 100*time.Microsecond {
					t.Errorf("an event that nobody has read for long has a delay of %v or less", least)
				}
			})
		}
	}
}
