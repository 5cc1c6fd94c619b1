package raw

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
)

// A Reader reads a trace in the wire format.
type Reader struct {
	// KeepWidths sets Event.Widths for events with a number that takes more bytes than necessary, so that a Writer writes
	// the identical bytes.
	KeepWidths bool

	in     inputBuffer
	f      *format
	start  int64 // offset of the event that is being read
	padded bool  // a number of it takes more bytes than it needs
	err    error // returned from now on
	ev     Event // of All
}

// maxPlain is the room that a plain event takes at most.
const maxPlain = 1 + maxArgs*maxVarint

// NewReader reads the header of the trace in r and returns a Reader for the events. The Reader buffers its input, so it
// can read more of r than the events that it has returned. The error wraps [ErrHeader] if r does not contain a trace in
// the wire format, and [ErrVersion] if the version of the trace is not supported.
func NewReader(r io.Reader) (*Reader, error) {
	rd := &Reader{in: newInputBuffer(r)}
	rd.in.need(headerSize)
	v, err := parseHeader(rd.in.buf[:min(rd.in.size(), headerSize)])
	if err != nil {
		if rd.in.err != nil {
			return nil, rd.in.err
		}
		return nil, err
	}
	rd.in.pos += headerSize
	rd.f = v.format()
	return rd, nil
}

// Version returns the version of the trace, as given in its header.
func (r *Reader) Version() Version { return r.f.version }

// Offset returns the offset in bytes of the next event in the trace.
func (r *Reader) Offset() int64 { return r.in.offset() }

// All returns an iterator over the remaining events. An event is only valid until the next one is yielded. If reading
// fails, the last pair is a nil event and the error. At the end of the trace, the iteration ends without an error.
func (r *Reader) All() iter.Seq2[*Event, error] {
	return allEvents(r, &r.ev)
}

// allEvents returns an iterator over the events of src.
func allEvents(src EventReader, ev *Event) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		for {
			err := src.ReadEvent(ev)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// ReadEvent reads the next event into ev. It reuses the slices of ev and grows them if necessary. The error is io.EOF
// at the end of the trace, a *[SyntaxError] if the input is malformed, or the error of the underlying reader. After an
// error, all further calls return the same error.
func (r *Reader) ReadEvent(ev *Event) error {
	in := &r.in
	if in.end-in.pos < maxPlain {
		in.need(maxPlain)
	}
	if in.pos >= in.end || r.err != nil {
		return r.ended()
	}
	c := &r.f.codes[in.buf[in.pos]]
	ev.Data, ev.Frames, ev.Widths = ev.Data[:0], ev.Frames[:0], ev.Widths[:0]
	if !c.plain {
		return r.readCompound(ev, c)
	}
	ev.Version, ev.Type = r.f.version, c.typ
	n := int(c.args)
	if cap(ev.Args) < n {
		ev.Args = make([]uint64, maxArgs)
	}
	ev.Args = ev.Args[:n]
	// There is room behind the buffer's content, so that its end is looked at only once.
	b := in.buf[in.pos+1 : in.pos+1+maxPlain]
	padded := false
	p := 0
	for i := range ev.Args {
		x := uint64(b[p])
		p++
		if x >= 0x80 {
			x &= 0x7f
			for shift := uint(7); ; shift += 7 {
				y := uint64(b[p])
				p++
				if shift == 63 && y > 1 {
					return r.fail(in.offset(), errOverflow)
				}
				x |= y & 0x7f << shift
				if y < 0x80 {
					padded = padded || y == 0
					break
				}
			}
		}
		ev.Args[i] = x
	}
	p += in.pos + 1
	if p > in.end {
		return r.fail(in.offset(), io.ErrUnexpectedEOF)
	}
	if padded && r.KeepWidths {
		ev.Widths = appendWidths(ev.Widths, in.buf[in.pos+1:p])
	}
	in.pos = p
	return nil
}

// appendWidths appends the sizes of the numbers in b.
func appendWidths(widths []uint8, b []byte) []uint8 {
	width := uint8(0)
	for _, x := range b {
		width++
		if x < 0x80 {
			widths = append(widths, width)
			width = 0
		}
	}
	return widths
}

// readCompound reads an event of more than arguments, or finds that there is none.
func (r *Reader) readCompound(ev *Event, c *code) error {
	in := &r.in
	r.start, r.padded = in.offset(), false
	if c.spec == nil {
		return r.fail(r.start, r.unknown(in.buf[in.pos]))
	}
	ev.Version, ev.Type = r.f.version, c.typ
	in.pos++
	if err := r.readParts(ev, c); err != nil {
		return r.fail(r.start, fmt.Errorf("%s: %w", c.spec.Name, err))
	}
	if !r.padded {
		ev.Widths = ev.Widths[:0]
	}
	return nil
}

// readParts reads what follows the first byte of a compound event.
func (r *Reader) readParts(ev *Event, c *code) error {
	var length uint64
	var err error
	if c.length {
		if length, err = r.number(ev); err != nil {
			return err
		}
	}
	begin := r.in.offset()
	ev.Args = ev.Args[:0]
	for range c.args {
		x, err := r.number(ev)
		if err != nil {
			return err
		}
		ev.Args = append(ev.Args, x)
	}
	if c.spec.IsStack {
		if err := r.readFrames(ev, ev.Args[c.args-1]); err != nil {
			return err
		}
	}
	if size := r.in.offset() - begin; c.length && length != uint64(size) {
		return fmt.Errorf("arguments take %d bytes, but their length is given as %d", size, length)
	}
	if c.spec.HasData {
		return r.readData(ev)
	}
	return nil
}

// number reads a number and, if asked to, appends its size to ev.Widths.
func (r *Reader) number(ev *Event) (uint64, error) {
	in := &r.in
	in.need(maxVarint)
	x, size := decodeVarint((*[maxVarint]byte)(in.buf[in.pos:]))
	if size == 0 {
		return 0, errOverflow
	}
	if size > in.size() {
		return 0, io.ErrUnexpectedEOF
	}
	in.pos += size
	if r.KeepWidths {
		ev.Widths = append(ev.Widths, uint8(size))
		r.padded = r.padded || varintSize(x) < size
	}
	return x, nil
}

// readFrames reads the frames of a stack.
func (r *Reader) readFrames(ev *Event, n uint64) error {
	if n > MaxFrames {
		return tooMany("frames", n, MaxFrames)
	}
	var f [4]uint64
	for range n {
		for i := range f {
			x, err := r.number(ev)
			if err != nil {
				return err
			}
			f[i] = x
		}
		ev.Frames = append(ev.Frames, Frame{f[0], f[1], f[2], f[3]})
	}
	return nil
}

// readData reads the data of an event.
func (r *Reader) readData(ev *Event) error {
	n, err := r.number(ev)
	if err != nil {
		return err
	}
	if n > MaxData {
		return tooMany("bytes of data", n, MaxData)
	}
	ev.Data = slices.Grow(ev.Data, int(n))
	for rest := int(n); rest > 0; {
		r.in.need(1)
		if r.in.size() == 0 {
			return io.ErrUnexpectedEOF
		}
		part := min(rest, r.in.size())
		ev.Data = append(ev.Data, r.in.buf[r.in.pos:r.in.pos+part]...)
		r.in.pos += part
		rest -= part
	}
	return nil
}

// unknown returns the error for an event's first byte that the version does not have.
func (r *Reader) unknown(first byte) error {
	if !r.f.version.V1() {
		return fmt.Errorf("unknown event type %d", first)
	}
	t := first & (1<<v1CountShift - 1)
	if int(t) < len(r.f.specs) && r.f.specs[t].Name != "" {
		return fmt.Errorf("%s with the wrong number of arguments", r.f.specs[t].Name)
	}
	return fmt.Errorf("unknown event type %d", t)
}

// ended returns the error for reading on where nothing is left.
func (r *Reader) ended() error {
	if r.err == nil {
		r.err = r.in.ended()
	}
	return r.err
}

// fail returns the error for the event at an offset, now and from now on.
func (r *Reader) fail(offset int64, err error) error {
	if r.in.err != nil && errors.Is(err, io.ErrUnexpectedEOF) {
		r.err = r.in.err
	} else {
		r.err = &SyntaxError{Offset: offset, Err: err}
	}
	return r.err
}
