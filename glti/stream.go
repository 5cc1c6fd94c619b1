package glti

import "time"

// Numbers of events that only streams have. They are recorded when the goroutine stops running, whereas the GoBlock events and GoSched are
// delivered when the operation is over.
const (
	EvGoPark  Event = 2 // a goroutine begins to wait
	EvGoYield Event = 3 // a goroutine yields its processor and can run again at once
)

// StreamRecord is one event of a stream.
type StreamRecord struct {
	Event Event
	Time  int64 // when the event happened, on the clock of [Now]
	G     G     // the goroutine that the event is about
	By    G     // as in [Record]; for GCStart and GCSTWStart the goroutine that starts the collection
	P     int32 // the number of the processor on which the event happened; -1 if unknown

	// Args are the numbers of the event. They are those of [Record], and in addition
	//
	//	GoPark    wait reason, see WaitReason; reason of the execution tracer, see TraceReason
	//	GoYield   1 if the execution tracer calls it a preemption
	//	GoCreate  address of the go statement, address of the start function
	//	GoStart   ID of the thread, as the operating system has it
	Args [2]uint64

	// Stack identifies a stack, see StackPCs: of the creator for GoCreate, of By for GoUnblock and the events of collections, else of G. It
	// is 0 if unknown.
	Stack uint64
}

// StreamOptions selects the events of a [Stream].
type StreamOptions struct {
	// Events are the events to record: EvGoPark, EvGoYield, EvGoCreate, EvGoEnd, and those of class C that have a G or no fields but
	// Args. An event that the program does not report is an error.
	Events []Event

	// System includes the goroutines of the runtime. They are also included while any callback for an event is registered.
	System bool

	// Stack is the maximum number of addresses of a stack, at most 128. 0 records no stacks.
	Stack int
}

// Stream is the events of the scheduler, for an agent that follows every goroutine. It costs less than callbacks, and has what a
// callback comes too late for: when a wait begins, and its reason.
//
// Records are delivered in batches, from a buffer. The order of two batches, and of the records in a batch, is nearly that of their times.
// If the time of the cause of an event is T, both are delivered at most some scheduling delays apart.
type Stream struct {
	events uint64 // bit e is set for event e
	stack  int
	system bool
	sink   func(batch []StreamRecord, until int64)
}

// StreamGoroutine is a goroutine that exists.
type StreamGoroutine struct {
	G      G
	Parent uint64 // ID of the goroutine that created it; 0 if unknown
	State  GoroutineState
	Reason uint8         // of a wait, see WaitReason
	Wait   time.Duration // since the first garbage collection that has found the goroutine waiting; 0 if there was none
	Thread uint64        // for running goroutines, and those in system calls; 0 if unknown
	CreatedBy,
	StartPC uintptr // addresses of the go statement and of the start function
	Stack  uint64 // of a goroutine that waits, see StackPCs; 0 if unknown
	System bool   // it belongs to the runtime
	Agent  bool   // its events are not reported, because it belongs to an agent
}

// GoroutineState is what a goroutine does.
type GoroutineState uint8

// The states.
const (
	GoroutineRunnable GoroutineState = 1 + iota
	GoroutineRunning
	GoroutineSyscall
	GoroutineWaiting
	GoroutinePreempted // it waits until it may run again, for example while its stack is scanned
)

// streamer is what an implementation of hooks provides for streams.
type streamer interface {
	openStream(s *Stream) error
	closeStream(s *Stream)
	streamLost() (events, stacks uint64)
	listGoroutines(each func(*StreamGoroutine) bool)
	stackPCs(id uint64, into []uintptr) int
	waitReason(n uint8) string
	startPC(pc uintptr) uintptr
	heapLive() uint64
	calls(pc uintptr) []StreamCall
	traceReason(n uint8) string
}

func streams() (streamer, error) {
	if s, ok := impl.(streamer); ok {
		return s, nil
	}
	return nil, Capability{Method: "a stream", Why: "a stock program has no hooks in the scheduler"}.err()
}

// OpenStream begins a stream. sink is called with each batch of records, which is valid during the call. It is called by several
// goroutines at the same time. At least every 10 ms it is called with an empty batch and a time: what was recorded before that time has been
// delivered, except by threads that have not run since. Otherwise until is 0. The error wraps [ErrUnavailable] if the program has no
// streams, or if they do not have an event.
func OpenStream(opt StreamOptions, sink func(batch []StreamRecord, until int64)) (*Stream, error) {
	hooks, err := streams()
	if err != nil {
		return nil, err
	}
	s := &Stream{stack: opt.Stack, system: opt.System, sink: sink}
	for _, ev := range opt.Events {
		s.events |= 1 << ev
	}
	if err := hooks.openStream(s); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends the stream. The sink may still be called for a moment afterwards.
func (s *Stream) Close() {
	if hooks, err := streams(); err == nil {
		hooks.closeStream(s)
	}
}

// StreamLost returns how many events the buffers had no room for, and how many stacks the table of stacks, since the program started.
func StreamLost() (events, stacks uint64) {
	hooks, err := streams()
	if err != nil {
		return 0, 0
	}
	return hooks.streamLost()
}

// Goroutines calls each with all goroutines that exist, including those of the runtime, until it returns false. The program is not stopped:
// goroutines are read one after the other.
func Goroutines(each func(*StreamGoroutine) bool) error {
	hooks, err := streams()
	if err != nil {
		return err
	}
	hooks.listGoroutines(each)
	return nil
}

// StackPCs stores the return addresses of a stack, innermost first, and returns their number.
func StackPCs(id uint64, into []uintptr) int {
	hooks, err := streams()
	if err != nil {
		return 0
	}
	return hooks.stackPCs(id, into)
}

// WaitReason returns the text of a wait reason, as tracebacks show it, or "" if there is no such reason.
func WaitReason(n uint8) string {
	hooks, err := streams()
	if err != nil {
		return ""
	}
	return hooks.waitReason(n)
}

// TraceReason returns the text of a reason of the execution tracer, or "" if there is no such reason. It is always "" before Go 1.22.
func TraceReason(n uint8) string {
	hooks, err := streams()
	if err != nil {
		return ""
	}
	return hooks.traceReason(n)
}

// StartFunc returns the address of the function that a go statement names, given the one that it starts. They differ where the compiler
// has made a function that passes the arguments.
func StartFunc(pc uintptr) uintptr {
	hooks, err := streams()
	if err != nil {
		return pc
	}
	return hooks.startPC(pc)
}

// StreamCall is a call at an address of the program.
type StreamCall struct {
	Func, File  string
	Line, Start int  // of the call, and of the begin of the function
	Wrapper     bool // the compiler has made the function, to call another one. Tracebacks omit it
}

// Calls returns the calls at an address, innermost first: inlined calls, and the function that contains the address. For a return address,
// the address is the one before it.
func Calls(pc uintptr) []StreamCall {
	hooks, err := streams()
	if err != nil {
		return nil
	}
	return hooks.calls(pc)
}

// Quiet ends the reporting of events of the current goroutine, and of those that it creates from now on, to all agents.
func Quiet() { impl.quiet() }

// HeapLive returns the size of the heap that the runtime compares with the goal of the next collection. It is 0 in a stock program.
func HeapLive() uint64 {
	hooks, err := streams()
	if err != nil {
		return 0
	}
	return hooks.heapLive()
}
