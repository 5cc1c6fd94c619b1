//go:build go1.23
// +build go1.23

package main

import "iter"

func init() {
	phases = append(phases, phase{"coroutine", 1, coroutines})
}

// coroutines pulls values out of iterators: one to its end, one that is stopped
// early, one that was never begun, one from two goroutines, one that panics.
func coroutines() {
	pull(20, 30)
	pull(20, 5)
	pull(20, 0)
	next, stop := iter.Pull(upTo(10))
	next()
	done := make(chan bool)
	go func() {
		next()
		next()
		done <- true
	}()
	<-done
	next()
	stop()
	bad, stop := iter.Pull(func(func(int) bool) { panic("bad iterator") })
	func() {
		defer func() { _ = recover() }()
		bad()
	}()
	stop()
}

// pull takes so many values of an iterator of length numbers.
func pull(length, take int) {
	next, stop := iter.Pull(upTo(length))
	defer stop()
	for i := 0; i < take; i++ {
		next()
	}
}

func upTo(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n && yield(i); i++ {
		}
	}
}
