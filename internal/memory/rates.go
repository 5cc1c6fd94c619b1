package memory

import "github.com/loupe-go/loupe/event"

// Rates are what happened between two readings of a process, per second.
type Rates struct {
	Seconds    float64
	AllocBytes float64
	Allocs     float64 // objects
	Cycles     float64 // garbage collections

	// GCShare is the share of the processor time that collections took, from 0 to 1, as the runtime accounts it at the end of a
	// collection. It is negative if it is unknown: before Go 1.20, and if no collection ended.
	GCShare float64
}

// RatesBetween returns the rates between two readings; false if there are none.
func RatesBetween(before, after *event.Memory) (r Rates, ok bool) {
	if before == nil || after == nil {
		return r, false
	}
	r.Seconds = after.Time.Sub(before.Time).Seconds()
	if r.Seconds <= 0 {
		return r, false
	}
	since := func(a, b uint64) float64 {
		if b < a { // torn readings
			return 0
		}
		return float64(b-a) / r.Seconds
	}
	r.AllocBytes = since(before.Heap.TotalAlloc, after.Heap.TotalAlloc)
	r.Allocs = since(before.Heap.Mallocs, after.Heap.Mallocs)
	r.Cycles = since(uint64(before.GC.Cycles), uint64(after.GC.Cycles))
	r.GCShare = -1
	if a, b := before.GC.CPU, after.GC.CPU; a != nil && b != nil && b.Total > a.Total {
		r.GCShare = float64(b.GC-b.IdleMark-a.GC+a.IdleMark) / float64(b.Total-a.Total)
	}
	return r, true
}
