package export

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/timeline"
	"github.com/loupe-go/loupe/trace/raw"
)

// A Sink takes the events of a stream and passes them on in one format. It is used by one goroutine at a time.
type Sink interface {
	// Write passes on an event. It may retain what the event refers to, but not the event. The error is the first one of
	// passing on any event, and further calls return it again.
	Write(*event.Event) error
	// Close passes on what is left and releases the sink's resources. It does not close the file. What was passed on is
	// complete only if the error is nil.
	Close() error
}

// A Noter is a Sink that reports something to the user after Close.
type Noter interface {
	Sink
	Notes() []string // one line each
}

// A GoroutineCounter is a Sink that adds goroutines to those that the events contain.
type GoroutineCounter interface {
	Sink
	// Goroutines returns the number of goroutines that were written, and how many of them are alive at the end.
	Goroutines() (all, alive int)
}

// Options describes the stream of events and configures a format. Fields that the format does not use are ignored.
type Options struct {
	Process string      // the name of the process; empty if unknown
	Kinds   event.Kinds // the kinds that are observed; zero means event.KindsDefault
	Procs   int         // GOMAXPROCS of the process; 0 if unknown
	// MinBlock is the minimum length of the waits that are observed. Zero means that all waits are observed.
	MinBlock time.Duration

	// Version is the format of the Go trace to write, and of the execution trace that is read. If the format cannot be
	// written because it is from before Go 1.22, the default of trace.WriterOptions is used.
	Version    raw.Version
	Generation time.Duration // of a Go trace; 0 means the default of trace.WriterOptions

	Threads bool // timelines: a track for each thread

	Wall    bool     // csv, pprof: times are since the Unix epoch
	Begin   int64    // csv: the time of the first event, which is subtracted from times unless Wall is set
	Profile string   // pprof: the type of the profile, see ProfileTypes
	Reasons []string // pprof: the waits that are counted, see stream.NewProfile
}

func (o *Options) timeline() timeline.Options {
	return timeline.Options{Process: o.Process, Kinds: o.Kinds, MinBlock: o.MinBlock, Threads: o.Threads}
}

// Commands is a set of commands.
type Commands uint8

// The commands that offer formats.
const (
	Record  Commands = 1 << iota // events of a live process
	Convert                      // events of one execution trace
	Merge                        // several execution traces
)

// A Format is a row of the table of formats.
type Format struct {
	Name     string   // the value of --format
	Doc      string   // what it is for; lines of at most 68 characters
	Commands Commands // the commands that offer it
	Binary   bool     // not suitable for a terminal
	Timeline bool     // has a track for each goroutine, and shows several processes side by side
	Viewer   string   // how to view a file, with %s for its name if required; empty if there is no usual way

	// New returns a sink that writes to w. A format that does not write a file ignores w.
	New func(w io.Writer, opt Options) (Sink, error)
}

// View returns how to view a file of the format, or "" if there is no usual way.
func (f *Format) View(file string) string { return strings.ReplaceAll(f.Viewer, "%s", file) }

// A Table lists formats, in the order in which they are offered.
type Table []Format

// For returns the formats that a command offers.
func (t Table) For(c Commands) Table {
	return t.where(func(f *Format) bool { return f.Commands&c != 0 })
}

// Timelines returns the formats of timelines.
func (t Table) Timelines() Table {
	return t.where(func(f *Format) bool { return f.Timeline })
}

func (t Table) where(is func(*Format) bool) Table {
	var list Table
	for i := range t {
		if is(&t[i]) {
			list = append(list, t[i])
		}
	}
	return list
}

// Names returns the names of the formats.
func (t Table) Names() []string {
	names := make([]string, len(t))
	for i := range t {
		names[i] = t[i].Name
	}
	return names
}

// Find returns the format with the given name. The error lists the names.
func (t Table) Find(name string) (*Format, error) {
	i := slices.IndexFunc(t, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("unknown format %q: must be one of %s", name, strings.Join(t.Names(), ", "))
	}
	return &t[i], nil
}

// Help returns the part of a help text that explains the formats.
func (t Table) Help() string {
	const indent = "            "
	var b strings.Builder
	b.WriteString("FORMAT is one of\n")
	for i := range t {
		fmt.Fprintf(&b, "  %-8s  %s\n", t[i].Name, strings.ReplaceAll(t[i].Doc, "\n", "\n"+indent))
	}
	return b.String()
}
