// Command spawn is a target of the events benchmark: it starts goroutines that end at once, sixteen at a time, and waits for
// them. It is steered by lines, see package control; an operation is a goroutine.
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
