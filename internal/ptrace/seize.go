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
	stopTimeout = 2 * time.Second // for threads to stop; one in uninterruptible sleep never does
	spinTime    = 100 * time.Microsecond
	pollTime    = 20 * time.Microsecond
	longTime    = time.Millisecond // after which a thread may have ended without a word
	stopPasses  = 20               // over the list of threads, until no new ones appear
)

// seizeOptions tell the stops at a system call from a trap of the program's own, and let no exec go unseen.
const seizeOptions = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACEEXEC

// stop stops what the options say.
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

// stopAll stops all threads, those too that are started meanwhile. To stop one that waits means to wake it, which takes a
// while for all of them: so those that run are stopped last, and let go first.
func (s *Stopped) stopAll(ctx context.Context) error {
	for range stopPasses {
		tids, err := s.list()
		if err != nil {
			return err
		}
		fresh, err := s.seizeNew(tids)
		if err != nil {
			return err
		}
		if len(fresh) == 0 {
			return nil
		}
		waiting, running := s.divide(fresh)
		for _, tids := range [][]int{waiting, running} {
			if err := s.interrupt(ctx, tids); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("process %d: starts threads faster than they can be stopped", s.pid)
}

// seizeNew begins to trace the threads that are not traced yet, and returns them. They run on.
func (s *Stopped) seizeNew(tids []int) ([]int, error) {
	var fresh []int
	for _, tid := range tids {
		if s.seized[tid] {
			continue
		}
		err := s.seize(tid)
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

// seize begins to trace a thread. A thread that was in execve cannot be detached: it stays traced for as long as the thread of
// this process that traced it takes to end.
func (s *Stopped) seize(tid int) error {
	const attempts = 20
	for i := 0; ; i++ {
		err := s.seizeOnce(tid)
		if i == attempts || !errors.Is(err, unix.EPERM) || endedTask(s.dir, tid) || !s.tracedHere(tid) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// tracedHere reports whether a thread is traced by no process or by this one.
func (s *Stopped) tracedHere(tid int) bool {
	tracer := statusField(s.dir, fmt.Sprintf("task/%d/status", tid), "TracerPid") // a thread
	if tracer == "0" {
		return true
	}
	_, err := os.Stat("/proc/self/task/" + tracer)
	return err == nil && tracer != ""
}

// execTime is how long a seize may wait for an exec before the exec is taken to wait for this process.
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

// divide tells threads that wait at this moment from those that run.
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

// interrupt stops traced threads and notes where they are.
func (s *Stopped) interrupt(ctx context.Context, tids []int) error {
	if s.since.IsZero() {
		s.since = time.Now()
	}
	for _, tid := range tids {
		if err := request(unix.PTRACE_INTERRUPT, tid, 0, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("process %d: stopping thread %d: %w", s.pid, tid, err)
		}
	}
	// One after the other: nearly all have stopped when their turn comes.
	w := waiter{ctx: ctx, begin: time.Now()}
	for _, tid := range tids {
		if err := s.awaitStop(&w, tid); err != nil {
			return err
		}
	}
	return nil
}

// awaitStop waits until a thread has stopped, and notes where it is, or has ended.
func (s *Stopped) awaitStop(w *waiter, tid int) error {
	for s.threads[tid] == nil {
		status, event, err := s.waitNow(tid)
		switch {
		case err != nil:
			return fmt.Errorf("process %d: waiting for thread %d: %w", s.pid, tid, err)
		case event == hasStopped:
			return s.note(tid, status)
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

// waitForOthers notes which traced threads besides tid have stopped or ended meanwhile. A thread that calls execve does not
// stop before the process's other threads have ended and their tracer has waited for them.
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

// note keeps a stopped thread's registers, and the signal that it stopped for.
func (s *Stopped) note(tid int, status unix.WaitStatus) error {
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

// waiter spends the time until a thread stops. Stops come within microseconds, so it gives up the processor only, and
// sleeps when that has lasted: the threads need processors to stop. The Go scheduler is not told of such short sleeps.
type waiter struct {
	ctx    context.Context
	begin  time.Time
	others time.Time // when threads besides the awaited one were last waited for
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
	case waited > stopTimeout:
		return &StillError{tid, stillBecause(taskState(s.dir, tid))}
	case waited < spinTime:
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	default:
		ts := unix.NsecToTimespec(int64(pollTime))
		_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
	}
	return nil
}

// stillBecause is why a thread in this state does not stop.
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

// long reports whether the wait has lasted so long that a thread may have ended unseen: a first thread's end is told only
// after that of all others.
func (w *waiter) long() bool { return time.Since(w.begin) >= longTime }

// What waitNow has seen of a thread.
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

const _ = -(unsafe.Sizeof(childInfo{}) ^ unsafe.Sizeof(unix.Siginfo{})) // they have one size

const cldTrapped, cldStopped = 4, 5 // codes of include/uapi/asm-generic/siginfo.h

// peek returns what there is to be waited for of a traced thread, without waiting for it. Signo is 0 if there is nothing.
func peek(tid int) (info childInfo, err error) {
	err = retry(func() error {
		return unix.Waitid(unix.P_PID, tid, (*unix.Siginfo)(unsafe.Pointer(&info)),
			unix.WEXITED|unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	})
	return info, err
}

// reap waits for a traced thread that has ended. It leaves a stop to be seen by waitNow: whatever a wait asks for, it takes the
// stops of traced threads, too.
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
		// It stopped for a signal. Once it is waited for, the signal depends on this process: were that killed, the thread
		// would go on without it. One that preempts a goroutine is not sent again: a program that lost it may hang.
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

// retry calls f until no signal interrupts it.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// stopEvent returns the PTRACE_EVENT of a stop; 0 for a signal and for a system call.
func stopEvent(status unix.WaitStatus) int { return int(status>>16) & 0xff }

func execStop(status unix.WaitStatus) bool { return stopEvent(status) == unix.PTRACE_EVENT_EXEC }

// callStop reports a stop at the beginning or the end of a system call.
func callStop(status unix.WaitStatus) bool { return status.StopSignal() == unix.SIGTRAP|0x80 }

// request makes a ptrace request on the thread it is called on.
func request(what, tid int, addr, data uintptr) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(what), uintptr(tid), addr, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// requestAt is request with a pointer for data.
func requestAt(what, tid int, addr uintptr, data unsafe.Pointer) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(what), uintptr(tid), addr, uintptr(data), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// regset reads or writes (PTRACE_GETREGSET, PTRACE_SETREGSET) a set of registers and returns how many bytes it has.
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

// refuse names what can be known to be wrong with a process before anything is done to it.
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

// denied says why a process cannot be traced.
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

// tracedBy returns the process that traces a thread of this one; empty when there is none but this.
func (s *Stopped) tracedBy() string {
	tids, err := s.list()
	if err != nil {
		return ""
	}
	for _, tid := range tids {
		if s.seized[tid] || endedTask(s.dir, tid) {
			continue
		}
		if tracer := statusField(s.dir, fmt.Sprintf("task/%d/status", tid), "TracerPid"); tracer != "" && tracer != "0" {
			return tracer
		}
	}
	return ""
}
