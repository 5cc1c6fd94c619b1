package goproc

import (
	"time"

	"github.com/loupe-go/loupe/event"
)

// Snapshot is the set of goroutines of one process, read from its memory.
type Snapshot struct {
	Time      time.Time // when reading began
	Elapsed   time.Duration
	PID       int
	GoVersion string // "go1.22.12"
	Paused    bool   // the process stood still while it was read: the picture is exact across goroutines

	// Goroutines are the live ones in order of their ID, the runtime's own included.
	Goroutines []Goroutine

	// Unsettled counts the goroutines whose stack changed during every attempt to read it. They are among Goroutines,
	// with a best-effort stack or none.
	Unsettled int

	// Incomplete counts the goroutines whose stack could not be walked to its outermost frame.
	Incomplete int

	// Warnings are single lines for people: what could not be read or is uncertain, and why.
	Warnings []string
}

// Goroutine is one goroutine at one moment.
type Goroutine struct {
	ID     uint64
	Parent uint64 // the creator's ID; 0 when unknown (before Go 1.21) or created by the runtime
	State  event.State
	Reason string // the runtime's wait reason, "chan receive"; only while State is waiting or leaked

	// Wait is how long the goroutine has been blocked, as far as the runtime knows: it notes the time at the first
	// garbage collection that finds the goroutine blocked. WaitKnown says whether it has. Until then the wait lasts at
	// most WaitMax, the age of the last collection's start or of the process.
	Wait      time.Duration
	WaitKnown bool
	WaitMax   time.Duration // 0 when unknown or when WaitKnown

	CreatedBy event.Frame // the go statement; zero for goroutines that the runtime started itself
	Start     event.Frame // the function the goroutine was started with

	// Stack is the call stack, leaf first, inlined frames included. It is shared between goroutines with the same
	// stack: do not modify it.
	Stack []Frame

	// BestEffort marks a stack that was read while the goroutine ran: its upper part may be out of date.
	BestEffort bool

	// Truncated marks a stack that could not be walked to its outermost frame: a frame is unknown (C code, a plugin
	// that is not at hand), or there are more than Loupe reads.
	Truncated bool

	System   bool // belongs to the runtime, as runtime.NumGoroutine counts it
	Locked   bool // locked to its thread by runtime.LockOSThread
	ThreadID int  // the kernel thread that runs it; 0 when none

	// Lent marks a goroutine that waits by its state only: the state lets the garbage collector scan its stack while its
	// code goes on, on its thread's own stack.
	Lent   bool
	Labels map[string]string // profiler labels set by runtime/pprof; nil when none

	stops              uint8  // how often it has stopped running, modulo 256; 0 before Go 1.17
	stackTop, stackSum uint64 // where its stack ends, and a hash of what is in it; 0 when unknown
}

// RanSince reports whether the goroutine is known to have run since an earlier snapshot of the same process saw it: the
// runtime has counted a stop since, or its stack is where it was and has other contents. A stack that the runtime has
// moved shows nothing, and neither does a count that has come round to the same number.
func (g *Goroutine) RanSince(earlier *Goroutine) bool {
	return g.stops != earlier.stops ||
		g.stackTop != 0 && g.stackTop == earlier.stackTop && g.stackSum != earlier.stackSum
}

// Frame is one logical frame of a goroutine's stack.
type Frame struct {
	event.Frame
	StartLine int // line of the function's beginning within File; 0 when unknown

	PC      uint64 // the address the frame is at: a return address, save in the leaf frame
	Inlined bool   // has no activation record of its own: part of the next frame that is not inlined
	Hidden  bool   // left out of a Go traceback: runtime internals and compiler-made wrappers
}
