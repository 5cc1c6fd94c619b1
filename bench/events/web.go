package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/loupe-go/loupe/bench/internal/wrk"
	"github.com/loupe-go/loupe/internal/probe/inline"
)

// webWays are compared with a server that nobody watches; the first is full tracing.
var webWays = []way{
	loupeWay("loupe", order{StackDepth: stacks}),
	loupeWay("loupe, without stacks", order{StackDepth: noStacks}),
	loupeWay("loupe, engine inline", order{StackDepth: stacks, Inline: true}),
	loupeWay("loupe, engine inline, without stacks", order{StackDepth: noStacks, Inline: true}),
	loupeWay("loupe, engine inline, coarse times", order{StackDepth: stacks, Inline: true, Clock: inline.SourceCoarse}),
	commandWay("loupe trace --engine inline, to /dev/null", "trace", "-q", "--engine", "inline"),
	bystanderWay,
	loupeWay("the hits alone: loupe's probes, disabled", order{StackDepth: stacks, Asleep: true}),
	loupeWay("the same at function entry", order{StackDepth: stacks, AtEntry: true}),
	bpftraceWay("runtime.gopark", "runtime.ready", "runtime.execute", "runtime.goschedImpl", "runtime.newproc1",
		"runtime.goexit0", "runtime.injectglist"),
	tracerWay,
}

// visit is one measurement of the web server.
type visit struct {
	seen
	alone float64 // requests a second before and after
	with  load
}

// load is one run of wrk and what it cost the server.
type load struct {
	wrk.Result
	cpu float64 // nanoseconds of the server's processor time a request
}

// websites are servers and loads: a trivial one, where next to nothing happens but events; the same with enough connections
// that there is always something to do; one that works for its answer; and the first, with one processor left to the observer.
var websites = []scene{
	website,
	{name: "web server", program: "web", wrk: 100},
	{name: "web server that answers with 100 orders as JSON", program: "web", args: []string{"-orders=100"}, wrk: 10},
	{name: "web server that shares a processor with wrk and leaves the other one to the observer", program: "web", apart: true, wrk: 10},
}

// web prints how many requests a second servers answer.
func (b *bench) web() error {
	fmt.Printf("GOMAXPROCS=%d, under wrk -t1. Except for the last server, server, wrk and observer share all processors.\n", runtime.NumCPU())
	for _, s := range websites {
		if err := b.website(s); err != nil {
			return err
		}
	}
	return nil
}

// website prints the same of one server.
func (b *bench) website(s scene) error {
	t, err := b.start(s)
	if err != nil {
		return err
	}
	defer t.Kill()
	ways := b.chosen(webWays)
	results, alone, err := b.visits(s, t, ways)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s, %d connections:\n\n", s.name, s.wrk)
	header("way", "requests/s", "relative to alone", "p50", "p99", "server's processor time a request", "events/s", "lost")
	row("alone", number(median(alone, func(r load) float64 { return r.Rate })), "",
		duration(median(alone, func(r load) float64 { return float64(r.P50) })),
		duration(median(alone, func(r load) float64 { return float64(r.P99) })),
		duration(median(alone, func(r load) float64 { return r.cpu })), "", "")
	for i, w := range ways {
		r := results[i]
		rate, lost := "", ""
		if r[0].events > 0 {
			rate = number(median(r, visit.rate))
			lost = percent(median(r, visit.lostPart))
		}
		row(w.name, number(median(r, func(v visit) float64 { return v.with.Rate })),
			percent(median(r, func(v visit) float64 { return v.with.Rate / v.alone })),
			duration(median(r, func(v visit) float64 { return float64(v.with.P50) })),
			duration(median(r, func(v visit) float64 { return float64(v.with.P99) })),
			duration(median(r, func(v visit) float64 { return v.with.cpu })), rate, lost)
	}
	return nil
}

// visits measures ways in turns. The server alone is measured before, between and after.
func (b *bench) visits(s scene, t *target, ways []way) (results [][]visit, alone []load, err error) {
	results = make([][]visit, len(ways))
	if _, err := b.load(s, t); err != nil { // the first seconds are slower
		return nil, nil, err
	}
	before, err := b.load(s, t)
	if err != nil {
		return nil, nil, err
	}
	alone = append(alone, before)
	for range b.rounds {
		for i, w := range ways {
			v, err := b.visit(s, t, w)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", w.name, err)
			}
			after, err := b.load(s, t)
			if err != nil {
				return nil, nil, err
			}
			v.alone = (before.Rate + after.Rate) / 2
			before, alone = after, append(alone, after)
			results[i] = append(results[i], v)
		}
	}
	return results, alone, nil
}

// visit measures one way.
func (b *bench) visit(s scene, t *target, w way) (v visit, err error) {
	watcher, err := w.watch(b, t, s.observer())
	if err != nil {
		return v, err
	}
	time.Sleep(warmUp)
	if err := watcher.begin(); err != nil {
		return v, err
	}
	if v.with, err = b.load(s, t); err != nil {
		return v, err
	}
	if v.seen, err = watcher.end(); err != nil {
		return v, err
	}
	return v, watcher.close()
}

// load runs wrk.
func (b *bench) load(s scene, t *target) (l load, err error) {
	used, err := t.during(func() (err error) {
		l.Result, err = runWrk(t.ready, s.wrk, s.cpu(), b.time)
		return err
	})
	l.cpu = float64(used.cpu.Nanoseconds()) / float64(l.Requests)
	return l, err
}

// duration prints a time given in nanoseconds.
func duration(ns float64) string {
	d := time.Duration(ns)
	switch {
	case d < 10*time.Microsecond:
		return d.Round(10 * time.Nanosecond).String()
	case d < 10*time.Millisecond:
		return d.Round(time.Microsecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// agent prints what the observer itself uses while the server is under full load.
func (b *bench) agent() error {
	t, err := b.start(website)
	if err != nil {
		return err
	}
	defer t.Kill()
	var ways []way
	for _, d := range engineDepths {
		ways = append(ways, loupeWay("loupe, "+d.name, d.order))
	}
	results, _, err := b.visits(website, t, ways)
	if err != nil {
		return err
	}
	fmt.Println("The observer of a server under wrk, which passes events to the state machine. The buffer counts twice, because it is mapped twice in a row.")
	fmt.Println()
	header("way", "events/s", "processors used", "processor time for 100,000 events", "peak resident memory", "of that the buffer")
	for i, w := range ways {
		r := results[i]
		row(w.name, number(median(r, visit.rate)),
			fmt.Sprintf("%.3f", median(r, visit.processors)),
			duration(median(r, func(v visit) float64 { return float64(v.cpu) / float64(v.events-v.lost) * 100_000 })),
			megabytes(median(r, func(v visit) float64 { return float64(v.peak) })),
			megabytes(median(r, func(v visit) float64 { return float64(v.buffer) })))
	}
	return nil
}

func megabytes(bytes float64) string { return fmt.Sprintf("%.1f MB", bytes/1e6) }
