package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"time"
)

func init() {
	exhibit(showThreads)
	exhibit(showLabels)
	go fromInit()
}

func fromInit() { <-never }

func showThreads() {
	go lockedToThread()
	go lockedSleeper()
}

func lockedToThread() {
	runtime.LockOSThread()
	<-never
}

func lockedSleeper() {
	runtime.LockOSThread()
	time.Sleep(1000 * time.Hour)
}

// showLabels makes goroutines whose pprof labels are of every kind that a
// reader could stumble over.
func showLabels() {
	labelled("one", "key", "value")
	labelled("unicode", "größe", "大きい", "emoji", "🔍")
	labelled("empty", "empty value", "", "", "empty key")
	labelled("hostile", "quote", `"a" 'b' \c`, "lines", "first\nsecond\ttab\r", "escape", "\x1b[31mred",
		"brace", "}]:, {", "invalid", "\xff\xfe", "nul", "a\x00b")
	// Releases that keep labels in a map need a second bucket from nine on.
	var many []string
	for i := 0; i < 20; i++ {
		many = append(many, fmt.Sprintf("label%02d", i), fmt.Sprintf("value %d", i*i))
	}
	labelled("many", many...)
	// A goroutine inherits the labels of its creator.
	pprof.Do(context.Background(), pprof.Labels("request", "42", "inherited", "yes"), func(context.Context) {
		go inheritedLabels()
	})
	// Labels that were set and taken away again leave an empty set.
	go clearedLabels()
}

func labelled(name string, labels ...string) {
	go pprof.Do(context.Background(), pprof.Labels(append(labels, "exhibit", name)...), labelledRest)
}

func labelledRest(context.Context) { <-never }

func inheritedLabels() { <-never }

func clearedLabels() {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("gone", "soon")))
	pprof.SetGoroutineLabels(context.Background())
	<-never
}

// showFinalizer makes the runtime start its finalizer goroutine.
func showFinalizer(blocked bool) {
	ran := make(chan bool)
	func() {
		garbage := new([64]int)
		runtime.SetFinalizer(garbage, func(*[64]int) { finalizer(ran, blocked) })
	}()
	for {
		runtime.GC()
		select {
		case <-ran:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func finalizer(ran chan<- bool, blocked bool) {
	ran <- true
	if blocked {
		<-never
	}
}
