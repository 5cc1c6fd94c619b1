package tracefile

import (
	"context"
	"io"
	"os"
)

// openFile opens a file for reading. The context ends the wait for the writer of a named pipe.
func openFile(ctx context.Context, path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() {
		return os.Open(path)
	}
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := os.Open(path)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		return o.file, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// waiting reads what may block: a pipe or a terminal. When the context ends, Read returns its error and abandons the system
// call.
type waiting struct {
	ctx  context.Context
	r    io.Reader
	buf  []byte // belongs to the system call while there is one
	done chan readResult
	over bool // a system call was abandoned
}

// readResult is what a system call returned.
type readResult struct {
	n   int
	err error
}

func newWaiting(ctx context.Context, r io.Reader) *waiting {
	return &waiting{ctx: ctx, r: r, buf: make([]byte, inputSize), done: make(chan readResult, 1)}
}

// Read implements io.Reader.
func (w *waiting) Read(b []byte) (int, error) {
	if w.over {
		return 0, w.ctx.Err()
	}
	piece := w.buf[:min(len(b), len(w.buf))]
	go func() {
		n, err := w.r.Read(piece)
		w.done <- readResult{n, err}
	}()
	select {
	case r := <-w.done:
		return copy(b, piece[:r.n]), r.err
	case <-w.ctx.Done():
		w.over = true
		return 0, w.ctx.Err()
	}
}
