// Command flood parks many goroutines and does work whose speed can be read.
//
//	flood GOROUTINES WORKERS
//
// It adds the command
//
//	ops      `ops <operations done> <monotonic nanoseconds>`
package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A lot is what the parked goroutines share.
type lot struct {
	parked  int64 // goroutines at their place, counted just before they park
	never   chan int
	another chan int
	mu      [16]sync.Mutex
}

func main() {
	goroutines, workers := argument(1, 1000), argument(2, 2)
	l := &lot{never: make(chan int), another: make(chan int)}
	for i := range l.mu {
		l.mu[i].Lock()
	}
	for i := 0; i < goroutines; i++ {
		switch i % 4 {
		case 0:
			go l.receiver(i)
		case 1:
			go l.selector(i)
		case 2:
			go l.sleeper(i)
		case 3:
			go l.locker(i)
		}
	}
	for atomic.LoadInt64(&l.parked) < int64(goroutines) {
		time.Sleep(time.Millisecond)
	}
	// The last to be counted still have a few instructions to go. Stacks of very many would take too long to write.
	time.Sleep(50 * time.Millisecond)
	for goroutines <= 20000 && moving() {
		time.Sleep(10 * time.Millisecond)
	}

	crew := make([]*worker, workers)
	for i := range crew {
		crew[i] = &worker{out: make(chan uint64), back: make(chan uint64)}
		go crew[i].work()
		go crew[i].answer()
	}
	serve(false, map[string]command{"ops": func([]string) string {
		var total uint64
		for _, w := range crew {
			total += atomic.LoadUint64(&w.done)
		}
		return fmt.Sprintf("ops %d %d", total, monotonic())
	}})
}

// moving says whether a goroutine other than this one moves.
func moving() bool {
	for _, g := range bytes.Split(allStacks(), []byte("\n\n"))[1:] {
		if moves(g) {
			return true
		}
	}
	return false
}

// argument returns the number at a place of the command line.
func argument(place, otherwise int) int {
	if len(os.Args) <= place {
		return otherwise
	}
	n, err := strconv.Atoi(os.Args[place])
	if err != nil || n < 0 {
		fmt.Fprintf(os.Stderr, "flood: argument %d: %q is not a count\n", place, os.Args[place])
		os.Exit(2)
	}
	return n
}

func (l *lot) receiver(i int) { l.descend(i%8, func() { <-l.never }) }

func (l *lot) selector(i int) {
	l.descend(i%8, func() {
		select {
		case <-l.never:
		case v := <-l.another:
			_ = v
		}
	})
}

func (l *lot) sleeper(i int) { l.descend(i%8, func() { time.Sleep(24 * time.Hour) }) }

func (l *lot) locker(i int) { l.descend(i%8, l.mu[i%len(l.mu)].Lock) }

// descend gives the parked goroutines stacks of different depth.
//
//go:noinline
func (l *lot) descend(frames int, park func()) {
	if frames > 0 {
		l.descend(frames-1, park)
		return
	}
	atomic.AddInt64(&l.parked, 1)
	park()
}

// A worker does the same small operation for ever: some arithmetic, some map
// accesses, and a round trip over two channels. It allocates nothing, so that
// its speed does not depend on the collector's mood.
type worker struct {
	done uint64
	out  chan uint64
	back chan uint64
	_    [64]byte // keeps the counters of two workers on two cache lines
}

func (w *worker) work() {
	table := make(map[uint64]uint64, 1024)
	x := uint64(1)
	for {
		for i := 0; i < 32; i++ {
			x = x*6364136223846793005 + 1442695040888963407
			table[x>>54]++
		}
		w.out <- x
		x ^= <-w.back
		atomic.AddUint64(&w.done, 1)
	}
}

func (w *worker) answer() {
	for x := range w.out {
		w.back <- x >> 7
	}
}
