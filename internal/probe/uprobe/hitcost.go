package uprobe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/sampling"
)

func hit(goroutine *probe.TrialGoroutine, n int)
func hitEntry() unsafe.Pointer

const (
	trialBatches = 20
	trialHits    = 100      // of a batch
	trialBuffer  = 64 << 10 // bytes: room for the events of a batch
)

// MeasureHit measures what a hit costs on this machine: this process itself runs into a probe 4,000 times. It takes some
// milliseconds, and attaching and detaching take longer. Calls must not overlap.
func MeasureHit(opt Options) (probe.HitCost, error) {
	cost, err := measureHit(opt)
	if err != nil {
		return cost, fmt.Errorf("measuring the cost of a hit: %w", err)
	}
	return cost, nil
}

func measureHit(opt Options) (cost probe.HitCost, err error) {
	offset, err := trialOffset()
	if err != nil {
		return cost, err
	}
	e := New(opt)
	defer func() { err = errors.Join(err, e.Close(), e.Release()) }()
	if _, err := e.Attach(probe.TrialPlan(os.Getpid(), "/proc/self/exe", offset, trialBuffer)); err != nil {
		return cost, err
	}
	e.Enable()
	rule := sampling.OneIn(2)
	e.Sample(rule)
	sampled, skipped := uint64(1<<20), uint64(1<<20)
	for !rule.Selects(sampled) {
		sampled++
	}
	for rule.Selects(skipped) {
		skipped++
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cost.Hit = e.timeHits(skipped)
	cost.Event = max(0, e.timeHits(sampled)-cost.Hit)
	totals, err := e.Totals()
	if want := uint64(2 * trialBatches * trialHits); err == nil && totals.Hits < want {
		err = fmt.Errorf("only %d of %s", totals.Hits, english.Count(want, "hit"))
	}
	return cost, err
}

// timeHits returns the time of a hit by a goroutine: the lower quartile of the batches, because other processes can only make them slower.
func (e *Engine) timeHits(goroutine uint64) time.Duration {
	g := &probe.TrialGoroutine{ID: goroutine} // on the heap, because hit gets it
	var times []time.Duration
	for range trialBatches {
		began := time.Now()
		hit(g, trialHits)
		times = append(times, time.Since(began)/trialHits)
		e.Drain(func([]byte) bool { return true })
	}
	slices.Sort(times)
	return times[len(times)/4]
}

// trialOffset returns the offset of the probe's place in the executable of this process.
func trialOffset() (uint64, error) {
	entry := hitEntry()
	at := bytes.Index(unsafe.Slice((*byte)(entry), 64), trialPlace)
	if at < 0 {
		return 0, errors.New("no place for the probe")
	}
	pc := uint64(uintptr(entry)) + uint64(at)
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(maps) {
		var start, end, offset uint64
		var access string
		if n, _ := fmt.Sscanf(string(line), "%x-%x %s %x", &start, &end, &access, &offset); n == 4 && start <= pc && pc < end {
			return pc - start + offset, nil
		}
	}
	return 0, fmt.Errorf("no memory at %#x", pc)
}
