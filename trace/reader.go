package trace

import (
	"io"
	"iter"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// A Reader reads a Go execution trace as a stream of events. It reads the formats of Go 1.11 and later.
//
// # What becomes what
//
// The events come in an order in which they can have happened, and their times increase. From Go 1.25 on, and in all traces
// that a Writer has written, Time is the time since the Unix epoch. In other traces of before Go 1.25 it counts nanoseconds
// from some moment.
//
//   - The first state of a goroutine that was there when the trace began is a GoStatus. What later parts of the trace say
//     again is left out. The origin has the function that the goroutine started with, if the stack reaches there.
//   - A goroutine that is created for a thread of C is GoCreate, GoStart and GoSyscallBegin at one moment, and its end
//     GoSyscallEnd and GoDestroy: it is in C.
//   - GoBlock has the tracer's reason as TraceReason. Reason is the runtime's wait reason if that follows, from the tracer's
//     reason or from the function that blocks, and else the tracer's word.
//   - A GoSyscallEnd after which the goroutine is not running, because it has lost its P, has the State runnable. Value is
//     the length of the call, in traces of Go 1.22 and later, if its begin is in the trace.
//   - A coroutine that hands over to another one is GoUnblock, GoBlock and GoStart; the GoBlock has the reason "coroutine".
//   - A message that a Writer left for lost events is Lost.
//
// TID is the ID of the thread; before Go 1.22 it is the runtime's own number of the thread. PID is 0. All else that a
// trace has is counted, see Stats.
//
// The same stack is the same *event.Stack, and the same origin the same *event.Origin, for as long as somebody refers to
// it. The Reader itself keeps one generation of the trace in memory; traces of before Go 1.22 it keeps as a whole.
type Reader struct {
	// MaxMemory bounds the memory that reading takes, in bytes: of one generation and what is alive, before Go 1.22 of the
	// trace. 0 means DefaultMaxMemory. It must be set before the first event is read. A trace that needs more ends with a
	// MemoryError.
	MaxMemory int64

	version raw.Version
	source  readSource
	part    readPart
	taken   int // of the part's events
}

// Stats counts what a trace has that is no event of the stream.
type Stats struct {
	Version     raw.Version
	Generations uint64 // parts that the trace consists of
	Events      uint64 // of the stream

	Syncs       uint64 // marks between generations
	Statuses    uint64 // states of goroutines that were known already
	Procs       uint64 // states of Ps
	Sweeps      uint64 // begins and ends of sweeping
	MarkAssists uint64 // begins and ends of helping the garbage collector
	GCActive    uint64 // notes that a collection is under way
	HeapGoals   uint64 // heap goals of the garbage collector
	MaxProcs    uint64 // values of GOMAXPROCS
	Labels      uint64 // labels of goroutines
	Experiments uint64 // events of experiments
}

// A readSource makes events out of a trace.
type readSource interface {
	// fill appends events to part, whose capacity it does not exceed, and counts them. An error comes after the events; it
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

// Events returns an iterator over the events that are left. The event that it yields is overwritten by the next one. It
// ends at the end of the trace, or after it has yielded an error and no event.
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

// Batches is like Events, and yields some hundred events at a time, which costs less. They are overwritten by the next
// ones.
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
