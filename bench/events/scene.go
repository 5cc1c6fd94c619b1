package main

import (
	"runtime"
	"slices"
	"time"
)

// scene is a target and what it does while it is observed.
type scene struct {
	name    string
	program string
	args    []string
	apart   bool // GOMAXPROCS=1, target (and wrk) have one processor and the observer another; else they share all
	wrk     int  // connections to a web server that is under load; 0: it is none
}

// The scenes that keep a target busy.
var (
	pingpong = scene{name: "ping-pong", program: "pingpong", apart: true}
	spawn    = scene{name: "spawn", program: "spawn", apart: true}
	website  = scene{name: "web server", program: "web", wrk: 10}
	alloc    = scene{name: "allocation", program: "alloc"}
)

// busy are those whose observer is looked at.
var busy = []scene{pingpong, website}

// depth is an observer with or without stacks, for the tables that are about the observer.
type depth struct {
	name string
	order
}

var depths = []depth{
	{"with stacks", order{StackDepth: stacks}},
	{"without stacks", order{StackDepth: noStacks}},
}

// engineDepths are the same with both engines.
var engineDepths = append(slices.Clone(depths),
	depth{"engine inline, with stacks", order{StackDepth: stacks, Inline: true}},
	depth{"engine inline, without stacks", order{StackDepth: noStacks, Inline: true}})

// start starts the target.
func (b *bench) start(s scene) (*target, error) {
	procs := runtime.NumCPU()
	if s.apart {
		procs = 1
	}
	return b.startTarget(s.program, procs, s.cpu(), s.args...)
}

// cpu returns the processor of a scene's target, and of wrk.
func (s scene) cpu() int {
	if s.apart {
		return targetCPU
	}
	return anywhere
}

// observer returns the processor of a scene's observers.
func (s scene) observer() int {
	if s.apart {
		return observeCPU
	}
	return anywhere
}

// pass lets the target do what it does for a while.
func (s scene) pass(t *target, d time.Duration) error {
	if s.wrk > 0 {
		_, err := runWrk(t.ready, s.wrk, s.cpu(), d)
		return err
	}
	time.Sleep(d)
	return nil
}

// passing is pass as a function.
func (s scene) passing(t *target, d time.Duration) func() error {
	return func() error { return s.pass(t, d) }
}

// watch measures what an observer sees of a scene.
func (b *bench) watch(s scene, t *target, o order) (seen, error) {
	w, err := b.startObserver(t, s.observer(), o)
	if err != nil {
		return seen{}, err
	}
	_, result, err := watched(s, t, w, b.time)
	if err != nil {
		return seen{}, err
	}
	return result, w.close()
}
