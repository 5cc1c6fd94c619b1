package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"time"
)

// children starts a program that calculates, and ends with a status of its own.
func children() {
	n := time.Now().Nanosecond()
	out, err := exec.Command("/bin/sh", "-c", fmt.Sprintf("echo $((%d + 1)); exit 3", n)).Output()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 3 || string(out) != fmt.Sprintln(n+1) {
		fail("children: %q and %v for %d", out, err, n)
	}
	time.Sleep(5 * wait) // they are dear
}

// newProcs returns work that changes the number of Ps, which stops the world.
func newProcs() func() {
	now, next := runtime.GOMAXPROCS(0), 1
	most := 2*now + 1
	return func() {
		if was := runtime.GOMAXPROCS(next); was != now {
			fail("procs: there were %d, want %d", was, now)
		}
		now, next = next, next%most+1
		time.Sleep(wait)
	}
}

// collect lets the collector run, and with it stacks shrink.
func collect() {
	runtime.GC()
	time.Sleep(5 * time.Millisecond)
}
