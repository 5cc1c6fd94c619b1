package ptrace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// stopOne stops the thread that will notice it least.
func (s *Stopped) stopOne(ctx context.Context) error {
	tids, err := s.list()
	if err != nil {
		return err
	}
	if tracer := s.tracedBy(); tracer != "" {
		return s.denied(unix.EPERM)
	}
	ranks := make(map[int]int, len(tids))
	for _, tid := range tids {
		ranks[tid] = s.disturbance(tid)
	}
	slices.SortStableFunc(tids, func(a, b int) int { return ranks[a] - ranks[b] })
	for _, tid := range tids {
		fresh, err := s.seizeNew([]int{tid})
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
		if s.tracedBy() != "" { // two that came at the same time: both leave
			return s.denied(unix.EPERM)
		}
		return nil
	}
	return fmt.Errorf("process %d: %w", s.pid, ErrExited)
}

// How much a thread is disturbed by a stop, least first. Most waits go on as if nothing had been; one with a time-out may
// become longer on arm64; a thread that runs loses time, and its floating-point state needs room; epoll_wait ends early.
const (
	waitsForFutex = iota
	waitsOtherwise
	waitsForTime
	runs
	waitsForEvents
	cannotStop
)

// disturbance judges a thread by the system call it is in.
func (s *Stopped) disturbance(tid int) int {
	if taskState(s.dir, tid) == 'D' {
		return cannotStop
	}
	b, err := s.dir.ReadFile(fmt.Sprintf("task/%d/syscall", tid))
	if err != nil {
		return waitsOtherwise // not told by this kernel
	}
	f := strings.Fields(string(b))
	if len(f) < 7 { // "running", or between two calls
		return runs
	}
	nr, err := strconv.ParseUint(f[0], 10, 64)
	if err != nil {
		return runs
	}
	const futexTimeout = 4 // the place of that argument, behind the number
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

// caller returns the stopped thread that is best to make a system call: at rest in one, with no signal on its way.
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

// gone makes of an error that a dying thread causes one that says so, and forgets the thread.
func (s *Stopped) gone(tid int, step string, err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, ErrExited) {
		delete(s.threads, tid)
		return fmt.Errorf("process %d: %s: %w", s.pid, step, ErrExited)
	}
	return fmt.Errorf("process %d: %s: %w", s.pid, step, err)
}
