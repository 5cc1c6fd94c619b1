package record

import (
	"debug/buildinfo"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/stream"
)

// Written counts what Write has written.
type Written struct {
	Events     uint64 // that were passed to the sink, including Lost events
	Goroutines int    // that the recording contains
	Alive      int    // of them, at the end
}

// Write passes the events of a stream to a sink until they end, and closes the sink. kinds are the kinds that are observed.
// The error is that of the sink.
func Write(events iter.Seq[*event.Event], sink export.Sink, kinds event.Kinds) (Written, error) {
	var done Written
	var err error
	tally := stream.NewTally(kinds)
	for e := range events {
		done.Events++
		tally.Add(e)
		if err = sink.Write(e); err != nil {
			break
		}
	}
	if closeErr := sink.Close(); err == nil {
		err = closeErr
	}
	done.Goroutines, done.Alive = int(tally.Seen), tally.Alive()
	if s, ok := sink.(export.GoroutineCounter); ok {
		done.Goroutines, done.Alive = s.Goroutines()
	}
	return done, err
}

// A Target describes a live process.
type Target struct {
	Process   string // its name
	GoVersion string // the Go release that built the program, as in its build info; empty if unknown
}

// TargetOf describes the process with an ID.
func TargetOf(pid int) Target {
	t := Target{Process: fmt.Sprintf("process %d", pid)}
	link := fmt.Sprintf("/proc/%d/exe", pid)
	if exe, err := os.Readlink(link); err == nil {
		t.Process = strings.TrimSuffix(filepath.Base(exe), " (deleted)")
	}
	if info, err := buildinfo.ReadFile(link); err == nil {
		t.GoVersion = info.GoVersion
	}
	return t
}
