// Package glti stands in for the package of this path in tests of the patched runtime. It has the symbols that the runtime pushes.
package glti

import (
	"time"
	"unsafe"
)

// Record is runtime.gltiRecord.
type Record struct {
	Event  uint8
	Late   bool
	P      int32
	Time   int64
	End    int64
	G      uintptr
	Goid   uint64
	By     uintptr
	ByGoid uint64
	Args   [2]uint64
	Stack  uint64
}

func rt_enable(mask uint64)
func rt_deliver(fn unsafe.Pointer)
func rt_quiet()
func rt_stamp() string
func rt_self() (g uintptr, goid uint64)
func rt_drain(into []Record) int
func rt_lost() uint64
func rt_panicked(fn unsafe.Pointer)
func rt_annotated(fn unsafe.Pointer)
func rt_local(g uintptr, goid uint64) unsafe.Pointer
func rt_setLocal(g uintptr, goid uint64, box unsafe.Pointer) unsafe.Pointer

func rt_inState(event uint8, into []ID) int
func rt_proc(id int32) uintptr

// An ID identifies a goroutine.
type ID struct {
	G    uintptr
	Goid uint64
}

// InState returns the goroutines that are in the state of an event.
func InState(event uint8) []ID {
	list := make([]ID, 4)
	for {
		n := rt_inState(event, list)
		if n <= len(list) {
			return list[:n]
		}
		list = make([]ID, 2*n)
	}
}

// Proc returns the address of a processor.
func Proc(id int32) uintptr { return rt_proc(id) }

// Enable selects the events.
func Enable(events ...uint8) {
	var mask uint64
	for _, e := range events {
		mask |= 1 << e
	}
	rt_enable(mask)
}

// EnableMask selects the events that have a bit in a mask.
func EnableMask(mask uint64) { rt_enable(mask) }

func rt_count(mask uint64)
func rt_counted(event uint8) uint64

// Count selects the events that are counted, and Counted returns how many there have been.
func Count(mask uint64)          { rt_count(mask) }
func Counted(event uint8) uint64 { return rt_counted(event) }

// Deliver sets the function for events of class A.
func Deliver(fn func(Record)) { rt_deliver(unsafe.Pointer(&fn)) }

// Panicked sets the function for an unhandled panic.
func Panicked(fn func(any)) { rt_panicked(unsafe.Pointer(&fn)) }

// An Annotation is one of package runtime/trace.
type Annotation struct {
	Event uint8
	Time  int64
	Goid  uint64
	Args  [2]uint64
	Text  [2]string
}

// Annotated sets the function for annotations.
func Annotated(call func(Annotation)) {
	fn := func(event uint8, time int64, _ uintptr, goid, arg0, arg1 uint64, text0, text1 string) {
		call(Annotation{event, time, goid, [2]uint64{arg0, arg1}, [2]string{text0, text1}})
	}
	rt_annotated(unsafe.Pointer(&fn))
}

// Drain returns the events in the rings.
func Drain() []Record {
	var all []Record
	buf := make([]Record, 256)
	for {
		n := rt_drain(buf)
		if n == 0 {
			return all
		}
		all = append(all, buf[:n]...)
	}
}

func rt_wait(ns int64)

// Pause waits as package glti does after it has read n records (drainWait).
func Pause(n int) {
	wait := 10 * time.Millisecond
	if n > 1<<13 {
		wait /= 5
	}
	rt_wait(int64(wait))
}

// DrainInto moves records from the rings to a buffer, and returns their number.
func DrainInto(buf []Record) int { return rt_drain(buf) }

func rt_raw(at int, callback unsafe.Pointer, mask uint64)

// RawRecord is runtime.gltiRawRecord.
type RawRecord struct {
	Event  uint8
	P      int32
	Time   int64
	G      uintptr
	Goid   uint64
	By     uintptr
	ByGoid uint64
	Args   [2]uint64
}

// A Raw is a raw callback.
type Raw struct {
	Event uint8
	Call  func(*RawRecord)
}

// SetRaw sets the raw callbacks, whose events are those of the mask.
func SetRaw(list []*Raw, mask uint64) {
	for at, raw := range list {
		rt_raw(at, unsafe.Pointer(raw), mask)
	}
}

func Quiet()                         { rt_quiet() }
func Stamp() string                  { return rt_stamp() }
func Lost() uint64                   { return rt_lost() }
func Self() (g uintptr, goid uint64) { return rt_self() }

// A Box is goroutine-local storage.
type Box struct {
	Goid  uint64
	Value any
}

func Local(g uintptr, goid uint64) *Box { return (*Box)(rt_local(g, goid)) }

func SetLocal(g uintptr, goid uint64, value any) *Box {
	return (*Box)(rt_setLocal(g, goid, unsafe.Pointer(&Box{goid, value})))
}

func rt_cpuStart(hz int32) bool
func rt_cpuStop()
func rt_cpuRead() (data []uint64, tags []unsafe.Pointer, eof bool)

// StartCPU starts a CPU profile.
func StartCPU(hz int) bool { return rt_cpuStart(int32(hz)) }

// StopCPU ends it and returns its rate and the stacks of its samples.
func StopCPU() (hz uint64, samples [][]uint64) {
	rt_cpuStop()
	for {
		data, _, eof := rt_cpuRead()
		if len(data) == 0 && eof {
			return hz, samples
		}
		for len(data) > 0 {
			n, count, stack := data[0], data[2], data[5:data[0]]
			data = data[n:]
			if hz == 0 {
				hz = count
				continue
			}
			for ; count > 0; count-- {
				samples = append(samples, append([]uint64(nil), stack...))
			}
		}
	}
}

func rt_blockRate(rate int)
func rt_mutexRate(rate int)
func rt_contentionRead() []uint64

// A Contention is a sample of a block or mutex profile.
type Contention struct {
	Kind, Cycles, Rate uint64
	Goid               uint64
	Stack              []uint64
}

// BlockRate and MutexRate set the rates of the agent.
func BlockRate(rate int) { rt_blockRate(rate) }
func MutexRate(rate int) { rt_mutexRate(rate) }

// ReadContention returns the samples since the last call.
func ReadContention() (list []Contention) {
	for {
		data := rt_contentionRead()
		if len(data) == 0 {
			return list
		}
		for len(data) > 0 {
			list = append(list, Contention{data[2], data[3], data[4], data[6], append([]uint64(nil), data[7:data[0]]...)})
			data = data[data[0]:]
		}
	}
}

func rt_countAllocs(on bool)
func rt_allocs(g uintptr, goid uint64) (bytes, objects uint64, ok bool)
func rt_allocsEnded() (bytes, objects uint64)

// CountAllocs begins to count what goroutines allocate, or ends that.
func CountAllocs(on bool) { rt_countAllocs(on) }

// Allocs returns what a goroutine has allocated.
func Allocs(g uintptr, goid uint64) (bytes, objects uint64, ok bool) { return rt_allocs(g, goid) }

// AllocsEnded returns what goroutines have allocated that have ended.
func AllocsEnded() (bytes, objects uint64) { return rt_allocsEnded() }
