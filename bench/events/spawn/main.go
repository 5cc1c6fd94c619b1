// Command spawn is a target of the events benchmark. It starts sixteen goroutines at a time, which exit immediately,
// and waits for them. Commands on standard input control the program (see package control). An operation is a
// goroutine.
package main

import (
	"sync"
	"sync/atomic"

	"github.com/loupe-go/loupe/bench/events/control"
)

const brood = 16

func main() {
	var ended atomic.Int64
	go spawn(&ended)
	control.Serve("ready", ended.Load)
}

func spawn(ended *atomic.Int64) {
	var wait sync.WaitGroup
	for {
		wait.Add(brood)
		for range brood {
			go wait.Done()
		}
		wait.Wait()
		ended.Add(brood)
	}
}
