package loupe

import (
	"log/slog"
	"time"

	"github.com/loupe-go/loupe/event"
)

// Options configures [Attach]. The zero value observes the lifecycle of all goroutines of the program, and the garbage
// collector.
type Options struct {
	// Kinds is the set of event kinds to observe. Zero means event.KindsDefault, or no events if Allocs is set. Kinds that
	// are not observed cost the target nothing.
	Kinds event.Kinds

	// MemoryInterval is the time between two samples of the memory statistics, if Kinds includes one of event.KindsMemory.
	// Zero means DefaultMemoryInterval. The end of a garbage collection also causes a sample, at most every 10 ms. Sampling
	// reads the memory of the target and costs it nothing.
	MemoryInterval time.Duration

	// Allocs counts the allocations of all goroutines, for [Session.Allocs]. Goroutines, System and SampleOneIn do not apply
	// to it. If Allocs.By is set, EngineAuto prefers EngineInline.
	Allocs AllocOptions

	// Spans makes spans of the requests that the program serves and sends.
	Spans SpanOptions

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

	// SampleOneIn samples one in SampleOneIn goroutines: all events of these are reported, and none of the others. Zero and 1 mean
	// all goroutines. A hash of the ID of a goroutine determines whether it is sampled, so two sessions sample the same goroutines,
	// and those of one in 10 are among those of one in 5.
	SampleOneIn int

	// Procs records in GoStart events which P the goroutine runs on. This makes GoStart more expensive.
	Procs bool

	// BufferBytes is the size of the buffer between the target and this process, rounded up to a power of two. Zero
	// means DefaultBufferBytes, or DefaultSpanBufferBytes if Spans chooses the kinds of events. Events that do not fit into the
	// buffer are lost, and counted in [Session.Stats].
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
	EngineAuto   Engine = "auto"   // EngineAgent if the program has the agent and that can do what is asked for, else EngineUprobe if it is permitted and supported, otherwise EngineInline with a warning; the other way round for Options.Allocs.By
	EngineUprobe Engine = "uprobe" // eBPF programs attached to uprobes
	EngineAgent  Engine = "agent"  // the agent in the program (package glti/observe), which requires no privilege
	EngineInline Engine = "inline" // machine code patched into the target by ptrace: needs no BPF and has much less overhead
)

// A Clock is the source of event times for EngineInline.
type Clock string

// The clocks. The order of events is exact with all of them.
const (
	ClockAuto    Clock = "auto"    // ClockPrecise if the processor's counter is usable as a clock, otherwise ClockCoarse with a warning
	ClockPrecise Clock = "precise" // the processor's counter (TSC, CNTVCT), continuously calibrated to CLOCK_MONOTONIC
	ClockCoarse  Clock = "coarse"  // cheaper: events carry sequence numbers, and times are accurate to within event.Stats.TimeError; incompatible with MinBlock
)

// Defaults and limits of Options.
const (
	DefaultStackDepth  = 32       // return addresses
	DefaultBufferBytes = 16 << 20 // 16 MiB

	// DefaultSpanBufferBytes is the default for request spans: 8 MiB.
	DefaultSpanBufferBytes = 8 << 20

	// MaxStackDepth is the maximum value of Options.StackDepth.
	MaxStackDepth = 128
)
