// Command shift has goroutines that sleep and compute in turn, and that measure the time of both.
//
//	shift NAPPERS WAITERS SLEEP COMPUTE
//
// Each napper sleeps and computes for so many microseconds by the clock, with the profiler label job=nap. Each waiter receives from a
// channel forever. It adds the command
//
//	books    `books <sleeps> <ns in sleeps> <computations> <ns in computations> <goroutines>`, of all nappers so far
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"time"
)

var napTime, workTime time.Duration

var sleeps, sleeping, computations, computing int64

func main() {
	nappers, waiters := argument(1), argument(2)
	napTime, workTime = time.Duration(argument(3))*time.Microsecond, time.Duration(argument(4))*time.Microsecond
	never := make(chan int)
	for i := 0; i < nappers; i++ {
		go pprof.Do(context.Background(), pprof.Labels("job", "nap"), napper)
		time.Sleep(3 * time.Millisecond) // so that they do not move in step
	}
	for i := 0; i < waiters; i++ {
		go waiter(never)
	}
	time.Sleep(50 * time.Millisecond)
	serve(false, map[string]command{"books": func([]string) string {
		return fmt.Sprintf("books %d %d %d %d %d", atomic.LoadInt64(&sleeps), atomic.LoadInt64(&sleeping), atomic.LoadInt64(&computations),
			atomic.LoadInt64(&computing), runtime.NumGoroutine())
	}})
}

func argument(place int) int {
	n, err := strconv.Atoi(os.Args[place])
	if err != nil {
		fmt.Fprintf(os.Stderr, "shift: argument %d: %v\n", place, err)
		os.Exit(2)
	}
	return n
}

//go:noinline
func waiter(never chan int) { <-never }

//go:noinline
func napper(context.Context) {
	for {
		begin := time.Now()
		nap()
		slept := time.Now()
		compute(slept)
		atomic.AddInt64(&sleeps, 1)
		atomic.AddInt64(&sleeping, int64(slept.Sub(begin)))
		atomic.AddInt64(&computations, 1)
		atomic.AddInt64(&computing, int64(time.Since(slept)))
	}
}

//go:noinline
func nap() { time.Sleep(napTime) }

var sink uint64

//go:noinline
func compute(begin time.Time) {
	for time.Since(begin) < workTime {
		sink += spin(2000)
	}
}

//go:noinline
func spin(n uint64) (sum uint64) {
	for i := uint64(0); i < n; i++ {
		sum += i*i ^ sum>>3
	}
	return sum
}
