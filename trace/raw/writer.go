package raw

import (
	"fmt"
	"io"
)

// A Writer writes a trace in the wire format. Its output is buffered: call [Writer.Close], or [Writer.Flush], to write
// it to the underlying writer.
type Writer struct {
	// RecomputeSizes sets the size of each EventBatch to the actual size of its events and ignores the size argument. A
	// batch then ends at the next batch, at EndOfGeneration or at Close, and its events must not be larger than
	// MaxBatch bytes. The option has no effect on V1 traces, in which batches have no size.
	RecomputeSizes bool

	out    outputBuffer
	f      *format
	closed bool

	batch openBatch
}

// NewWriter returns a Writer for a trace of version v. The header is buffered like the events. If v is not supported,
// the error wraps [ErrVersion].
func NewWriter(w io.Writer, v Version) (*Writer, error) {
	if !v.Valid() {
		return nil, fmt.Errorf("%s: %w", v, ErrVersion)
	}
	wr := &Writer{out: newOutputBuffer(w), f: v.format()}
	wr.out.size = len(appendHeader(wr.out.buf[:0], v))
	return wr, nil
}

// Version returns the version of the trace.
func (w *Writer) Version() Version { return w.f.version }

// WriteEvent writes an event. If the event does not conform to its specification, or exceeds a limit, WriteEvent
// returns an error and does not write the event. After an error of the underlying writer, or a batch of more than
// [MaxBatch] bytes, all further calls return the same error.
func (w *Writer) WriteEvent(ev *Event) error {
	c, err := w.f.check(ev)
	if err != nil {
		return err
	}
	if !c.plain || len(ev.Widths) > 0 || w.RecomputeSizes || w.closed || w.out.err != nil {
		return w.writeCompound(ev, c)
	}
	out := &w.out
	if len(out.buf)-out.size < maxPlain && !out.room(maxPlain) {
		return out.err
	}
	w.putPlain(ev)
	return nil
}

// putPlain puts the first byte and the arguments of an event into the buffer, which has room for them.
func (w *Writer) putPlain(ev *Event) {
	out := &w.out
	b := out.buf[out.size : out.size+maxPlain]
	b[0] = w.f.first[ev.Type]
	p := 1
	for _, x := range ev.Args {
		for x >= 0x80 {
			b[p] = byte(x) | 0x80
			p++
			x >>= 7
		}
		b[p] = byte(x)
		p++
	}
	out.size += p
}

// Flush writes buffered data to the underlying writer. If RecomputeSizes is set, the current batch remains in the buffer,
// because its size is not known yet.
func (w *Writer) Flush() error {
	if !w.batch.open {
		w.out.flush(w.out.size)
	} else if w.out.flush(w.batch.start) {
		w.batch.moved()
	}
	return w.out.err
}

// Close completes the trace and writes all buffered data to the underlying writer. It does not close the underlying
// writer. Writing an event after Close is an error.
func (w *Writer) Close() error {
	if w.closed {
		return w.out.err
	}
	w.closed = true
	w.batch.end(&w.out)
	w.out.flush(w.out.size)
	return w.out.err
}
