//go:build go1.23
// +build go1.23

package main

import (
	"iter"
	"slices"
)

func init() { exhibit(showIterators) }

func showIterators() {
	go rangeOverFunc()
	go rangeOverFuncNested()
	go insideIterator()
	go pull()
	// A coroutine that was started and waits to be resumed, by a goroutine
	// that goes on.
	next, stop := iter.Pull(numbers)
	next()
	kept = append(kept, stop)
	go pulledInside()
}

func numbers(yield func(int) bool) {
	for i := 0; yield(i); i++ {
	}
}

func rangeOverFunc() {
	for range numbers {
		<-never
	}
}

func rangeOverFuncNested() {
	for i := range numbers {
		for _, s := range slices.Backward([]string{"a", "b"}) {
			defer println(i, s)
			<-never
		}
	}
}

func insideIterator() {
	for range func(yield func() bool) { <-never } {
	}
}

// pull rests beside a coroutine that never ran.
func pull() {
	next, stop := iter.Pull(numbers)
	defer stop()
	<-never
	next()
}

// pulledInside waits for a coroutine that rests itself.
func pulledInside() {
	next, stop := iter.Pull(func(yield func(int) bool) { <-never })
	defer stop()
	next()
}
