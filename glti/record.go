package glti

import (
	"reflect"
	"runtime"
	"strconv"
	"time"
)

// G identifies a goroutine. It is comparable: two values are equal if they are the same goroutine. The interface{} values that
// callbacks and [GLTIEnv.GetG] have for goroutines contain a G.
//
// The runtime reuses the descriptors of goroutines that have ended, so an address alone does not identify a goroutine.
type G struct {
	// Addr is the address of the goroutine's descriptor (runtime.g). It is 0 in a stock program.
	Addr uintptr
	// ID is the goroutine ID, as tracebacks show it. IDs are not reused.
	ID uint64
}

// String returns "goroutine 18".
func (g G) String() string { return "goroutine " + strconv.FormatUint(g.ID, 10) }

// P identifies a processor of the scheduler. The interface{} values of [TracingEnv.RegisterTraceEvProcStart] and
// [TracingEnv.RegisterTraceEvProcStop] contain a P.
type P struct {
	// Addr is the address of the processor's descriptor (runtime.p). It is 0 in a stock program.
	Addr uintptr
	// ID is the number of the processor, from 0 to GOMAXPROCS-1.
	ID int32
}

// Record is one event. Fields that the event does not set are zero.
type Record struct {
	Event Event
	// Late is true if the record was delivered from a buffer after the event.
	Late bool
	// Time is when the event happened, in nanoseconds of the clock of [Now].
	Time int64
	// End is when the operation ended that began at Time, on the same clock. It is 0 for events without a duration, and where the end
	// is not known yet. Callbacks of GoBlock*, GoSleep and GoSched have it if they have class A.
	End int64
	// G is the goroutine that the event is about.
	G G
	// By is the goroutine that caused the event: the creator for GoCreate, the goroutine that woke the other for GoUnblock. It is
	// zero if no goroutine did.
	By G
	// P is the processor of ProcStart and ProcStop.
	P P
	// Args are the numbers of the event:
	//
	//	GCSTWStart      kind: STWMarkTermination or STWSweepTermination
	//	GCSweepDone     bytes swept, bytes reclaimed
	//	HeapAlloc       bytes of live heap
	//	NextGC          bytes of live heap at which the next collection ends
	//	UserTaskCreate  task, parent task
	//	UserTaskEnd     task
	//	UserRegion      task, mode: RegionStart or RegionEnd
	//	UserLog         task
	Args [2]uint64
	// Text are the strings of the event:
	//
	//	String          the string
	//	GoStartLabel    the label
	//	UserTaskCreate  name
	//	UserRegion      name
	//	UserLog         key, value
	Text [2]string
}

// RawRecord is one event for a raw callback. It contains no pointers, and is only valid during the call.
type RawRecord struct {
	Event Event
	_     [3]byte
	P     int32     // processor on which the event happened, -1 if on none
	Time  int64     // as in Record
	G     G         // as in Record
	By    G         // as in Record
	Args  [2]uint64 // as in Record
}

// FuncType is the type of a function of the program.
type FuncType struct {
	reflect.Type
	ABI int32 // 0 for the stack-based convention of assembly, 1 for Go's internal convention
}

// BlockProfileRecord is a record of a block or mutex profile.
type BlockProfileRecord struct {
	runtime.BlockProfileRecord
	GP interface{} // the goroutine (a G), nil if the record is a sum of several goroutines
}

// MemProfileRecord is a record of a heap profile.
type MemProfileRecord struct {
	runtime.MemProfileRecord
	GP interface{} // the goroutine (a G), nil if the record is a sum of several goroutines
}

// StackRecord is a stack of a profile.
type StackRecord struct {
	runtime.StackRecord
	GP interface{} // the goroutine (a G), nil if it is not known
}

// Now returns the time of the runtime's monotonic clock, in nanoseconds.
func Now() int64 { return nanotime() }

// Time converts a time of a record to wall-clock time. Like every time.Time with a monotonic clock reading it can be subtracted
// from others exactly.
func Time(ts int64) time.Time {
	mono := nanotime() // before now, so that the result is not before a time.Time that was taken before ts
	return time.Now().Add(time.Duration(ts - mono))
}
