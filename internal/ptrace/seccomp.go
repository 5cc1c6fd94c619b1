package ptrace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/child"
)

// clearCalls ensures that a seccomp filter does not kill the process for the system calls that a thread makes for this
// process. With CAP_SYS_ADMIN the filter of a tracee can be suspended and read: see checkCalls.
func (s *Stopped) clearCalls(t *Thread) error {
	if t.cleared || s.opt.Trial != nil && s.opt.Trial.childs {
		return nil
	}
	file := fmt.Sprintf("task/%d/status", t.TID)
	mode, err := readStatusField(s.dir, file, "Seccomp")
	if err != nil { // without this information a call might kill the process
		return procError(s.pid, err)
	}
	if mode == "0" || mode == "" { // or a kernel without seccomp
		t.cleared = true
		return nil
	}
	err = request(unix.PTRACE_SETOPTIONS, t.TID, 0, seizeOptions|unix.PTRACE_O_SUSPEND_SECCOMP)
	if err == nil {
		if t.filters, err = readFilters(t.TID); err != nil {
			return fmt.Errorf("process %d: %w: %w", s.pid, ErrSeccomp, err)
		}
		t.cleared = true
		return nil
	}
	if s.opt.Trial.covers(statusField(s.dir, file, "Seccomp_filters")) {
		t.cleared = true
		return nil
	}
	if s.opt.Trial != nil && s.opt.Trial.err != nil {
		return fmt.Errorf("process %d: %w: %w", s.pid, ErrSeccomp, s.opt.Trial.err)
	}
	return fmt.Errorf("process %d: %w: the filter might kill it for system calls that Loupe requires, and suspending the filter requires CAP_SYS_ADMIN",
		s.pid, ErrSeccomp)
}

// A Trial is the result of making the required calls in a child process that has the same seccomp filter as the target,
// and that may be killed.
type Trial struct {
	filters string // number of filters of this process, which is also that of the target
	err     error
	childs  bool // permits the calls in the child
}

// covers reports whether the result applies to a thread with the given number of filters.
func (t *Trial) covers(filters string) bool {
	return t != nil && t.err == nil && t.filters != "" && t.filters == filters
}

// NewTrial tests whether the seccomp filter of a process permits the required calls. This is possible if the filter is
// known to be the same as that of this process, as in a container. NewTrial returns nil if there is nothing to test, or
// if the filters differ; in that case the errors of Stopped's methods report what they require. NewTrial takes some
// milliseconds and does not stop the process.
func NewTrial(ctx context.Context, pid int) (*Trial, error) {
	dir, err := openProc(pid)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	self, err := openProc(os.Getpid())
	if err != nil {
		return nil, err
	}
	defer self.Close()
	filters := statusField(dir, "status", "Seccomp_filters") // since Linux 5.9
	if filters == "" || filters == "0" || filters != statusField(self, "status", "Seccomp_filters") || !sameFilters(pid, filters) {
		return nil, nil
	}
	t := &Trial{filters: filters}
	t.err = tryCalls(ctx)
	return t, nil
}

// CheckCalls returns an error if the seccomp filter of a process does not permit the calls that map memory. MapShared
// would return the same error. If the process has a filter, CheckCalls stops one of its threads for some microseconds.
// It does not change the process.
func CheckCalls(ctx context.Context, pid int) error {
	filtered, err := HasFilter(pid)
	if err != nil || !filtered {
		return err
	}
	trial, err := NewTrial(ctx, pid)
	if err != nil {
		return err
	}
	return Run(ctx, pid, Options{One: true, Trial: trial}, (*Stopped).checkMapping)
}

// HasFilter reports whether a thread of the process has a seccomp filter.
func HasFilter(pid int) (bool, error) {
	s, err := newStopped(pid, Options{})
	if err != nil {
		return false, err
	}
	defer s.dir.Close()
	tids, err := s.list()
	if err != nil {
		return false, err
	}
	for _, tid := range tids {
		mode := statusField(s.dir, fmt.Sprintf("task/%d/status", tid), "Seccomp")
		if mode != "" && mode != "0" {
			return true, nil
		}
	}
	return false, nil
}

// sameFilters reports whether a process that has the same number of filters as this process has the same filters.
// Filters are inherited and never removed. So they are the same if a common ancestor has the same number of filters. A
// process that was put into a container from outside has no ancestor in it; its filters come from the container's
// settings.
func sameFilters(pid int, filters string) bool {
	ours := map[int]bool{}
	for _, p := range ancestors(os.Getpid()) {
		ours[p] = true
	}
	for _, p := range ancestors(pid) {
		if !ours[p] {
			continue
		}
		dir, err := openProc(p)
		if err != nil {
			return false
		}
		defer dir.Close()
		return statusField(dir, "status", "Seccomp_filters") == filters
	}
	for _, ns := range []string{"pid", "user", "mnt", "cgroup"} {
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns))
		our, ourErr := os.Readlink("/proc/self/ns/" + ns)
		if err != nil || ourErr != nil || theirs != our {
			return false
		}
		if ns == "pid" && our == hostPIDNamespace {
			return false
		}
	}
	return true
}

// hostPIDNamespace is the initial PID namespace, from include/linux/proc_ns.h.
const hostPIDNamespace = "pid:[4026531836]"

// ancestors returns a process, its parent, and so on.
func ancestors(pid int) []int {
	const most = 1000
	var list []int
	for pid > 0 && len(list) < most {
		list = append(list, pid)
		dir, err := openProc(pid)
		if err != nil {
			break
		}
		pid, _ = strconv.Atoi(statusField(dir, "status", "PPid"))
		dir.Close()
	}
	return list
}

// tryCalls makes the calls in a copy of this program that is stopped before its first instruction.
func tryCalls(ctx context.Context) error {
	cmd := exec.Command("/proc/self/exe")
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := StartStopped(cmd); err != nil {
		return fmt.Errorf("starting a child process to test system calls: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		child.AwaitEnd(cmd.Process.Pid)
		_ = cmd.Wait() // it is killed by the filter or below
		close(ended)
	}()
	defer func() {
		_ = cmd.Process.Kill()
		<-ended
	}()
	s, err := Stop(ctx, cmd.Process.Pid, Options{Trial: &Trial{childs: true}})
	if err != nil {
		return err
	}
	defer s.Release()
	err = s.tryAll()
	if errors.Is(err, ErrExited) {
		return errors.New("the filter killed a child process that tested the system calls that Loupe requires")
	}
	if err != nil {
		return fmt.Errorf("tested in a child process: %w", err)
	}
	return nil
}

// tryAll makes all calls that the methods of Stopped use.
func (s *Stopped) tryAll() error {
	page := os.Getpagesize()
	anywhere := Window{Lo: lowestAddr, Hi: 1 << 46}
	program, err := s.Gap(anywhere, 2*page)
	if err != nil {
		return err
	}
	if err := s.MapProgram(program, page, page); err != nil {
		return err
	}
	at, err := s.Gap(anywhere, page)
	if err != nil {
		return err
	}
	shared, err := s.MapShared(at, page, func([]byte) error { return nil })
	if err != nil {
		return err
	}
	return both(both(s.Unmap(shared.Addr, page), s.Unmap(program, 2*page)), shared.Close())
}
