package event

import "fmt"

// Kind is what happened. The names are those of the Go execution tracer where it has one.
type Kind uint8

// The kinds of events. The comment tells which fields apply beside Time, Kind, PID and TID.
const (
	_ Kind = iota

	GoStatus  // a goroutine that is alive when the observation begins: G, Parent, State, Reason, Origin, Stack; Value is how long it has waited
	GoCreate  // a goroutine is created and runnable: G, Parent, Origin, Stack of the creator; State is waiting for a coroutine
	GoStart   // it begins to run on an M: G
	GoStop    // it stops running and stays runnable: G, Reason, Stack
	GoBlock   // it stops running and waits: G, Reason, TraceReason, Stack; Value is the length of the wait when only long waits are observed
	GoUnblock // it is made runnable: G, By, Stack of the one that did
	GoDestroy // it ends: G
	GoSwitch  // a coroutine hands over to another. It is reported as GoBlock, GoUnblock and GoStart, and by this name in counts only

	GoSyscallBegin // it enters a system call or C code: G, Stack
	GoSyscallEnd   // it comes back: G; Value is the time in between, 0 when unknown

	// The operations on channels and semaphores have no G and no Stack when the runtime itself acts: a timer sends on its
	// channel from the scheduler.

	ChanMake    // a channel is made: G, Object, Value is its capacity
	ChanSend    // a value is about to be sent: G, Object, Stack
	ChanReceive // a value is about to be received: G, Object, Stack
	ChanClose   // a channel is about to be closed: G, Object, Stack
	Select      // a select with several cases begins: G, Value is the number of cases, Stack
	SemAcquire  // a lock or semaphore is not free at once, the goroutine will wait: G, Object, Stack
	SemRelease  // a lock or semaphore is released to someone who waits: G, Object, Stack

	GCBegin   // a garbage collection begins: G, the goroutine that starts it, Stack
	GCEnd     // marking is done, memory that is not reachable can be reused
	STWBegin  // the program is about to be stopped: G, Reason, Stack
	STWEnd    // it goes on
	HeapAlloc // bytes of live heap objects and of what was not swept yet: Value

	Lost // events before this one are missing: Value is how many
	Exec // the process has replaced itself by another program: nothing known before holds

	// What execution traces say beside; no live program is observed for it.

	UserTaskBegin   // a task of runtime/trace begins: G, Value is its ID, Text its type, Object its parent task's ID
	UserTaskEnd     // it ends: G, Value
	UserRegionBegin // a region of runtime/trace begins: G, Text is its type, Value the task's ID
	UserRegionEnd   // it ends: G, Text, Value
	UserLog         // a message of runtime/trace: G, Reason is its category, Text the message, Value the task's ID
	CPUSample       // a sample of the CPU profiler: G, Stack

	numKinds
)

var kindNames = [numKinds]string{
	GoStatus: "GoStatus", GoCreate: "GoCreate", GoStart: "GoStart", GoStop: "GoStop", GoBlock: "GoBlock",
	GoUnblock: "GoUnblock", GoDestroy: "GoDestroy", GoSwitch: "GoSwitch", GoSyscallBegin: "GoSyscallBegin", GoSyscallEnd: "GoSyscallEnd",
	ChanMake: "ChanMake", ChanSend: "ChanSend", ChanReceive: "ChanReceive", ChanClose: "ChanClose", Select: "Select",
	SemAcquire: "SemAcquire", SemRelease: "SemRelease", GCBegin: "GCBegin", GCEnd: "GCEnd", STWBegin: "STWBegin",
	STWEnd: "STWEnd", HeapAlloc: "HeapAlloc", Lost: "Lost", Exec: "Exec",
	UserTaskBegin: "UserTaskBegin", UserTaskEnd: "UserTaskEnd", UserRegionBegin: "UserRegionBegin",
	UserRegionEnd: "UserRegionEnd", UserLog: "UserLog", CPUSample: "CPUSample",
}

// String returns the kind's name, "GoBlock".
func (k Kind) String() string {
	if k < numKinds && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// ParseKind returns the kind of a name; false when there is none.
func ParseKind(name string) (Kind, bool) {
	for k, n := range kindNames {
		if n == name && n != "" {
			return Kind(k), true
		}
	}
	return 0, false
}

// Kinds is a set of kinds. The zero value is empty.
type Kinds uint64

// KindsOf returns the set of some kinds.
func KindsOf(kinds ...Kind) Kinds {
	var s Kinds
	for _, k := range kinds {
		s |= 1 << k
	}
	return s
}

// Has reports whether the set has a kind.
func (s Kinds) Has(k Kind) bool { return s&(1<<k) != 0 }

// List returns the kinds of the set in the order of their numbers.
func (s Kinds) List() []Kind {
	var list []Kind
	for k := Kind(1); k < numKinds; k++ {
		if s.Has(k) {
			list = append(list, k)
		}
	}
	return list
}

// Sets of kinds that belong together.
const (
	// KindsGoroutine is the life of goroutines.
	KindsGoroutine = Kinds(1<<GoStatus | 1<<GoCreate | 1<<GoStart | 1<<GoStop | 1<<GoBlock | 1<<GoUnblock | 1<<GoDestroy)
	// KindsSyscall is system calls, a great many in programs that use the network.
	KindsSyscall = Kinds(1<<GoSyscallBegin | 1<<GoSyscallEnd)
	// KindsChannel is what goroutines do with channels, whether they wait or not.
	KindsChannel = Kinds(1<<ChanMake | 1<<ChanSend | 1<<ChanReceive | 1<<ChanClose | 1<<Select)
	// KindsLock is contended locks and semaphores.
	KindsLock = Kinds(1<<SemAcquire | 1<<SemRelease)
	// KindsGC is the garbage collector and stops of the whole program.
	KindsGC = Kinds(1<<GCBegin | 1<<GCEnd | 1<<STWBegin | 1<<STWEnd | 1<<HeapAlloc)
	// KindsDefault is what is observed when nothing else is asked for.
	KindsDefault = KindsGoroutine | KindsGC
	// KindsAll is everything that a live program is observed for. Lost and Exec are always reported.
	KindsAll = Kinds(1<<(Exec+1) - 2)
	// KindsUser is what a program tells of itself by runtime/trace, and samples of its CPU profiler.
	KindsUser = Kinds(1<<UserTaskBegin | 1<<UserTaskEnd | 1<<UserRegionBegin | 1<<UserRegionEnd | 1<<UserLog | 1<<CPUSample)
)
