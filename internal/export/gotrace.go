package export

import (
	"fmt"
	"go/version"
	"io"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/trace"
	"github.com/loupe-go/loupe/trace/raw"
)

// goTrace writes a Go execution trace.
type goTrace struct{ *trace.Writer }

func newGoTrace(w io.Writer, opt Options, text bool) (Sink, error) {
	writer := trace.WriterOptions{Procs: opt.Procs, Generation: opt.Generation, Text: text}
	if !opt.Version.V1() {
		writer.Version = opt.Version
	}
	t, err := trace.NewWriter(w, writer)
	if err != nil {
		return nil, err
	}
	return goTrace{t}, nil
}

// Goroutines implements GoroutineCounter: a trace can have goroutines for which the stream has no GoCreate or GoStatus.
func (t goTrace) Goroutines() (all, alive int) {
	stats := t.Stats()
	return int(stats.Goroutines), int(stats.Goroutines - stats.Ended)
}

// Notes implements Noter. It reports events that did not fit.
func (t goTrace) Notes() []string {
	stats := t.Stats()
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

// VersionFor returns the format of a recording of a program, given the Go release that built it ("go1.26.3"): the
// newest format that the tools of this release can read. It is 0 for releases before Go 1.22, whose formats cannot be
// written, and for unknown releases, which may be older.
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

// goRelease returns the release in the version string of an executable: "go1.26.3 X:nodwarf5", or "devel go1.27-1234567
// Mon Jan 2 15:04:05 2006".
func goRelease(text string) string {
	for word := range strings.FieldsSeq(text) {
		if release, _, _ := strings.Cut(word, "-"); strings.HasPrefix(release, "go1") {
			return release
		}
	}
	return ""
}
