package main

import (
	"fmt"
	"slices"
	"time"
)

// crowds are the programs of table stop. Two threads that read the clock are as many as there are processors, so that the
// observer has to take one from them.
var crowds = []struct{ threads, busy int }{{10, 1}, {100, 1}, {100, 2}, {1000, 1}}

const (
	// stopsARound is how often an observer attaches in a round.
	stopsARound = 4
	// aloneTime is how long a program is looked at alone: as long as an observer takes, from its start to its end.
	aloneTime = 250 * time.Millisecond
)

// standing is how long all threads of a process stood still, as engine inline says.
type standing struct{ Attach, Detach time.Duration }

// stoodStill is one attachment: what the engine says, and the longest gaps that the program's own threads have seen
// meanwhile, and alone.
type stoodStill struct {
	standing
	seenAttach, seenDetach, seenAlone time.Duration
}

// stop prints for how long engine inline makes a program stand still.
func (b *bench) stop() error {
	fmt.Printf("%d attachments, each by a new process: median and longest. The threads that are not busy wait in read(2).\n", b.rounds*stopsARound)
	fmt.Println("The busy ones read the clock all the time: the longest time between two readings, while Loupe attaches and detaches, and without.")
	fmt.Println()
	header("threads", "busy", "attach, by the engine", "the longest gap meanwhile", "detach, by the engine", "the longest gap meanwhile", "the longest gap alone")
	for _, c := range crowds {
		results, err := b.stopCrowd(c.threads, c.busy)
		if err != nil {
			return fmt.Errorf("%d threads: %w", c.threads, err)
		}
		cells := []any{c.threads, c.busy}
		for _, value := range []func(stoodStill) time.Duration{
			func(s stoodStill) time.Duration { return s.Attach }, func(s stoodStill) time.Duration { return s.seenAttach },
			func(s stoodStill) time.Duration { return s.Detach }, func(s stoodStill) time.Duration { return s.seenDetach },
			func(s stoodStill) time.Duration { return s.seenAlone },
		} {
			cells = append(cells, medianAndMost(results, value))
		}
		row(cells...)
	}
	return nil
}

func medianAndMost(results []stoodStill, value func(stoodStill) time.Duration) string {
	of := func(s stoodStill) float64 { return float64(value(s)) }
	most := value(slices.MaxFunc(results, func(a, b stoodStill) int { return int(value(a) - value(b)) }))
	return duration(median(results, of)) + ", " + duration(float64(most))
}

// stopCrowd attaches to a program with so many threads, and detaches, again and again.
func (b *bench) stopCrowd(threads, busy int) ([]stoodStill, error) {
	procs := busy + 1 // one for what is neither busy nor locked
	t, err := b.startTarget("threads", procs, anywhere, fmt.Sprint("-n=", threads), fmt.Sprint("-busy=", busy))
	if err != nil {
		return nil, err
	}
	defer t.kill()
	var results []stoodStill
	for range b.rounds * stopsARound {
		r, err := b.stopOnce(t)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// stopOnce attaches and detaches.
func (b *bench) stopOnce(t *target) (r stoodStill, err error) {
	if _, err := t.gap(); err != nil {
		return r, err
	}
	time.Sleep(aloneTime)
	if r.seenAlone, err = t.gap(); err != nil {
		return r, err
	}
	w, err := b.startObserver(t, anywhere, order{StackDepth: stacks, Inline: true})
	if err != nil {
		return r, err
	}
	if r.seenAttach, err = t.gap(); err != nil {
		return r, err
	}
	if err := w.p.askJSON("detach", &r.standing); err != nil {
		return r, err
	}
	if r.seenDetach, err = t.gap(); err != nil {
		return r, err
	}
	return r, w.close()
}

// gap returns the longest time between two readings of the clock since it was asked before.
func (t *target) gap() (d time.Duration, err error) {
	line, err := t.ask("gap")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(line, (*int64)(&d))
	return d, err
}
