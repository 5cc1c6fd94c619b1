package goproc

import (
	"fmt"
	"math"
	"time"

	"github.com/loupe-go/loupe/event"
)

// The values of runtime.MemStats from a reading, as runtime.readmemstats_m computes them (runtime/mstats.go).

// heapCounts are the counters of objects.
type heapCounts struct {
	event.HeapMemory
	bySize []event.SizeClass
}

// memory computes all values of a reading. It returns an error if they contradict each other.
func (b *heapBooks) memory(r *heapReading) (event.Memory, error) {
	var m event.Memory
	counts, err := b.counts(r)
	if err != nil {
		return m, err
	}
	m.Heap, m.BySize = counts.HeapMemory, counts.bySize[1:]
	b.setSpans(&m, r.img)
	b.setRuntime(&m, r.img)
	if err := checkSizes(&m); err != nil {
		return m, err
	}
	m.Heap.Goal = b.goal(&m, r.img)
	return m, b.setGC(&m.GC, r.img)
}

// counts computes the counters of objects.
func (b *heapBooks) counts(r *heapReading) (heapCounts, error) {
	c := heapCounts{bySize: make([]event.SizeClass, len(b.classes))}
	var freed uint64
	if b.deltas > 0 {
		c.TotalAlloc, c.LargeAllocs = b.delta(r.img, "largeAlloc", 0), b.delta(r.img, "largeAllocCount", 0)
		freed, c.LargeFrees = b.delta(r.img, "largeFree", 0), b.delta(r.img, "largeFreeCount", 0)
	} else {
		c.TotalAlloc, c.LargeAllocs = b.u64(r.img, "runtime.mheap.largealloc"), b.u64(r.img, "runtime.mheap.nlargealloc")
		freed, c.LargeFrees = b.u64(r.img, "runtime.mheap.largefree")+r.largeFree, b.u64(r.img, "runtime.mheap.nlargefree")+r.largeFrees
	}
	for class, size := range b.classes {
		allocs, frees := b.classCounts(r.img, class)
		allocs, frees = allocs+uint64(r.allocs[class]), frees+uint64(r.smallFrees[class])
		if class == 0 && allocs == 0 && frees == 0 {
			continue // large objects, which have counters of their own
		}
		if allocs > maxObjects || frees > allocs {
			return c, fmt.Errorf("%w: %d objects of %d bytes were allocated, %d freed", errBooks, int64(allocs), size, int64(frees))
		}
		c.bySize[class] = event.SizeClass{Size: size, Mallocs: allocs, Frees: frees}
		c.Mallocs, c.Frees = c.Mallocs+allocs, c.Frees+frees
		c.TotalAlloc, freed = c.TotalAlloc+allocs*uint64(size), freed+frees*uint64(size)
	}
	if c.LargeAllocs > maxObjects || c.LargeFrees > c.LargeAllocs || freed > c.TotalAlloc || c.TotalAlloc > maxTotal {
		return c, fmt.Errorf("%w: %d bytes were allocated and %d freed, %d and %d large objects", errBooks, c.TotalAlloc, freed, c.LargeAllocs, c.LargeFrees)
	}
	c.Alloc = c.TotalAlloc - freed
	c.Objects = c.Mallocs - c.Frees + c.LargeAllocs - c.LargeFrees
	// Tiny allocations count as allocated and freed; the block that they are in counts in addition.
	c.Tiny = b.delta(r.img, "tinyAllocCount", 0) + b.u64(r.img, "runtime.mstats.tinyallocs") + r.tiny
	if c.Tiny > maxObjects {
		return c, fmt.Errorf("%w: %d tiny objects", errBooks, c.Tiny)
	}
	c.Mallocs, c.Frees = c.Mallocs+c.LargeAllocs+c.Tiny, c.Frees+c.LargeFrees+c.Tiny
	return c, nil
}

// Limits of what is believed. A program that allocates 1 TiB/s for a year stays below maxTotal.
const (
	maxObjects = 1 << 56
	maxTotal   = 1 << 62
	maxSize    = 1 << 48 // bytes of address space
)

// classCounts returns the counters of a size class: objects allocated and freed.
func (b *heapBooks) classCounts(img bookImage, class int) (allocs, frees uint64) {
	if b.deltas > 0 {
		return b.delta(img, "smallAllocCount", class), b.delta(img, "smallFreeCount", class)
	}
	nmalloc := b.fields["runtime.mcentral.nmalloc"].at
	for i := 2 * class; i < 2*class+2; i++ {
		allocs += img.word(nmalloc + i*b.centralStride)
	}
	return allocs, b.element(img, "runtime.mheap.nsmallfree", class, 0)
}

// setSpans sets the sizes of the parts of the heap.
func (b *heapBooks) setSpans(m *event.Memory, img bookImage) {
	h := &m.Heap
	h.Live = b.first(img, "runtime.gcControllerState.heapMarked", "runtime.mstats.heap_marked")
	h.Current = b.first(img, "runtime.gcControllerState.heapLive", "runtime.mstats.heap_live")
	h.Inuse = b.first(img, "runtime.gcControllerState.heapInUse", "runtime.mstats.heap_inuse")
	h.Released = b.first(img, "runtime.gcControllerState.heapReleased", "runtime.mstats.heap_released")
	if b.has("runtime.gcControllerState.heapFree") {
		h.Idle = b.u64(img, "runtime.gcControllerState.heapFree") + h.Released
		h.Sys = h.Inuse + h.Idle
		return
	}
	h.Sys = b.u64(img, "runtime.mstats.heap_sys")
	h.Idle = h.Sys - h.Inuse
	if b.has("runtime.mstats.heap_idle") {
		h.Idle = b.u64(img, "runtime.mstats.heap_idle")
	}
}

// setRuntime sets the sizes of what is not the heap.
func (b *heapBooks) setRuntime(m *event.Memory, img bookImage) {
	r := &m.Runtime
	r.StackInuse = b.u64(img, "runtime.mstats.stacks_inuse")
	r.GCSys = b.first(img, "runtime.mstats.gcMiscSys", "runtime.mstats.gc_sys")
	if b.deltas > 0 {
		r.StackInuse = b.delta(img, "inStacks", 0)
		bufs := b.delta(img, "inWorkBufs", 0) + b.delta(img, "inPtrScalarBits", 0)
		r.WorkBufs, r.GCSys = &bufs, r.GCSys+bufs
	}
	r.StackSys = r.StackInuse + b.u64(img, "runtime.mstats.stacks_sys")
	r.MSpanInuse, r.MSpanSys = b.u64(img, fieldSpanInuse), b.u64(img, "runtime.mstats.mspan_sys")
	r.MCacheInuse, r.MCacheSys = b.u64(img, fieldCacheInuse), b.u64(img, "runtime.mstats.mcache_sys")
	r.BuckHashSys, r.OtherSys = b.u64(img, "runtime.mstats.buckhash_sys"), b.u64(img, "runtime.mstats.other_sys")
	r.Sys = m.Heap.Sys + r.StackSys + r.MSpanSys + r.MCacheSys + r.BuckHashSys + r.GCSys + r.OtherSys
}

// checkSizes returns an error if sizes are impossible.
func checkSizes(m *event.Memory) error {
	h, r := &m.Heap, &m.Runtime
	for _, size := range []uint64{h.Sys, h.Inuse, h.Idle, h.Live, h.Current, r.StackSys, r.MSpanSys, r.MCacheSys, r.BuckHashSys, r.GCSys, r.OtherSys, r.Sys} {
		if size > maxSize {
			return fmt.Errorf("%w: a size of %#x bytes", errBooks, size)
		}
	}
	for _, part := range []struct {
		name        string
		part, whole uint64
	}{
		{"heap in use", h.Inuse, h.Sys}, {"idle heap", h.Idle, h.Sys}, {"released heap", h.Released, h.Idle},
		{"allocated objects", h.Alloc, h.Sys}, {"spans", r.MSpanInuse, r.MSpanSys}, {"caches", r.MCacheInuse, r.MCacheSys},
		{"stacks", r.StackInuse, r.StackSys},
	} {
		if part.part > part.whole {
			return fmt.Errorf("%w: %d bytes of %s in %d bytes", errBooks, part.part, part.name, part.whole)
		}
	}
	return nil
}

// goal returns the heap goal. Since Go 1.19 the runtime does not store it, but computes it when it is needed
// (gcControllerState.heapGoalInternal).
func (b *heapBooks) goal(m *event.Memory, img bookImage) uint64 {
	if !b.has("runtime.gcControllerState.gcPercentHeapGoal") {
		return b.first(img, "runtime.gcControllerState.heapGoal", "runtime.mstats.next_gc")
	}
	goal := b.u64(img, "runtime.gcControllerState.gcPercentHeapGoal")
	if limited := b.limitedGoal(m, img); limited < goal {
		return limited
	}
	goal = max(goal, b.u64(img, "runtime.gcControllerState.sweepDistMinTrigger"))
	const minRunway = 64 << 10
	if triggered := b.u64(img, "runtime.gcControllerState.triggered"); triggered != math.MaxUint64 {
		goal = max(goal, triggered+minRunway)
	}
	return goal
}

// limitedGoal returns the heap goal that the memory limit permits (gcControllerState.memoryLimitHeapGoal).
func (b *heapBooks) limitedGoal(m *event.Memory, img bookImage) uint64 {
	limit := b.u64(img, fieldMemoryLimit)
	ready := b.u64(img, "runtime.gcControllerState.mappedReady")
	heap := b.u64(img, "runtime.gcControllerState.heapFree") + m.Heap.Alloc
	if heap > ready {
		heap = ready // the counters are updated one after the other
	}
	taken := ready - heap
	if ready > limit {
		taken += ready - limit
	}
	if taken >= limit {
		return m.Heap.Live
	}
	goal := limit - taken
	headroom := max(goal/100*b.headroomPercent, b.headroomMin)
	if goal < 2*headroom {
		goal = headroom
	} else {
		goal -= headroom
	}
	return max(goal, m.Heap.Live)
}

// setGC sets the state of the garbage collector.
func (b *heapBooks) setGC(gc *event.GCMemory, img bookImage) error {
	gc.Cycles, gc.Forced = uint32(b.u64(img, "runtime.mstats.numgc")), uint32(b.u64(img, "runtime.mstats.numforcedgc"))
	started := uint32(b.u64(img, "runtime.workType.cycles"))
	gc.Running = started != gc.Cycles
	gc.PauseTotal = time.Duration(b.u64(img, "runtime.mstats.pause_total_ns"))
	gc.CPUFraction = math.Float64frombits(b.u64(img, "runtime.mstats.gc_cpu_fraction"))
	gc.Percent = int32(b.first(img, "runtime.gcControllerState.gcPercent", fieldGcpercent))
	last := b.u64(img, "runtime.mstats.last_gc_unix")
	if err := b.setPauses(gc, img); err != nil {
		return err
	}
	switch {
	case started != gc.Cycles && started != gc.Cycles+1 || gc.Forced > gc.Cycles+1:
		return fmt.Errorf("%w: %d collections begun, %d completed, %d forced", errBooks, started, gc.Cycles, gc.Forced)
	case gc.Cycles == 0 && last != 0 || gc.Cycles > 0 && last != uint64(gc.Pauses[0].End.UnixNano()):
		return fmt.Errorf("%w: the last collection ended at %d", errBooks, last)
	case !(gc.CPUFraction >= 0 && gc.CPUFraction <= maxFraction):
		return fmt.Errorf("%w: collections took %v of the processor time", errBooks, gc.CPUFraction)
	case gc.Percent < -1:
		return fmt.Errorf("%w: GOGC is %d", errBooks, gc.Percent)
	}
	if last != 0 {
		gc.Last = gc.Pauses[0].End
	}
	if b.has(fieldMemoryLimit) {
		limit := int64(b.u64(img, fieldMemoryLimit))
		if limit < 0 {
			return fmt.Errorf("%w: GOMEMLIMIT is %d", errBooks, limit)
		}
		gc.MemoryLimit = &limit
	}
	return b.setCPU(gc, img)
}

// maxFraction is the largest share of processor time that is believed. The runtime's estimate can exceed 1 slightly, because it
// includes the time that threads wait for a processor.
const maxFraction = 2

// setPauses sets the pauses of the newest collections. The runtime keeps them in rings.
func (b *heapBooks) setPauses(gc *event.GCMemory, img bookImage) error {
	ring := uint32(b.fields["runtime.mstats.pause_ns"].size / 8)
	n := min(gc.Cycles, ring)
	var sum time.Duration
	for i := range n {
		at := int((gc.Cycles - 1 - i) % ring)
		took := time.Duration(b.element(img, "runtime.mstats.pause_ns", at, 0))
		end := b.element(img, "runtime.mstats.pause_end", at, 0)
		if took < 0 || took > gc.PauseTotal || end > math.MaxInt64 {
			return fmt.Errorf("%w: a collection paused the program for %d ns, all for %d ns", errBooks, took, gc.PauseTotal)
		}
		sum += took
		gc.Pauses = append(gc.Pauses, event.GCPause{End: time.Unix(0, int64(end)), Duration: took})
	}
	if sum > gc.PauseTotal || gc.PauseTotal < 0 || n == 0 && gc.PauseTotal != 0 {
		return fmt.Errorf("%w: the last %d collections paused the program for %d ns, all for %d ns", errBooks, n, sum, gc.PauseTotal)
	}
	return nil
}

// setCPU sets the processor time by class.
func (b *heapBooks) setCPU(gc *event.GCMemory, img bookImage) error {
	if !b.has(fieldCPUTotal) {
		return nil
	}
	at := func(name string) time.Duration { return time.Duration(b.u64(img, "runtime.workType.cpuStats."+name)) }
	c := &event.GCCPUSeconds{
		Assist: at("gcAssistTime"), Dedicated: at("gcDedicatedTime"), IdleMark: at("gcIdleTime"), Pause: at("gcPauseTime"),
		GC: at("gcTotalTime"), Scavenge: at("scavengeTotalTime"), Idle: at("idleTime"), User: at("userTime"), Total: at("totalTime"),
	}
	// Since Go 1.22 the runtime adds the pause at the start of a collection at once, and everything else at its end.
	pending := c.GC + c.Scavenge + c.Idle + c.User - c.Total
	if c.GC != c.Assist+c.Dedicated+c.IdleMark+c.Pause || c.Total < 0 || pending != 0 && !(gc.Running && pending > 0 && pending <= c.Pause) {
		return fmt.Errorf("%w: processor times %+v", errBooks, *c)
	}
	gc.CPU = c
	return nil
}
