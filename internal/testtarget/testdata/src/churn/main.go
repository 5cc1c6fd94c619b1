// Churn starts and ends goroutines as fast as it can. Each does a piece of work
// with a known result, on a path that grows its stack, allocates, panics and
// recovers, so that harm done to the program shows in the check sum.
//
//	churn SPAWNERS
//
// It adds the commands
//
//	sum      `sum ok <goroutines ended> <monotonic nanoseconds>`, or
//	         `sum bad <wrong results> <the first one>`
//	ops      `ops <goroutines ended> <monotonic nanoseconds>`
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A tally counts the results of all workers.
type tally struct {
	ended int64
	wrong int64
	mu    sync.Mutex
	first string // the first wrong result
}

func main() {
	spawners := 4
	if len(os.Args) > 1 {
		n, err := strconv.Atoi(os.Args[1])
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "churn: %q is not a count of spawners\n", os.Args[1])
			os.Exit(2)
		}
		spawners = n
	}
	t := new(tally)
	for i := 0; i < spawners; i++ {
		go t.spawner(uint64(i))
	}
	go collector()
	serve(false, map[string]command{"sum": t.sum, "ops": t.ops})
}

func (t *tally) ops([]string) string {
	return fmt.Sprintf("ops %d %d", atomic.LoadInt64(&t.ended), monotonic())
}

func (t *tally) sum([]string) string {
	if wrong := atomic.LoadInt64(&t.wrong); wrong > 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		return fmt.Sprintf("sum bad %d %s", wrong, t.first)
	}
	return fmt.Sprintf("sum ok %d %d", atomic.LoadInt64(&t.ended), monotonic())
}

// collector keeps the garbage collector, and with it stack shrinking, busy.
func collector() {
	for range time.Tick(5 * time.Millisecond) {
		runtime.GC()
	}
}

// spawner starts workers in small batches and waits for each batch.
func (t *tally) spawner(seed uint64) {
	var batch sync.WaitGroup
	for {
		for i := 0; i < 16; i++ {
			seed = seed*6364136223846793005 + 1442695040888963407
			batch.Add(1)
			go t.worker(seed>>32, &batch)
		}
		batch.Wait()
	}
}

// worker does one piece of work and compares it with the known result.
func (t *tally) worker(n uint64, batch *sync.WaitGroup) {
	defer batch.Done()
	kind, depth := n%5, n/5%200
	want := depth * (depth + 1) / 2
	var got uint64
	switch kind {
	case 0:
		got = descend(depth)
	case 1:
		got = recovered(depth)
	case 2:
		got = fromChild(depth)
	case 3:
		got = fromMap(depth)
	case 4:
		runtime.Gosched()
		got = descend(depth)
	}
	if got != want {
		atomic.AddInt64(&t.wrong, 1)
		t.mu.Lock()
		if t.first == "" {
			t.first = fmt.Sprintf("kind %d depth %d: got %d, want %d", kind, depth, got, want)
		}
		t.mu.Unlock()
	}
	atomic.AddInt64(&t.ended, 1)
}

// descend adds 1 to n with a frame of a quarter kilobyte for each.
//
//go:noinline
func descend(n uint64) uint64 {
	var pad [32]uint64
	pad[n%32] = n
	if n == 0 {
		return 0
	}
	return descend(n-1) + pad[n%32]
}

// recovered takes its result out of a panic from the deepest frame.
func recovered(n uint64) (sum uint64) {
	defer func() { sum = recover().(uint64) }()
	thrower(n, 0)
	return 0
}

//go:noinline
func thrower(n, sum uint64) {
	if n == 0 {
		panic(sum)
	}
	defer func() {}()
	thrower(n-1, sum+n)
}

// fromChild has a goroutine of its own send the summands.
func fromChild(n uint64) (sum uint64) {
	c := make(chan uint64, 3)
	go func() {
		for i := uint64(1); i <= n; i++ {
			c <- i
		}
		close(c)
	}()
	for v := range c {
		sum += v
	}
	return sum
}

// fromMap has the summands wait in garbage for the collector to find.
func fromMap(n uint64) (sum uint64) {
	m := make(map[string]*uint64)
	for i := uint64(1); i <= n; i++ {
		v := i
		m[strconv.FormatUint(i, 10)] = &v
	}
	for _, v := range m {
		sum += *v
	}
	return sum
}
