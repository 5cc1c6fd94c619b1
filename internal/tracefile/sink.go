package tracefile

import (
	"fmt"
	"io"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/chrome"
	"github.com/loupe-go/loupe/internal/export/perfetto"
	"github.com/loupe-go/loupe/internal/export/timeline"
	"github.com/loupe-go/loupe/trace"
	"github.com/loupe-go/loupe/trace/raw"
)

// Format is a form in which events are written.
type Format string

// The formats.
const (
	Perfetto Format = "perfetto"
	Chrome   Format = "chrome"
	Pprof    Format = "pprof"
	CSV      Format = "csv"
	Go       Format = "go"   // a Go execution trace
	GoText   Format = "text" // the same as text
)

// Formats lists the formats.
func Formats() []Format { return []Format{Perfetto, Chrome, Pprof, CSV, Go, GoText} }

// Binary reports whether a format is nothing to show on a terminal.
func (f Format) Binary() bool { return f == Perfetto || f == Pprof || f == Go }

// A Sink takes events and writes them in some format.
type Sink interface {
	// Write takes an event, of which it keeps only what that refers to.
	Write(*event.Event) error
	// Close completes what is written.
	Close() error
}

// SinkOptions say what is written.
type SinkOptions struct {
	Format  Format
	Version raw.Version // of the input
	Wall    bool        // times are since the Unix epoch
	Begin   int64       // time of the first event
	Process string      // Perfetto, Chrome: the name of the process; empty when it is not known
	Threads bool        // Perfetto, Chrome: a track for each thread too

	Profile string   // pprof: the type
	Reasons []string // pprof: waits that are counted, see stream.NewProfile
}

// NewSink returns a sink of a format.
func NewSink(w io.Writer, opt SinkOptions) (Sink, error) {
	switch opt.Format {
	case Perfetto:
		return perfetto.NewWriter(w, opt.timeline()), nil
	case Chrome:
		return chrome.NewWriter(w, opt.timeline()), nil
	case Pprof:
		return newProfileSink(w, opt)
	case CSV:
		return newCSVSink(w, opt), nil
	case Go, GoText:
		return trace.NewWriter(w, opt.writer())
	}
	return nil, fmt.Errorf("unknown format %q", opt.Format)
}

func (opt *SinkOptions) timeline() timeline.Options {
	return timeline.Options{Process: opt.Process, Kinds: event.KindsTrace, Threads: opt.Threads}
}

// writer returns the options for a Go trace. Its version is that of the input, so that nothing is lost which that has and
// whoever could read the input can read it; for formats of before Go 1.22 the writer's usual one.
//
// The runtime tells of the goroutines that do nothing when a generation ends, after a second. A generation of the Writer
// is longer, so that this falls into its first one, where it can say that they were there before.
func (opt *SinkOptions) writer() trace.WriterOptions {
	w := trace.WriterOptions{Generation: 2 * trace.DefaultGeneration, Text: opt.Format == GoText}
	if !opt.Version.V1() {
		w.Version = opt.Version
	}
	return w
}

// A noter is a Sink that tells the user something of what it wrote, after Close.
type noter interface{ Notes() []string }

// Notes returns what a sink tells of what it wrote, after Close: each a line.
func Notes(s Sink) []string {
	switch s := s.(type) {
	case noter:
		return s.Notes()
	case *trace.Writer:
		return writerNotes(s)
	}
	return nil
}

// writerNotes tells what became of events that did not fit.
func writerNotes(w *trace.Writer) []string {
	stats := w.Stats()
	var notes []string
	if stats.Repaired > 0 {
		notes = append(notes, fmt.Sprintf("transitions added because events contradict each other: %d", stats.Repaired))
	}
	if stats.Cut > 0 {
		notes = append(notes, fmt.Sprintf("strings and stacks truncated to the limits of a trace: %d", stats.Cut))
	}
	skipped := uint64(0)
	for _, n := range stats.Skipped {
		skipped += n
	}
	if skipped > 0 {
		notes = append(notes, fmt.Sprintf("events omitted because a Go trace cannot represent them: %d", skipped))
	}
	return notes
}
