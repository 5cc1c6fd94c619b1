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

// Options says how to stop a process. The zero value stops all threads.
type Options struct {
	// One stops a single thread, for system calls that need no standstill. Patch and Resting refuse such a Stopped.
	One bool

	// Trial allows system calls in threads with a seccomp filter that cannot be suspended; see NewTrial.
	Trial *Trial

	at func(step) // called at each step of a call; for tests
}

// Stopped is a process whose threads, or one of them, stand still until Release. Its methods may be called from any
// goroutine; they run one after the other on the thread that traces.
type Stopped struct {
	pid    int
	opt    Options
	dir    *os.Root // /proc/PID: answers no more when the process is gone, even when its number is given to another
	tracer int      // the thread that traces
	work   chan func()
	let    chan struct{} // closed to let the process go on
	ended  chan struct{} // closed when it does

	seized  map[int]bool
	threads map[int]*Thread
	since   time.Time     // the first thread was asked to stop
	took    time.Duration // until all had stopped
	stood   time.Duration // until the last one went on

	handlers *[]Interval // the stacks of signal handlers; nil when they are not known

	mem       *os.File
	byCalls   bool // mem cannot be opened
	poke      bool // writing through mem is refused
	foothold  *foothold
	abandoned bool // a thread is on its way back by itself: nothing it needs may be touched
	resend    []held
	supported error // why no calls can be made; errUnknown until asked
}

// Thread is one stopped thread.
type Thread struct {
	TID  int
	Regs Registers

	signal  unix.Signal // was about to be delivered; it is delivered when the thread goes on
	mask    uint64      // blocked signals, when masked says they are known
	masked  bool
	cleared bool      // its system calls do no harm: see clearCalls
	filters []*bpf.VM // that are suspended
}

// held is a signal that is sent again when the process goes on.
type held struct {
	tid    int
	signal unix.Signal
}

const highestPriority = -20

var errUnknown = errors.New("not asked yet")

// Run stops a process, calls f on the thread that traces, and lets the process go on. Errors are those of Stop and of f.
// Nothing but that thread has to get a processor while the process stands still, which makes it shorter than with Stop.
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

// Stop stops the threads of a process. The caller must call Release. A process that is already traced, ended, of another
// user or the kernel's is refused with the reason. One that is just replacing itself by another program (execve) is stopped
// before the first instruction of that.
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

// begin makes the calling thread the one that traces.
func (s *Stopped) begin() {
	s.tracer = unix.Gettid()
	if !s.opt.One {
		// While this thread waits for its turn the process stands still. Where this is not permitted it just waits.
		_ = unix.Setpriority(unix.PRIO_PROCESS, s.tracer, highestPriority)
	}
}

// onOwnThread runs f on a thread that ends with it, and with it all that the thread may still trace: ptrace ties a tracee
// to one thread. The main thread of a Go program never ends, so it does not do.
func onOwnThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return // without unlocking: the runtime ends the thread
	}
	done := make(chan struct{})
	go func() { // on another thread, since this one is taken
		defer close(done)
		onOwnThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

// Do runs f on the thread that traces the process, as a sequence of steps during which nothing else is done to it. The
// methods of Stopped can be called in f.
func (s *Stopped) Do(f func() error) error {
	if unix.Gettid() == s.tracer { // only f itself runs there
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

// Release lets the process go on and delivers the signals that were held up. It must be called once, and not within Do.
func (s *Stopped) Release() {
	close(s.let)
	<-s.ended
}

// PID returns the process's number.
func (s *Stopped) PID() int { return s.pid }

// Threads returns the stopped threads, by number.
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

// Since returns when the first thread was asked to stop.
func (s *Stopped) Since() time.Time { return s.since }

// Took returns how long it took then until all had stopped.
func (s *Stopped) Took() time.Duration { return s.took }

// Stood returns how long it took from then on until the last thread went on; 0 before that.
func (s *Stopped) Stood() time.Duration { return s.stood }

// letGo puts back what the calls needed and lets every thread go on.
func (s *Stopped) letGo() {
	if s.foothold != nil && !s.abandoned {
		_ = s.foothold.leave(s) // fails when the process has ended, and there is nobody to tell
	}
	for _, waiting := range []bool{false, true} { // those that have something to do first
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

// detach lets a thread go on; t is nil when it has not stopped.
func detach(tid int, t *Thread) {
	var signal unix.Signal
	if t != nil {
		signal = t.signal
	}
	// A thread that cannot be detached has ended, or is let go when this thread ends.
	_ = request(unix.PTRACE_DETACH, tid, 0, uintptr(signal))
}

// explain makes an error that a dying process causes say so.
func (s *Stopped) explain(err error) error {
	if errors.Is(err, ErrNoProcess) || err != nil && !errors.Is(err, ErrExited) && (s.dead() || s.killed()) {
		return fmt.Errorf("process %d: %w", s.pid, ErrExited)
	}
	return err
}

// killed reports whether a thread is not stopped any more, which only SIGKILL can do, or an exec of another one.
func (s *Stopped) killed() bool {
	for tid := range s.threads {
		var r Registers
		if errors.Is(getRegs(tid, &r), unix.ESRCH) {
			return !s.abandoned
		}
	}
	return false
}

// dead reports whether the process has ended, or is about to: then every error has this one reason. A first thread that
// ended before the others does not count.
func (s *Stopped) dead() bool {
	if !endedTask(s.dir, s.pid) {
		return false
	}
	tids, err := s.list()
	return err != nil || !slices.ContainsFunc(tids, func(tid int) bool { return !endedTask(s.dir, tid) })
}
