// Command threads calls Go functions on threads that C code has started, and compares the events of system calls and processors. Such a thread
// keeps its processor between two calls, while it has no goroutine.
package main

/*
#cgo LDFLAGS: -lpthread
#include <pthread.h>
#include <unistd.h>

enum { threads = 4, calls = 50 };
extern void called(int);

static void *thread(void *unused) {
	for (int i = 0; i < calls; i++) {
		called(i);
		if (i % 25 == 0)
			usleep(12000); // the runtime takes the processor after 10 ms at most
	}
	return 0;
}

static void run(void) {
	pthread_t list[threads];
	for (int i = 0; i < threads; i++)
		pthread_create(&list[i], 0, thread, 0);
	for (int i = 0; i < threads; i++)
		pthread_join(list[i], 0);
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"sync/atomic"
	"time"

	"github.com/loupe-go/loupe/glti"
)

// The events, as in the runtime.
const (
	procStart = 5
	procStop  = 6
	start     = 14
	sysCall   = 28
	sysExit   = 29
	sysBlock  = 30
	rounds    = 3
)

var count atomic.Int64

//export called
func called(i C.int) {
	count.Add(1)
	c := make(chan int)
	go func() { c <- 1 }()
	<-c
	if i%10 == 0 {
		runtime.GC()
	}
}

func main() {
	var list []glti.Record
	stop, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		glti.Quiet()
		for ended := false; !ended; {
			select {
			case <-stop:
				ended = true
			default:
				time.Sleep(time.Millisecond / 2)
			}
			list = append(list, glti.Drain()...)
		}
	}()
	glti.Enable(procStart, procStop, start, sysCall, sysExit, sysBlock)
	for i := 0; i < rounds; i++ {
		C.run()
	}
	glti.Enable()
	close(stop)
	<-done
	check(count.Load() == rounds*C.threads*C.calls, "calls", count.Load())
	if glti.Lost() == 0 { // otherwise a begin or an end may be missing
		sequence(list)
	}
	fmt.Println("ok", len(list), glti.Lost())
}

// sequence checks in which order events follow each other.
func sequence(list []glti.Record) {
	sort.SliceStable(list, func(i, j int) bool { return list[i].Time < list[j].Time })
	state, procs, seen := map[uint64]uint8{}, map[int32]uint8{}, map[uint8]int{}
	for _, r := range list {
		was := state[r.Goid]
		seen[r.Event]++
		switch r.Event {
		case procStart, procStop:
			check(procs[r.P] != r.Event, "a processor starts or stops twice", r)
			procs[r.P] = r.Event
			continue
		case sysCall:
			check(was != sysCall && was != sysBlock, "a system call in another", r)
		case sysBlock:
			check(was == sysCall, "blocked in no system call", r)
		case sysExit:
			check(r.Args[1] == 0 || was == sysCall, "a processor that was kept", r)
		case start:
			check(was != sysCall && was != sysBlock, "a start in a system call", r)
		}
		state[r.Goid] = r.Event
	}
	for _, event := range []uint8{procStart, procStop, start, sysCall, sysExit, sysBlock} {
		check(seen[event] > 0, "no event", event)
	}
}

func check(ok bool, what string, value any) {
	if !ok {
		fmt.Printf("wrong: %s: %+v\n", what, value)
		os.Exit(1)
	}
}
