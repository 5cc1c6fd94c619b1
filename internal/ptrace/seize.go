package ptrace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	stopTimeout = 2 * time.Second // for threads to stop; a thread in uninterruptible sleep does not stop
	spinTime    = 100 * time.Microsecond
	pollTime    = 20 * time.Microsecond
	stopPolls   = 200              // the fewest polls in that time; on a machine that stood still meanwhile, no thread could stop
	longTime    = time.Millisecond // after which a thread may have ended without a report
	stopPasses  = 20               // of reading the list of threads, until no new ones appear
)

// seizeOptions distinguish stops at a system call from traps of the program itself, and report every exec.
const seizeOptions = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACEEXEC

// stop stops all threads or one, depending on the options.
func (s *Stopped) stop(ctx context.Context) error {
	if err := s.refuse(); err != nil {
		return err
	}
	defer func() {
		if !s.since.IsZero() {
			s.took = time.Since(s.since)
		}
	}()
	if s.opt.One {
		return s.stopOne(ctx)
	}
	return s.stopAll(ctx)
}

// stopAll stops all threads, including those that are started meanwhile. Stopping a waiting thread requires waking it,
// which takes time if there are many. So running threads are stopped last, unless Options.Together is set, and resumed first.
func (s *Stopped) stopAll(ctx context.Context) error {
	for range stopPasses {
		tids, err := s.list()
		if err != nil {
			return err
		}
		fresh, err := s.seizeNew(ctx, tids)
		if err != nil {
			return err
		}
		if len(fresh) == 0 {
			return nil
		}
		steps := [][]int{fresh}
		if !s.opt.Together {
			waiting, running := s.divide(fresh)
			steps = [][]int{waiting, running}
		}
		for _, tids := range steps {
			if err := s.interrupt(ctx, tids); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("process %d: starts threads faster than they can be stopped", s.pid)
}

// seizeNew begins to trace the threads that are not traced yet, and returns them. They continue to run.
func (s *Stopped) seizeNew(ctx context.Context, tids []int) ([]int, error) {
	var fresh []int
	for _, tid := range tids {
		if s.seized[tid] {
			continue
		}
		err := s.seize(ctx, tid)
		switch {
		case errors.Is(err, unix.ESRCH):
			continue // the thread has ended
		case errors.Is(err, unix.EPERM) && endedTask(s.dir, tid):
			continue // likewise
		case err != nil:
			return nil, s.denied(err)
		}
		s.seized[tid] = true
		fresh = append(fresh, tid)
	}
	return fresh, nil
}

// refusedTime is how long seizing is retried if the kernel refuses it. For a thread that is exiting or in execve, it
// does so for a moment.
const refusedTime = 20 * time.Millisecond

// refusedTries is the lowest number of such attempts: on a machine that stood still for longer, no thread has come on.
const refusedTries = 10

// seize begins to trace a thread. A thread that was in execve cannot be detached: it remains traced until the tracing
// thread of this process has ended, which takes long on a busy machine.
func (s *Stopped) seize(ctx context.Context, tid int) error {
	begin := time.Now()
	patience := refusedTime
	for tries := 1; ; tries++ {
		err := s.seizeOnce(tid)
		if !errors.Is(err, unix.EPERM) || endedTask(s.dir, tid) || ctx.Err() != nil {
			return err
		}
		switch tracer := s.tracerOf(tid); {
		case tracer == "" || tracer == "0":
		case ownThread(tracer):
			patience = stopTimeout
		case s.tracerOf(tid) == tracer: // still traced, so the tracer is not a thread of this process that has just ended
			return err
		}
		if time.Since(begin) > patience && tries >= refusedTries {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// tracerOf returns the ID of the thread that traces a thread, "0" if it is not traced, or "" if it has ended.
func (s *Stopped) tracerOf(tid int) string {
	return statusField(s.dir, fmt.Sprintf("task/%d/status", tid), "TracerPid")
}

// ownThread reports whether this process has a thread with the given ID.
func ownThread(tid string) bool {
	_, err := os.Stat("/proc/self/task/" + tid)
	return err == nil
}

// execTime is how long seizing may wait for an exec. After that the exec is assumed to wait for this process.
const execTime = 5 * time.Millisecond

// seizeOnce makes one request. It blocks while a thread of the process is in execve. That thread waits until the tracer has
// waited for the threads that are traced already and that the exec has ended: another thread of this process does so.
func (s *Stopped) seizeOnce(tid int) error {
	var over atomic.Bool
	done := make(chan struct{})
	timer := time.AfterFunc(execTime, func() {
		defer close(done)
		for ; !over.Load(); time.Sleep(time.Millisecond) {
			for other := range s.seized {
				if other != s.pid {
					reap(other)
				}
			}
		}
	})
	// Not a raw system call: the function above needs a processor of the Go scheduler.
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(tid), 0, seizeOptions, 0, 0)
	over.Store(true)
	if !timer.Stop() {
		<-done
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// divide separates threads that are waiting at this moment from those that are running.
func (s *Stopped) divide(tids []int) (waiting, running []int) {
	for _, tid := range tids {
		if taskState(s.dir, tid) == 'R' {
			running = append(running, tid)
		} else {
			waiting = append(waiting, tid)
		}
	}
	return waiting, running
}

// interrupt stops traced threads and records their registers.
func (s *Stopped) interrupt(ctx context.Context, tids []int) error {
	if s.since.IsZero() {
		s.since = time.Now()
	}
	for _, tid := range tids {
		if err := request(unix.PTRACE_INTERRUPT, tid, 0, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("process %d: stopping thread %d: %w", s.pid, tid, err)
		}
	}
	// Wait for one after the other: nearly all have stopped by the time their turn comes.
	w := waiter{ctx: ctx, begin: time.Now()}
	for _, tid := range tids {
		if err := s.awaitStop(&w, tid); err != nil {
			return err
		}
	}
	return nil
}

// awaitStop waits until a thread has stopped or ended. If it has stopped, awaitStop records its registers.
func (s *Stopped) awaitStop(w *waiter, tid int) error {
	for s.threads[tid] == nil {
		status, event, err := s.waitNow(tid)
		switch {
		case err != nil:
			return fmt.Errorf("process %d: waiting for thread %d: %w", s.pid, tid, err)
		case event == hasStopped:
			if err := s.note(tid, status); err != nil {
				return err
			}
			continue
		case event == hasEnded, w.long() && endedTask(s.dir, tid):
			return nil
		}
		if w.long() && time.Since(w.others) >= longTime {
			w.others = time.Now()
			if err := s.waitForOthers(tid); err != nil {
				return err
			}
		}
		if err := w.pause(s, tid); err != nil {
			return fmt.Errorf("process %d: %w", s.pid, err)
		}
	}
	return nil
}

// waitForOthers records which traced threads other than tid have stopped or ended meanwhile. A thread that calls execve
// does not stop before the process's other threads have ended and their tracer has waited for them.
func (s *Stopped) waitForOthers(tid int) error {
	for other := range s.seized {
		if other == tid {
			continue
		}
		status, event, err := s.waitNow(other)
		switch {
		case err != nil:
			return fmt.Errorf("process %d: waiting for thread %d: %w", s.pid, other, err)
		case event == hasStopped:
			if err := s.note(other, status); err != nil {
				return err
			}
		case event == hasEnded:
			delete(s.threads, other)
		}
	}
	return nil
}

// note records a stopped thread's registers, and the signal that it stopped for. A thread that has stopped within execve is let go on
// to the end of it, where it stops again: the end would overwrite its registers.
func (s *Stopped) note(tid int, status unix.WaitStatus) error {
	if execStop(status) {
		return s.pastExec(tid)
	}
	t := &Thread{TID: tid}
	if stopEvent(status) == 0 {
		t.signal = status.StopSignal()
	}
	err := getRegs(tid, &t.Regs)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: registers of thread %d: %w", s.pid, tid, err)
	}
	s.threads[tid] = t
	return nil
}

// pastExec resumes a thread that has stopped within execve, so that it stops when it returns to the program.
func (s *Stopped) pastExec(tid int) error {
	err := request(unix.PTRACE_INTERRUPT, tid, 0, 0) // the stop has revoked the earlier request
	if err == nil {
		err = request(unix.PTRACE_CONT, tid, 0, 0)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d: stopping thread %d after execve: %w", s.pid, tid, err)
	}
	return nil
}

// A waiter waits until a thread stops. Threads stop within microseconds, so the waiter first only yields the processor,
// and sleeps if that takes too long, because the threads need processors to stop. These short sleeps bypass the Go
// scheduler.
type waiter struct {
	ctx    context.Context
	begin  time.Time
	others time.Time // when threads other than the awaited one were last waited for
	polls  int       // sleeps
}

// pause waits a moment for thread tid to stop. It returns a StillError when the thread does not stop in time,
// or before the deadline of the waiter's context.
func (w *waiter) pause(s *Stopped, tid int) error {
	switch err := w.ctx.Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w (%w)", &StillError{tid, stillBecause(taskState(s.dir, tid))}, err)
	case err != nil:
		return fmt.Errorf("stopping thread %d: %w", tid, err)
	}
	switch waited := time.Since(w.begin); {
	case waited > stopTimeout && w.polls >= stopPolls:
		return &StillError{tid, stillBecause(taskState(s.dir, tid))}
	case waited < spinTime:
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	default:
		w.polls++
		ts := unix.NsecToTimespec(int64(pollTime))
		_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
	}
	return nil
}

// stillBecause returns the reason why a thread in this state does not stop.
func stillBecause(state byte) string {
	switch state {
	case 'R':
		return "it is not scheduled on a processor"
	case 'D':
		return "it is in uninterruptible sleep, or its cgroup is frozen"
	case 'S':
		return "its cgroup is frozen"
	case 't': // in a ptrace stop that it has not reported yet, or resumed and not running yet
		return "it is between two stops, or its cgroup is frozen"
	}
	return fmt.Sprintf("its state is %c", state)
}

// long reports whether the wait has lasted so long that a thread may have ended unseen. The kernel reports the end of
// the first thread only after that of all others.
func (w *waiter) long() bool { return time.Since(w.begin) >= longTime }

// The results of waitNow.
type waitEvent int

const (
	stillRuns waitEvent = iota
	hasStopped
	hasEnded
)

// childInfo is a siginfo_t for SIGCHLD (include/uapi/asm-generic/siginfo.h).
type childInfo struct {
	Signo, _, Code int32
	_, pid, uid    int32
	status         int32
	_              [100]byte
}

const _ = -(unsafe.Sizeof(childInfo{}) ^ unsafe.Sizeof(unix.Siginfo{})) // both have the same size

const cldTrapped, cldStopped = 4, 5 // codes of include/uapi/asm-generic/siginfo.h

// peek returns the state change of a traced thread that a wait would return, without consuming it. Signo is 0 if there
// is no change.
func peek(tid int) (info childInfo, err error) {
	err = retry(func() error {
		return unix.Waitid(unix.P_PID, tid, (*unix.Siginfo)(unsafe.Pointer(&info)),
			unix.WEXITED|unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	})
	return info, err
}

// reap waits for a traced thread that has ended. It does not consume a stop, which waitNow must see: a wait returns the
// stops of traced threads whatever its options are.
func reap(tid int) {
	info, err := peek(tid)
	if err != nil || info.Signo == 0 || info.Code == cldTrapped || info.Code == cldStopped {
		return
	}
	_ = unix.Waitid(unix.P_PID, tid, nil, unix.WEXITED|unix.WNOHANG|unix.WALL, nil)
}

// waitNow reports whether a traced thread has stopped or ended, without waiting. It does not reap the first thread of the
// process: its parent does, and that may be another part of this program. The other threads are reaped.
func (s *Stopped) waitNow(tid int) (unix.WaitStatus, waitEvent, error) {
	info, err := peek(tid)
	stopped := unix.WaitStatus(info.status<<8 | 0x7f)
	switch {
	case errors.Is(err, unix.ECHILD):
		return 0, hasEnded, nil
	case err != nil:
		return 0, stillRuns, err
	case info.Signo == 0:
		return 0, stillRuns, nil
	case info.Code != cldTrapped && info.Code != cldStopped && tid == s.pid:
		return 0, hasEnded, nil
	case info.Code == cldTrapped && stopEvent(stopped) == 0 && !callStop(stopped):
		// It stopped for a signal. Once the stop is consumed, this process must deliver the signal: if this process were
		// killed, the thread would continue without it. The runtime does not resend a signal that preempts a goroutine, so a
		// program that lost it may hang.
		return stopped, hasStopped, nil
	}
	var status unix.WaitStatus
	got := 0
	err = retry(func() (err error) {
		got, err = unix.Wait4(tid, &status, unix.WNOHANG|unix.WALL, nil)
		return err
	})
	if err != nil || got != tid || !status.Stopped() { // it was killed meanwhile
		return 0, hasEnded, nil
	}
	return status, hasStopped, nil
}

// retry calls f until it is not interrupted by a signal.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// stopEvent returns the PTRACE_EVENT of a stop, or 0 for a signal or a system call.
func stopEvent(status unix.WaitStatus) int { return int(status>>16) & 0xff }

func execStop(status unix.WaitStatus) bool { return stopEvent(status) == unix.PTRACE_EVENT_EXEC }

// callStop reports whether a stop is at the entry or exit of a system call.
func callStop(status unix.WaitStatus) bool { return status.StopSignal() == unix.SIGTRAP|0x80 }

// request makes a ptrace request on the calling thread.
func request(what, tid int, addr, data uintptr) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(what), uintptr(tid), addr, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// requestAt is like request, with a pointer as data.
func requestAt(what, tid int, addr uintptr, data unsafe.Pointer) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(what), uintptr(tid), addr, uintptr(data), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// regset reads or writes (PTRACE_GETREGSET, PTRACE_SETREGSET) a set of registers and returns its size in bytes.
func regset(what, tid, set int, p unsafe.Pointer, size int) (int, error) {
	v := unix.Iovec{Base: (*byte)(p)}
	v.SetLen(size)
	err := requestAt(what, tid, uintptr(set), unsafe.Pointer(&v))
	return int(v.Len), err
}

func getRegs(tid int, r *Registers) error {
	_, err := regset(unix.PTRACE_GETREGSET, tid, unix.NT_PRSTATUS, unsafe.Pointer(r), int(unsafe.Sizeof(*r)))
	return err
}

func setRegs(tid int, r *Registers) error {
	_, err := regset(unix.PTRACE_SETREGSET, tid, unix.NT_PRSTATUS, unsafe.Pointer(r), int(unsafe.Sizeof(*r)))
	return err
}

func getMask(tid int) (mask uint64, err error) {
	err = requestAt(unix.PTRACE_GETSIGMASK, tid, unsafe.Sizeof(mask), unsafe.Pointer(&mask))
	return mask, err
}

func setMask(tid int, mask uint64) error {
	return requestAt(unix.PTRACE_SETSIGMASK, tid, unsafe.Sizeof(mask), unsafe.Pointer(&mask))
}

// list returns the threads of the process.
func (s *Stopped) list() ([]int, error) {
	f, err := s.dir.Open("task")
	if err != nil {
		return nil, procError(s.pid, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, procError(s.pid, err)
	}
	tids := make([]int, 0, len(names))
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, nil
}

// refuse returns an error for processes that cannot be stopped, as far as this can be determined without changing them.
func (s *Stopped) refuse() error {
	if s.dead() {
		return fmt.Errorf("process %d: %w", s.pid, ErrExited)
	}
	if isKernelThread(statFields(s.dir, s.pid)) {
		return fmt.Errorf("process %d: %w: a kernel thread", s.pid, ErrUnsupported)
	}
	return nil
}

// isKernelThread reports whether the fields of a stat file, from the state on, are those of a kernel thread. Like a kernel
// thread, an exiting process has no memory and no executable, so only the flags distinguish them.
func isKernelThread(stat []string) bool {
	const flagsField, kernelThread = 6, 0x200000 // PF_KTHREAD of include/linux/sched.h
	if len(stat) <= flagsField {
		return false
	}
	flags, err := strconv.ParseUint(stat[flagsField], 10, 64)
	return err == nil && flags&kernelThread != 0
}

// denied returns the reason why a process cannot be traced.
func (s *Stopped) denied(err error) error {
	if tracer := s.tracedBy(); tracer != "" {
		n, _ := strconv.Atoi(tracer)                                   // the kernel's number
		name, _ := os.ReadFile(filepath.Join("/proc", tracer, "comm")) // for people only
		return fmt.Errorf("process %d: %w", s.pid, &TracedError{n, strings.TrimSpace(string(name))})
	}
	if _, statErr := s.dir.Stat("status"); statErr != nil {
		return fmt.Errorf("process %d: %w", s.pid, ErrExited)
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("process %d: stopping it: %w", s.pid, ErrPermission)
	}
	return fmt.Errorf("process %d: stopping it: %w: %w", s.pid, ErrPermission, err)
}

// tracedBy returns the ID of another thread that traces a thread of the process, or "" if there is none.
func (s *Stopped) tracedBy() string {
	tids, err := s.list()
	if err != nil {
		return ""
	}
	for _, tid := range tids {
		if s.seized[tid] || endedTask(s.dir, tid) {
			continue
		}
		if tracer := s.tracerOf(tid); tracer != "" && tracer != "0" {
			return tracer
		}
	}
	return ""
}
