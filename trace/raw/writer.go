package raw

import (
	"fmt"
	"io"
)

// A Writer writes a trace in the wire format. What it has not written yet is written by Flush or Close.
type Writer struct {
	// RecomputeSizes makes the size of each EventBatch what the events after it take, whatever its argument says. A
	// batch then ends with the next batch, with EndOfGeneration or with Close, and must not have more than MaxBatch
	// bytes of events. V1 traces have no sizes of batches.
	RecomputeSizes bool

	out    outputBuffer
	f      *format
	closed bool

	batch openBatch
}

// NewWriter returns a writer of a trace of a version, whose header it writes with the first bytes.
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

// WriteEvent writes an event. An event that does not fit its specification, or exceeds a limit, is an error and is not
// written. After an error of the underlying writer, or a batch of more than MaxBatch bytes, it returns that error again.
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

// Flush writes what is buffered to the underlying writer. The events of a batch whose size is still to be computed stay
// in the buffer.
func (w *Writer) Flush() error {
	if !w.batch.open {
		w.out.flush(w.out.size)
	} else if w.out.flush(w.batch.start) {
		w.batch.moved()
	}
	return w.out.err
}

// Close ends the trace and writes all of it to the underlying writer, which it does not close. No event can be written
// afterwards.
func (w *Writer) Close() error {
	if w.closed {
		return w.out.err
	}
	w.closed = true
	w.batch.end(&w.out)
	w.out.flush(w.out.size)
	return w.out.err
}
