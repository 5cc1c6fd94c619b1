package loupe

import (
	"cmp"
	"io"
	"iter"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/record"
)

// A Format is a file format in which [Record] writes events.
type Format string

// The formats of recordings.
const (
	FormatGo       Format = export.Go       // Go execution trace, for go tool trace and package trace
	FormatText     Format = export.Text     // the same trace as text, one event per line
	FormatPerfetto Format = export.Perfetto // protobuf, for ui.perfetto.dev
	FormatChrome   Format = export.Chrome   // JSON, for chrome://tracing and ui.perfetto.dev
)

// RecordOptions configures [Record] and [Session.Record]. The zero value records a Go execution trace.
type RecordOptions struct {
	// Format is the format of the recording. Empty means FormatGo.
	Format Format

	// MaxBytes ends the recording after the event with which it reaches this size. Zero means no limit. The recording is
	// complete but larger than MaxBytes by what the format has buffered at that time.
	MaxBytes int64

	// The other fields describe the observed program. Session.Record sets those that are zero.

	Process   string        // name of the process, for FormatPerfetto and FormatChrome
	Kinds     event.Kinds   // the kinds that are observed; zero means event.KindsDefault
	MinBlock  time.Duration // Options.MinBlock of the session
	Procs     int           // GOMAXPROCS; zero means unknown
	GoVersion string        // the release that built the program ("go1.26.3"), whose trace format FormatGo uses; empty means that of Go 1.23
}

func (o *RecordOptions) internal() export.Options {
	return export.Options{Process: o.Process, Kinds: o.Kinds, MinBlock: o.MinBlock, Procs: o.Procs, Version: export.VersionFor(o.GoVersion)}
}

// A Recording counts what [Record] has written.
type Recording struct {
	Events     uint64 // events that were recorded, including event.Lost
	Goroutines int    // goroutines in the recording
	Alive      int    // goroutines that are alive at its end
	Bytes      int64  // size
	Limited    bool   // whether RecordOptions.MaxBytes ended it
}

// Record writes a stream of events to w until the events end. They come from a session, for which [Session.Record] is
// simpler, or from another source such as a trace.Reader.
//
// The error is that of w, or reports that the format is unknown. Record does not close w.
func Record(w io.Writer, events iter.Seq[*event.Event], opt RecordOptions) (Recording, error) {
	format, err := opt.Format.find()
	if err != nil {
		return Recording{}, err
	}
	out := &counter{w: w}
	sink, err := format.New(out, opt.internal())
	if err != nil {
		return Recording{}, err
	}
	var done Recording
	if opt.MaxBytes > 0 {
		events = until(events, func() bool {
			done.Limited = out.n >= opt.MaxBytes
			return done.Limited
		})
	}
	kinds := opt.Kinds
	if kinds.IsEmpty() {
		kinds = event.KindsDefault
	}
	written, err := record.Write(events, sink, kinds)
	done.Events, done.Goroutines, done.Alive, done.Bytes = written.Events, written.Goroutines, written.Alive, out.n
	return done, err
}

// Record writes the events of the session to w until they end, see [Session.Events]. The context of [Attach] limits the
// duration. Options that describe the program need not be set.
//
// The error is that of writing. If it is not nil, or RecordOptions.MaxBytes is reached, the session ends. Afterwards,
// [Session.Err] reports whether the events ended early, and [Session.Stats] how many were lost.
func (s *Session) Record(w io.Writer, opt RecordOptions) (Recording, error) {
	s.describe(&opt)
	names, events := s.names(), s.Events()
	if names != nil {
		events = names.Events(events)
	}
	return Record(w, events, opt)
}

// describe sets the options that describe the program, unless they are set.
func (s *Session) describe(opt *RecordOptions) {
	target := record.TargetOf(s.PID())
	opt.Process = cmp.Or(opt.Process, target.Process)
	opt.GoVersion = cmp.Or(opt.GoVersion, target.GoVersion)
	opt.MinBlock = cmp.Or(opt.MinBlock, s.opt.MinBlock)
	opt.Kinds = cmp.Or(opt.Kinds, s.opt.want().Kinds.Union(s.opt.Kinds.Intersect(event.KindsMemory)))
	if opt.Procs == 0 {
		if usage, err := s.Usage(); err == nil { // otherwise unknown
			opt.Procs = usage.Procs
		}
	}
}

// until ends events after the first one for which over returns true.
func until(events iter.Seq[*event.Event], over func() bool) iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		for e := range events {
			if !yield(e) || over() {
				return
			}
		}
	}
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
