// Command crowd is the target of the snapshot benchmark. It has many parked goroutines and a workload whose speed it
// measures.
//
//	crowd GOROUTINES
//
// It serves HTTP on a free port, which it prints:
//
//	/ops                   number of operations, time in nanoseconds on the monotonic clock, and the longest time in
//	                       nanoseconds between two operations since the previous request
//	/debug/pprof/          the profiles of the runtime
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

var (
	ops     atomic.Int64
	longest atomic.Int64
	start   = time.Now()
)

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	park(n)
	go work()
	http.HandleFunc("/ops", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, ops.Load(), time.Since(start).Nanoseconds(), longest.Swap(0))
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening", l.Addr())
	log.Fatal(http.Serve(l, nil))
}

// park starts n goroutines that wait in different ways, at stacks of a usual depth.
func park(n int) {
	var started sync.WaitGroup
	never, full, mutex := make(chan int), make(chan int), new(sync.Mutex)
	mutex.Lock()
	kinds := []func(){
		func() { <-never },
		func() {
			select {
			case <-never:
			case full <- 1:
			}
		},
		func() { time.Sleep(24 * time.Hour) },
		func() { mutex.Lock() },
	}
	for i := range n {
		started.Add(1)
		go descend(4+i%8, &started, kinds[i%len(kinds)])
	}
	started.Wait()
	time.Sleep(time.Second)
}

//go:noinline
func descend(depth int, started *sync.WaitGroup, wait func()) {
	if depth > 0 {
		descend(depth-1, started, wait)
		return
	}
	started.Done()
	wait()
}

// work passes a token between two goroutines and computes a little at each turn.
func work() {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for v := range ping {
			pong <- v + 1
		}
	}()
	last := time.Now()
	for v := 0; ; {
		ping <- v
		v = <-pong
		for range 200 {
			v = v*31 + 7
		}
		now := time.Now()
		if gap := now.Sub(last).Nanoseconds(); gap > longest.Load() {
			longest.Store(gap)
		}
		last = now
		ops.Add(1)
	}
}
