package loupe_test

import (
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestHitCost measures what a hit costs while a program is observed, which does not see the hits of this process.
func TestHitCost(t *testing.T) {
	p := startMill(t, testtarget.Latest())
	s := attach(t, p.PID(), loupe.Options{})
	before := s.Stats().Hits
	cost, err := s.HitCost()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", cost)
	if hits := s.Stats().Hits - before; hits > 1000 {
		t.Errorf("%d hits while the program was idle", hits)
	}
	if cost.Hit <= 0 || cost.Event < 0 {
		t.Errorf("a hit takes %v, an event %v", cost.Hit, cost.Event)
	}
	p.Command("pingpong 1000")
	stats := s.Stats()
	if got, least := cost.Of(&stats), 4000*cost.Hit; got < least {
		t.Errorf("%v for %d hits, want at least %v", got, stats.Hits, least)
	}
}

func TestHitCostSum(t *testing.T) {
	cost := loupe.HitCost{Hit: 500, Event: 100}
	stats := event.Stats{Hits: 1000, Kinds: map[event.Kind]event.Counts{event.GoStart: {Produced: 10}, event.GoStop: {Produced: 20}}}
	if got := cost.Of(&stats); got != 503*time.Microsecond {
		t.Errorf("%v", got)
	}
}
