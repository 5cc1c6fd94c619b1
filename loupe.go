package loupe

import (
	"log/slog"
	"time"

	"github.com/loupe-go/loupe/event"
)

// Options says what to observe and how. The zero value observes the life of all goroutines and the garbage collector.
type Options struct {
	// Kinds are the kinds of events to observe; zero means event.KindsDefault. What is left out costs the target nothing.
	Kinds event.Kinds

	// StackDepth is how many return addresses of a stack are recorded; 0 means DefaultStackDepth, negative no stacks.
	// Inlined calls come on top of that.
	StackDepth int

	// MinBlock leaves out waits that are shorter. A wait that is long enough is reported when it is over: GoBlock with
	// the time when it began and its length in Value, then GoUnblock. GoStart and GoStop are left out then.
	MinBlock time.Duration

	// Goroutines observes only these goroutines; empty means all.
	Goroutines []uint64

	// System observes the runtime's own goroutines too.
	System bool

	// SampleOneIn observes one of so many goroutines, each of them whole; 0 and 1 mean all.
	SampleOneIn int

	// Procs tells on GoStart which P the goroutine runs on. It makes that event dearer.
	Procs bool

	// BufferBytes is the size of the buffer between the target and this process, rounded up to a power of two; 0 means
	// DefaultBufferBytes. What does not fit is lost and counted.
	BufferBytes int

	// Engine chooses how to observe; empty means EngineAuto.
	Engine Engine

	// Clock chooses where EngineInline has times from; empty means ClockAuto. The kernel tells EngineUprobe the time.
	Clock Clock

	// Log receives details for debugging; nil discards them.
	Log *slog.Logger

	singleUprobes bool // attach each probe by itself, as older kernels need it
}

// Engine is a way to observe a program.
type Engine string

// The engines.
const (
	EngineAuto   Engine = "auto"   // EngineUprobe where it is permitted, else EngineInline, with a warning
	EngineUprobe Engine = "uprobe" // eBPF probes
	EngineInline Engine = "inline" // code that is put into the program by ptrace: needs no BPF, and costs much less
)

// Clock is where EngineInline has the times of events from.
type Clock string

// The clocks. The order of events is exact with each.
const (
	ClockAuto    Clock = "auto"    // ClockPrecise where the machine's counter is a clock, else ClockCoarse, with a warning
	ClockPrecise Clock = "precise" // the processor's counter (TSC, CNTVCT), calibrated to CLOCK_MONOTONIC all the time
	ClockCoarse  Clock = "coarse"  // cheaper: events are numbered, and times are exact to Stats.TimeError; MinBlock is refused
)

// Defaults of Options.
const (
	DefaultStackDepth  = 32
	DefaultBufferBytes = 16 << 20

	// MaxStackDepth is the most that StackDepth can ask for.
	MaxStackDepth = 128
)

// Stats counts what a Session has seen.
type Stats struct {
	Events uint64                // events that Events has yielded; event.Lost is a mark and not counted
	Lost   uint64                // events that happened and could not be delivered
	Kinds  map[event.Kind]Counts // by kind; kinds without events are absent
	Err    error                 // the numbers could not be read: they are those of before

	// Unreadable is the part of Lost that is due to failed reads of the target's memory. The rest found the buffer full.
	Unreadable uint64

	// TimeError bounds how far times of events are off with ClockCoarse; it is zero otherwise. A time is exact to the interval
	// between two samples of the reader: 0.5 to 2 ms, or as long as this process did not get a processor.
	TimeError TimeError
}

// TimeError bounds how far the times of events are off.
type TimeError struct {
	P99, Max time.Duration // of 99 % of the events, and of all
}

// Counts are the numbers of one kind of events: Produced is Received plus Lost once the session is closed and drained.
type Counts struct {
	Produced uint64 // the probes fired and the filters let pass
	Received uint64 // came through the buffer
	Lost     uint64 // the buffer was full, or the target's memory could not be read at that moment

	Unreadable uint64 // of Lost: the target's memory could not be read
}
