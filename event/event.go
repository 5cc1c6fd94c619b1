package event

// Event is one thing that happened in a Go program. Which fields apply depends on the kind; the others are zero.
//
// Events of one goroutine are in the order in which they happened. Between goroutines the order is that of causes: a
// goroutine is created before it starts, blocked before it is unblocked, unblocked before it starts again.
type Event struct {
	// Time is when it happened, in nanoseconds since the Unix epoch. It is taken from a monotonic clock, to which the
	// wall time at the start of the observation was added: differences are true durations.
	Time int64

	Kind Kind
	PID  int32 // of the process
	TID  int32 // the kernel thread that it happened on; 0 when unknown
	P    Proc  // the P that it happened on

	// G is the ID of the goroutine that the event is about; 0 when it is about none.
	G uint64

	// Parent is, on GoCreate and GoStatus, the ID of the goroutine that created G; 0 when unknown.
	Parent uint64

	// By is, on GoUnblock, the ID of the goroutine that made G runnable; 0 when the scheduler did it, for the network
	// poller, a timer or the garbage collector.
	By uint64

	// Reason says why, in the runtime's own words. On GoBlock and GoStatus it is the wait reason of a traceback ("chan
	// receive"); on GoStop what stopped the goroutine (StopGosched, StopPreempted); on STWBegin why the world stops.
	Reason string

	// TraceReason is, on GoBlock, the block reason of the runtime's execution tracer, which has its own set of words
	// ("chan receive", "network", "sync"); empty when the release has none.
	TraceReason string

	// State is, on GoStatus, what the goroutine is doing. On GoCreate it is StateWaiting for a coroutine. On GoSyscallEnd it
	// is StateRunnable when the goroutine has to wait for a P, which execution traces tell.
	State State

	// Origin is, on GoCreate and GoStatus, where the goroutine comes from; nil when unknown. Goroutines made by the same
	// go statement share it.
	Origin *Origin

	// Stack is where the goroutine was: on GoCreate its creator, on GoUnblock the one that woke it, else G itself. nil
	// when it was not recorded. The same stack is the same pointer within one observation.
	Stack *Stack

	// Object is the address of the channel, mutex or semaphore.
	Object uint64

	// Value is a number whose meaning Kind tells: the length of a wait or a syscall in nanoseconds, bytes of heap, the
	// capacity of a channel, the number of lost events.
	Value int64

	// Text is what the program itself has named or said, on the kinds of KindsUser.
	Text string
}

// Proc is a P, the runtime's permission to run Go code, of which there are GOMAXPROCS. The zero value is none, or one that
// is not known.
type Proc int32

// ProcOf returns the P with an ID; the first is 0.
func ProcOf(id int32) Proc { return Proc(id + 1) }

// ID returns the ID of the P; false when it is not known.
func (p Proc) ID() (int32, bool) { return int32(p) - 1, p > 0 }

// Origin is where goroutines come from: the go statement and the function that it starts.
type Origin struct {
	CreatedBy Frame // the go statement; zero for goroutines that the runtime started by itself
	Start     Frame // the function that the goroutine runs
	System    bool  // belongs to the runtime: not counted by runtime.NumGoroutine
}

// Stack is a call stack, recorded once however often it is seen. It does not change.
//
// A goroutine can be interrupted (GoStop and GoBlock with the reason "preempted") while a function makes or removes its
// frame. The stack then lacks that function's caller.
type Stack struct {
	Frames []Frame // the innermost first; frames that a Go traceback leaves out are left out
	// Truncated marks a stack that goes on beyond its last frame.
	Truncated bool
}

// Reasons of GoStop, as the runtime's execution tracer spells them.
const (
	StopGosched   = "runtime.Gosched"
	StopPreempted = "preempted"
)
