package pprof

import (
	"math"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/event"
)

// A HeapRecord has the sampled objects of one size that were allocated by one stack, as runtime.MemProfileRecord.
type HeapRecord struct {
	Stack []event.StackFrame // of return addresses, leaf first
	Size  int64              // bytes of an object

	Allocs, Frees         int64
	AllocBytes, FreeBytes int64
}

// NewHeap starts a heap profile with the types of values that runtime/pprof writes. rate is runtime.MemProfileRate.
func NewHeap(taken time.Time, mapping Mapping, rate int64) *Builder {
	b := NewBuilder(taken, mapping, ValueType{Type: "alloc_objects", Unit: "count"}, ValueType{Type: "alloc_space", Unit: "bytes"},
		ValueType{Type: "inuse_objects", Unit: "count"}, ValueType{Type: "inuse_space", Unit: "bytes"})
	b.Prefer("inuse_space")
	b.prof.Period, b.prof.PeriodType = rate, &profile.ValueType{Type: "space", Unit: "bytes"}
	return b
}

// AddHeap adds a record to a heap profile. Its values become estimates of all objects, of which one was sampled for each
// Period bytes on average.
func (b *Builder) AddHeap(r *HeapRecord) {
	objects, space := unsampled(r.Allocs, r.AllocBytes, b.prof.Period)
	liveObjects, liveSpace := unsampled(r.Allocs-r.Frees, r.AllocBytes-r.FreeBytes, b.prof.Period)
	b.AddSized(recordedLocations(r.Stack), r.Size, objects, space, liveObjects, liveSpace)
}

// unsampled estimates the number of objects and their bytes from those that were sampled. An object of size S is sampled
// with the probability 1-exp(-S/rate).
func unsampled(count, bytes, rate int64) (objects, space int64) {
	switch {
	case count == 0 || bytes == 0:
		return 0, 0
	case rate <= 1: // all objects
		return count, bytes
	}
	size := float64(bytes) / float64(count)
	factor := 1 / (1 - math.Exp(-size/float64(rate)))
	return int64(float64(count) * factor), int64(float64(bytes) * factor)
}

// NewContention starts a block or mutex profile with the types of values that runtime/pprof writes.
func NewContention(taken time.Time, mapping Mapping) *Builder {
	b := NewBuilder(taken, mapping, ValueType{Type: "contentions", Unit: "count"}, ValueType{Type: "delay", Unit: "nanoseconds"})
	b.Prefer("delay")
	return b
}

// AddContention adds waits to a block or mutex profile: a stack of return addresses, the number of waits and their
// duration.
func (b *Builder) AddContention(stack []event.StackFrame, count int64, delay time.Duration) {
	b.Add(recordedLocations(stack), nil, count, delay.Nanoseconds())
}

// recordedLocations is locations for a stack that consists of return addresses.
func recordedLocations(stack []event.StackFrame) []Location {
	list := make([]Location, 0, len(stack))
	for i := range stack {
		f := &stack[i]
		if i == 0 || !stack[i-1].Inlined {
			list = append(list, Location{Addr: f.PC - 1})
		}
		if last := &list[len(list)-1]; f.Frame != (event.Frame{}) {
			last.Lines = append(last.Lines, f.Frame)
		}
	}
	return list
}
