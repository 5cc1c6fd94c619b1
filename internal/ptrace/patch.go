package ptrace

import (
	"bytes"
	"errors"
	"fmt"
)

// An Edit replaces the bytes at an address.
type Edit struct {
	Addr     uint64
	Old, New []byte // of the same length; Old is the expected contents
}

// Patch replaces code. It applies all edits, or returns an error and applies none of them. The error wraps ErrBusy if a
// thread is in the middle of the bytes to be replaced, or may return there; allStacks has the same meaning as for
// Resting. The caller must ensure that no goroutine without a thread has stopped there. All threads of the process must
// be stopped.
//
// An edit that does not cross a page boundary is atomic. If the tracer is killed between two edits, only some of them
// are applied, so each must be correct without the others.
func (s *Stopped) Patch(edits []Edit, allStacks bool) error {
	return s.Do(func() error {
		if err := s.checkEdits(edits); err != nil {
			return err
		}
		inside := make([]Interval, len(edits))
		for i, e := range edits {
			inside[i] = Inside(e.Addr, len(e.Old))
		}
		rest, err := s.resting(inside, allStacks)
		if err != nil {
			return err
		}
		if len(rest) > 0 {
			return fmt.Errorf("process %d: %w: thread %d is in the code to be changed, at %#x", s.pid, ErrBusy, rest[0].TID, rest[0].PC)
		}
		for i, e := range edits {
			if err := s.write(e.Addr, e.New); errors.Is(err, ErrExited) {
				return err
			} else if err != nil {
				return both(err, s.undo(edits[:i+1]))
			}
		}
		return nil
	})
}

// checkEdits compares the bytes that the edits replace with the contents of the memory.
func (s *Stopped) checkEdits(edits []Edit) error {
	if err := s.checkSupported(); err != nil {
		return err
	}
	for _, e := range edits {
		if len(e.Old) != len(e.New) {
			return fmt.Errorf("process %d: %d bytes cannot replace %d at %#x", s.pid, len(e.New), len(e.Old), e.Addr)
		}
		now := make([]byte, len(e.Old))
		if err := s.Read(e.Addr, now); err != nil {
			return err
		}
		if !bytes.Equal(now, e.Old) {
			return fmt.Errorf("process %d: %w: the code at %#x is %x, not %x: the program or another tool has changed it", s.pid, ErrUnsupported, e.Addr, now, e.Old)
		}
	}
	return nil
}

// undo restores the bytes that the edits have replaced, in reverse order.
func (s *Stopped) undo(edits []Edit) error {
	var err error
	for i := len(edits) - 1; i >= 0; i-- {
		err = both(err, s.write(edits[i].Addr, edits[i].Old))
	}
	return err
}
