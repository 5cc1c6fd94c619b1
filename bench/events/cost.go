package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/loupe-go/loupe/internal/probe/inline"
)

// tripEvents is how many events a round trip of the ping-pong is.
const tripEvents = 6

// warmUp is how long the target runs with a watcher before it is measured: what is sent once has been sent then.
const warmUp = 300 * time.Millisecond

// costWays are compared with a target that nobody watches; the first is what the others are compared with.
var costWays = []way{
	loupeWay("loupe", order{StackDepth: stacks}),
	loupeWay("loupe, without stacks", order{StackDepth: noStacks}),
	loupeWay("loupe, the goroutines are not sampled", order{StackDepth: stacks, Sample: 1000}),
	loupeWay("loupe, engine inline", order{StackDepth: stacks, Inline: true}),
	loupeWay("loupe, engine inline, without stacks", order{StackDepth: noStacks, Inline: true}),
	loupeWay("loupe, engine inline, the goroutines are not sampled", order{StackDepth: stacks, Inline: true, Sample: 1000}),
	loupeWay("loupe, engine inline, coarse times", order{StackDepth: stacks, Inline: true, Clock: inline.SourceCoarse}),
	loupeWay("loupe, each probe attached by itself", order{StackDepth: stacks, Single: true}),
	loupeWay("the hits alone: loupe's probes, disabled", order{StackDepth: stacks, Asleep: true}),
	loupeWay("the same at function entry", order{StackDepth: stacks, AtEntry: true}),
	loupeWay("the same at function entry, without stacks", order{StackDepth: noStacks, AtEntry: true}),
	bpftraceWay("runtime.gopark", "runtime.ready", "runtime.execute"),
	tracerWay,
}

// trip is one measurement of a round trip.
type trip struct {
	seen
	alone, with float64 // nanoseconds
	perTrip     float64 // events of a round trip, as seen
	estimate    float64 // nanoseconds in probes, as Loupe estimates them
}

// event returns the nanoseconds that an event costs the target.
func (t trip) event() float64 { return (t.with - t.alone) / tripEvents }

// cost prints what an event costs the target, which has one processor for itself; the watcher has the other.
func (b *bench) cost() error {
	t, err := b.start(pingpong)
	if err != nil {
		return err
	}
	defer t.Kill()
	ways := b.chosen(costWays)
	if len(ways) == 0 {
		return errors.New("no such way")
	}
	results := make([][]trip, len(ways))
	for range b.rounds {
		for i, w := range ways {
			r, err := b.trip(t, w)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			results[i] = append(results[i], r)
		}
	}
	fmt.Printf("A round trip of a channel ping-pong, %d events, GOMAXPROCS=1, in processor time of the program. The cost of an event is the additional time of a round trip.\n\n", tripEvents)
	header("way", "ns a round trip", "ns an event", "Loupe's estimate", "relative to the first row", "events/s", "events a round trip, seen", "lost")
	var all []trip
	for _, r := range results {
		all = append(all, r...)
	}
	row("alone", number(median(all, func(t trip) float64 { return t.alone })), "", "", "", "", "", "")
	loupe := median(results[0], trip.event)
	for i, w := range ways {
		events := median(results[i], trip.event)
		rate, perTrip, lost, estimate := "", "", "", ""
		if results[i][0].estimate > 0 {
			estimate = number(median(results[i], func(t trip) float64 { return t.estimate / tripEvents }))
		}
		if results[i][0].events > 0 {
			rate = number(median(results[i], trip.rate))
			perTrip = number(median(results[i], func(t trip) float64 { return t.perTrip }))
			lost = percent(median(results[i], trip.lostPart))
		}
		row(w.name, number(median(results[i], func(t trip) float64 { return t.with })), number(events),
			estimate, fmt.Sprintf("%.2f", events/loupe), rate, perTrip, lost)
	}
	return nil
}

// trip measures one way, and the target alone before and after.
func (b *bench) trip(t *target, w way) (trip, error) {
	before, err := t.during(pingpong.passing(t, b.time/2))
	if err != nil {
		return trip{}, err
	}
	watcher, err := w.watch(b, t, observeCPU)
	if err != nil {
		return trip{}, err
	}
	work, seen, err := watched(pingpong, t, watcher, b.time)
	if err != nil {
		return trip{}, err
	}
	if err := watcher.close(); err != nil {
		return trip{}, err
	}
	time.Sleep(warmUp)
	after, err := t.during(pingpong.passing(t, b.time/2))
	if err != nil {
		return trip{}, err
	}
	trips := float64(work.ops) / work.took.Seconds() * seen.took.Seconds()
	return trip{
		seen: seen, alone: (before.per() + after.per()) / 2, with: work.per(), perTrip: float64(seen.events) / trips,
		estimate: float64(seen.inProbes.Nanoseconds()) / trips,
	}, nil
}

// watched lets a target work for a while under a watcher.
func watched(s scene, t *target, w watcher, d time.Duration) (work, seen, error) {
	time.Sleep(warmUp)
	if err := w.begin(); err != nil {
		return work{}, seen{}, err
	}
	done, err := t.during(s.passing(t, d))
	if err != nil {
		return work{}, seen{}, err
	}
	saw, err := w.end()
	return done, saw, err
}
