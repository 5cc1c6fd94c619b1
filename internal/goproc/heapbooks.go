package goproc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/gobin/layout"
)

// heapBooks is where the runtime of a release keeps its counters of memory (runtime/mstats.go, mheap.go, mgcpacer.go). The
// fields are read together into one image.
type heapBooks struct {
	places []bookPlace
	fields map[string]bookField // by path, as in package layout
	size   int                  // bytes of the image

	allp    uint64
	procs   procCaches
	classes []uint32 // sizes of the size classes

	deltas, deltaSize       int // heapStats.stats: number and size of the shards; 0 before Go 1.16
	centrals, centralStride int // mheap.central: number and distance of its elements; 0 since Go 1.16

	arenas     uint64 // address of the list of the heap's arenas
	arenaBytes uint64
	arenaBase  uint64 // address of arena 0, modulo 2^64

	headroomMin, headroomPercent uint64 // of memoryLimitHeapGoal: bytes, and hundredths of the goal; 0 before Go 1.21
}

// bookPlace is a range of memory that is part of the image.
type bookPlace struct {
	addr uint64
	size int
}

// bookField is the place of a field in the image.
type bookField struct{ at, size int }

// procCaches holds the offsets in the structs that a P counts in.
type procCaches struct {
	mcache, statsSeq int // in runtime.p; statsSeq is none before Go 1.16

	cacheSize                     int // bytes of runtime.mcache
	alloc, spanClasses            int // mcache.alloc, and the number of its elements
	tiny                          int // number of tiny allocations that are not in other counters yet
	largeFree, largeFrees         int // counters of a P before Go 1.16, else none
	smallFrees                    int
	spanLo, spanHi                int // the part of runtime.mspan that is read
	elems, allocs, beforeCache    int // in runtime.mspan; beforeCache is none before Go 1.19
	elemSize, spanClass, sweepgen int
	elemsSize                     int // bytes of nelems
}

// The paths of fields that exist only in some releases, and decide how others are to be understood.
const (
	fieldGcpercent   = "runtime.gcpercent" // a variable of its own, before Go 1.17
	fieldDeltas      = "runtime.mstats.heapStats.stats"
	fieldCentral     = "runtime.mheap.central"
	fieldSweepgen    = "runtime.mheap.sweepgen"
	fieldMemoryLimit = "runtime.gcControllerState.memoryLimit"
	fieldCPUTotal    = "runtime.workType.cpuStats.totalTime"
)

// bookFields lists the fields that are read, by the variable that they are in. Fields that a release lacks are left out.
var bookFields = map[string][]string{
	"runtime.memstats": {
		"runtime.mstats.numgc", "runtime.mstats.numforcedgc", "runtime.mstats.last_gc_unix", "runtime.mstats.pause_total_ns",
		"runtime.mstats.pause_ns", "runtime.mstats.pause_end", "runtime.mstats.gc_cpu_fraction", "runtime.mstats.next_gc",
		"runtime.mstats.heap_marked", "runtime.mstats.heap_live", "runtime.mstats.heap_inuse", "runtime.mstats.heap_idle", "runtime.mstats.heap_released",
		"runtime.mstats.heap_sys", "runtime.mstats.stacks_inuse", "runtime.mstats.stacks_sys", "runtime.mstats.mspan_sys",
		"runtime.mstats.mcache_sys", "runtime.mstats.buckhash_sys", "runtime.mstats.gc_sys", "runtime.mstats.gcMiscSys",
		"runtime.mstats.other_sys", "runtime.mstats.tinyallocs", fieldDeltas,
	},
	"runtime.gcController": {
		"runtime.gcControllerState.gcPercent", fieldMemoryLimit, "runtime.gcControllerState.heapMarked",
		"runtime.gcControllerState.heapLive",
		"runtime.gcControllerState.heapGoal", "runtime.gcControllerState.gcPercentHeapGoal",
		"runtime.gcControllerState.sweepDistMinTrigger", "runtime.gcControllerState.triggered",
		"runtime.gcControllerState.heapInUse", "runtime.gcControllerState.heapFree", "runtime.gcControllerState.heapReleased",
		"runtime.gcControllerState.mappedReady",
	},
	"runtime.work": {
		"runtime.workType.cycles", "runtime.workType.cpuStats.gcAssistTime", "runtime.workType.cpuStats.gcDedicatedTime",
		"runtime.workType.cpuStats.gcIdleTime", "runtime.workType.cpuStats.gcPauseTime", "runtime.workType.cpuStats.gcTotalTime",
		"runtime.workType.cpuStats.scavengeTotalTime", "runtime.workType.cpuStats.idleTime", "runtime.workType.cpuStats.userTime",
		fieldCPUTotal,
	},
	"runtime.mheap_": {
		"runtime.mheap.largealloc", "runtime.mheap.nlargealloc", "runtime.mheap.largefree", "runtime.mheap.nlargefree",
		"runtime.mheap.nsmallfree", fieldSweepgen, fieldCentral,
	},
}

// Paths of fields in fixalloc structs, which are fields of mheap.
const (
	fieldSpanInuse  = "runtime.mheap.spanalloc.inuse"
	fieldCacheInuse = "runtime.mheap.cachealloc.inuse"
)

// maxBook bounds the size of one field. The largest is mheap.central of Go 1.15.
const maxBook = 64 << 10

// newHeapBooks finds the counters, given the addresses of the runtime's variables in the executable and its load bias.
func newHeapBooks(l *layout.Layout, g gobin.Globals, bias uint64) (*heapBooks, error) {
	b := &heapBooks{fields: map[string]bookField{}}
	at := map[string]uint64{"runtime.memstats": g.Memstats, "runtime.gcController": g.GCController, "runtime.work": g.Work, "runtime.mheap_": g.Mheap}
	// In the order of updates at the end of a collection, so that a torn reading is noticed.
	for _, variable := range []string{"runtime.memstats", "runtime.gcController", "runtime.work", "runtime.mheap_"} {
		if at[variable] == 0 {
			return nil, fmt.Errorf("the address of %s could not be found", variable)
		}
		for _, path := range bookFields[variable] {
			if path == fieldCentral && b.has(fieldDeltas) {
				continue // counts nothing that is read
			}
			if f, ok := l.Field(path); ok {
				b.add(path, at[variable]+bias+uint64(f.Offset), int(f.Size))
			}
		}
	}
	if _, ok := b.fields["runtime.gcControllerState.gcPercent"]; !ok {
		if g.Gcpercent == 0 {
			return nil, fmt.Errorf("the address of %s could not be found", fieldGcpercent)
		}
		b.add(fieldGcpercent, g.Gcpercent+bias, 4)
	}
	r := fieldReader{layout: l}
	inuse := uint64(r.need("runtime.fixalloc.inuse"))
	b.add(fieldSpanInuse, g.Mheap+bias+uint64(r.need("runtime.mheap.spanalloc"))+inuse, 8)
	b.add(fieldCacheInuse, g.Mheap+bias+uint64(r.need("runtime.mheap.cachealloc"))+inuse, 8)
	b.arenas = g.Mheap + bias + uint64(r.oneOf("runtime.mheap.heapArenas", "runtime.mheap.allArenas"))
	if r.err != nil {
		return nil, r.err
	}
	if b.allp = g.Allp + bias; g.Allp == 0 {
		return nil, errors.New("the address of runtime.allp could not be found")
	}
	return b, b.complete(l)
}

// oneOf returns the offset of the first path that the release has, and records an error if it has none of them.
func (r *fieldReader) oneOf(paths ...string) int {
	off := r.first(paths...)
	if off == none && r.err == nil {
		r.err = fmt.Errorf("no field %s in %s", paths[0], r.layout.GoVersion)
	}
	return off
}

// add adds a field to the image.
func (b *heapBooks) add(path string, addr uint64, size int) {
	b.fields[path] = bookField{b.size, size}
	b.places = append(b.places, bookPlace{addr, size})
	b.size += size
}

// complete adds what follows from the layout, and checks that nothing is missing.
func (b *heapBooks) complete(l *layout.Layout) error {
	for _, need := range bookNeeds {
		if !slices.ContainsFunc(need, b.has) {
			return fmt.Errorf("no field %s in %s", need[0], l.GoVersion)
		}
	}
	for path, f := range b.fields {
		if f.size > maxBook || f.size < 4 {
			return fmt.Errorf("%s has %d bytes in %s", path, f.size, l.GoVersion)
		}
	}
	if err := b.procs.find(l); err != nil {
		return err
	}
	if err := b.findCounts(l); err != nil {
		return err
	}
	b.arenaBytes = 64 << 20 // heapArenaBytes of 64-bit Linux (runtime/malloc.go)
	if n, ok := l.Const("runtime.heapArenaBytes"); ok && n > 0 {
		b.arenaBytes = uint64(n)
	}
	if l.Arch == "amd64" {
		b.arenaBase = 0xffff_8000_0000_0000 // arenaBaseOffset: arena 0 is at the lowest canonical address
	}
	headroom, ok := l.Const("runtime.memoryLimitMinHeapGoalHeadroom")
	if !ok && b.has(fieldMemoryLimit) {
		return fmt.Errorf("no constant runtime.memoryLimitMinHeapGoalHeadroom in %s", l.GoVersion)
	}
	percent, _ := l.Const("runtime.memoryLimitHeapGoalHeadroomPercent")
	b.headroomMin, b.headroomPercent = uint64(headroom), uint64(percent)
	return nil
}

// bookNeeds lists fields of which each release has one.
var bookNeeds = [][]string{
	{"runtime.mstats.numgc"}, {"runtime.mstats.numforcedgc"}, {"runtime.mstats.last_gc_unix"}, {"runtime.mstats.pause_total_ns"},
	{"runtime.mstats.pause_ns"}, {"runtime.mstats.pause_end"}, {"runtime.mstats.gc_cpu_fraction"}, {"runtime.mstats.mspan_sys"},
	{"runtime.mstats.stacks_sys"}, {"runtime.mstats.mcache_sys"}, {"runtime.mstats.buckhash_sys"}, {"runtime.mstats.other_sys"},
	{"runtime.workType.cycles"}, {fieldSweepgen},
	{"runtime.mstats.gc_sys", "runtime.mstats.gcMiscSys"},
	{"runtime.mstats.next_gc", "runtime.gcControllerState.heapGoal", "runtime.gcControllerState.gcPercentHeapGoal"},
	{"runtime.mstats.heap_marked", "runtime.gcControllerState.heapMarked"},
	{"runtime.mstats.heap_live", "runtime.gcControllerState.heapLive"},
	{"runtime.mstats.heap_inuse", "runtime.gcControllerState.heapInUse"},
	{"runtime.mstats.heap_released", "runtime.gcControllerState.heapReleased"},
	{"runtime.mstats.heap_sys", "runtime.gcControllerState.heapFree"},
	{fieldDeltas, fieldCentral},
}

func (b *heapBooks) has(path string) bool {
	_, ok := b.fields[path]
	return ok
}

// findCounts finds the counters of objects, which are in mheap until Go 1.15 and in shards of memstats since then.
func (b *heapBooks) findCounts(l *layout.Layout) error {
	r := fieldReader{layout: l}
	counters := 0
	if deltas, ok := b.fields[fieldDeltas]; ok {
		for _, name := range []string{"inStacks", "inWorkBufs", "inPtrScalarBits", "tinyAllocCount", "largeAlloc", "largeAllocCount", "smallAllocCount", "largeFree", "largeFreeCount", "smallFreeCount"} {
			path := "runtime.heapStatsDelta." + name
			if f, ok := l.Field(path); ok {
				b.fields[path] = bookField{deltas.at + int(f.Offset), int(f.Size)}
			}
		}
		b.deltaSize = r.size("runtime.heapStatsDelta")
		for _, name := range []string{"inStacks", "inWorkBufs", "largeAlloc", "largeAllocCount", "smallAllocCount", "largeFree", "largeFreeCount", "smallFreeCount"} {
			r.need("runtime.heapStatsDelta." + name)
		}
		if r.err != nil {
			return r.err
		}
		if b.deltas = deltas.size / b.deltaSize; b.deltas*b.deltaSize != deltas.size {
			return fmt.Errorf("runtime.mstats.heapStats has shards of %d bytes in %d bytes in %s", b.deltaSize, deltas.size, l.GoVersion)
		}
		counters = b.fields["runtime.heapStatsDelta.smallAllocCount"].size / 8
	} else {
		central := b.fields[fieldCentral]
		b.centrals = b.procs.spanClasses
		b.centralStride = central.size / max(b.centrals, 1)
		nmalloc := r.need("runtime.mcentral.nmalloc")
		if r.err != nil {
			return r.err
		}
		if b.centralStride*b.centrals != central.size || nmalloc+8 > b.centralStride {
			return fmt.Errorf("runtime.mheap.central has %d bytes in %s", central.size, l.GoVersion)
		}
		b.fields["runtime.mcentral.nmalloc"] = bookField{central.at + nmalloc, 8}
		counters = b.fields["runtime.mheap.nsmallfree"].size / 8
	}
	if b.classes = sizeClassesOf(counters); b.classes == nil || b.procs.spanClasses != 2*counters {
		return fmt.Errorf("%d size classes and %d span classes in %s", counters, b.procs.spanClasses, l.GoVersion)
	}
	return nil
}

// find finds the offsets.
func (c *procCaches) find(l *layout.Layout) error {
	r := fieldReader{layout: l}
	*c = procCaches{
		mcache: r.need("runtime.p.mcache"), statsSeq: r.first("runtime.p.statsSeq"),
		cacheSize: r.size("runtime.mcache"), alloc: r.need("runtime.mcache.alloc"),
		tiny:      r.oneOf("runtime.mcache.tinyAllocs", "runtime.mcache.local_tinyallocs"),
		largeFree: r.first("runtime.mcache.local_largefree"), largeFrees: r.first("runtime.mcache.local_nlargefree"),
		smallFrees: r.first("runtime.mcache.local_nsmallfree"),
		elems:      r.need("runtime.mspan.nelems"), allocs: r.need("runtime.mspan.allocCount"),
		beforeCache: r.first("runtime.mspan.allocCountBeforeCache"), elemSize: r.need("runtime.mspan.elemsize"),
		spanClass: r.need("runtime.mspan.spanclass"), sweepgen: r.need("runtime.mspan.sweepgen"),
	}
	if r.err != nil {
		return r.err
	}
	alloc, _ := l.Field("runtime.mcache.alloc")
	elems, _ := l.Field("runtime.mspan.nelems")
	c.spanClasses, c.elemsSize = int(alloc.Size)/8, int(elems.Size)
	c.spanLo = min(c.elems, c.allocs, c.elemSize, c.spanClass, c.sweepgen)
	c.spanHi = max(c.elems, c.allocs, c.beforeCache, c.elemSize, c.spanClass, c.sweepgen) + 8
	if c.beforeCache != none {
		c.spanLo = min(c.spanLo, c.beforeCache)
	}
	size, ok := l.Size("runtime.mspan")
	if !ok || c.spanHi > int(size)+8 || c.spanHi-c.spanLo > 1<<10 {
		return fmt.Errorf("the fields of runtime.mspan are at %d to %d of %d bytes", c.spanLo, c.spanHi, size)
	}
	return checkWithin(c.cacheSize, c.alloc+8*c.spanClasses-8, c.tiny, c.largeFree, c.largeFrees, c.smallFrees)
}

// bookImage is the memory of one reading.
type bookImage []byte

// u64 returns the value of a field of 4 or 8 bytes, or 0 if the release does not have it.
func (b *heapBooks) u64(img bookImage, path string) uint64 { return b.element(img, path, 0, 0) }

// element returns word i of a field that is an array, in shard k.
func (b *heapBooks) element(img bookImage, path string, i, k int) uint64 {
	f, ok := b.fields[path]
	at := f.at + 8*i + k*b.deltaSize
	switch {
	case !ok || at < 0 || 8*i >= f.size && i > 0:
		return 0
	case f.size == 4 && at+4 <= len(img):
		return uint64(binary.LittleEndian.Uint32(img[at:]))
	}
	return img.word(at)
}

// word returns the word at a place of the image.
func (img bookImage) word(at int) uint64 {
	if at < 0 || at+8 > len(img) {
		return 0
	}
	return binary.LittleEndian.Uint64(img[at:])
}

// delta returns the sum of a field over the shards of memstats.heapStats.
func (b *heapBooks) delta(img bookImage, name string, i int) uint64 {
	var sum uint64
	for k := range b.deltas {
		sum += b.element(img, "runtime.heapStatsDelta."+name, i, k)
	}
	return sum
}

// first returns the value of the first field that the release has.
func (b *heapBooks) first(img bookImage, paths ...string) uint64 {
	for _, path := range paths {
		if b.has(path) {
			return b.u64(img, path)
		}
	}
	return 0
}
