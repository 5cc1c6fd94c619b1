package main

import (
	"runtime"
	"time"
)

// scene is a target and what it does while it is observed.
type scene struct {
	name    string
	program string
	args    []string
	apart   bool // GOMAXPROCS=1, and target and observer have a processor each; else they share all
	wrk     bool // a web server that is under load
}

// The scenes that keep a target busy.
var (
	pingpong = scene{name: "ping-pong", program: "pingpong", apart: true}
	website  = scene{name: "web server", program: "web", wrk: true}
)

// busy are all of them.
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

// start starts the target.
func (b *bench) start(s scene) (*target, error) {
	if s.apart {
		return b.startTarget(s.program, 1, targetCPU, s.args...)
	}
	return b.startTarget(s.program, runtime.NumCPU(), anywhere, s.args...)
}

// observe starts an observer of a scene's target.
func (b *bench) observe(s scene, t *target, o order) (*loupeWatcher, error) {
	if s.apart {
		return b.startObserver(t, observeCPU, o)
	}
	return b.startObserver(t, anywhere, o)
}

// pass lets the target do what it does for a while.
func (s scene) pass(t *target, d time.Duration) error {
	if s.wrk {
		_, err := runWrk(t.ready, d)
		return err
	}
	time.Sleep(d)
	return nil
}

// watch measures what an observer sees of a scene.
func (b *bench) watch(s scene, t *target, o order) (seen, error) {
	w, err := b.observe(s, t, o)
	if err != nil {
		return seen{}, err
	}
	time.Sleep(warmUp)
	if err := w.begin(); err != nil {
		return seen{}, err
	}
	if err := s.pass(t, b.time); err != nil {
		return seen{}, err
	}
	result, err := w.end()
	if err != nil {
		return seen{}, err
	}
	return result, w.close()
}
