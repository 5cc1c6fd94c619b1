package ptrace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// An Interval is a range of addresses from Lo up to but not including Hi.
type Interval struct{ Lo, Hi uint64 }

// Inside returns the addresses of a code sequence at which a thread would be in the middle of it: all but the first. A
// thread at the first address continues with the new code.
func Inside(addr uint64, size int) Interval { return Interval{addr + 1, addr + uint64(size)} }

// A Rest is a thread that is in a forbidden interval, or may return to it.
type Rest struct {
	TID   int
	PC    uint64
	Saved bool // PC was found on its stack and may be the address to which a signal handler returns
}

// maxStackScan is the maximum size of the part of a thread's stack that is searched, starting at the stack pointer. The
// runtime's signal stacks have half of this size.
const maxStackScan = 64 << 10

// Resting returns the threads that are in one of the intervals, or may return to it from a signal handler. Handlers of
// the Go runtime block all signals, so only the stacks of threads that block signals are searched. Handlers of C code
// need not block signals: for programs with C code, allStacks searches the stacks of all threads. Any word that looks
// like an address in an interval counts, so the result may include threads that will not return there.
func (s *Stopped) Resting(in []Interval, allStacks bool) ([]Rest, error) {
	var rest []Rest
	err := s.Do(func() error {
		var err error
		rest, err = s.resting(in, allStacks)
		return err
	})
	return rest, err
}

// HandlersRunIn sets the stacks on which signal handlers run, for Resting and Patch. A thread is then in a handler only
// if its stack pointer is in one of these stacks, and only that stack is searched, from the stack pointer on. Memory
// next to a stack may be an old stack, with addresses to which no thread returns.
func (s *Stopped) HandlersRunIn(stacks []Interval) { s.handlers = &stacks }

// handlerStack returns the size of the stack at sp that must be searched for the return address of a handler, or 0 if
// there is no handler. ok is false if the stacks of handlers are unknown.
func (s *Stopped) handlerStack(sp uint64) (size uint64, ok bool) {
	if s.handlers == nil {
		return 0, false
	}
	for _, i := range *s.handlers {
		if i.Lo <= sp && sp < i.Hi {
			return i.Hi - sp, true
		}
	}
	return 0, true
}

func (s *Stopped) resting(in []Interval, allStacks bool) ([]Rest, error) {
	if s.opt.One {
		return nil, fmt.Errorf("process %d: only one thread is stopped", s.pid)
	}
	set := newIntervals(in)
	if len(set.sorted) == 0 {
		return nil, nil
	}
	var rest []Rest
	buf := make([]byte, maxStackScan)
	for _, t := range s.threads {
		if set.has(t.Regs.PC()) || set.has(t.Regs.restartPC()) {
			rest = append(rest, Rest{TID: t.TID, PC: t.Regs.PC()})
			continue
		}
		buf := buf
		if size, known := s.handlerStack(t.Regs.SP()); known {
			if size == 0 {
				continue
			}
			buf = buf[:min(size, maxStackScan)]
		} else if search, err := s.mayHandle(t, allStacks); err != nil || !search {
			if err != nil {
				return nil, err
			}
			continue
		}
		n, err := s.readStack(align(t.Regs.SP(), word), buf)
		if err != nil {
			return nil, err
		}
		if pc, found := set.find(buf[:n&^(word-1)]); found {
			rest = append(rest, Rest{TID: t.TID, PC: pc, Saved: true})
		}
	}
	return rest, nil
}

// mayHandle reports whether a thread may be in a signal handler, judging by the signals that it blocks.
func (s *Stopped) mayHandle(t *Thread, allStacks bool) (bool, error) {
	if allStacks {
		return true, nil
	}
	if !t.masked {
		mask, err := getMask(t.TID)
		if err != nil {
			return false, s.gone(t.TID, "reading a thread's signal mask", err)
		}
		t.mask, t.masked = mask, true
	}
	return t.mask != 0, nil
}

// readStack reads up to len(b) bytes, up to the end of the mapped memory, and returns the number of bytes read. For
// this size process_vm_readv is faster than /proc/PID/mem.
func (s *Stopped) readStack(addr uint64, b []byte) (int, error) {
	n, err := transfer(unix.SYS_PROCESS_VM_READV, s.pid, addr, b)
	if err != nil {
		n, err = s.readSome(addr, b)
	}
	if n == 0 && err != nil && !errors.Is(memError(err), unix.EFAULT) {
		return 0, fmt.Errorf("process %d: reading a stack at %#x: %w", s.pid, addr, memError(err))
	}
	return n, nil
}

// find returns the first word that is an address in an interval.
func (s *intervals) find(stack []byte) (word uint64, found bool) {
	lo, span := s.lo, s.hi-s.lo
	for ; len(stack) >= 8; stack = stack[8:] {
		// Nearly all words are outside of all intervals.
		if w := binary.LittleEndian.Uint64(stack); w-lo < span && s.has(w) {
			return w, true
		}
	}
	return 0, false
}

// restartPC returns the address at which a thread will be when the kernel restarts its system call.
func (r *Registers) restartPC() uint64 {
	n := r.restarted()
	return n.PC()
}

// intervals are sorted, because many words are looked up.
type intervals struct {
	sorted []Interval
	lo, hi uint64
}

func newIntervals(in []Interval) intervals {
	s := intervals{lo: ^uint64(0)}
	for _, i := range in {
		if i.Lo < i.Hi {
			s.sorted = append(s.sorted, i)
			s.lo, s.hi = min(s.lo, i.Lo), max(s.hi, i.Hi)
		}
	}
	slices.SortFunc(s.sorted, func(a, b Interval) int {
		switch {
		case a.Lo < b.Lo:
			return -1
		case a.Lo > b.Lo:
			return 1
		}
		return 0
	})
	// Overlapping intervals are merged, so that only the last interval that begins before an address can contain it.
	joined := s.sorted[:0]
	for _, i := range s.sorted {
		if n := len(joined); n > 0 && i.Lo <= joined[n-1].Hi {
			joined[n-1].Hi = max(joined[n-1].Hi, i.Hi)
			continue
		}
		joined = append(joined, i)
	}
	s.sorted = joined
	return s
}

func (s *intervals) has(addr uint64) bool {
	if addr < s.lo || addr >= s.hi {
		return false
	}
	lo, hi := 0, len(s.sorted)
	for lo < hi {
		if mid := (lo + hi) / 2; s.sorted[mid].Hi <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(s.sorted) && s.sorted[lo].Lo <= addr
}
