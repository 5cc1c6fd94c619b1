package ptrace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	allSignals = ^uint64(0)
	maxErrno   = 4095
	callStops  = 100 // stops that a thread may make in addition to the expected ones
)

// Call makes a system call in a stopped thread and returns its result. If the call fails, the error is its unix.Errno.
// The call must not block, change the thread's registers or signals, or end or replace the process. The error wraps
// ErrBusy if no thread can make a call at this moment, and ErrSeccomp if a seccomp filter might kill the process for
// the call.
func (s *Stopped) Call(nr uintptr, args ...uint64) (uint64, error) {
	var result uint64
	err := s.Do(func() error {
		t, err := s.caller()
		if err != nil {
			return err
		}
		result, err = s.call(t, nr, args...)
		return err
	})
	return result, err
}

// call is Call for one thread. Afterwards the thread has its original registers and signal mask, or restores them by
// itself.
func (s *Stopped) call(t *Thread, nr uintptr, args ...uint64) (uint64, error) {
	if err := s.mayCall(t); err != nil {
		return 0, err
	}
	c := caller{s: s, t: t, nr: uint64(nr)}
	copy(c.args[:], args)
	if err := s.checkCalls(t, aCall{nr: c.nr, args: c.args}); err != nil {
		return 0, err
	}
	f, err := s.enter()
	if err != nil {
		return 0, err
	}
	if !t.masked {
		if t.mask, err = getMask(t.TID); err != nil {
			return 0, s.gone(t.TID, "reading a thread's signal mask", err)
		}
		t.masked = true
	}
	if err := f.prepare(s, t); err != nil {
		return 0, err
	}
	result, err := c.run()
	if err != nil {
		return 0, err
	}
	if errno := -result; errno != 0 && errno <= maxErrno {
		return 0, unix.Errno(errno)
	}
	return result, nil
}

// mayCall returns an error for threads whose system calls would fail or be harmful.
func (s *Stopped) mayCall(t *Thread) error {
	if s.abandoned {
		return fmt.Errorf("process %d: a thread did not return from a system call", s.pid)
	}
	if err := s.checkSupported(); err != nil {
		return err
	}
	if t.Regs.compat() {
		return fmt.Errorf("process %d: %w: its thread %d executes 32-bit code", s.pid, ErrUnsupported, t.TID)
	}
	return s.clearCalls(t)
}

// step is a place in run at which a tracer may be killed.
type step int

const (
	prepared step = iota
	registersSet
	signalsBlocked
	atBeginning
	atEnd
	atLastStop
	maskRestored
	allRestored
	steps
)

func (c *caller) at(n step) {
	if c.s.opt.at != nil {
		c.s.opt.at(n)
	}
}

// caller is a thread that makes one system call.
type caller struct {
	s    *Stopped
	t    *Thread
	nr   uint64
	args [6]uint64

	forced unix.Signal // the signal that the call has caused; it is not delivered
}

// run makes the call and returns the thread to its original state.
func (c *caller) run() (uint64, error) {
	f := c.s.foothold
	regs := c.t.Regs
	regs.setCall(f.at, frameSP(f.at+footholdFrame), c.nr, c.args)
	c.at(prepared)
	// Set the registers first: from then on the thread restores its mask by itself.
	if err := setRegs(c.t.TID, &regs); err != nil {
		return 0, c.fail("setting a thread's registers", err)
	}
	c.at(registersSet)
	if err := setMask(c.t.TID, allSignals); err != nil {
		return 0, c.back(c.fail("blocking a thread's signals", err))
	}
	c.at(signalsBlocked)
	result, err := c.through()
	if err != nil {
		return 0, c.back(err)
	}
	return result, c.back(nil)
}

// through runs the thread to the entry and to the exit of the call, and returns its result.
func (c *caller) through() (uint64, error) {
	var at Registers
	for i, where := range [...]string{"beginning", "end"} {
		if err := c.toCallStop(); err != nil {
			return 0, err
		}
		c.at(atBeginning + step(i))
		if err := getRegs(c.t.TID, &at); err != nil {
			return 0, c.fail("reading a thread's registers", err)
		}
		if at.PC() != c.s.foothold.at+syscallSize || at.callNumber() != c.nr {
			return 0, c.fail("a system call", fmt.Errorf("at its %s the thread is at %#x in call %d, not at %#x in call %d",
				where, at.PC(), at.callNumber(), c.s.foothold.at+syscallSize, c.nr))
		}
	}
	return at.result(), nil
}

// toCallStop resumes the thread until it stops at the entry or exit of a system call. A signal that it had stopped for
// is passed on: the kernel queues it again, because it is blocked now.
func (c *caller) toCallStop() error {
	for range callStops {
		if err := c.resume(unix.PTRACE_SYSCALL); err != nil {
			return err
		}
		status, err := c.await()
		switch {
		case err != nil:
			return err
		case callStop(status):
			return nil
		case stopEvent(status) == unix.PTRACE_EVENT_STOP:
			// The whole process is being stopped, or continues afterwards. This thread follows when it is released.
		case !c.hold(status.StopSignal()):
			return c.fail("a system call", fmt.Errorf("the thread got %v", status.StopSignal()))
		}
	}
	return c.fail("a system call", errors.New("other stops prevent the thread from entering it"))
}

// hold keeps a signal that cannot be blocked for later, and reports whether it is such a signal.
func (c *caller) hold(signal unix.Signal) bool {
	if signal != unix.SIGSTOP {
		return false
	}
	c.s.resend = append(c.s.resend, held{c.t.TID, signal})
	return true
}

// back restores the original state of the thread, at a stop after which the kernel restarts an interrupted call. It
// returns err, or the error of the restoration.
func (c *caller) back(err error) error {
	if errors.Is(err, ErrExited) || c.s.abandoned {
		return err
	}
	if stopErr := c.toLastStop(); stopErr != nil {
		return both(err, stopErr)
	}
	if c.forced != 0 {
		err = both(err, c.fail("a system call", fmt.Errorf("it caused %v", c.forced)))
	}
	c.at(atLastStop)
	// Set the mask first: until the registers are set, the thread restores them by itself.
	if maskErr := setMask(c.t.TID, c.t.mask); maskErr != nil {
		return both(err, c.fail("restoring a thread's signal mask", maskErr))
	}
	c.at(maskRestored)
	if regsErr := setRegs(c.t.TID, &c.t.Regs); regsErr != nil {
		return both(err, c.fail("restoring a thread's registers", regsErr))
	}
	c.at(allRestored)
	return err
}

// toLastStop runs the thread from the exit of a call to a stop before it returns to the program.
func (c *caller) toLastStop() error {
	if err := request(unix.PTRACE_INTERRUPT, c.t.TID, 0, 0); err != nil {
		return c.fail("stopping a thread after a system call", err)
	}
	for range callStops {
		if err := c.resume(unix.PTRACE_CONT); err != nil {
			return err
		}
		status, err := c.await()
		switch {
		case err != nil:
			return err
		case stopEvent(status) == unix.PTRACE_EVENT_STOP:
			return nil
		case !c.hold(status.StopSignal()):
			// All signals are blocked, so the kernel has forced this one, as for a seccomp filter.
			c.forced = status.StopSignal()
		}
	}
	return c.fail("a system call", errors.New("the thread does not stop after it"))
}

// resume resumes the thread and delivers the signal that it has stopped for.
func (c *caller) resume(how int) error {
	signal := c.t.signal
	if signal != 0 && c.hold(signal) {
		signal = 0
	}
	c.t.signal = 0
	if err := request(how, c.t.TID, 0, uintptr(signal)); err != nil {
		return c.fail("resuming a thread for a system call", err)
	}
	return nil
}

// await waits for the thread's next stop. A thread that does not stop is left to restore its state by itself.
func (c *caller) await() (unix.WaitStatus, error) {
	w := waiter{ctx: context.Background(), begin: time.Now()}
	for {
		status, event, err := c.s.waitNow(c.t.TID)
		switch {
		case err != nil:
			return 0, c.fail("waiting for a thread", err)
		case event == hasEnded:
			return 0, c.fail("a system call", ErrExited)
		case event == hasStopped && execStop(status):
			return 0, c.fail("a system call", ErrExited)
		case event == hasStopped:
			return status, nil
		}
		if w.long() && endedTask(c.s.dir, c.t.TID) {
			return 0, c.fail("a system call", ErrExited)
		}
		if err := w.pause(c.s, c.t.TID); err != nil {
			c.s.abandoned = true
			return 0, c.fail("a system call", err)
		}
	}
}

func (c *caller) fail(step string, err error) error { return c.s.gone(c.t.TID, step, err) }
