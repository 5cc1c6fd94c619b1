//go:build go1.24
// +build go1.24

package main

import "runtime"

func init() {
	phases = append(phases, phase{"cleanup", 0, cleanups})
}

// cleanups waits for the runtime to run cleanups.
func cleanups() {
	ran := make(chan bool)
	for i := 0; i < 3; i++ {
		runtime.AddCleanup(new([64]int), func(ran chan<- bool) { ran <- true }, ran)
	}
	allocateUntil(ran, 3)
}
