package event

import "time"

// A Snapshot is the goroutines of one process, as read from its memory.
type Snapshot struct {
	Time      time.Time     // when reading began: after all threads had stopped, if Paused
	Elapsed   time.Duration // how long reading took
	PID       int           // the process
	GoVersion string        // the Go release that built the program, such as "go1.22.12"

	// Paused reports whether the process was stopped while it was read, so that all goroutines were seen at the same
	// moment. If it was running, the state and the stack of one goroutine belong together, but two goroutines can have
	// been seen some milliseconds apart.
	Paused bool

	// Goroutines holds the live goroutines, including those of the runtime itself, in increasing order of their IDs.
	Goroutines []Goroutine

	// Unsettled is the number of goroutines that ran during every attempt to read them, without being in state
	// StateRunning. Their stacks are best effort or empty.
	Unsettled int

	// Incomplete is the number of goroutines whose stack could not be walked to the outermost frame.
	Incomplete int

	// Warnings holds messages for the user: what could not be read or is uncertain, and why.
	Warnings []Warning
}

// A Goroutine is the state of one goroutine at one moment.
type Goroutine struct {
	ID     uint64
	Parent uint64 // ID of the goroutine that created it; 0 if unknown (before Go 1.21) or created by the runtime
	State  State
	Reason string // the runtime's wait reason, such as "chan receive"; set for StateWaiting and StateLeaked only

	// Wait is how long the goroutine has been blocked, if WaitKnown is set. The runtime records when a wait began at the
	// first garbage collection that finds the goroutine blocked.
	Wait time.Duration

	// WaitMax is an upper bound of the wait if WaitKnown is not set: the time since the last garbage collection began,
	// or since the process started. It is 0 if there is no bound, and if the goroutine is not blocked.
	WaitMax time.Duration

	CreatedBy Frame // the go statement; zero for goroutines that the runtime itself started
	Start     Frame // the function that the go statement called

	// Stack is the call stack, innermost frame first. It must not be modified, because goroutines with equal stacks
	// share it.
	Stack []StackFrame

	// Labels holds the profiler labels that the program has set with runtime/pprof. It is nil if the goroutine has no labels or is in
	// secret mode (package runtime/secret). It must not be modified, because goroutines share it.
	Labels map[string]string

	// StackEnd is the address of the outer end of the stack, and StackHash a hash of the contents of the stack. Only hashes
	// that were computed by the same process are comparable. Both fields are 0 if unknown. See RanSince.
	StackEnd, StackHash uint64

	TID       int32 // the kernel thread that runs it, for StateRunning and StateSyscall; 0 if unknown
	Stops     uint8 // number of times that it has stopped running, modulo 256; 0 before Go 1.17
	WaitKnown bool  // Wait is set
	System    bool  // belongs to the runtime and is not counted by runtime.NumGoroutine
	Locked    bool  // locked to its thread by runtime.LockOSThread

	// BestEffort reports whether the goroutine ran while its stack was read, so that the inner part of Stack may be out
	// of date or missing.
	BestEffort bool

	// Truncated reports whether the outer part of Stack is missing, because a frame belongs to C code or to code that
	// could not be read, or because the stack is too deep.
	Truncated bool

	// SystemStack reports whether the goroutine is executing on the system stack of its thread although State is
	// StateWaiting. The runtime uses that state so that the garbage collector can scan the stack meanwhile.
	SystemStack bool
}

// RanSince reports whether the goroutine is known to have run since an earlier snapshot of the same process: Stops
// differs, or the contents of the stack differ and the runtime has not moved the stack. The result can be false for a
// goroutine that has run.
func (g *Goroutine) RanSince(earlier *Goroutine) bool {
	return g.Stops != earlier.Stops ||
		g.StackEnd != 0 && g.StackEnd == earlier.StackEnd && g.StackHash != earlier.StackHash
}

// A StackFrame is one frame of the stack of a [Goroutine]. Inlined calls have frames of their own.
type StackFrame struct {
	Frame
	StartLine int // line in File at which the function begins; 0 if unknown

	PC      uint64 // return address, or the current instruction for the innermost frame
	Inlined bool   // the call was inlined into the next frame that is not inlined
	Hidden  bool   // omitted in a Go traceback: a function of the runtime, or a wrapper that the compiler generated
}
