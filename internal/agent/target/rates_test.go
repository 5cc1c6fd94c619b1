package target

import (
	"math"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
)

func TestRates(t *testing.T) {
	before := producedOf(map[event.Kind]event.Counts{event.GoCreate: {Produced: 1000}, event.GoBlock: {Produced: 500}})
	now := producedOf(map[event.Kind]event.Counts{event.GoCreate: {Produced: 1100}, event.GoBlock: {Produced: 700}, event.GoUnblock: {Produced: 200, Received: 1},
		event.GoStart: {Produced: 600}, event.GoStop: {Produced: 1400}})
	rates := now.since(before, 2*time.Second)
	if want := (Rates{All: 1250, Waits: 200, Runs: 1000}); rates != want {
		t.Fatalf("%+v, want %+v", rates, want)
	}
	if got := before.since(now, time.Second); got != (Rates{}) { // another session
		t.Errorf("%+v, want none", got)
	}
	for _, test := range []struct {
		limits Rates
		room   float64
	}{
		{Rates{}, math.Inf(1)},
		{Rates{All: 2500}, 2},
		{Rates{All: 2500, Waits: 200}, 1},
		{Rates{All: 2500, Waits: 200, Runs: 250}, 0.25},
		{Rates{Runs: 250}, 0.25},
		{Rates{All: 125, Runs: 1000}, 0.1},
	} {
		if got := test.limits.room(rates); got != test.room {
			t.Errorf("room for %+v is %v, want %v", test.limits, got, test.room)
		}
	}
	if got := (Rates{Waits: 100}).room(Rates{All: 1e6}); got != 100 {
		t.Errorf("room without waits is %v, want 100", got)
	}
}
