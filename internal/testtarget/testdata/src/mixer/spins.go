//go:build go1.14
// +build go1.14

package main

import (
	"sync/atomic"
	"time"
)

// Before Go 1.14 nothing interrupts such a loop, and in a shared library before Go 1.18: of the releases in between, a mixer
// cannot be one.
func init() {
	kinds = append(kinds, &kind{name: "spins", work: spins, lone: true})
}

// Constants of a linear congruential generator modulo 2^64.
const factor, summand = 6364136223846793005, 1442695040888963407

// spins loops, without a call, until the collector has run twice. It can do so only by preempting the loop by signals, at
// any instruction.
func spins() {
	x, n, counted := spin(&collector.done, atomic.LoadInt64(&collector.done)+2)
	if want := jump(n); x != want || counted != float64(n) {
		fail("spins: %#x after %d steps (counted %v), want %#x", x, n, counted, want)
	}
	time.Sleep(5 * wait) // let others have the P
}

//go:noinline
func spin(word *int64, until int64) (x, n uint64, counted float64) {
	for atomic.LoadInt64(word) < until {
		x = x*factor + summand
		n++
		counted++
	}
	return x, n, counted
}

// jump returns the generator's state after n steps from 0.
func jump(n uint64) uint64 {
	var x uint64
	for f, s := uint64(factor), uint64(summand); n > 0; n >>= 1 {
		if n&1 != 0 {
			x = x*f + s
		}
		f, s = f*f, f*s+s
	}
	return x
}
