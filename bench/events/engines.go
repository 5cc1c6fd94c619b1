package main

import (
	"fmt"
	"time"
)

// engineWays are compared with a target that nobody watches. The tracer does not tell how many events it saw: they are
// taken to be as many an operation as the first way sees.
var engineWays = []way{
	loupeWay("loupe, engine inline", order{StackDepth: stacks, Inline: true}),
	loupeWay("loupe, engine uprobe", order{StackDepth: stacks}),
	loupeWay("the same at function entry", order{StackDepth: stacks, AtEntry: true}),
	tracerWay,
}

// engineScenes are the programs.
var engineScenes = []scene{pingpong, spawn, website, alloc}

// share is one measurement of a program that is watched, and what it does alone.
type share struct {
	seen
	alone, with work
}

// speed returns what is left of the operations a second.
func (r share) speed() float64 { return r.with.rate() / r.alone.rate() }

// extra returns the nanoseconds of processor time that an operation takes longer than alone.
func (r share) extra() float64 { return r.with.per() - r.alone.per() }

// perOp returns how many events an operation is; 0 when nobody has told.
func (r share) perOp() float64 {
	if r.events == 0 {
		return 0
	}
	return r.rate() / r.with.rate()
}

// sceneShares are the measurements of one program, by way.
type sceneShares [][]share

// engines prints what is left of programs, what an event costs them, and what is seen of them.
func (b *bench) engines() error {
	results := make([]sceneShares, len(engineScenes))
	for i, s := range engineScenes {
		var err error
		if results[i], err = b.shares(s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	fmt.Println("Operations a second relative to the unobserved program, and processor time of the program for an event.")
	fmt.Println()
	enginesHeader("of alone", "ns an event")
	cells := []any{"alone, a second"}
	for _, r := range results {
		cells = append(cells, number(median(r.all(), func(r share) float64 { return r.alone.rate() })), "")
	}
	row(cells...)
	enginesRows(results, func(r sceneShares, way int) (string, string) {
		return percent(median(r[way], share.speed)), number(r.event(way))
	})
	fmt.Println("\nEvents that Loupe received meanwhile.")
	fmt.Println()
	enginesHeader("events/s", "lost")
	enginesRows(results, func(r sceneShares, way int) (string, string) {
		if r[way][0].events == 0 {
			return "", ""
		}
		return number(median(r[way], share.rate)), percent(median(r[way], share.lostPart))
	})
	return nil
}

// enginesHeader prints the first lines of a table with two columns for each program.
func enginesHeader(first, second string) {
	names := []string{"way"}
	for _, s := range engineScenes {
		names = append(names, s.name+": "+first, second)
	}
	header(names...)
}

// enginesRows prints a line for each way.
func enginesRows(results []sceneShares, cell func(r sceneShares, way int) (first, second string)) {
	for i, w := range engineWays {
		cells := []any{w.name}
		for _, r := range results {
			first, second := cell(r, i)
			cells = append(cells, first, second)
		}
		row(cells...)
	}
}

// all are the measurements of all ways.
func (r sceneShares) all() (all []share) {
	for _, list := range r {
		all = append(all, list...)
	}
	return all
}

// event returns what an event costs the program, in nanoseconds of processor time.
func (r sceneShares) event(way int) float64 {
	perOp := median(r[way], share.perOp)
	if perOp == 0 {
		perOp = median(r[0], share.perOp)
	}
	return median(r[way], share.extra) / perOp
}

// shares measures a program under each way in turns, and alone before and after each.
func (b *bench) shares(s scene) (sceneShares, error) {
	t, err := b.start(s)
	if err != nil {
		return nil, err
	}
	defer t.Kill()
	results := make(sceneShares, len(engineWays))
	if err := s.pass(t, time.Second); err != nil { // the first seconds are slower
		return nil, err
	}
	before, err := t.during(s.passing(t, b.time))
	if err != nil {
		return nil, err
	}
	for range b.rounds {
		for i, w := range engineWays {
			r, err := b.share(s, t, w)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
			after, err := t.during(s.passing(t, b.time))
			if err != nil {
				return nil, err
			}
			r.alone = work{before.ops + after.ops, before.took + after.took, before.cpu + after.cpu}
			before = after
			results[i] = append(results[i], r)
		}
	}
	return results, nil
}

// share measures one way.
func (b *bench) share(s scene, t *target, w way) (r share, err error) {
	watcher, err := w.watch(b, t, s.observer())
	if err != nil {
		return r, err
	}
	if r.with, r.seen, err = watched(s, t, watcher, b.time); err != nil {
		return r, err
	}
	if err := watcher.close(); err != nil {
		return r, err
	}
	time.Sleep(warmUp)
	return r, nil
}
