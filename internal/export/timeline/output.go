package timeline

import (
	"errors"
	"io"
)

// Output collects what is written and hands it on in large pieces. After an error nothing more is written.
type Output struct {
	Buf     []byte // unwritten bytes; append to it
	w       io.Writer
	written uint64
	err     error
}

const outputSize = 64 << 10

// ErrClosed is returned for events after Close.
var ErrClosed = errors.New("the export is closed")

// NewOutput returns an Output to w.
func NewOutput(w io.Writer) Output {
	return Output{w: w, Buf: make([]byte, 0, outputSize+outputSize/4)}
}

// Pass hands on what waits when it is enough to be worth it. It returns the first error of all.
func (o *Output) Pass() error {
	if len(o.Buf) >= outputSize {
		return o.Flush()
	}
	return o.err
}

// Flush hands on what waits. It returns the first error of all.
func (o *Output) Flush() error {
	if o.err == nil && len(o.Buf) > 0 {
		n, err := o.w.Write(o.Buf)
		o.written += uint64(n)
		o.err = err
	}
	o.Buf = o.Buf[:0]
	return o.err
}

// Close flushes, and lets Pass and Flush return ErrClosed from then on. It returns the first error of all.
func (o *Output) Close() error {
	err := o.Flush()
	if o.err == nil {
		o.err = ErrClosed
	}
	return err
}

// Err returns the first error of all.
func (o *Output) Err() error { return o.err }

// Bytes returns how much was written, what waits included.
func (o *Output) Bytes() uint64 { return o.written + uint64(len(o.Buf)) }
