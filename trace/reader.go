package trace

import (
	"io"
	"iter"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/internal/reader"
	"github.com/loupe-go/loupe/trace/internal/tracev1"
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
//   - A log message with which a Writer has recorded lost events is a Lost. Likewise AllocBytes and AllocObjects.
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
	part    reader.Part
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
	MarkAssists uint64 // mark assists in progress at the start of a generation
	GCActive    uint64 // marks that a garbage collection is in progress
	MaxProcs    uint64 // values of GOMAXPROCS
	Labels      uint64 // labels of goroutines
	Experiments uint64 // events of experiments
}

// A readSource makes events out of a trace.
type readSource interface {
	// Fill appends events to part, whose capacity it does not exceed, and counts them. An error comes after the events; it
	// is io.EOF at the end.
	Fill(part *reader.Part) error
}

// NewReader reads the header of the trace in r and returns a Reader for the rest. The error wraps [raw.ErrHeader] if r
// does not contain a trace, and [raw.ErrVersion] if the version of the trace is not supported.
func NewReader(r io.Reader) (*Reader, error) {
	in := generation.NewInput(r)
	v, err := generation.ReadHeader(in)
	if err != nil {
		return nil, err
	}
	rd := &Reader{version: v, part: reader.Part{Stats: reader.Stats{Version: v}}}
	if v.V1() {
		rd.source = tracev1.NewReader(in, v, &rd.MaxMemory)
	} else {
		rd.source = reader.New(in, v, &rd.MaxMemory)
	}
	return rd, nil
}

// Version returns the version of the trace's format.
func (r *Reader) Version() raw.Version { return r.version }

// Stats returns the counts so far. They may include some hundred events that have not been yielded yet.
func (r *Reader) Stats() Stats { return Stats(r.part.Stats) }

// Events returns an iterator over the remaining events. An event is only valid until the next one is yielded. If reading
// fails, the last pair is a nil event and the error. At the end of the trace, the iteration ends without an error.
func (r *Reader) Events() iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for r.more() {
			for r.taken < len(r.part.Events) {
				r.taken++
				if !yield(&r.part.Events[r.taken-1], nil) {
					return
				}
			}
		}
		if r.part.Err != io.EOF {
			yield(nil, r.part.Err)
		}
	}
}

// Batches is like [Reader.Events] but yields up to some hundred events at a time, which is faster. The slice is only
// valid until the next one is yielded.
func (r *Reader) Batches() iter.Seq2[[]event.Event, error] {
	return func(yield func([]event.Event, error) bool) {
		for r.more() {
			events := r.part.Events[r.taken:]
			if r.taken = len(r.part.Events); !yield(events, nil) {
				return
			}
		}
		if r.part.Err != io.EOF {
			yield(nil, r.part.Err)
		}
	}
}

// more makes sure that there are events that were not yielded. It returns false if there are none.
func (r *Reader) more() bool {
	for r.taken == len(r.part.Events) {
		if r.part.Err != nil {
			return false
		}
		if r.part.Events == nil {
			r.part.Events = make([]event.Event, 0, reader.PartSize)
		}
		r.part.Events, r.taken = r.part.Events[:0], 0
		r.part.Err = publicError(r.source.Fill(&r.part))
	}
	return true
}
