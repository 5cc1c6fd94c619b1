package event

// An Event is one thing that happened in a Go program. The fields that are set depend on the kind, see Kind.Describe; the
// other fields are zero.
//
// The events of one goroutine are in the order in which they happened. The events of different goroutines are in causal
// order: a goroutine is created before it starts, blocks before it is unblocked, and is unblocked before it starts again.
type Event struct {
	// Time is the time of the event in nanoseconds since the Unix epoch. For a live process it is read from a monotonic
	// clock, to which the wall-clock time at the start of the session is added, so the difference of two times is not
	// affected by changes of the wall clock. For execution traces see trace.Reader.
	Time int64

	Kind Kind
	PID  int32 // the process; 0 if unknown
	TID  int32 // the kernel thread on which the event happened; 0 if unknown
	P    Proc  // the P on which the event happened; 0 if unknown

	// G is the ID of the goroutine that the event is about, or 0 if it is not about a goroutine.
	G uint64

	// Parent is the ID of the goroutine that created G, or 0 if unknown. It is set for GoCreate and GoStatus.
	Parent uint64

	// By is the ID of the goroutine that made G runnable. It is set for GoUnblock, and 0 if the scheduler made G
	// runnable on behalf of the network poller, a timer or the garbage collector.
	By uint64

	// Reason is the reason for the event, as the runtime spells it. The methods WaitReason, StopReason, STWReason and
	// Category return it by its meaning. A wait reason is the one that a traceback shows ("chan receive").
	Reason string

	// TraceReason is the block reason of the runtime's execution tracer, which has its own set of reasons ("chan
	// receive", "network", "sync"). It is set for GoBlock, and empty if the Go release has no such reasons.
	TraceReason string

	// State is the state of the goroutine for GoStatus. For GoCreate, it is StateWaiting if the goroutine is a
	// coroutine. For GoSyscallEnd, it is StateRunnable if the goroutine has to wait for a P; only execution traces
	// report that.
	State State

	// Origin is the go statement and the start function of the goroutine, or nil if unknown. It is set for GoCreate
	// and GoStatus. Goroutines created by the same go statement usually share one Origin.
	Origin *Origin

	// Stack is the call stack of the goroutine that caused the event: for GoCreate the creator, for GoUnblock the
	// goroutine that made G runnable, otherwise G. It is nil if it was not recorded. Equal stacks from one source
	// usually share one pointer.
	Stack *Stack

	// Object is what the event is about, in addition to G. The methods Address and ParentTask return it by its meaning.
	Object uint64

	// Value is a number whose meaning and unit depend on Kind. The methods Wait, SyscallTime, Capacity, Cases, HeapBytes,
	// HeapGoalBytes, AllocatedBytes, AllocatedObjects, Missing and Task return it by its meaning.
	Value int64

	// Text is set for the kinds in KindsUser. It is text from the program: the type of a task or a region, or a message. For
	// requests it is the name of the span, or part of the span.
	Text string
}

// A Proc identifies a P, a resource of the runtime that is required to execute Go code. There are GOMAXPROCS of them.
// The zero value means no P, or an unknown one.
type Proc int32

// ProcOf returns the P with the given ID. IDs start at 0.
func ProcOf(id int32) Proc { return Proc(id + 1) }

// ID returns the ID of the P. The result is false if p is the zero value.
func (p Proc) ID() (int32, bool) { return int32(p) - 1, p > 0 }

// An Origin is the source of goroutines: a go statement and the function that it starts.
type Origin struct {
	CreatedBy Frame // the go statement; zero for goroutines that the runtime itself started
	Start     Frame // the function that the go statement called
	System    bool  // whether the goroutine belongs to the runtime and is not counted by runtime.NumGoroutine
}

// A Stack is a call stack. It must not be modified, because events share it.
//
// A goroutine can be interrupted (GoStop and GoBlock with the reason "preempted") while a function sets up or removes its
// frame. In this case the caller of that function is missing from the stack.
type Stack struct {
	Frames []Frame // innermost first, without the frames that a Go traceback omits
	// Truncated reports whether the stack has further frames that were not recorded.
	Truncated bool
}

// Reasons for GoStop, as spelled by the runtime's execution tracer.
const (
	StopGosched   = "runtime.Gosched"
	StopPreempted = "preempted"
)
