package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/loupe-go/loupe/bench/internal/program"
	"github.com/loupe-go/loupe/bench/memtrace/work"
	"github.com/loupe-go/loupe/memtrace"
)

// peer counts as the hook of package gotcha does: in a map by goroutine ID, guarded by a mutex. gotcha itself does not work with
// current releases of Go, so this is a model of what it does for an allocation. The ID is not looked up for each allocation, which
// favors the peer.
type peer struct {
	mu   sync.RWMutex
	sums map[int64]*[3]int64
}

func (p *peer) count(id, bytes int64) {
	p.mu.RLock()
	sums := p.sums[id]
	p.mu.RUnlock()
	if sums == nil {
		sums = &[3]int64{}
		p.mu.Lock()
		p.sums[id] = sums
		p.mu.Unlock()
	}
	sums[0] += bytes
	sums[1]++
	sums[2]++
}

// goroutineID returns the ID of the calling goroutine.
func goroutineID() int64 {
	b := make([]byte, 64)
	text := strings.Fields(string(b[:runtime.Stack(b, false)]))[1]
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return id
}

var sinks [16]*[64]byte

// counters compares the time that counting one allocation takes.
func counters(rounds int) error {
	const n = 2_000_000
	loop := func(thread int, count func()) {
		for range n {
			sinks[thread] = new([64]byte)
			count()
		}
	}
	none := func() {}
	fmt.Println("\n| threads | counting in memtrace: ns | in a map guarded by a mutex: ns | ratio |\n|---|---|---|---|")
	bare := map[int][]float64{}                          // before the allocator is patched
	timed(1, n, func(thread int) { loop(thread, none) }) // a warm heap
	for range rounds {
		for _, threads := range []int{1, runtime.NumCPU()} {
			bare[threads] = append(bare[threads], timed(threads, n, func(thread int) { loop(thread, none) }))
		}
	}
	for _, threads := range []int{1, runtime.NumCPU()} {
		alone := program.Median(bare[threads])
		var own, theirs []float64
		for range rounds {
			traced := timed(threads, n, func(thread int) {
				if err := memtrace.Trace(context.Background(), func(memtrace.Context) { loop(thread, none) }); err != nil {
					panic(err)
				}
			})
			p := peer{sums: map[int64]*[3]int64{}}
			counted := timed(threads, n, func(thread int) {
				id := goroutineID()
				loop(thread, func() { p.count(id, 64) })
			})
			own, theirs = append(own, traced-alone), append(theirs, counted-alone)
		}
		fmt.Printf("| %d | %.1f | %.1f | %.1f |\n", threads, program.Median(own), program.Median(theirs), program.Median(theirs)/program.Median(own))
	}
	return nil
}

// timed runs f in several goroutines and returns the nanoseconds of processor time for each of n rounds.
func timed(threads, n int, f func(thread int)) float64 {
	runtime.GC()
	var wg sync.WaitGroup
	before := work.CPU()
	for thread := range threads {
		wg.Add(1)
		go func() {
			defer wg.Done()
			f(thread)
		}()
	}
	wg.Wait()
	return float64(work.CPU()-before) / float64(threads*n)
}
