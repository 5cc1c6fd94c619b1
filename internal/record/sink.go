package record

import (
	"fmt"
	"go/version"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/chrome"
	"github.com/loupe-go/loupe/internal/export/perfetto"
	"github.com/loupe-go/loupe/internal/export/timeline"
	"github.com/loupe-go/loupe/internal/stream"
	"github.com/loupe-go/loupe/trace"
	"github.com/loupe-go/loupe/trace/raw"
)

// Format is what a file is for.
type Format string

// The formats.
const (
	Go       Format = "go"       // a Go execution trace, for go tool trace
	Text     Format = "text"     // the same as text, see package raw
	Perfetto Format = "perfetto" // protobuf, for ui.perfetto.dev
	Chrome   Format = "chrome"   // JSON, for chrome://tracing and the like
)

// Formats are all of them.
var Formats = []Format{Go, Text, Perfetto, Chrome}

// ParseFormat returns the format of a name.
func ParseFormat(name string) (Format, error) {
	if f := Format(name); slices.Contains(Formats, f) {
		return f, nil
	}
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = string(f)
	}
	return "", fmt.Errorf("unknown format %q: must be one of %s", name, strings.Join(names, ", "))
}

// Viewer tells how a file of the format is looked at.
func (f Format) Viewer(file string) string {
	switch f {
	case Go:
		return "go tool trace " + file
	case Text:
		return "less " + file
	case Perfetto:
		return "ui.perfetto.dev"
	}
	return "chrome://tracing or ui.perfetto.dev"
}

// Options say what the events are of.
type Options struct {
	Process string      // its name
	Kinds   event.Kinds // that are observed
	// Version is the format of a Go execution trace; 0 means that of trace.WriterOptions.
	Version raw.Version
	Procs   int // GOMAXPROCS of the program; 0 if it is unknown
}

// VersionFor returns the format of a recording of a program, by the Go release that built it ("go1.26.3"): the newest one
// that the tools of the release read. Those of before Go 1.22 read none that can be written, and an unknown release may
// be one: they get 0.
func VersionFor(release string) raw.Version {
	_, number, ok := strings.Cut(version.Lang(goRelease(release)), "go1.")
	minor, err := strconv.Atoi(number)
	if !ok || err != nil {
		return 0
	}
	if v, ok := raw.ReadBy(minor); ok && !v.V1() {
		return v
	}
	return 0
}

// goRelease returns the release in what an executable says of the toolchain that built it: "go1.26.3 X:nodwarf5", or
// "devel go1.27-1234567 Mon Jan 2 15:04:05 2006".
func goRelease(text string) string {
	for word := range strings.FieldsSeq(text) {
		if release, _, _ := strings.Cut(word, "-"); strings.HasPrefix(release, "go1") {
			return release
		}
	}
	return ""
}

func (o Options) timeline() timeline.Options {
	return timeline.Options{Process: o.Process, Kinds: o.Kinds}
}

// Sink writes events into a file. What it wrote is complete after Close, which does not close the file.
type Sink interface {
	Write(*event.Event) error
	Close() error
}

// Goroutines returns how many goroutines a sink has written, and how many of them are alive at the end. A trace can have
// goroutines that no event of the stream began with; other formats have those that a tally of the stream counts.
func Goroutines(s Sink, tally *stream.Tally) (all, alive int) {
	if w, ok := s.(*trace.Writer); ok {
		stats := w.Stats()
		return int(stats.Goroutines), int(stats.Goroutines - stats.Ended)
	}
	return int(tally.Seen), tally.Alive()
}

// NewSink returns a sink that writes to w.
func NewSink(w io.Writer, f Format, opt Options) (Sink, error) {
	switch f {
	case Go:
		return trace.NewWriter(w, trace.WriterOptions{Version: opt.Version, Procs: opt.Procs})
	case Text:
		return trace.NewWriter(w, trace.WriterOptions{Version: opt.Version, Procs: opt.Procs, Text: true})
	case Perfetto:
		return perfetto.NewWriter(w, opt.timeline()), nil
	case Chrome:
		return chrome.NewWriter(w, opt.timeline()), nil
	}
	_, err := ParseFormat(string(f))
	return nil, err
}
