package ptrace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stopOne stops the thread that a stop disturbs least.
func (s *Stopped) stopOne(ctx context.Context) error {
	tids, err := s.list()
	if err != nil {
		return err
	}
	if s.awaitOwnThreads(ctx) {
		return s.denied(unix.EPERM)
	}
	ranks := make(map[int]int, len(tids))
	for _, tid := range tids {
		ranks[tid] = s.disturbance(tid)
	}
	slices.SortStableFunc(tids, func(a, b int) int { return ranks[a] - ranks[b] })
	for _, tid := range tids {
		fresh, err := s.seizeNew(ctx, []int{tid})
		if err != nil {
			return err
		}
		if len(fresh) == 0 {
			continue
		}
		if err := s.interrupt(ctx, fresh); err != nil {
			return err
		}
		if s.threads[tid] == nil {
			continue
		}
		if s.tracedBy() != "" { // two tracers attached at the same time: both detach
			return s.denied(unix.EPERM)
		}
		return nil
	}
	return fmt.Errorf("process %d: %w", s.pid, ErrExited)
}

// awaitOwnThreads waits for threads of this process that trace a thread to end, as seize does, and reports whether a thread is
// traced then.
func (s *Stopped) awaitOwnThreads(ctx context.Context) (traced bool) {
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		tracer := s.tracedBy()
		if tracer == "" || !ownThread(tracer) && s.tracedBy() == tracer {
			return tracer != ""
		}
		if time.Since(begin) > stopTimeout || ctx.Err() != nil {
			return true
		}
	}
}

// How much a stop disturbs a thread, least first. Most waits continue unchanged. A wait with a timeout may become
// longer on arm64. A running thread loses time, and its floating-point state takes space. epoll_wait returns early.
const (
	waitsForFutex = iota
	waitsOtherwise
	waitsForTime
	runs
	waitsForEvents
	cannotStop
)

// disturbance returns how much a stop disturbs a thread, depending on the system call that it is in.
func (s *Stopped) disturbance(tid int) int {
	if taskState(s.dir, tid) == 'D' {
		return cannotStop
	}
	b, err := s.dir.ReadFile(fmt.Sprintf("task/%d/syscall", tid))
	if err != nil {
		return waitsOtherwise // not reported by this kernel
	}
	f := strings.Fields(string(b))
	if len(f) < 7 { // "running", or between two calls
		return runs
	}
	nr, err := strconv.ParseUint(f[0], 10, 64)
	if err != nil {
		return runs
	}
	const futexTimeout = 4 // the index of the argument, after the number of the call
	switch {
	case nr == unix.SYS_FUTEX && f[futexTimeout] == "0x0":
		return waitsForFutex
	case nr == unix.SYS_FUTEX, nr == unix.SYS_NANOSLEEP, nr == unix.SYS_CLOCK_NANOSLEEP:
		return waitsForTime
	case slices.Contains(eventWaits, nr):
		return waitsForEvents
	}
	return waitsOtherwise
}

// caller returns the stopped thread that is best suited to make a system call: one that waits in a system call and has
// no pending signal.
func (s *Stopped) caller() (*Thread, error) {
	var best *Thread
	rank := func(t *Thread) int {
		n := 0
		if !t.Regs.inCall() {
			n++
		}
		if t.signal != 0 {
			n += 2
		}
		return n
	}
	for _, t := range s.threads {
		if best == nil || rank(t) < rank(best) || rank(t) == rank(best) && t.TID < best.TID {
			best = t
		}
	}
	if best == nil {
		return nil, fmt.Errorf("process %d: %w", s.pid, ErrExited)
	}
	return best, nil
}

// gone converts an error caused by an exiting thread to one that reports the exit, and removes the thread.
func (s *Stopped) gone(tid int, step string, err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, ErrExited) {
		delete(s.threads, tid)
		return fmt.Errorf("process %d: %s: %w", s.pid, step, ErrExited)
	}
	return fmt.Errorf("process %d: %s: %w", s.pid, step, err)
}
