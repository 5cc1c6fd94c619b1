package trace

import (
	"io"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/internal/writer"
	"github.com/loupe-go/loupe/trace/raw"
)

// WriterOptions configures a [Writer]. The zero value is suitable for most uses.
type WriterOptions struct {
	// Version is the format of the trace, which must be that of Go 1.22 or later. 0 means raw.Go123. Tools of earlier
	// releases cannot read it, tools of later releases can. From raw.Go123 on, the trace has the stacks of the goroutines
	// that existed when it began, and coroutines are created in the waiting state. From raw.Go125 on, it records the
	// wall-clock time.
	Version raw.Version

	// Generation is the time that one generation of the trace covers. 0 means DefaultGeneration. A truncated trace can be
	// read up to its last complete generation, and readers hold one generation in memory. Each generation begins with
	// the status of all goroutines, which takes about 15 bytes per goroutine.
	Generation time.Duration

	// Procs is the number of Ps of the program (GOMAXPROCS), or 0 if unknown. The trace then has no more Ps than that,
	// unless an event happened on a P with a higher ID.
	Procs int

	// Text writes the trace in the text format of package raw.
	Text bool

	// OmitOperations drops events of the kinds in event.KindsChannel and event.KindsLock, AllocBytes and AllocObjects, which
	// have no equivalent in traces. Otherwise they are written as log messages, see the package documentation.
	OmitOperations bool
}

// DefaultGeneration is the default of WriterOptions.Generation: one second. Traces of the Go runtime use the same.
const DefaultGeneration = writer.DefaultGeneration

// A Writer writes the events of one process as a Go execution trace. It is not safe for concurrent use.
type Writer struct {
	w *writer.Writer
}

// NewWriter returns a Writer that writes a trace to out. It writes the header at once. The trace is complete after
// [Writer.Close]. NewWriter fails if the options are invalid, or if writing the header fails. If the version is not
// supported, the error wraps [raw.ErrVersion].
func NewWriter(out io.Writer, opt WriterOptions) (*Writer, error) {
	w, err := writer.New(out, writer.Options(opt))
	if err != nil {
		return nil, err
	}
	return &Writer{w}, nil
}

// Write adds an event to the trace. Events must be written in the order that [event.Event] documents.
//
// The Writer retains the strings, the stack and the origin of the event, which must not be modified, but not the event
// itself. Equal stacks and origins should share one pointer, because the trace contains each pointer separately.
//
// No event can make the trace unreadable. If an event contradicts the events before it, the Writer repairs the trace and
// counts the repair in [WriterStats]. The error is that of the underlying writer; once a write has failed, all further
// calls return its error. It is also an error to call Write after Close.
func (w *Writer) Write(e *event.Event) error { return w.w.Write(e) }

// Flush ends the current generation, so that a reader can read all events written so far. The next event starts a new
// generation. Flush does nothing as long as the only events are the GoStatus events at the beginning of the stream. The
// error is that of the underlying writer. It is also an error to call Flush after Close.
func (w *Writer) Flush() error { return w.w.Flush() }

// Close completes the trace. It does not close the underlying writer. Further calls return the same error as the first
// one.
func (w *Writer) Close() error { return w.w.Close() }

// WriterStats counts what a [Writer] has written.
type WriterStats struct {
	Events      uint64 // number of events passed to Write
	Written     uint64 // number of events in the trace, including those that the Writer added
	Generations uint64 // number of complete generations
	Bytes       uint64 // size of the trace so far, in the wire format

	Lost uint64 // number of lost events, according to events of kind Lost

	// Bridged is the number of transitions that were added although no events contradict each other: for system calls
	// that are not observed, for goroutines that appeared after the first generation, and for goroutines that ended with
	// the program.
	Bridged uint64
	// Repaired is the number of transitions and ends of ranges that were added because events contradict each other, for
	// example after a loss.
	Repaired uint64
	// Found is the number of goroutines whose first event was neither GoStatus nor GoCreate.
	Found uint64
	// Goroutines is the number of goroutines in the trace, and Ended the number of those that end in it. Both can include
	// a goroutine that the Writer added, see the package documentation.
	Goroutines, Ended uint64
	// Alive is the number of goroutines that are alive as far as the Writer knows. It includes those whose end was lost.
	Alive uint64

	Cut uint64 // number of strings and stacks that were truncated to the maximum length in a trace

	// Moved is the number of events that are in the trace with a time more than one microsecond later than Event.Time,
	// because events keep their order and times in a trace increase. MaxMove is the largest such difference.
	Moved   uint64
	MaxMove time.Duration

	Logged  map[event.Kind]uint64 // events written as log messages because traces have no equivalent
	Skipped map[event.Kind]uint64 // events not written: because of OmitOperations, or because the kind is unknown, the goroutine is missing or the event is redundant
}

// Stats returns the counts so far.
func (w *Writer) Stats() WriterStats { return WriterStats(w.w.Stats()) }
