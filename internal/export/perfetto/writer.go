package perfetto

import (
	"io"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/timeline"
)

// Options say what is written. Frames is by default all that a stack has.
type Options = timeline.Options

// Stats count what was read and written.
type Stats = timeline.Stats

// Writer writes one trace. It is used by one goroutine at a time.
type Writer struct {
	tl     *timeline.Timeline
	out    timeline.Output
	opt    Options
	base   int64 // the time that packets count from
	pid    int32
	intern interner
	groups [numGroups]bool // announced
	counts [timeline.NumCounters]bool
}

// NewWriter returns a Writer whose trace goes to w, in pieces of some 64 KiB.
func NewWriter(w io.Writer, opt Options) *Writer {
	p := &Writer{out: timeline.NewOutput(w), opt: opt}
	p.intern.init()
	p.tl = timeline.New((*sink)(p), opt, false)
	return p
}

// Write adds an event. The error is that of the underlying writer, and comes again with every further event.
func (w *Writer) Write(e *event.Event) error {
	if err := w.out.Err(); err != nil {
		return err
	}
	w.tl.Apply(e)
	if w.intern.full() {
		w.clearState()
	}
	return w.out.Pass()
}

// Close ends the slices that are open and writes what is left. It does not close the underlying writer. The trace is
// complete without an error only.
func (w *Writer) Close() error {
	if w.out.Err() == nil {
		w.tl.Close()
	}
	return w.out.Close()
}

// Stats returns what was counted so far.
func (w *Writer) Stats() Stats {
	s := w.tl.Stats()
	s.Bytes = w.out.Bytes()
	return s
}
