package raw

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// A TextReader reads a trace in the text format.
type TextReader struct {
	// KeepWidths sets Event.Widths for events that follow a #widths comment, as written by a TextWriter. If it is false,
	// these comments are ignored like all other comments.
	KeepWidths bool

	in    inputBuffer
	f     *format
	line  int64 // lines read
	begin int   // where the last one begins in the buffer, until more is read into that
	err   error // returned from now on
	ev    Event // of All

	// The text of the last #widths comment, and of the one that belongs to the event that is being read.
	widths, current []byte
}

// NewTextReader reads the header of the trace in r and returns a TextReader for the events. The TextReader buffers its
// input, so it can read more of r than the events that it has returned. The error wraps [ErrHeader] if r does not
// contain a trace in the text format, and [ErrVersion] if the version of the trace is not supported.
func NewTextReader(r io.Reader) (*TextReader, error) {
	tr := &TextReader{in: newInputBuffer(r)}
	line, err := tr.nextLine()
	if err == nil {
		tr.f, err = parseTextHeader(line)
	} else if err == io.EOF {
		err = fmt.Errorf("%w: no header", ErrHeader)
	}
	if err != nil {
		return nil, tr.fail(err)
	}
	return tr, nil
}

// parseTextHeader returns the format that a header line tells.
func parseTextHeader(line []byte) (*format, error) {
	word, rest := token(line)
	version, rest := token(rest)
	digits, ok := bytes.CutPrefix(version, []byte("Go1."))
	v, isNumber := parseDecimal(digits)
	if more, _ := token(rest); string(word) != headerWord || !ok || !isNumber || len(more) > 0 {
		return nil, fmt.Errorf("%w: want a header such as %q, got %s", ErrHeader, headerWord+" Go1.22", quoted(line))
	}
	if v > 255 || !Version(v).Valid() {
		return nil, fmt.Errorf("trace of Go 1.%d: %w", v, ErrVersion)
	}
	return Version(v).format(), nil
}

// Version returns the version of the trace, as given in its header.
func (r *TextReader) Version() Version { return r.f.version }

// Line returns the number of lines read so far.
func (r *TextReader) Line() int64 { return r.line }

// All returns an iterator over the remaining events. An event is only valid until the next one is yielded. If reading
// fails, the last pair is a nil event and the error. At the end of the trace, the iteration ends without an error.
func (r *TextReader) All() iter.Seq2[*Event, error] {
	return allEvents(r, &r.ev)
}

// ReadEvent reads the next event into ev. It reuses the slices of ev and grows them if necessary. The error is io.EOF
// at the end of the trace, a *[SyntaxError] if the input is malformed, or the error of the underlying reader. After an
// error, all further calls return the same error.
func (r *TextReader) ReadEvent(ev *Event) error {
	if r.err != nil {
		return r.err
	}
	ev.Version = r.f.version
	ev.Data, ev.Frames, ev.Widths = ev.Data[:0], ev.Frames[:0], ev.Widths[:0]
	c := r.quickLine(ev)
	if c == nil {
		var err error
		if c, err = r.eventLine(ev); err != nil {
			return r.fail(err)
		}
	}
	ev.Type = c.typ
	if c.spec.HasData || c.spec.IsStack || len(r.widths) > 0 {
		if err := r.readMore(ev, c); err != nil {
			return r.fail(fmt.Errorf("%s: %w", c.spec.Name, err))
		}
	}
	return nil
}

// readMore reads the lines that belong to the event whose line was read, and applies a #widths comment.
func (r *TextReader) readMore(ev *Event, c *code) error {
	r.current, r.widths = r.widths, r.current[:0]
	if c.spec.IsStack {
		if err := r.readFrames(ev, ev.Args[c.args-1]); err != nil {
			return err
		}
	}
	if c.spec.HasData {
		if err := r.readData(ev); err != nil {
			return err
		}
	}
	if len(r.current) == 0 {
		return nil
	}
	return ev.parseWidths(r.current, c)
}

// readFrames reads the lines of frames.
func (r *TextReader) readFrames(ev *Event, n uint64) error {
	if n > MaxFrames {
		return tooMany("frames", n, MaxFrames)
	}
	var f [4]uint64
	for range n {
		if !r.quickFrame(&f) {
			line, err := r.nextLine()
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return err
			}
			if err := parseArgs(f[:], line, frameArgs[:]); err != nil {
				return err
			}
		}
		ev.Frames = append(ev.Frames, Frame{f[0], f[1], f[2], f[3]})
	}
	return nil
}

// readData reads the line of data. There is none after an event that the toolchain's own package has written with empty
// data, and that is what it means.
func (r *TextReader) readData(ev *Event) error {
	line, err := r.nextLine()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	quotedData, ok := cutData(line)
	if !ok {
		r.unread()
		return nil
	}
	ev.Data, err = unquote(ev.Data, quotedData)
	return err
}

// eventLine reads the line of an event.
func (r *TextReader) eventLine(ev *Event) (*code, error) {
	line, err := r.nextLine()
	if err != nil {
		return nil, err
	}
	name, rest := token(line)
	c := r.f.byName(name)
	if c == nil {
		return nil, fmt.Errorf("unknown event %s", quoted(name))
	}
	if cap(ev.Args) < int(c.args) {
		ev.Args = make([]uint64, maxArgs)
	}
	ev.Args = ev.Args[:c.args]
	if err := parseArgs(ev.Args, rest, c.spec.Args); err != nil {
		return nil, fmt.Errorf("%s: %w", c.spec.Name, err)
	}
	return c, nil
}

// nextLine returns the next line that is neither empty nor a comment, without the line feed. The line is good until the
// next one is read. The error is io.EOF at the end of the input.
func (r *TextReader) nextLine() ([]byte, error) {
	for {
		line, err := r.anyLine()
		if err != nil {
			return nil, err
		}
		if word, _ := token(line); len(word) > 0 {
			return line, nil
		}
		if r.KeepWidths {
			if w, ok := cutWidths(line); ok {
				r.widths = append(r.widths[:0], w...)
			}
		}
	}
}

// errLine is the error of a line that is too long.
var errLine = fmt.Errorf("line exceeds %d bytes", MaxLine)

// anyLine returns the next line, without the line feed.
func (r *TextReader) anyLine() ([]byte, error) {
	in := &r.in
	for seen := 0; ; {
		if i := bytes.IndexByte(in.buf[in.pos+seen:in.end], '\n'); i >= 0 {
			return r.takeLine(seen+i, 1)
		}
		seen = in.size()
		if in.done && (seen == 0 || in.err != nil) {
			return nil, in.ended()
		}
		if in.done {
			return r.takeLine(seen, 0)
		}
		if seen > MaxLine {
			r.line++
			return nil, errLine
		}
		in.need(seen + 1)
	}
}

// takeLine takes a line of a length from the buffer, and what ends it.
func (r *TextReader) takeLine(n, end int) ([]byte, error) {
	in := &r.in
	r.line++
	if n > MaxLine {
		return nil, errLine
	}
	r.begin = in.pos
	in.pos += n + end
	return in.buf[r.begin : r.begin+n], nil
}

// unread makes the line that was read last the next one again.
func (r *TextReader) unread() {
	r.in.pos = r.begin
	r.line--
}

// fail returns the error for the line that was read last, now and from now on.
func (r *TextReader) fail(err error) error {
	switch {
	case err == io.EOF:
		r.err = err
	case r.in.err != nil && errors.Is(err, r.in.err):
		r.err = r.in.err
	default:
		r.err = &SyntaxError{Line: max(r.line, 1), Err: err}
	}
	return r.err
}
