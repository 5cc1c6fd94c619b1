package agent

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A budget compares what the agent uses with what it may use, and says how much less its targets may cost so that it keeps the limits.
type budget struct {
	mu          sync.Mutex
	cpu         float64 // processors
	memory      int64   // bytes
	usedCPU     float64
	usedMemory  int64
	lastCPU     time.Duration
	lastAt      time.Time
	scale       float64
	currentUsed func() (cpu time.Duration, memory int64, err error)
}

// The steps of a budget.
const (
	budgetEvery = 5 * time.Second
	budgetDown  = 0.5  // the scale is multiplied by this when the agent is over its budget
	budgetUp    = 1.25 // and by this when it is well below
	budgetCalm  = 0.7  // that is, below this part of it
	minScale    = 1.0 / 1024
)

func newBudget(cpu float64, memory int64) *budget {
	b := &budget{scale: 1, currentUsed: used}
	b.set(cpu, memory)
	return b
}

// set changes the limits.
func (b *budget) set(cpu float64, memory int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cpu, b.memory = cpu, memory
	// Buffers and executables are not in the heap: the collector gets what is left.
	debug.SetMemoryLimit(memory * 3 / 4)
}

// step measures what the agent uses, and returns the scale of what targets may cost. changed reports whether it is another one than before.
func (b *budget) step(now time.Time) (scale float64, changed bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	cpu, memory, err := b.currentUsed()
	if err != nil {
		return b.scale, false, err
	}
	first := b.lastAt.IsZero()
	if !first {
		b.usedCPU = float64(cpu-b.lastCPU) / float64(now.Sub(b.lastAt))
	}
	b.usedMemory, b.lastCPU, b.lastAt = memory, cpu, now
	if first {
		return b.scale, false, nil
	}
	before := b.scale
	switch most := max(b.usedCPU/b.cpu, float64(memory)/float64(b.memory)); {
	case most > 1:
		b.scale = max(b.scale*budgetDown, minScale)
	case most < budgetCalm:
		b.scale = min(b.scale*budgetUp, 1)
	}
	return b.scale, b.scale != before, nil
}

// ratios returns what the agent uses, relative to its limits.
func (b *budget) ratios() (cpu, memory float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.usedCPU / b.cpu, float64(b.usedMemory) / float64(b.memory)
}

// used returns the processor time of this process so far, and its resident memory.
func used() (cpu time.Duration, memory int64, err error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0, err
	}
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, 0, err
	}
	var pages int64
	if f := strings.Fields(string(b)); len(f) > 1 {
		pages, err = strconv.ParseInt(f[1], 10, 64)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), pages * int64(os.Getpagesize()), err
}
