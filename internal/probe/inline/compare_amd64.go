package inline

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	compareTurns    = 5000                   // readings, each after one on the other processor
	comparePatience = 500 * time.Millisecond // for the turns of two processors; another process may use one of them
)

// compareCounters checks that the time stamp counters of all processors agree, as the kernel does when it starts: threads on
// two processors read their counters in turn, and no reading may be smaller than the one before it.
func compareCounters(read func(cpu int) uint64) error {
	list, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return fmt.Errorf("the processors of this machine: %w", err)
	}
	cpus, err := parseCPUs(strings.TrimSpace(string(list)))
	if err != nil {
		return err
	}
	if procs := runtime.GOMAXPROCS(0); procs < 2 && len(cpus) > 1 {
		runtime.GOMAXPROCS(2)
		defer runtime.GOMAXPROCS(procs)
	}
	for _, cpu := range cpus[1:] {
		c := comparison{read: read, began: time.Now(), last: read(cpus[0])}
		var errs [2]error
		var both sync.WaitGroup
		for i, on := range []int{cpus[0], cpu} {
			both.Go(func() { errs[i] = c.run(int32(i), on) })
		}
		both.Wait()
		switch err := errors.Join(errs[:]...); {
		case err != nil:
			return fmt.Errorf("cannot compare the time stamp counters of processors %d and %d: %w", cpus[0], cpu, err)
		case c.back > 0:
			return fmt.Errorf("the time stamp counters of processors %d and %d differ by %d ticks", cpus[0], cpu, c.back)
		case c.turns < compareTurns:
			return fmt.Errorf("cannot compare the time stamp counters of processors %d and %d: they are too busy (%d readings)", cpus[0], cpu, c.turns)
		}
	}
	return nil
}

// A comparison is that of the counters of two processors.
type comparison struct {
	read  func(cpu int) uint64
	began time.Time
	over  atomic.Bool
	turn  atomic.Int32 // the thread that reads next, 0 or 1; it owns the fields below

	last  uint64 // the last reading
	turns int
	back  uint64 // the largest step backwards, in ticks
}

// run is thread me, on one processor.
func (c *comparison) run(me int32, cpu int) error {
	runtime.LockOSThread() // the thread ends with the goroutine, since it stays on the processor
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		c.over.Store(true)
		return err
	}
	for spins := 0; !c.over.Load(); spins++ {
		if spins%1024 == 0 && time.Since(c.began) > comparePatience {
			c.over.Store(true)
		}
		if c.turn.Load() != me {
			continue
		}
		now := c.read(cpu)
		if now < c.last {
			c.back = max(c.back, c.last-now)
		}
		c.last = now
		if c.turns++; c.turns >= compareTurns {
			c.over.Store(true)
		}
		c.turn.Store(1 - me)
	}
	return nil
}

// parseCPUs parses a list of processors as the kernel writes it ("0-3,5").
func parseCPUs(list string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err1 := strconv.Atoi(low)
		last, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil || first < 0 || last < first || last > 1<<16 {
			return nil, fmt.Errorf("unexpected list of processors %q", list)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
