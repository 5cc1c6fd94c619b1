package inline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// reads decides how probes read memory that need not be valid (read_foreign in memory.h): by loads if it is stable, otherwise by a
// system call. A seccomp filter may end the process for this call. The filters of a process can change at any time, so reads looks
// for them again and again. A filter that ends the process for the call may do so before it is noticed.
type reads struct {
	pid     int
	stable  goproc.StableMemory
	unknown error     // why the heap is unknown; nil if it is stable
	calls   bool      // probes may use the system call
	next    time.Time // when to look again
	warned  atomic.Bool

	// If the program was starting when the probes were attached, its heap is learnt later.
	again      func() (goproc.StableMemory, error) // nil: nothing is to be learnt
	tried      time.Time
	tries      int
	propagates bool
	late       atomic.Pointer[error] // why the heap stays unknown
}

// The heap of a program that starts is looked for every learnEvery. After learnTries failures it stays unknown.
const (
	learnEvery = 2 * time.Millisecond
	learnTries = 50
)

// starting reports whether the heap can be learnt later.
func (r *reads) starting() bool { return r.stable.Heap.Starting.Arenas != 0 }

// learn looks for the heap of a program that was starting. A probe that is hit first finds it by itself (learn_arenas in memory.h).
func (r *reads) learn(region *Region, now time.Time) {
	if r.again == nil || now.Sub(r.tried) < learnEvery {
		return
	}
	r.tried = now
	s, err := r.again()
	switch {
	case err == nil && s.Heap.Arenas != 0:
		region.SetArenas(s.Heap.Arenas)
		r.again = nil
	case err == nil: // it is still starting
	case errors.Is(err, goproc.ErrExited), errors.Is(err, goproc.ErrNoProcess):
		r.again = nil
	default:
		if r.tries++; r.tries == learnTries {
			region.SetArenas(csrc.NoArenas)
			r.late.Store(&err)
			r.again = nil
		}
	}
}

// A process is searched for a seccomp filter every filterEvery, or less often so that the search takes at most one part in
// filterShare of the time: it reads a file for each thread.
const (
	filterEvery = 20 * time.Millisecond
	filterShare = 500
)

// forbidden returns why probes that read memory cannot be used if the heap is unknown.
func forbidden(unknown error) error {
	return fmt.Errorf("it reads memory with process_vm_readv, which the seccomp filter of the process may forbid: use engine uprobe (%w)", unknown)
}

// allowed reports whether the process has no seccomp filter.
func (r *reads) allowed() (bool, error) {
	filtered, err := ptrace.HasFilter(r.pid)
	return !filtered, err
}

// look ends the reads by system calls if the process has a filter now.
func (r *reads) look(region *Region, now time.Time) {
	if !r.calls || r.warned.Load() || now.Before(r.next) {
		return
	}
	defer func() { r.next = now.Add(max(filterEvery, filterShare*time.Since(now))) }()
	if ok, err := r.allowed(); err == nil && !ok {
		region.AllowReads(false)
		r.warned.Store(true)
	}
}

// warnings returns what look has found.
func (r *reads) warnings() []event.Warning {
	var list []event.Warning
	late := r.late.Load()
	if r.warned.Load() && (r.unknown != nil || late != nil) { // a text outside of stable memory is rare, and marked
		list = append(list, event.Warnf(event.WarnMissing, "texts of libraries are no longer reported: the process now has a seccomp filter, which may forbid process_vm_readv: use engine uprobe"))
	}
	switch {
	case late == nil:
		return list
	case r.calls:
		list = append(list, r.expensive(*late))
	default:
		list = append(list, event.Warnf(event.WarnMissing, "texts of libraries are not reported: %v", forbidden(*late)))
	}
	if r.propagates {
		list = append(list, noHeaders(*late))
	}
	return list
}

func (r *reads) expensive(why error) event.Warning {
	return event.Warnf(event.WarnCost, "each read of a library's memory takes 1 µs or more: %v", why)
}

func noHeaders(why error) event.Warning {
	return event.Warnf(event.WarnMissing, "requests that the program sends carry no traceparent header: %v", why)
}

// ownPID returns the number of a process in its own PID namespace. The error wraps ErrExited if the process has exited.
func ownPID(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return 0, fmt.Errorf("process %d: %w", pid, ptrace.ErrExited)
	}
	if err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(b)) {
		if list, ok := strings.CutPrefix(line, "NSpid:"); ok {
			if pids := strings.Fields(list); len(pids) > 0 {
				return strconv.ParseUint(pids[len(pids)-1], 10, 31)
			}
		}
	}
	return uint64(pid), nil // a kernel without PID namespaces
}
