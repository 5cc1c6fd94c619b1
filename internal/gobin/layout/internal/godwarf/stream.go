package godwarf

import (
	"errors"
	"fmt"
	"io"
)

const (
	bufferSize = 64 << 10
	// maxWindow bounds one entry: the names of generic types come to some tens of kilobytes.
	maxWindow = 1 << 20
	// maxInfo bounds how much of .debug_info is looked at. That of a Go program of 150 MB has 40 MB. Offsets within it
	// fit in 32 bits.
	maxInfo = 512 << 20
)

// stream is a reader with a look-ahead that knows its place.
type stream struct {
	r      io.Reader
	limit  uint64 // of what is read
	buf    []byte
	lo, hi int    // the bytes that are read but not passed are buf[lo:hi]
	off    uint64 // of buf[lo] in the section
	err    error  // of r; io.EOF at its end
}

// window returns the bytes ahead: n of them at least, unless the section ends before.
func (s *stream) window(n int) []byte {
	if s.hi-s.lo >= n || s.err != nil {
		return s.buf[s.lo:s.hi]
	}
	if len(s.buf)-s.lo < n {
		to := s.buf
		if n > len(s.buf) {
			to = make([]byte, max(n, bufferSize))
		}
		s.hi = copy(to, s.buf[s.lo:s.hi])
		s.buf, s.lo = to, 0
	}
	for empty := 0; s.hi-s.lo < n && s.err == nil; {
		var got int
		got, s.err = s.r.Read(s.buf[s.hi:])
		s.hi += got
		if got > 0 {
			empty = 0
		} else if empty++; empty > 100 && s.err == nil {
			s.err = io.ErrNoProgress
		}
		if s.off+uint64(s.hi-s.lo) > s.limit && s.err == nil {
			s.err = fmt.Errorf("%w: no types of the runtime in %d MB", ErrCorrupt, s.limit>>20)
		}
	}
	return s.buf[s.lo:s.hi]
}

// pass moves on by n bytes of the window.
func (s *stream) pass(n int) {
	s.lo += n
	s.off += uint64(n)
}

// passTo moves on to an offset.
func (s *stream) passTo(off uint64) error {
	for s.off < off {
		b := s.window(1)
		if len(b) == 0 {
			return s.failure()
		}
		s.pass(int(min(uint64(len(b)), off-s.off)))
	}
	return nil
}

// failure returns why the window cannot be larger.
func (s *stream) failure() error {
	switch {
	case s.err == nil:
		return fmt.Errorf("%w: entry of more than %d bytes at %#x", ErrCorrupt, maxWindow, s.off)
	case errors.Is(s.err, io.EOF):
		return fmt.Errorf("%w: .debug_info ends early, at %#x", ErrCorrupt, s.off)
	case errors.Is(s.err, ErrCorrupt):
		return s.err
	}
	return fmt.Errorf("%w: .debug_info at %#x: %w", ErrCorrupt, s.off, s.err)
}

// atEnd tells whether the section has been read and passed as a whole.
func (s *stream) atEnd() bool { return s.lo == s.hi && errors.Is(s.err, io.EOF) }
