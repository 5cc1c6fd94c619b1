package loupe

import (
	"context"
	"errors"
	"iter"
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

	// BufferBytes is the size of the buffer between the target and this process, rounded up to a power of two; 0 means
	// DefaultBufferBytes. What does not fit is lost and counted.
	BufferBytes int

	// Engine chooses how to observe; empty means EngineAuto.
	Engine Engine

	// Log receives details for debugging; nil discards them.
	Log *slog.Logger
}

// Engine is a way to observe a program.
type Engine string

// The engines.
const (
	EngineAuto   Engine = "auto"   // the best one that is permitted here
	EngineUprobe Engine = "uprobe" // eBPF probes
	EngineInline Engine = "inline" // machine-code trampolines
)

// Defaults of Options.
const (
	DefaultStackDepth  = 32
	DefaultBufferBytes = 16 << 20
)

// Target is a program to observe, see PID and Command.
type Target struct {
	pid int
	cmd []string
}

// PID is a process that runs already.
func PID(pid int) Target { return Target{pid: pid} }

// Stats counts what a Session has seen.
type Stats struct {
	Events uint64                // events that Events has yielded
	Lost   uint64                // events that happened and could not be delivered
	Kinds  map[event.Kind]Counts // by kind; kinds without events are absent
}

// Counts are the numbers of one kind of events: Produced is Received plus Lost once the session is closed and drained.
type Counts struct {
	Produced uint64 // the probes fired and the filters let pass
	Received uint64 // came through the buffer
	Lost     uint64 // the buffer was full, or the target's memory could not be read at that moment
}

// Session is an observation under way.
type Session struct{}

// Attach begins to observe a program and returns when the probes are in place and the goroutines that are alive are
// known. The context ends the session: Events then returns after what is already in the buffer.
func Attach(ctx context.Context, target Target, opt Options) (*Session, error) {
	return nil, errors.ErrUnsupported
}

// Events yields what happens, until the target ends, the context is done, or Close is called. First comes a GoStatus for
// every goroutine that was alive when the observation began, then the events in order. The event is valid until the next
// one is yielded; copy it to keep it. Events may be called once.
func (s *Session) Events() iter.Seq[*event.Event] { return func(func(*event.Event) bool) {} }

// Err returns why the events ended: nil when the target ended, the context was done or the session closed.
func (s *Session) Err() error { return nil }

// Stats returns the numbers so far. It may be called at any time from any goroutine.
func (s *Session) Stats() Stats { return Stats{} }

// Warnings returns what a user should know about this observation, one line each: a probe that could not be attached, a
// kernel feature that is missing.
func (s *Session) Warnings() []string { return nil }

// PID returns the process that is observed.
func (s *Session) PID() int { return 0 }

// Close ends the observation and leaves the target as it was. It may be called more than once.
func (s *Session) Close() error { return nil }
