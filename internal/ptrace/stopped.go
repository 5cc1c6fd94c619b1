package ptrace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Options configures Stop and Run. The zero value stops all threads.
type Options struct {
	// One stops only a single thread, for system calls during which the other threads may run. Patch and Resting return an
	// error for such a Stopped.
	One bool

	// Together stops running threads at the same time as waiting ones, so that the state of the process is that of one moment.
	// Otherwise running threads continue until all others have stopped: they stop for less time, but meanwhile goroutines
	// can begin to wait, and hardly any can begin to run.
	Together bool

	// Trial permits system calls in threads with a seccomp filter that cannot be suspended; see NewTrial.
	Trial *Trial

	at func(step) // called at each step of a call; for tests
}

// A Stopped is a process of which all threads or one are stopped until Release is called. Its methods may be called
// from any goroutine. They run one after the other on the tracing thread.
type Stopped struct {
	pid    int
	opt    Options
	dir    *os.Root // /proc/PID: it cannot be read after the process has ended, even if its PID is reused
	tracer int      // the ID of the tracing thread
	work   chan func()
	let    chan struct{} // closed to resume the process
	ended  chan struct{} // closed when it has resumed

	seized  map[int]bool
	threads map[int]*Thread
	since   time.Time     // when the first thread was requested to stop
	took    time.Duration // from since until all threads had stopped
	stood   time.Duration // from since until the last thread had resumed

	handlers *[]Interval // the stacks of signal handlers; nil if unknown

	mem       *os.File
	byCalls   bool // mem cannot be opened
	poke      bool // the kernel refuses writes through mem
	foothold  *foothold
	abandoned bool // a thread is restoring its state by itself: what it needs must not be changed
	resend    []held
	supported error // the reason why no calls can be made; errUnknown until it is determined
}

// A Thread is a stopped thread.
type Thread struct {
	TID  int
	Regs Registers

	signal  unix.Signal // pending when it stopped; delivered when the thread resumes
	mask    uint64      // blocked signals; valid if masked is set
	masked  bool
	cleared bool      // its system calls are harmless: see clearCalls
	filters []*bpf.VM // that are suspended
}

// held is a signal that is sent again when the process resumes.
type held struct {
	tid    int
	signal unix.Signal
}

const highestPriority = -20

var errUnknown = errors.New("not asked yet")

// Run stops a process, calls f on the tracing thread, and resumes the process. It returns the error of Stop or of f.
// The stop is shorter than with Stop, because only the tracing thread needs a processor while the process is stopped.
func Run(ctx context.Context, pid int, opt Options, f func(*Stopped) error) error {
	s, err := newStopped(pid, opt)
	if err != nil {
		return err
	}
	go onOwnThread(func() {
		defer close(s.ended)
		defer s.letGo()
		s.begin()
		if err = s.stop(ctx); err == nil {
			err = s.explain(f(s))
		}
	})
	<-s.ended
	return err
}

// Stop stops the threads of a process. The caller must call Release. Stop returns an error if the process is already
// traced, has ended, belongs to another user, or is a kernel thread. A process in execve is stopped before the first
// instruction of the new program.
func Stop(ctx context.Context, pid int, opt Options) (*Stopped, error) {
	s, err := newStopped(pid, opt)
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go onOwnThread(func() {
		defer close(s.ended)
		defer s.letGo()
		s.begin()
		started <- s.stop(ctx)
		for {
			select {
			case f := <-s.work:
				f()
			case <-s.let:
				return
			}
		}
	})
	if err := <-started; err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

func newStopped(pid int, opt Options) (*Stopped, error) {
	if pid == os.Getpid() {
		return nil, fmt.Errorf("process %d: %w: a process cannot trace itself", pid, ErrUnsupported)
	}
	dir, err := openProc(pid)
	if err != nil {
		return nil, err
	}
	return &Stopped{
		pid: pid, opt: opt, dir: dir, work: make(chan func()), let: make(chan struct{}), ended: make(chan struct{}),
		supported: errUnknown, seized: map[int]bool{}, threads: map[int]*Thread{},
	}, nil
}

// begin makes the calling thread the tracing thread.
func (s *Stopped) begin() {
	s.tracer = unix.Gettid()
	if !s.opt.One {
		// The process is stopped while this thread waits for a processor, so its priority is raised if that is permitted.
		_ = unix.Setpriority(unix.PRIO_PROCESS, s.tracer, highestPriority)
	}
}

// onOwnThread runs f on a thread that ends with it. When the thread ends, the kernel detaches everything that it still
// traces. The main thread of a Go program never ends, so it is not used.
func onOwnThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return // without unlocking: the runtime ends the thread
	}
	done := make(chan struct{})
	go func() { // on another thread, because this one is occupied
		defer close(done)
		onOwnThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

// Do runs f on the tracing thread. No other method runs until f returns, except those that f calls.
func (s *Stopped) Do(f func() error) error {
	if unix.Gettid() == s.tracer { // only f itself runs on that thread
		return f()
	}
	var err error
	done := make(chan struct{})
	select {
	case s.work <- func() { err = s.explain(f()); close(done) }:
		<-done
		return err
	case <-s.ended:
		return fmt.Errorf("process %d: %w", s.pid, ErrReleased)
	}
}

// Release resumes the process and delivers the signals that were held. It must be called exactly once, and not within
// Do.
func (s *Stopped) Release() {
	close(s.let)
	<-s.ended
}

// PID returns the process ID.
func (s *Stopped) PID() int { return s.pid }

// Threads returns the stopped threads, in increasing order of their IDs.
func (s *Stopped) Threads() []Thread {
	var threads []Thread
	_ = s.Do(func() error {
		for _, t := range s.threads {
			threads = append(threads, *t)
		}
		return nil
	})
	slices.SortFunc(threads, func(a, b Thread) int { return a.TID - b.TID })
	return threads
}

// Since returns the time at which the first thread was requested to stop.
func (s *Stopped) Since() time.Time { return s.since }

// Took returns the time from Since until all threads had stopped.
func (s *Stopped) Took() time.Duration { return s.took }

// Stood returns the time from Since until the last thread had resumed. It is 0 before that.
func (s *Stopped) Stood() time.Duration { return s.stood }

// letGo restores what the calls have changed and resumes all threads.
func (s *Stopped) letGo() {
	if s.foothold != nil && !s.abandoned {
		_ = s.foothold.leave(s) // fails if the process has ended; the error cannot be reported
	}
	for _, waiting := range []bool{false, true} { // running threads first
		for tid := range s.seized {
			t := s.threads[tid]
			if waits := t == nil || t.Regs.inCall(); waits == waiting {
				detach(tid, t)
			}
		}
	}
	if !s.since.IsZero() {
		s.stood = time.Since(s.since)
	}
	for _, h := range s.resend {
		_ = unix.Tgkill(s.pid, h.tid, h.signal)
	}
	if s.mem != nil {
		s.mem.Close()
	}
	s.dir.Close()
}

// detach resumes a thread; t is nil if the thread has not stopped.
func detach(tid int, t *Thread) {
	var signal unix.Signal
	if t != nil {
		signal = t.signal
	}
	// A thread that cannot be detached has ended, or resumes when this thread ends.
	_ = request(unix.PTRACE_DETACH, tid, 0, uintptr(signal))
}

// explain converts an error caused by the end of the process to one that reports the end.
func (s *Stopped) explain(err error) error {
	if errors.Is(err, ErrNoProcess) || err != nil && !errors.Is(err, ErrExited) && (s.dead() || s.killed()) {
		return fmt.Errorf("process %d: %w", s.pid, ErrExited)
	}
	return err
}

// killed reports whether a thread is no longer stopped. Only SIGKILL or an exec by another thread can cause this.
func (s *Stopped) killed() bool {
	for tid := range s.threads {
		var r Registers
		if errors.Is(getRegs(tid, &r), unix.ESRCH) {
			return !s.abandoned
		}
	}
	return false
}

// dead reports whether the process has ended or is about to end, which is then the reason for every error. It does not
// count the end of the first thread before the others.
func (s *Stopped) dead() bool {
	if !endedTask(s.dir, s.pid) {
		return false
	}
	tids, err := s.list()
	return err != nil || !slices.ContainsFunc(tids, func(tid int) bool { return !endedTask(s.dir, tid) })
}
