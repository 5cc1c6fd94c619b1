package raw

import "io"

// An inputBuffer holds the part of the input that is being read.
type inputBuffer struct {
	r io.Reader
	// buf has the unread input in buf[pos:end], and bufferSlack bytes after it that are zero at the end of the input.
	buf      []byte
	pos, end int
	before   int64 // bytes of the input before buf
	done     bool  // nothing comes after what buf has
	err      error // why, if it is not the end of the input
}

const (
	bufferSize  = 256 << 10
	bufferSlack = 128 // what may be read beyond the end of the input at most, by code that looks at the end later
)

func newInputBuffer(r io.Reader) inputBuffer {
	return inputBuffer{r: r, buf: make([]byte, bufferSize+bufferSlack)}
}

// size returns how many unread bytes there are in the buffer.
func (in *inputBuffer) size() int { return in.end - in.pos }

// offset returns how many bytes of the input have been taken from the buffer.
func (in *inputBuffer) offset() int64 { return in.before + int64(in.pos) }

// need reads until the buffer has n unread bytes or there are no more. The buffer is enlarged if it has no room for them,
// and what it has may move.
func (in *inputBuffer) need(n int) {
	if in.size() >= n || in.done {
		return
	}
	buf := in.buf
	if n > len(buf)-bufferSlack {
		buf = make([]byte, max(2*len(buf), n+bufferSlack))
	}
	if in.pos > 0 || len(buf) > len(in.buf) {
		copy(buf, in.buf[in.pos:in.end])
	}
	in.buf = buf
	in.before += int64(in.pos)
	in.pos, in.end = 0, in.size()
	in.more(n)
}

// more reads until n bytes are in the buffer or there are no more.
func (in *inputBuffer) more(n int) {
	const maxEmpty = 100
	empty := 0
	for in.end < n {
		got, err := in.r.Read(in.buf[in.end : len(in.buf)-bufferSlack])
		in.end += got
		if got > 0 {
			empty = 0
		} else if empty++; empty == maxEmpty && err == nil {
			err = io.ErrNoProgress
		}
		if err != nil {
			in.done = true
			if err != io.EOF {
				in.err = err
			}
			clear(in.buf[in.end : in.end+bufferSlack])
			return
		}
	}
}

// ended returns the error for input that ends between two events: io.EOF, or why it could not be read on.
func (in *inputBuffer) ended() error {
	if in.err != nil {
		return in.err
	}
	return io.EOF
}
