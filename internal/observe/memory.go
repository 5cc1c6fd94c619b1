package observe

import (
	"math"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/glti/observe/wire"
)

// memoryOf converts memory statistics. It has no objects by size class, no large objects, and no single pauses, which the agent cannot read
// without stopping the program.
func memoryOf(m *wire.Memory, offset int64) *event.Memory {
	nanos := func(n uint64) time.Duration { return time.Duration(min(n, math.MaxInt64)) }
	limit := int64(min(m.Limit, math.MaxInt64))
	r := &event.Memory{
		Time: time.Unix(0, m.Time+offset),
		Heap: event.HeapMemory{
			Alloc: m.Objects, Objects: m.HeapObjects, Live: m.Live, Current: m.HeapLive, Goal: m.Goal,
			Inuse: m.Objects + m.Unused, Idle: m.Free + m.Released, Released: m.Released, Sys: m.Objects + m.Unused + m.Free + m.Released,
			TotalAlloc: m.AllocBytes, Mallocs: m.AllocObjects + m.TinyObjects, Frees: m.FreeObjects + m.TinyObjects, Tiny: m.TinyObjects,
		},
		Runtime: event.RuntimeMemory{
			StackInuse: m.StacksInUse, StackSys: m.StacksInUse + m.StacksOS,
			MSpanInuse: m.MSpanInUse, MSpanSys: m.MSpanInUse + m.MSpanFree, MCacheInuse: m.MCacheInUse, MCacheSys: m.MCacheInUse + m.MCacheFree,
			BuckHashSys: m.Buckets, GCSys: m.Metadata, OtherSys: m.Other, Sys: m.Total,
		},
		GC: event.GCMemory{
			Cycles: uint32(m.Cycles), Forced: uint32(m.Forced), PauseTotal: nanos(m.PauseTotal), Percent: int32(min(m.GOGC, math.MaxInt32)), MemoryLimit: &limit,
		},
		Reading: event.MemoryReading{Attempts: 1},
	}
	if m.GOGC > math.MaxInt32 {
		r.GC.Percent = -1 // off
	}
	if m.LastGC > 0 {
		r.GC.Last = time.Unix(0, int64(m.LastGC))
	}
	if m.CPUTotal > 0 {
		r.GC.CPU = &event.GCCPUSeconds{Assist: nanos(m.CPUAssist), Dedicated: nanos(m.CPUDedicated), IdleMark: nanos(m.CPUIdleM), Pause: nanos(m.CPUPause),
			GC: nanos(m.CPUGC), Scavenge: nanos(m.CPUScavenge), Idle: nanos(m.CPUIdle), User: nanos(m.CPUUser), Total: nanos(m.CPUTotal)}
	}
	return r
}
