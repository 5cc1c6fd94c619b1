package wire

// Memory is one reading of package runtime/metrics, and of debug.ReadGCStats. The comments are the names of the metrics.
type Memory struct {
	Request uint64
	Time    int64 // on the monotonic clock
	Procs   uint64

	HeapLive uint64 // the size of the heap that the runtime compares with Goal

	Objects, Live, Goal               uint64 // /memory/classes/heap/objects:bytes, /gc/heap/live:bytes, /gc/heap/goal:bytes
	Unused, Free, Released            uint64 // /memory/classes/heap/unused:bytes, free:bytes, released:bytes
	StacksInUse, StacksOS             uint64 // /memory/classes/heap/stacks:bytes, /memory/classes/os-stacks:bytes
	MSpanInUse, MSpanFree             uint64 // /memory/classes/metadata/mspan/inuse:bytes, free:bytes
	MCacheInUse, MCacheFree           uint64 // /memory/classes/metadata/mcache/inuse:bytes, free:bytes
	Buckets, Metadata, Other          uint64 // /memory/classes/profiling/buckets:bytes, metadata/other:bytes, other:bytes
	Total                             uint64 // /memory/classes/total:bytes
	AllocBytes, AllocObjects          uint64 // /gc/heap/allocs:bytes, allocs:objects
	FreeBytes, FreeObjects            uint64 // /gc/heap/frees:bytes, frees:objects
	TinyObjects, HeapObjects          uint64 // /gc/heap/tiny/allocs:objects, /gc/heap/objects:objects
	Cycles, Forced                    uint64 // /gc/cycles/total:gc-cycles, forced:gc-cycles
	GOGC, Limit                       uint64 // /gc/gogc:percent, /gc/gomemlimit:bytes
	LastGC                            uint64 // nanoseconds since the Unix epoch; 0 before the first collection
	PauseTotal                        uint64 // nanoseconds
	CPUAssist, CPUDedicated, CPUIdleM uint64 // nanoseconds: /cpu/classes/gc/mark/assist:cpu-seconds, dedicated, idle
	CPUPause, CPUGC, CPUScavenge      uint64 // nanoseconds: /cpu/classes/gc/pause:cpu-seconds, gc/total, scavenge/total
	CPUIdle, CPUUser, CPUTotal        uint64 // nanoseconds: /cpu/classes/idle:cpu-seconds, user, total
}

func (*Memory) kind() byte { return 'M' }

// numbers are the fields after Time in the order in which they are encoded. New ones are added at the end.
func (m *Memory) numbers() []*uint64 {
	return []*uint64{&m.Procs, &m.Objects, &m.Live, &m.Goal, &m.Unused, &m.Free, &m.Released, &m.StacksInUse, &m.StacksOS,
		&m.MSpanInUse, &m.MSpanFree, &m.MCacheInUse, &m.MCacheFree, &m.Buckets, &m.Metadata, &m.Other, &m.Total,
		&m.AllocBytes, &m.AllocObjects, &m.FreeBytes, &m.FreeObjects, &m.TinyObjects, &m.HeapObjects, &m.Cycles, &m.Forced,
		&m.GOGC, &m.Limit, &m.LastGC, &m.PauseTotal, &m.CPUAssist, &m.CPUDedicated, &m.CPUIdleM, &m.CPUPause, &m.CPUGC,
		&m.CPUScavenge, &m.CPUIdle, &m.CPUUser, &m.CPUTotal, &m.HeapLive}
}

func (m *Memory) encode(e *encoder) {
	e.uint(m.Request)
	e.int(m.Time)
	numbers := m.numbers()
	e.uint(uint64(len(numbers)))
	for _, n := range numbers {
		e.uint(*n)
	}
}

func (m *Memory) decode(d *decoder) {
	m.Request, m.Time = d.uint(), d.int()
	numbers := m.numbers()
	for i, n := 0, d.length(); i < n; i++ {
		if v := d.uint(); i < len(numbers) {
			*numbers[i] = v
		}
	}
}
