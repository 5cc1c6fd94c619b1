package raw

import "io"

// An outputBuffer collects what is to be written.
type outputBuffer struct {
	w    io.Writer
	buf  []byte
	size int   // what buf has
	err  error // of w, returned from now on
}

func newOutputBuffer(w io.Writer) outputBuffer {
	return outputBuffer{w: w, buf: make([]byte, bufferSize)}
}

// room makes room for n more bytes, at most bufferSize, by writing what there is. It returns false if that failed.
func (out *outputBuffer) room(n int) bool {
	return len(out.buf)-out.size >= n || out.flush(out.size)
}

// flush writes the first n bytes, and keeps the rest. It returns false if that failed.
func (out *outputBuffer) flush(n int) bool {
	if out.err != nil {
		return false
	}
	if n == 0 {
		return true
	}
	written, err := out.w.Write(out.buf[:n])
	if err == nil && written < n {
		err = io.ErrShortWrite
	}
	if err != nil {
		out.err = err
		return false
	}
	out.size = copy(out.buf, out.buf[n:out.size])
	return true
}

// add appends bytes, of any number.
func (out *outputBuffer) add(b []byte) bool {
	for len(b) > 0 {
		if !out.room(1) {
			return false
		}
		n := copy(out.buf[out.size:], b)
		out.size += n
		b = b[n:]
	}
	return true
}

// addString appends a string, of any number of bytes.
func (out *outputBuffer) addString(s string) bool {
	for len(s) > 0 {
		if !out.room(1) {
			return false
		}
		n := copy(out.buf[out.size:], s)
		out.size += n
		s = s[n:]
	}
	return true
}
