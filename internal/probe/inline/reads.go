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
	"github.com/loupe-go/loupe/internal/ptrace"
)

// reads decides how probes read memory that need not be valid (read_foreign in native.h): by loads if it is stable, otherwise by a
// system call. A seccomp filter may end the process for this call. The filters of a process can change at any time, so reads looks
// for them again and again. A filter that ends the process for the call may do so before it is noticed.
type reads struct {
	pid     int
	stable  goproc.StableMemory
	unknown error     // why the heap is unknown; nil if it is stable
	calls   bool      // probes may use the system call
	next    time.Time // when to look again
	warned  atomic.Bool
}

// A process is searched for a seccomp filter every filterEvery, or less often so that the search takes at most one part in
// filterShare of the time: it reads a file for each thread.
const (
	filterEvery = 20 * time.Millisecond
	filterShare = 100
)

// forbidden returns why probes that read memory cannot be used.
func (r *reads) forbidden() error {
	return fmt.Errorf("it reads memory with process_vm_readv, which the seccomp filter of the process may forbid: use engine uprobe (%w)", r.unknown)
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
	if !r.warned.Load() || r.unknown == nil { // a text outside of stable memory is rare, and marked
		return nil
	}
	return []event.Warning{event.Warnf(event.WarnMissing, "texts of libraries are no longer reported: the process now has a seccomp filter, which may forbid process_vm_readv: use engine uprobe")}
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
