package output

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// ErrBlocked reports that a reader accepted nothing for Patience after the end.
var ErrBlocked = fmt.Errorf("its reader has read nothing for %v", Patience)

// Patience is how long a Stream waits after End for a reader that accepts nothing.
const Patience = 5 * time.Second

// streamPiece is the maximum size of one system call, so that a slow reader can be distinguished from one that accepts
// nothing.
const streamPiece = 64 << 10

// A Stream is a writer to a pipe or a terminal that may block. Write waits for the reader. After End it returns
// ErrBlocked if the reader has accepted nothing for Patience, and abandons the blocked system call. A Stream may be
// used by several goroutines.
type Stream struct {
	w        io.Writer
	name     string
	patience time.Duration
	end      sync.Once
	ended    chan struct{}

	mu       sync.Mutex // guards what follows; held by Write
	buf      []byte     // the worker reads it, even after Write has returned ErrBlocked
	work     chan []byte
	done     chan written
	accepted atomic.Int64 // bytes
	err      error        // ErrBlocked; nothing is written after that
}

// written is the result of one Write.
type written struct {
	n   int
	err error
}

// NewStream returns a Stream that writes to w. Its errors contain name.
func NewStream(w io.Writer, name string) *Stream {
	return &Stream{w: w, name: name, patience: Patience, ended: make(chan struct{})}
}

// Writer returns the underlying writer if w is a Stream, otherwise w.
func Writer(w io.Writer) io.Writer {
	if s, ok := w.(*Stream); ok {
		return s.w
	}
	return w
}

// End limits how long Write waits from now on.
func (s *Stream) End() { s.end.Do(func() { close(s.ended) }) }

// Write implements io.Writer.
func (s *Stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	if s.work == nil {
		s.work, s.done = make(chan []byte), make(chan written, 1)
		go s.run()
	}
	before := s.accepted.Load()
	s.buf = append(s.buf[:0], b...)
	s.work <- s.buf
	select {
	case r := <-s.done:
		return r.n, s.named(r.err)
	case <-s.ended:
	}
	timer := time.NewTicker(s.patience)
	defer timer.Stop()
	for last := s.accepted.Load(); ; {
		select {
		case r := <-s.done:
			return r.n, s.named(r.err)
		case <-timer.C:
		}
		now := s.accepted.Load()
		if now == last {
			s.err = s.named(ErrBlocked)
			return int(now - before), s.err
		}
		last = now
	}
}

// named returns the error of a Write with the name of the Stream.
func (s *Stream) named(err error) error {
	if err == nil {
		return nil
	}
	return &writeError{s.name, plainCause(err)}
}

// A writeError is an error of writing to a named output.
type writeError struct {
	name string
	err  error
}

func (e *writeError) Error() string { return fmt.Sprintf("cannot write %s: %v", e.name, e.err) }
func (e *writeError) Unwrap() error { return e.err }

// run makes the system calls.
func (s *Stream) run() {
	for b := range s.work {
		var r written
		for r.n < len(b) && r.err == nil {
			var n int
			n, r.err = s.w.Write(b[r.n:min(len(b), r.n+streamPiece)])
			r.n += n
			s.accepted.Add(int64(n))
		}
		s.done <- r
	}
}

// Fd returns the file descriptor, or an invalid one if the Stream does not write to a file.
func (s *Stream) Fd() uintptr {
	if f, ok := s.w.(*os.File); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}

// Read and Close implement the interface that libraries for terminals require. Read returns no data, and Close does not
// close the file.
func (s *Stream) Read([]byte) (int, error) { return 0, io.EOF }
func (s *Stream) Close() error             { return nil }
