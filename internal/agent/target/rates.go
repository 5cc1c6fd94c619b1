package target

import (
	"math"
	"time"

	"github.com/loupe-go/loupe/event"
)

// Rates are numbers of events for each second. As a limit, 0 is any number.
type Rates struct {
	All   float64 // of all kinds
	Waits float64 // by which waits begin and end
	Runs  float64 // by which goroutines begin and stop to run
}

// room returns by what factor rates can grow until one of them reaches its limit: infinity if none ever does.
func (limits Rates) room(rates Rates) float64 {
	factor := math.Inf(1)
	for _, r := range []struct{ limit, rate float64 }{{limits.All, rates.All}, {limits.Waits, rates.Waits}, {limits.Runs, rates.Runs}} {
		if r.limit > 0 {
			factor = min(factor, r.limit/max(r.rate, 1))
		}
	}
	return factor
}

// produced are numbers of events that there have been.
type produced struct{ all, waits, runs uint64 }

func producedOf(kinds map[event.Kind]event.Counts) (p produced) {
	for k, n := range kinds {
		p.all += n.Produced
		switch k {
		case event.GoBlock, event.GoUnblock:
			p.waits += n.Produced
		case event.GoStart, event.GoStop:
			p.runs += n.Produced
		}
	}
	return p
}

// since returns the rates since earlier numbers, which were read some time ago.
func (p produced) since(before produced, ago time.Duration) Rates {
	rate := func(now, before uint64) float64 { return float64(now-min(now, before)) / ago.Seconds() }
	return Rates{All: rate(p.all, before.all), Waits: rate(p.waits, before.waits), Runs: rate(p.runs, before.runs)}
}
