//go:build go1.24
// +build go1.24

package main

import (
	"runtime"
	"time"
)

func init() { exhibit(showCleanup) }

// showCleanup makes the runtime start a goroutine for cleanups.
func showCleanup() {
	ran := make(chan bool)
	func() {
		garbage := new([64]int)
		runtime.AddCleanup(garbage, func(c chan bool) { c <- true }, ran)
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
