package event

import "time"

// Memory is one reading of the memory of a Go process: the numbers that its runtime keeps, and those that the kernel keeps.
// Sizes are in bytes. Counters count since the program started.
//
// A pointer that is nil is a number that the Go release, the kernel or the permissions of this process do not provide.
type Memory struct {
	Time    time.Time // when the numbers of the runtime were read; those of the kernel were read right after
	Heap    HeapMemory
	Runtime RuntimeMemory
	GC      GCMemory
	BySize  []SizeClass // objects of up to 32 KiB by size class, smallest first
	Process ProcessMemory
	Reading MemoryReading
}

// HeapMemory is the state of the heap. Unless a field says otherwise, it equals the field of the same name of
// runtime.MemStats, as runtime.ReadMemStats would return it: objects that the caches of the Ps have handed out are included.
type HeapMemory struct {
	Alloc    uint64 // MemStats.HeapAlloc, /memory/classes/heap/objects:bytes: objects that are reachable or not yet swept
	Objects  uint64 // MemStats.HeapObjects, /gc/heap/objects:objects: the number of objects in Alloc
	Live     uint64 // /gc/heap/live:bytes: objects that the last collection found reachable (gcController.heapMarked)
	Current  uint64 // Live plus what was allocated since, in whole spans (gcController.heapLive); the runtime compares it with Goal, and its execution tracer reports it as HeapAlloc
	Goal     uint64 // MemStats.NextGC, /gc/heap/goal:bytes: the heap size at which the next collection should end
	Inuse    uint64 // MemStats.HeapInuse: spans with at least one object
	Idle     uint64 // MemStats.HeapIdle: spans without objects, including Released
	Released uint64 // MemStats.HeapReleased, /memory/classes/heap/released:bytes: idle memory that was returned to the kernel
	Sys      uint64 // MemStats.HeapSys: Inuse plus Idle

	TotalAlloc uint64 // MemStats.TotalAlloc, /gc/heap/allocs:bytes
	Mallocs    uint64 // MemStats.Mallocs: objects allocated, including Tiny
	Frees      uint64 // MemStats.Frees: objects freed, including Tiny
	Tiny       uint64 // /gc/heap/tiny/allocs:objects: objects of less than 16 bytes that share a block with others

	LargeAllocs uint64 // objects of more than 32 KiB allocated
	LargeFrees  uint64 // objects of more than 32 KiB freed
}

// Unused returns the part of the spans in use that no object occupies: free slots of size classes, and the ends of spans.
// It is an upper bound of the fragmentation (/memory/classes/heap/unused:bytes).
func (h *HeapMemory) Unused() uint64 { return less(h.Inuse, h.Alloc) }

// Retained returns the idle memory that was not returned to the kernel (/memory/classes/heap/free:bytes).
func (h *HeapMemory) Retained() uint64 { return less(h.Idle, h.Released) }

// RuntimeMemory is memory that the runtime obtained for other purposes than the heap. The fields equal those of
// runtime.MemStats of the same name.
type RuntimeMemory struct {
	StackInuse  uint64 // stacks of goroutines, in spans of the heap's address range
	StackSys    uint64 // StackInuse plus stacks of threads that the runtime allocated
	MSpanInuse  uint64
	MSpanSys    uint64 // descriptions of spans
	MCacheInuse uint64
	MCacheSys   uint64 // caches of the Ps
	BuckHashSys uint64 // buckets of the memory, block and mutex profiles
	GCSys       uint64 // metadata of the garbage collector: bitmaps, page summaries, work buffers
	OtherSys    uint64
	Sys         uint64 // the sum of HeapMemory.Sys and all fields here whose names end in Sys

	// WorkBufs is the part of GCSys that lies in the heap's address range. It is nil before Go 1.16, which does not count it.
	WorkBufs *uint64
}

// Metadata returns the memory that the runtime obtained outside the heap's address range.
func (r *RuntimeMemory) Metadata() uint64 {
	n := less(r.StackSys, r.StackInuse) + r.MSpanSys + r.MCacheSys + r.BuckHashSys + r.GCSys + r.OtherSys
	if r.WorkBufs != nil {
		n = less(n, *r.WorkBufs)
	}
	return n
}

// GCMemory is the state of the garbage collector.
type GCMemory struct {
	Cycles  uint32    // MemStats.NumGC: completed collections
	Forced  uint32    // MemStats.NumForcedGC: collections that the program forced by runtime.GC
	Running bool      // a collection was in progress
	Last    time.Time // MemStats.LastGC; the zero Time before the first collection

	PauseTotal time.Duration // MemStats.PauseTotalNs: stop-the-world pauses of all collections
	Pauses     []GCPause     // MemStats.PauseNs and PauseEnd: the newest collections, at most 256, newest first

	CPUFraction float64       // MemStats.GCCPUFraction: the share of the available processor time, from 0 to 1, as of the last collection
	CPU         *GCCPUSeconds // nil before Go 1.20

	Percent     int32  // GOGC, /gc/gogc:percent; negative: off
	MemoryLimit *int64 // GOMEMLIMIT, /gc/gomemlimit:bytes; math.MaxInt64: none; nil before Go 1.19
}

// GCPause is the sum of the stop-the-world pauses of one collection.
type GCPause struct {
	End      time.Time
	Duration time.Duration
}

// GCCPUSeconds is processor time by class, as of the end of the last collection (/cpu/classes of runtime/metrics). While a collection
// runs, Pause and GC include the pause at its start already, if the target is built with Go 1.22 or later.
type GCCPUSeconds struct {
	Assist    time.Duration // /cpu/classes/gc/mark/assist:cpu-seconds: goroutines that were made to help
	Dedicated time.Duration // /cpu/classes/gc/mark/dedicated:cpu-seconds
	IdleMark  time.Duration // /cpu/classes/gc/mark/idle:cpu-seconds: marking on Ps that had nothing else to do
	Pause     time.Duration // /cpu/classes/gc/pause:cpu-seconds
	GC        time.Duration // /cpu/classes/gc/total:cpu-seconds: the sum of the above
	Scavenge  time.Duration // /cpu/classes/scavenge/total:cpu-seconds: returning memory to the kernel
	Idle      time.Duration // /cpu/classes/idle:cpu-seconds
	User      time.Duration // /cpu/classes/user:cpu-seconds
	Total     time.Duration // /cpu/classes/total:cpu-seconds: GOMAXPROCS times the time
}

// SizeClass is the objects of one size class (MemStats.BySize).
type SizeClass struct {
	Size    uint32 // the largest object of the class
	Mallocs uint64
	Frees   uint64
}

// ProcessMemory is the memory of the process as the kernel accounts it.
type ProcessMemory struct {
	RSS   uint64 // resident memory (VmRSS): Anon, File and Shmem
	Anon  uint64 // RssAnon
	File  uint64 // RssFile
	Shmem uint64 // RssShmem
	Swap  uint64 // VmSwap
	Peak  uint64 // the largest RSS so far (VmHWM)

	CGroup *CGroupMemory // nil if the process is in no memory cgroup that can be read

	// Parts explains the RSS: its sum is the resident memory by /proc/PID/smaps. It is nil if the reading left it out, or if
	// smaps could not be read.
	Parts *MemoryParts
}

// CGroupMemory is the accounting of the cgroup of a process.
type CGroupMemory struct {
	Path    string // directory of the cgroup
	Current uint64 // memory.current: memory of all processes in the cgroup, with page cache and kernel memory

	Limit *CGroupLimit // nil if neither the cgroup nor one above it has a limit
}

// CGroupLimit is the lowest limit that applies to a cgroup: its own, or that of one above it.
type CGroupLimit struct {
	Path    string // directory of the cgroup that has the limit
	Max     uint64 // memory.max
	Current uint64 // memory.current of that cgroup
}

// MemoryParts is the resident memory of a process by what it belongs to.
type MemoryParts struct {
	Arenas     uint64 // address range of the Go heap: objects, idle spans that were not released, stacks of goroutines, work buffers
	Metadata   uint64 // other memory of the Go runtime; see MetadataBound
	Executable uint64 // code and data of the executable
	Files      uint64 // shared libraries and other files
	Shared     uint64 // shared memory without a file system
	CHeap      uint64 // the heap of C's malloc that grows by brk ([heap])
	Other      uint64 // anonymous memory that the runtime does not know: memory of C code, stacks of its threads, mmap

	// MetadataBound reports that the kernel does not name the mappings of the runtime (Go 1.25 and CONFIG_ANON_VMA_NAME do).
	// Metadata is then the smaller of what the runtime obtained and what is resident in anonymous mappings outside the arenas.
	MetadataBound bool

	Largest []MemoryMapping // the largest mappings of Executable, Files, Shared, CHeap and Other, by resident memory
}

// Sum returns the resident memory of all parts.
func (p *MemoryParts) Sum() uint64 {
	return p.Arenas + p.Metadata + p.Executable + p.Files + p.Shared + p.CHeap + p.Other
}

// MemoryMapping is a mapping of a process.
type MemoryMapping struct {
	Start, End uint64
	Name       string // a path, a name of the kernel such as "[heap]", or "" for anonymous memory
	RSS        uint64
}

// MemoryReading describes how well the numbers of the runtime belong together. The process ran while they were read.
type MemoryReading struct {
	Attempts int // how often the numbers were read

	// Torn reports that the counters changed during each attempt. Allocated and Freed are the bytes that the process allocated
	// and freed during the attempt that was kept: sums such as HeapMemory.Alloc are off by at most these.
	//
	// Counts of objects of a reading that is not torn can include, for each P, the free slots of a span that the P was about to
	// use (before Go 1.19).
	Torn             bool
	Allocated, Freed uint64
}

// less returns a minus b, or 0 if b is larger.
func less(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}
