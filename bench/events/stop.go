package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// crowd is a program with many threads, of which some are busy.
type crowd struct {
	threads, busy int
	apart         bool // program and observer have a processor each, so that nothing but the stop makes gaps; else they share all
}

// crowds are the programs of table stop. Where they share the processors, the busy threads have none to spare.
var crowds = []crowd{{10, 1, true}, {100, 1, true}, {1000, 1, true}, {100, runtime.NumCPU(), false}}

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
	fmt.Printf("%d attachments, each by a new process: shortest, median and longest. The threads that are not busy wait in read(2).\n", b.rounds*stopsARound)
	fmt.Println("The busy threads read the clock continuously. The gap is the longest time between two readings, while Loupe attaches and detaches, and alone.")
	fmt.Println()
	header("threads", "busy", "processors", "attach, by the engine", "the longest gap meanwhile", "detach, by the engine", "the longest gap meanwhile", "the longest gap alone")
	for _, c := range crowds {
		results, err := b.stopCrowd(c)
		if err != nil {
			return fmt.Errorf("%d threads: %w", c.threads, err)
		}
		cells := []any{c.threads, c.busy, "shared with the observer"}
		if c.apart {
			cells[2] = "one each"
		}
		for _, value := range []func(stoodStill) time.Duration{
			func(s stoodStill) time.Duration { return s.Attach }, func(s stoodStill) time.Duration { return s.seenAttach },
			func(s stoodStill) time.Duration { return s.Detach }, func(s stoodStill) time.Duration { return s.seenDetach },
			func(s stoodStill) time.Duration { return s.seenAlone },
		} {
			cells = append(cells, spread(results, value))
		}
		row(cells...)
	}
	return nil
}

// spread returns the least, the median and the most.
func spread(results []stoodStill, value func(stoodStill) time.Duration) string {
	var all []float64
	for _, r := range results {
		all = append(all, float64(value(r)))
	}
	middle := median(all, func(v float64) float64 { return v })
	return duration(slices.Min(all)) + ", " + duration(middle) + ", " + duration(slices.Max(all))
}

// stopCrowd attaches to a program, and detaches, again and again.
func (b *bench) stopCrowd(c crowd) ([]stoodStill, error) {
	cpu, observer := anywhere, anywhere
	if c.apart {
		cpu, observer = targetCPU, observeCPU
	}
	procs := c.busy + 1 // one for what is neither busy nor locked
	t, err := b.startTarget("threads", procs, cpu, fmt.Sprint("-n=", c.threads), fmt.Sprint("-busy=", c.busy))
	if err != nil {
		return nil, err
	}
	defer t.Kill()
	var results []stoodStill
	for range b.rounds * stopsARound {
		r, err := b.stopOnce(t, observer)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// stopOnce attaches and detaches, by an observer on one processor or anywhere.
func (b *bench) stopOnce(t *target, cpu int) (r stoodStill, err error) {
	if _, err := t.gap(); err != nil {
		return r, err
	}
	time.Sleep(aloneTime)
	if r.seenAlone, err = t.gap(); err != nil {
		return r, err
	}
	w, err := b.startObserver(t, cpu, order{StackDepth: stacks, Inline: true})
	if err != nil {
		return r, err
	}
	if r.seenAttach, err = t.gap(); err != nil {
		return r, err
	}
	if err := w.p.AskJSON("detach", &r.standing); err != nil {
		return r, err
	}
	if r.seenDetach, err = t.gap(); err != nil {
		return r, err
	}
	return r, w.close()
}

// gap returns the longest time between two readings of the clock since it was asked before.
func (t *target) gap() (d time.Duration, err error) {
	line, err := t.Ask("gap")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(line, (*int64)(&d))
	return d, err
}
