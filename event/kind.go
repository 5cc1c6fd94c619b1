package event

import "fmt"

// A Kind is a kind of event. Where the Go execution tracer has an event with the same meaning, the kind has the same
// name.
type Kind uint8

// The kinds of events. Kind.Describe returns what each kind means, its fields and their units.
//
// Operations on channels and semaphores have no G and no Stack if the runtime itself performs them. For example, timers
// send on their channels from the scheduler.
const (
	_ Kind = iota

	GoStatus  // a goroutine that is alive when the session starts
	GoCreate  // a goroutine is created
	GoStart   // a goroutine starts to run on an M
	GoStop    // a goroutine stops running and remains runnable
	GoBlock   // a goroutine stops running and waits
	GoUnblock // a goroutine becomes runnable
	GoDestroy // a goroutine exits
	GoSwitch  // a coroutine switches to another one. Streams have GoBlock (or GoDestroy), GoUnblock and GoStart instead; only counts use this kind

	GoSyscallBegin // a goroutine enters a system call or C code
	GoSyscallEnd   // a goroutine returns from a system call or C code

	ChanMake    // a channel is made
	ChanSend    // a value is about to be sent
	ChanReceive // a value is about to be received
	ChanClose   // a channel is about to be closed
	Select      // a select statement with several cases begins
	SemAcquire  // a goroutine is about to wait for a lock or semaphore that is not free
	SemRelease  // a lock or semaphore that a goroutine waits for is released

	GCBegin   // a garbage collection begins
	GCEnd     // the mark phase of a garbage collection ends
	STWBegin  // the world is about to be stopped
	STWEnd    // the world is started again
	HeapAlloc // the size of the heap, live objects and objects that are not swept yet

	Lost // events before this one were lost
	Exec // the process has executed another program (execve(2)); earlier events say nothing about it

	// Kinds that execution traces contain. A live process has them, except samples, if its session makes tasks of request spans.

	UserTaskBegin   // a runtime/trace task begins
	UserTaskEnd     // a runtime/trace task ends
	UserRegionBegin // a runtime/trace region begins
	UserRegionEnd   // a runtime/trace region ends
	UserLog         // a runtime/trace log message
	CPUSample       // a sample of the CPU profiler

	// Kinds that are sampled from the memory statistics of the runtime.

	HeapGoal     // the size of the heap at which the next garbage collection should end
	AllocBytes   // bytes that were allocated on the heap since the program started
	AllocObjects // objects that were allocated on the heap since the program started

	GCMarkAssistBegin // a goroutine that allocates begins to mark for the garbage collector
	GCMarkAssistEnd   // that goroutine stops marking

	Resample // from here on another part of the goroutines is sampled: see Event.Sampled

	numKinds
)

const (
	// NumKinds is above the number of every kind.
	NumKinds = int(numKinds)
	// KindLimit is above every value of type Kind. A table of this length has an entry for any value, also for one that
	// is not the number of a kind.
	KindLimit = 1 << 8
)

// String returns the name of the kind, such as "GoBlock".
func (k Kind) String() string {
	if name := k.Describe().Name; name != "" {
		return name
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// ParseKind returns the kind with the given name. The result is false if there is no such kind.
func ParseKind(name string) (Kind, bool) {
	for k := range kindTable {
		if n := kindTable[k].Name; n == name && n != "" {
			return Kind(k), true
		}
	}
	return 0, false
}

// Valid reports whether there is such a kind.
func (k Kind) Valid() bool { return k-1 < numKinds-1 }
