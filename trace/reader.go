package trace

import (
	"io"
	"iter"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// A Reader reads a Go execution trace as a stream of events. It supports the formats of Go 1.11 and later.
//
// # Mapping of events
//
// The events are in causal order, and their times increase. Event.Time is in nanoseconds. In traces of Go 1.25 and later,
// and in all traces written by a [Writer], it is the time since the Unix epoch. In other traces it starts at an arbitrary
// moment.
//
//   - A goroutine that existed when the trace began has a GoStatus with its first known state. Repetitions of that
//     state in later generations are dropped. Origin.Start is the start function of the goroutine if the stack includes
//     it.
//   - A goroutine created for a C thread has a GoCreate, a GoStart and a GoSyscallBegin at the same time, and a
//     GoSyscallEnd and a GoDestroy at its end, because it executes C code in the meantime.
//   - GoBlock has the tracer's block reason as TraceReason. Reason is the runtime's wait reason if it can be derived from
//     the block reason or from the function that blocks. Otherwise it is the block reason.
//   - GoSyscallEnd has the State StateRunnable if the goroutine has lost its P and is not running. Value is the
//     duration of the system call if the trace is of Go 1.22 or later and contains the beginning of the call.
//   - A coroutine that switches to another one has a GoUnblock, a GoBlock and a GoStart. The reason of the GoBlock is
//     "coroutine". If the coroutine exits, it has a GoDestroy instead of the GoBlock.
//   - A log message with which a Writer has recorded lost events is a Lost.
//
// TID is the thread ID; before Go 1.22 it is the number by which the runtime identifies the thread. PID is 0. All other
// events of a trace are only counted, see [Stats].
//
// Equal stacks share one *event.Stack, and equal origins one *event.Origin, as long as these are referenced. A Reader
// holds one generation of the trace in memory. A trace from before Go 1.22 is held as a whole.
type Reader struct {
	// MaxMemory is the maximum memory, in bytes, for reading the trace: for one generation and the state of what is
	// alive, or before Go 1.22 for the whole trace. 0 means DefaultMaxMemory. It must be set before the first event is
	// read. If the trace needs more memory, reading ends with a *MemoryError.
	MaxMemory int64

	version raw.Version
	source  readSource
	part    readPart
	taken   int // of the part's events
}

// Stats counts the events of a trace. Syncs and the fields after it count what the trace contains in addition to the
// events that are yielded.
type Stats struct {
	Version     raw.Version
	Generations uint64 // number of generations
	Events      uint64 // number of events yielded

	Syncs       uint64 // sync events, at the beginning of each generation and at the end of the trace
	Statuses    uint64 // states of goroutines that were already known
	Procs       uint64 // state changes of Ps
	Sweeps      uint64 // starts and ends of sweeping
	MarkAssists uint64 // starts and ends of mark assists
	GCActive    uint64 // marks that a garbage collection is in progress
	HeapGoals   uint64 // heap goals of the garbage collector
	MaxProcs    uint64 // values of GOMAXPROCS
	Labels      uint64 // labels of goroutines
	Experiments uint64 // events of experiments
}

// A readSource makes events out of a trace.
type readSource interface {
	// Fill appends events to part, whose capacity it does not exceed, and counts them. An error comes after the events; it
	// is io.EOF at the end.
	fill(part *readPart) error
}

// A readPart is some events, what comes after them if it is no event, and the counts up to there.
type readPart struct {
	events []event.Event
	err    error
	stats  Stats
}

const (
	// readPartSize is how many events are made at once. They stay in the processor's cache.
	readPartSize = 256
	// readPartRoom is how many events a source may add for one of the trace.
	readPartRoom = 4
)

// NewReader returns a reader of the trace in r, whose header it reads. The error wraps raw.ErrHeader if r has no trace, and
// raw.ErrVersion if it is of a version that is not known.
func NewReader(r io.Reader) (*Reader, error) {
	in := newModelInput(r)
	v, err := modelVersion(in)
	if err != nil {
		return nil, err
	}
	rd := &Reader{version: v, part: readPart{stats: Stats{Version: v}}}
	if v.V1() {
		rd.source = newReadOld(in, v, &rd.MaxMemory)
	} else {
		rd.source = newReadModel(in, v, &rd.MaxMemory)
	}
	return rd, nil
}

// Version returns the version of the trace's format.
func (r *Reader) Version() raw.Version { return r.version }

// Stats returns the counts up to the last event that was yielded, or some hundred events more.
func (r *Reader) Stats() Stats { return r.part.stats }

// Events returns an iterator over the remaining events. An event is only valid until the next one is yielded. If reading
// fails, the last pair is a nil event and the error. At the end of the trace, the iteration ends without an error.
func (r *Reader) Events() iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for r.more() {
			for r.taken < len(r.part.events) {
				r.taken++
				if !yield(&r.part.events[r.taken-1], nil) {
					return
				}
			}
		}
		if r.part.err != io.EOF {
			yield(nil, r.part.err)
		}
	}
}

// Batches is like [Reader.Events] but yields up to some hundred events at a time, which is faster. The slice is only
// valid until the next one is yielded.
func (r *Reader) Batches() iter.Seq2[[]event.Event, error] {
	return func(yield func([]event.Event, error) bool) {
		for r.more() {
			events := r.part.events[r.taken:]
			if r.taken = len(r.part.events); !yield(events, nil) {
				return
			}
		}
		if r.part.err != io.EOF {
			yield(nil, r.part.err)
		}
	}
}

// more makes sure that there are events that were not yielded. It returns false if there are none.
func (r *Reader) more() bool {
	for r.taken == len(r.part.events) {
		if r.part.err != nil {
			return false
		}
		if r.part.events == nil {
			r.part.events = make([]event.Event, 0, readPartSize)
		}
		r.part.events, r.taken = r.part.events[:0], 0
		r.part.err = r.source.fill(&r.part)
	}
	return true
}
