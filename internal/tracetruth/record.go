package tracetruth

import (
	"fmt"
	"strings"

	"github.com/loupe-go/loupe/event"
)

// A Record is one step in the life of a goroutine, the same for both observers.
type Record struct {
	Time int64 // nanoseconds of CLOCK_MONOTONIC
	Kind event.Kind
	G    uint64
	By   uint64 // the goroutine that created or woke G; 0 when it was none

	Reason      string // GoBlock: the wait reason; only Loupe knows it
	TraceReason string // GoBlock: the block reason of the tracer; GoStop, STWBegin: why
	Start       string // GoCreate: the function that G runs
	Waiting     bool   // GoCreate: G is not runnable yet

	// Switch marks the block of a coroutine that hands over to another, for which a trace has no reason.
	Switch bool
	// Instant marks a time that cannot be compared: the trace has no time of it, or that of another moment.
	Instant bool
	// Moved marks a time that the reader of the trace has changed.
	Moved bool
	lostP bool // GoSyscallEnd: the P was lost, a GoStart follows

	// optional marks a step of a trace that Loupe need not observe.
	optional bool

	Stack []Frame // of the goroutine that did it, the innermost frame first
	Index int     // the place in the trace or among the events
}

// A Frame is a call on a stack.
type Frame struct {
	Func string
	Line int
}

// actor returns the goroutine other than G to which the record belongs too, or 0.
func (r *Record) actor() uint64 {
	if r.By == r.G || r.Kind != event.GoCreate && r.Kind != event.GoUnblock {
		return 0
	}
	return r.By
}

// isVague reports whether the time of a trace's record cannot be compared: it has none, it is not the runtime's, or of several
// optional steps it is not known which one Loupe has seen.
func (r *Record) isVague() bool { return r.Instant || r.Moved || r.optional }

// String returns one line without the time.
func (r *Record) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v g%d", r.Kind, r.G)
	if r.Kind == event.GoCreate || r.Kind == event.GoUnblock {
		fmt.Fprintf(&b, " by g%d", r.By)
	}
	if r.Reason != "" {
		fmt.Fprintf(&b, " %q", r.Reason)
	}
	if r.TraceReason != "" {
		fmt.Fprintf(&b, " [%s]", r.TraceReason)
	}
	if r.Start != "" {
		b.WriteString(" " + r.Start)
	}
	if r.Waiting {
		b.WriteString(" waiting")
	}
	return b.String()
}

// place returns the innermost functions of the record's stack.
func (r *Record) place() string {
	var names []string
	for _, f := range r.Stack[:min(3, len(r.Stack))] {
		names = append(names, f.Func)
	}
	return strings.Join(names, " < ")
}

// within reports whether one of the stack's functions has a prefix.
func (r *Record) within(prefix string) bool {
	for _, f := range r.Stack {
		if strings.HasPrefix(f.Func, prefix) {
			return true
		}
	}
	return false
}

// isRuntime reports whether a function belongs to package runtime.
func isRuntime(function string) bool { return strings.HasPrefix(function, "runtime.") }
