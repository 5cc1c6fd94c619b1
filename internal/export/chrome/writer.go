package chrome

import (
	"io"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/timeline"
)

// Options say what is written. Frames is by default DefaultFrames, since stacks are written in full each time.
type Options = timeline.Options

// DefaultFrames is how many of a stack's innermost frames are written unless Options say otherwise.
const DefaultFrames = 8

// Stats count what was read and written.
type Stats = timeline.Stats

// Writer writes one trace. It is used by one goroutine at a time.
type Writer struct {
	tl         *timeline.Timeline
	out        timeline.Output
	opt        Options
	base       int64 // the time that events count from
	pid        int64 // of the process
	pidText    string
	threadsPID int64 // of the process that has the threads
	begun      bool  // the document has been started
	some       bool  // an event has been written
	threads    bool  // the process of threads has been announced
	stacks     map[*event.Stack][]byte
	stackBytes int
}

// NewWriter returns a Writer whose trace goes to w, in pieces of some 64 KiB.
func NewWriter(w io.Writer, opt Options) *Writer {
	if opt.Frames == 0 {
		opt.Frames = DefaultFrames
	}
	c := &Writer{out: timeline.NewOutput(w), opt: opt, stacks: map[*event.Stack][]byte{}}
	c.tl = timeline.New((*sink)(c), opt, true)
	return c
}

// Write adds an event. The error is that of the underlying writer, and comes again with every further event.
func (w *Writer) Write(e *event.Event) error {
	if err := w.out.Err(); err != nil {
		return err
	}
	w.tl.Apply(e)
	return w.out.Pass()
}

// Close ends the slices that are open and completes the document. It does not close the underlying writer. The trace is
// complete without an error only.
func (w *Writer) Close() error {
	if w.out.Err() == nil {
		w.tl.Close()
		w.begin(nil)
		w.out.Buf = append(w.out.Buf, "\n]}\n"...)
	}
	return w.out.Close()
}

// Stats returns what was counted so far.
func (w *Writer) Stats() Stats {
	s := w.tl.Stats()
	s.Bytes = w.out.Bytes()
	return s
}
