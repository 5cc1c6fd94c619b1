package event

// A Description is what is known of a kind of event: a row of the table of kinds.
type Description struct {
	Name    string  // as of the constant
	Group   Group   // of the kinds that are usually observed together
	Sources Sources // which produce it
	Tone    Tone    // of its name in a text for people
	Doc     string  // what happened, such as "a channel is made"
	Fields  []Field // that are set in addition to Time, Kind, PID, TID and P; must not be modified
}

// Field returns the description of a field of Event, such as "Value". The result is false if the kind does not set it.
func (d *Description) Field(name string) (Field, bool) {
	for _, f := range d.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// A Field describes what a field of Event means for one kind.
type Field struct {
	Name     string // of the field of Event
	Key      string // its name in JSON; empty for Origin and Stack, which have several
	Unit     Unit
	Optional bool   // the zero value means that nothing is known
	Doc      string // the meaning, such as "the capacity of the channel"
}

// A Unit says what the number in a field is.
type Unit string

// The units of fields. Fields that are not numbers have none.
const (
	Nanoseconds Unit = "nanoseconds"
	Bytes       Unit = "bytes"
	Count       Unit = "count"
	Address     Unit = "address" // in the memory of the process
	ID          Unit = "ID"      // of a goroutine or a task
)

// A Group is a set of kinds that are usually observed together. Its value is its name.
type Group string

// The groups of kinds.
const (
	GroupGoroutine Group = "goroutine" // the lifecycle and the scheduling of goroutines
	GroupGC        Group = "gc"        // garbage collections, STW pauses and the size of the heap
	GroupMemory    Group = "memory"    // heap goal and allocations, sampled from the memory statistics of the runtime
	GroupSyscall   Group = "syscall"   // system calls and calls of C code
	GroupChannel   Group = "chan"      // channel operations, including operations that do not block
	GroupLock      Group = "lock"      // operations on contended locks and semaphores
	GroupUser      Group = "user"      // annotations that the program makes with runtime/trace, and CPU samples; requests, as such annotations
	GroupStream    Group = "stream"    // marks about the stream itself, which are always reported
)

// Groups returns all groups.
func Groups() []Group {
	return []Group{GroupGoroutine, GroupGC, GroupMemory, GroupSyscall, GroupChannel, GroupLock, GroupUser, GroupStream}
}

// Sources are the sources of events that produce a kind.
type Sources uint8

// The sources of events.
const (
	FromProcess Sources = 1 << iota // a live process
	FromTrace                       // an execution trace
	// OnlyCounted marks a kind that a live process counts and that no stream contains.
	OnlyCounted
	// FromMemory marks a kind that is sampled from the memory of a live process, without a probe.
	FromMemory
)

// A Tone says how a text for people emphasizes the name of a kind.
type Tone uint8

// The tones.
const (
	ToneNone    Tone = iota
	ToneGood         // something begins
	ToneWarn         // something has to wait
	ToneBad          // events are missing
	ToneDim          // something is over
	ToneOutside      // outside of Go code
)

// Describe returns the description of a kind, which must not be modified. It is empty if there is no such kind.
func (k Kind) Describe() *Description {
	if int(k) < NumKinds {
		return &kindTable[k]
	}
	return &kindTable[0]
}

// Fields that mean the same for several kinds.
var (
	ofG         = Field{Name: "G", Key: "g", Unit: ID, Doc: "the goroutine"}
	ofParent    = Field{Name: "Parent", Key: "parent", Unit: ID, Optional: true, Doc: "the goroutine that created G"}
	ofOrigin    = Field{Name: "Origin", Optional: true, Doc: "the go statement and the start function of G"}
	ofStack     = Field{Name: "Stack", Optional: true, Doc: "the stack of G"}
	ofWait      = Field{Name: "Reason", Key: "reason", Optional: true, Doc: "the wait reason"}
	ofChannel   = Field{Name: "Object", Key: "object", Unit: Address, Optional: true, Doc: "the channel"}
	ofSemaphore = Field{Name: "Object", Key: "object", Unit: Address, Optional: true, Doc: "the lock or semaphore"}
	ofTask      = Field{Name: "Value", Key: "task", Unit: ID, Doc: "the task"}
	ofRegion    = Field{Name: "Text", Key: "text", Optional: true, Doc: "the type of the region"}
)

// kindTable describes every kind. Row 0 is empty: there is no such kind.
var kindTable = [NumKinds]Description{
	GoStatus: {"GoStatus", GroupGoroutine, FromProcess | FromTrace, ToneNone,
		"a goroutine that is alive when the session starts", []Field{ofG, ofParent,
			{Name: "State", Key: "state", Doc: "the state of G"}, ofWait, ofOrigin, ofStack,
			{Name: "Value", Key: "nanoseconds", Unit: Nanoseconds, Optional: true,
				Doc: "the wait so far, counted from the first garbage collection that found G blocked"}}},
	GoCreate: {"GoCreate", GroupGoroutine, FromProcess | FromTrace, ToneGood,
		"a goroutine is created", []Field{ofG, ofParent, ofOrigin,
			{Name: "State", Key: "state", Optional: true, Doc: "StateWaiting for a coroutine; otherwise G is runnable"},
			{Name: "Stack", Optional: true, Doc: "the stack of the creator"}}},
	GoStart: {"GoStart", GroupGoroutine, FromProcess | FromTrace, ToneGood,
		"a goroutine starts to run on an M", []Field{ofG}},
	GoStop: {"GoStop", GroupGoroutine, FromProcess | FromTrace, ToneWarn,
		"a goroutine stops running and remains runnable", []Field{ofG,
			{Name: "Reason", Key: "reason", Optional: true, Doc: "StopGosched or StopPreempted"}, ofStack}},
	GoBlock: {"GoBlock", GroupGoroutine, FromProcess | FromTrace, ToneWarn,
		"a goroutine stops running and waits", []Field{ofG, ofWait,
			{Name: "TraceReason", Key: "traceReason", Optional: true, Doc: "the block reason of the execution tracer"}, ofStack,
			{Name: "Object", Key: "object", Unit: Address, Optional: true, Doc: "the channel of a send or receive"},
			{Name: "Value", Key: "nanoseconds", Unit: Nanoseconds, Optional: true, Doc: "the duration, if only long waits are observed"}}},
	GoUnblock: {"GoUnblock", GroupGoroutine, FromProcess | FromTrace, ToneNone,
		"a goroutine becomes runnable", []Field{ofG,
			{Name: "By", Key: "by", Unit: ID, Optional: true, Doc: "the goroutine that made G runnable"},
			{Name: "Stack", Optional: true, Doc: "the stack of By"}}},
	GoDestroy: {"GoDestroy", GroupGoroutine, FromProcess | FromTrace, ToneDim,
		"a goroutine exits", []Field{ofG}},
	GoSwitch: {"GoSwitch", GroupGoroutine, OnlyCounted, ToneNone,
		"a coroutine switches to another one", nil},

	GoSyscallBegin: {"GoSyscallBegin", GroupSyscall, FromProcess | FromTrace, ToneOutside,
		"a goroutine enters a system call or C code", []Field{ofG, ofStack}},
	GoSyscallEnd: {"GoSyscallEnd", GroupSyscall, FromProcess | FromTrace, ToneOutside,
		"a goroutine returns from a system call or C code", []Field{ofG,
			{Name: "State", Key: "state", Optional: true, Doc: "StateRunnable if G has to wait for a P"},
			{Name: "Value", Key: "nanoseconds", Unit: Nanoseconds, Optional: true, Doc: "the duration"}}},

	ChanMake: {"ChanMake", GroupChannel, FromProcess, ToneNone,
		"a channel is made", []Field{ofG, ofChannel, {Name: "Value", Key: "capacity", Unit: Count, Doc: "the capacity"}, ofStack}},
	ChanSend: {"ChanSend", GroupChannel, FromProcess, ToneNone,
		"a value is about to be sent", []Field{ofG, ofChannel, ofStack}},
	ChanReceive: {"ChanReceive", GroupChannel, FromProcess, ToneNone,
		"a value is about to be received", []Field{ofG, ofChannel, ofStack}},
	ChanClose: {"ChanClose", GroupChannel, FromProcess, ToneNone,
		"a channel is about to be closed", []Field{ofG, ofChannel, ofStack}},
	Select: {"Select", GroupChannel, FromProcess, ToneNone,
		"a select statement with several cases begins", []Field{ofG,
			{Name: "Value", Key: "cases", Unit: Count, Doc: "the number of cases"}, ofStack}},
	SemAcquire: {"SemAcquire", GroupLock, FromProcess, ToneNone,
		"a goroutine is about to wait for a lock or semaphore that is not free", []Field{ofG, ofSemaphore, ofStack}},
	SemRelease: {"SemRelease", GroupLock, FromProcess, ToneNone,
		"a lock or semaphore that a goroutine waits for is released", []Field{ofG, ofSemaphore, ofStack}},

	GCBegin: {"GCBegin", GroupGC, FromProcess | FromTrace, ToneNone,
		"a garbage collection begins", []Field{{Name: "G", Key: "g", Unit: ID, Optional: true, Doc: "the goroutine that starts it"}, ofStack}},
	GCEnd: {"GCEnd", GroupGC, FromProcess | FromTrace, ToneNone,
		"the mark phase of a garbage collection ends", nil},
	STWBegin: {"STWBegin", GroupGC, FromProcess | FromTrace, ToneNone,
		"the world is about to be stopped", []Field{{Name: "G", Key: "g", Unit: ID, Optional: true, Doc: "the goroutine that stops it"},
			{Name: "Reason", Key: "reason", Optional: true, Doc: "the reason"}, ofStack}},
	STWEnd: {"STWEnd", GroupGC, FromProcess | FromTrace, ToneNone,
		"the world is started again", nil},
	GCMarkAssistBegin: {"GCMarkAssistBegin", GroupGC, FromProcess | FromTrace, ToneWarn,
		"a goroutine that allocates begins to mark for the garbage collector", []Field{ofG, ofStack}},
	GCMarkAssistEnd: {"GCMarkAssistEnd", GroupGC, FromProcess | FromTrace, ToneNone,
		"a goroutine stops marking for the garbage collector", []Field{ofG}},
	HeapAlloc: {"HeapAlloc", GroupGC, FromProcess | FromTrace, ToneNone,
		"the size of the heap, live objects and objects that are not swept yet", []Field{
			{Name: "Value", Key: "bytes", Unit: Bytes, Doc: "the size"}}},

	HeapGoal: {"HeapGoal", GroupMemory, FromMemory | FromTrace, ToneNone,
		"the size of the heap at which the next garbage collection should end", []Field{
			{Name: "Value", Key: "bytes", Unit: Bytes, Doc: "the size; 0 if garbage collection is off"}}},
	AllocBytes: {"AllocBytes", GroupMemory, FromMemory | FromTrace, ToneNone,
		"bytes that were allocated on the heap since the program started", []Field{
			{Name: "Value", Key: "bytes", Unit: Bytes, Doc: "their number, as in runtime.MemStats.TotalAlloc"}}},
	AllocObjects: {"AllocObjects", GroupMemory, FromMemory | FromTrace, ToneNone,
		"objects that were allocated on the heap since the program started", []Field{
			{Name: "Value", Key: "objects", Unit: Count, Doc: "their number, as in runtime.MemStats.Mallocs"}}},

	Lost: {"Lost", GroupStream, FromProcess | FromTrace, ToneBad,
		"events before this one were lost", []Field{{Name: "Value", Key: "events", Unit: Count, Doc: "their number, 0 if unknown"}}},
	Exec: {"Exec", GroupStream, FromProcess, ToneBad,
		"the process has executed another program", nil},
	Resample: {"Resample", GroupStream, FromProcess, ToneWarn,
		"from here on another part of the goroutines is sampled", []Field{
			{Name: "Value", Key: "sampled", Unit: Count, Doc: "their number, of 2^32 goroutines"}}},

	UserTaskBegin: {"UserTaskBegin", GroupUser, FromTrace, ToneNone,
		"a runtime/trace task begins", []Field{ofG, ofTask,
			{Name: "Text", Key: "text", Optional: true, Doc: "the type of the task"},
			{Name: "Object", Key: "parentTask", Unit: ID, Optional: true, Doc: "the parent task"}, ofStack}},
	UserTaskEnd: {"UserTaskEnd", GroupUser, FromTrace, ToneNone,
		"a runtime/trace task ends", []Field{ofG, ofTask, ofStack}},
	UserRegionBegin: {"UserRegionBegin", GroupUser, FromTrace, ToneNone,
		"a runtime/trace region begins", []Field{ofG, ofRegion, ofTask, ofStack}},
	UserRegionEnd: {"UserRegionEnd", GroupUser, FromTrace, ToneNone,
		"a runtime/trace region ends", []Field{ofG, ofRegion, ofTask, ofStack}},
	UserLog: {"UserLog", GroupUser, FromTrace, ToneNone,
		"a runtime/trace log message", []Field{ofG, {Name: "Reason", Key: "category", Optional: true, Doc: "the category"},
			{Name: "Text", Key: "text", Optional: true, Doc: "the message"}, ofTask, ofStack}},
	CPUSample: {"CPUSample", GroupUser, FromTrace, ToneNone,
		"a sample of the CPU profiler", []Field{{Name: "G", Key: "g", Unit: ID, Optional: true, Doc: "the goroutine"}, ofStack}},
}
