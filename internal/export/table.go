package export

import (
	"io"

	"github.com/loupe-go/loupe/internal/export/chrome"
	"github.com/loupe-go/loupe/internal/export/perfetto"
)

// Names of formats.
const (
	Go       = "go"
	Text     = "text"
	Perfetto = "perfetto"
	Chrome   = "chrome"
	Pprof    = "pprof"
	CSV      = "csv"
)

// Formats returns the table of formats.
func Formats() Table {
	return Table{
		{Name: Go, Doc: "Go execution trace, for go tool trace and gotraceui",
			Commands: Record | Convert | Merge, Binary: true, Viewer: "go tool trace %s",
			New: func(w io.Writer, opt Options) (Sink, error) { return newGoTrace(w, opt, false) }},
		{Name: Text, Doc: "the same trace as text, one event per line",
			Commands: Record | Convert | Merge, Viewer: "less %s",
			New: func(w io.Writer, opt Options) (Sink, error) { return newGoTrace(w, opt, true) }},
		{Name: Perfetto, Doc: "for ui.perfetto.dev and its trace processor",
			Commands: Record | Convert | Merge, Binary: true, Timeline: true, Viewer: "ui.perfetto.dev",
			New: func(w io.Writer, opt Options) (Sink, error) { return perfetto.NewWriter(w, opt.timeline()), nil }},
		{Name: Chrome, Doc: "JSON, for chrome://tracing and ui.perfetto.dev",
			Commands: Record | Convert | Merge, Timeline: true, Viewer: "chrome://tracing or ui.perfetto.dev",
			New: func(w io.Writer, opt Options) (Sink, error) { return chrome.NewWriter(w, opt.timeline()), nil }},
		{Name: Pprof, Doc: "profile of the --type, for go tool pprof",
			Commands: Convert, Binary: true, Viewer: "go tool pprof -top %s",
			New: func(w io.Writer, opt Options) (Sink, error) { return newProfileSink(w, opt) }},
		{Name: CSV, Doc: `one line per event: time (nanoseconds since the Unix epoch, or since
the start of the trace if the trace has no time of day), kind, g,
parent, by, reason, thread, p, function, file, line, value, and
further columns`,
			Commands: Convert,
			New:      func(w io.Writer, opt Options) (Sink, error) { return newCSVSink(w, opt), nil }},
	}
}
