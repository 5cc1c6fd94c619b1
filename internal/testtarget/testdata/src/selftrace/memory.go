package main

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

func init() {
	phases = append(phases,
		phase{"collection", 2, collection},
		phase{"allocation", 4, allocation},
		phase{"finalizer", 0, finalizer},
		phase{"stopped world", 2, stoppedWorld},
	)
}

// collection collects while goroutines run whose stacks have to be scanned.
func collection() {
	stop, done := make(chan bool), make(chan bool)
	for i := 0; i < 2; i++ {
		go func() {
			for {
				select {
				case <-stop:
					done <- true
					return
				default:
					work(10000)
				}
			}
		}()
	}
	for i := 0; i < 3; i++ {
		runtime.GC()
	}
	close(stop)
	<-done
	<-done
}

// allocation has goroutines allocate faster than the collector likes, so that
// they have to help it and to wait for it.
func allocation() {
	before := debug.SetGCPercent(10)
	var all sync.WaitGroup
	all.Add(4)
	for i := 0; i < 4; i++ {
		go func() {
			var list *node
			for j := 0; j < 10000; j++ {
				list = &node{next: list}
				if j%2000 == 0 {
					list = nil
				}
			}
			all.Done()
		}()
	}
	all.Wait()
	debug.SetGCPercent(before)
}

// A node makes a list that takes the collector long to follow.
type node struct {
	next *node
	pad  [12]*node
}

// finalizer waits for the runtime's finalizer goroutine.
func finalizer() {
	ran := make(chan bool)
	for i := 0; i < 3; i++ {
		runtime.SetFinalizer(new([64]int), func(*[64]int) { ran <- true })
	}
	allocateUntil(ran, 3)
}

// allocateUntil makes garbage until so many messages have come. Unlike runtime.GC
// it does not spin while the memory is swept.
func allocateUntil(ran <-chan bool, messages int) {
	for messages > 0 {
		select {
		case <-ran:
			messages--
		default:
			garbage = make([]byte, 1<<16)
		}
	}
	garbage = nil
}

var garbage []byte

// stoppedWorld stops the world in several ways while goroutines move.
func stoppedWorld() {
	stop, done := make(chan bool), make(chan bool)
	for i := 0; i < 2; i++ {
		go func() {
			for {
				select {
				case <-stop:
					done <- true
					return
				case <-time.After(100 * time.Microsecond):
				}
			}
		}()
	}
	var stats runtime.MemStats
	stacks := make([]byte, 1<<20)
	records := make([]runtime.StackRecord, 1000)
	for i := 0; i < 5; i++ {
		runtime.ReadMemStats(&stats)
		runtime.Stack(stacks, true)
		runtime.GoroutineProfile(records)
		time.Sleep(200 * time.Microsecond)
	}
	close(stop)
	<-done
	<-done
}
