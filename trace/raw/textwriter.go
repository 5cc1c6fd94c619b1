package raw

import (
	"encoding/binary"
	"fmt"
	"io"
)

// A TextWriter writes a trace in the text format. Its output is buffered: call [TextWriter.Close], or
// [TextWriter.Flush], to write it to the underlying writer.
type TextWriter struct {
	out    outputBuffer
	f      *format
	closed bool
}

// NewTextWriter returns a TextWriter for a trace of version v. The header is buffered like the events. If v is not
// supported, the error wraps [ErrVersion].
func NewTextWriter(w io.Writer, v Version) (*TextWriter, error) {
	if !v.Valid() {
		return nil, fmt.Errorf("%s: %w", v, ErrVersion)
	}
	tw := &TextWriter{out: newOutputBuffer(w), f: v.format()}
	tw.out.addString(headerWord + " " + v.String() + "\n")
	return tw, nil
}

// headerWord is the first word of a text trace.
const headerWord = "Trace"

// Version returns the version of the trace.
func (w *TextWriter) Version() Version { return w.f.version }

// maxPlainLine is the room that the line of an event takes at most, with what copying whole pieces adds to it.
const maxPlainLine = (1+maxArgs)*pieceSize + maxArgs*decimalRoom + 1

// WriteEvent writes an event. If the event does not conform to its specification, or exceeds a limit, WriteEvent
// returns an error and does not write the event. After an error of the underlying writer, all further calls return the
// same error.
func (w *TextWriter) WriteEvent(ev *Event) error {
	c, err := w.f.check(ev)
	if err != nil {
		return err
	}
	out := &w.out
	if w.closed {
		return errClosed
	}
	if out.err != nil {
		return out.err
	}
	if len(ev.Widths) > 0 && !w.addWidths(ev, c) {
		return out.err
	}
	if len(out.buf)-out.size < maxPlainLine && !out.room(maxPlainLine) {
		return out.err
	}
	w.putLine(ev, c)
	if c.spec.IsStack && !w.addFrames(ev.Frames) || c.spec.HasData && !w.addData(ev.Data) {
		return out.err
	}
	return nil
}

// putLine puts the line of an event into the buffer, which has room for it.
func (w *TextWriter) putLine(ev *Event, c *code) {
	out := &w.out
	b := out.buf[out.size : out.size+maxPlainLine]
	*(*[pieceSize]byte)(b) = c.lead.text
	p := int(c.lead.size)
	for i, x := range ev.Args {
		if i > 0 {
			sep := &c.seps[i]
			*(*[pieceSize]byte)(b[p:]) = sep.text
			p += int(sep.size)
		}
		if x < 1000 {
			digits := shorts[x]
			binary.LittleEndian.PutUint32(b[p:], digits)
			p += int(digits >> 24)
		} else {
			p += putDecimal(b[p:], x)
		}
	}
	b[p] = '\n'
	out.size += p + 1
}

// framePieces is what stands before the numbers of a frame.
var framePieces = [4]piece{makePiece("\tpc="), makePiece(" func="), makePiece(" file="), makePiece(" line=")}

// addFrames writes the lines of frames.
func (w *TextWriter) addFrames(frames []Frame) bool {
	out := &w.out
	for i := range frames {
		if !out.room(maxPlainLine) {
			return false
		}
		f := &frames[i]
		for i, x := range [...]uint64{f.PC, f.Func, f.File, f.Line} {
			piece := &framePieces[i]
			*(*[pieceSize]byte)(out.buf[out.size:]) = piece.text
			out.size += int(piece.size)
			out.size += putDecimal(out.buf[out.size:], x)
		}
		out.buf[out.size] = '\n'
		out.size++
	}
	return true
}

// addData writes the line of data.
func (w *TextWriter) addData(data []byte) bool {
	return w.out.addString("\tdata=") && w.out.addQuoted(data) && w.out.addString("\n")
}

// Flush writes buffered data to the underlying writer.
func (w *TextWriter) Flush() error {
	w.out.flush(w.out.size)
	return w.out.err
}

// Close completes the trace and writes all buffered data to the underlying writer. It does not close the underlying
// writer. Writing an event after Close is an error.
func (w *TextWriter) Close() error {
	w.closed = true
	return w.Flush()
}
