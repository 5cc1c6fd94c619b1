package discover

import (
	"errors"
	"io/fs"
	"maps"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/goproc"
)

// Stats are the numbers of a [Watcher] so far. A program is what a process executes: a process that executes two has two. Programs
// = Go + NotGo + Gone + the sum of Failed. Kernel threads are not counted.
type Stats struct {
	Source Source
	Why    string // why the sources before it are unavailable; empty for SourceConnector

	Scans      uint64 // of /proc
	ScanErrors uint64 // scans that have failed
	Overflows  uint64 // times that notices of the kernel were lost; a scan has followed each time

	Programs uint64
	Go       uint64
	NotGo    uint64
	Gone     uint64            // programs that ended before they could be read
	Failed   map[string]uint64 // programs that could not be read, by cause

	Running                      int // processes of Go programs now
	Appeared, Vanished, Replaced uint64

	Analyses uint64 // executables that were analyzed, because neither the file nor its build ID was known
	Clipped  uint64 // Go programs whose environment or values were too long to be read as a whole
}

// A Source is where a Watcher learns of processes from.
type Source string

// The sources, in the order in which they are tried.
const (
	SourceConnector   Source = "process connector"
	SourceTracepoints Source = "tracepoints" // of the scheduler, by eBPF
	SourcePolling     Source = "polling"     // scans of /proc
)

// The causes in Stats.Failed.
const (
	CausePermission  = "permission"  // the kernel does not permit reading the process
	CauseUnsupported = "unsupported" // the executable is for a processor that Loupe does not support, or of an old Go release
	CauseCorrupt     = "corrupt"     // the executable is damaged
	CauseHanging     = "hanging"     // reading the executable or the memory of the process takes too long
	CauseOther       = "other"
)

// Stats returns the numbers so far. It is safe for concurrent use.
func (w *Watcher) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Failed = maps.Clone(s.Failed)
	return s
}

func (w *Watcher) count(change func(*Stats)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.stats)
}

// add counts a program.
func (w *Watcher) add(pid int, o outcome) {
	w.count(func(s *Stats) {
		s.Programs++
		switch o {
		case isGo:
			s.Go++
		case notGo:
			s.NotGo++
		case gone:
			s.Gone++
		}
	})
	if w.examined != nil {
		w.examined(pid, o)
	}
}

// fail counts a failure, and logs the first one of each cause.
func (w *Watcher) fail(pid int, err error) {
	cause := causeOf(err)
	first := false
	w.count(func(s *Stats) {
		s.Failed[cause]++
		first = s.Failed[cause] == 1
	})
	if first {
		w.log.Warn("cannot read a process; others with this cause are counted only", "cause", cause, "pid", pid, "err", err)
	}
}

// causeOf returns the cause of an error.
func causeOf(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, goproc.ErrPermission):
		return CausePermission
	case errors.Is(err, gobin.ErrUnsupported), errors.Is(err, gobin.ErrUnsupportedArch):
		return CauseUnsupported
	case errors.Is(err, gobin.ErrCorrupt):
		return CauseCorrupt
	case errors.Is(err, errHanging):
		return CauseHanging
	}
	return CauseOther
}
