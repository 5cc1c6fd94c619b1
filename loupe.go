package loupe

import (
	"log/slog"
	"time"

	"github.com/loupe-go/loupe/event"
)

// Options configures [Attach]. The zero value observes the lifecycle of all goroutines of the program, and the garbage
// collector.
type Options struct {
	// Kinds is the set of event kinds to observe. Zero means event.KindsDefault. Kinds that are not observed cost the
	// target nothing.
	Kinds event.Kinds

	// StackDepth is the maximum number of return addresses recorded for a stack, at most MaxStackDepth. Zero means
	// DefaultStackDepth. A negative value disables stacks. A stack can have more frames than this, because one return
	// address stands for a call and all calls inlined into it.
	StackDepth int

	// MinBlock drops waits that are shorter than this duration. Zero means that all waits are reported. A wait that is
	// long enough is reported when it ends: first a GoBlock with the time at which the wait began and its duration in
	// Value, then a GoUnblock. If MinBlock is set, GoStart and GoStop are not reported.
	MinBlock time.Duration

	// Goroutines lists the IDs of the goroutines to observe. Empty means all goroutines.
	Goroutines []uint64

	// System includes the goroutines that belong to the runtime itself.
	System bool

	// SampleOneIn observes one in SampleOneIn goroutines, and reports all events of those. Zero and 1 mean all
	// goroutines.
	SampleOneIn int

	// Procs records in GoStart events which P the goroutine runs on. This makes GoStart more expensive.
	Procs bool

	// BufferBytes is the size of the buffer between the target and this process, rounded up to a power of two. Zero
	// means DefaultBufferBytes. Events that do not fit into the buffer are lost, and counted in Stats.
	BufferBytes int

	// Engine selects how the target is observed. Empty means EngineAuto.
	Engine Engine

	// Clock selects the clock that EngineInline uses for the times of events. Empty means ClockAuto. EngineUprobe
	// ignores it and uses the kernel's monotonic clock.
	Clock Clock

	// Log receives debug messages. If it is nil, they are discarded.
	Log *slog.Logger

	singleUprobes bool // attach each probe by itself, as older kernels need it
}

// An Engine is a technique for observing a process.
type Engine string

// The engines.
const (
	EngineAuto   Engine = "auto"   // EngineUprobe if it is permitted and supported, otherwise EngineInline with a warning
	EngineUprobe Engine = "uprobe" // eBPF programs attached to uprobes
	EngineInline Engine = "inline" // machine code patched into the target by ptrace: needs no BPF and has much less overhead
)

// A Clock is the source of event times for EngineInline.
type Clock string

// The clocks. The order of events is exact with all of them.
const (
	ClockAuto    Clock = "auto"    // ClockPrecise if the processor's counter is usable as a clock, otherwise ClockCoarse with a warning
	ClockPrecise Clock = "precise" // the processor's counter (TSC, CNTVCT), continuously calibrated to CLOCK_MONOTONIC
	ClockCoarse  Clock = "coarse"  // cheaper: events carry sequence numbers, and times are accurate to within Stats.TimeError; incompatible with MinBlock
)

// Defaults and limits of Options.
const (
	DefaultStackDepth  = 32       // return addresses
	DefaultBufferBytes = 16 << 20 // 16 MiB

	// MaxStackDepth is the maximum value of Options.StackDepth.
	MaxStackDepth = 128
)

// Stats holds the event counts of a [Session].
type Stats struct {
	Events uint64                // events that Events has yielded, not counting event.Lost, which only marks a gap
	Lost   uint64                // events that happened but could not be delivered
	Kinds  map[event.Kind]Counts // counts by kind; kinds without events are absent

	// Err is not nil if the counts are incomplete: either they could not be read, in which case Lost and Kinds have
	// the counts that were read last, or some records could not be decoded.
	Err error

	// Unreadable is the part of Lost for which the target's memory could not be read. The rest was lost because the
	// buffer was full.
	Unreadable uint64

	// TimeError is the error bound of event times with ClockCoarse. It is zero with other clocks. Times are accurate to
	// the interval between two samples of the reader: 0.5 to 2 ms, or longer if this process is not scheduled.
	TimeError TimeError
}

// TimeError is an upper bound on the error of event times.
type TimeError struct {
	P99, Max time.Duration // the bound for 99% of the events, and for all of them
}

// Counts holds the counts of one kind of event. Once the session is closed and all events have been read, Produced
// equals Received plus Lost.
type Counts struct {
	Produced uint64 // events for which a probe fired and the filters matched
	Received uint64 // events read from the buffer
	Lost     uint64 // events lost because the buffer was full or the target's memory could not be read

	Unreadable uint64 // part of Lost: the target's memory could not be read
}
