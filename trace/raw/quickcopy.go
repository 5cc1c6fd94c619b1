package raw

import "encoding/binary"

// quickCopy returns a function that copies as many events as it can without an Event in between, and returns how many. It
// is nil if there is none for dst and src.
func quickCopy(dst EventWriter, src EventReader) func() int64 {
	switch r := src.(type) {
	case *Reader:
		if w, ok := dst.(*TextWriter); ok && r.f == w.f {
			return func() int64 { return quickText(w, r) }
		}
	case *TextReader:
		if w, ok := dst.(*Writer); ok && r.f == w.f && !w.RecomputeSizes {
			return func() int64 { return quickWire(w, r) }
		}
	}
	return nil
}

// quickText copies plain events from the wire to text. It stops at whatever else comes, which ReadEvent then looks at. Of
// an event at which it stops it has written nothing.
func quickText(w *TextWriter, r *Reader) (events int64) {
	if r.err != nil || w.closed || w.out.err != nil {
		return 0
	}
	in, out := &r.in, &w.out
	for {
		if in.end-in.pos < maxPlain {
			in.need(maxPlain)
		}
		if in.pos >= in.end || len(out.buf)-out.size < maxPlainLine && !out.room(maxPlainLine) {
			return events
		}
		c := &r.f.codes[in.buf[in.pos]]
		if !c.plain {
			return events
		}
		from := in.buf[in.pos : in.pos+maxPlain]
		to := out.buf[out.size : out.size+maxPlainLine]
		*(*[pieceSize]byte)(to) = c.lead.text
		p, q := 1, int(c.lead.size)
		for i := 0; i < int(c.args); i++ {
			if i > 0 {
				sep := &c.seps[i]
				*(*[pieceSize]byte)(to[q:]) = sep.text
				q += int(sep.size)
			}
			x := uint64(from[p])
			p++
			if x >= 0x80 {
				y := uint64(from[p])
				p++
				x = x&0x7f | y<<7
				if y-1 >= 0x7f {
					var size int
					x, size = decodeVarint((*[maxVarint]byte)(from[p-2:]))
					if size == 0 || r.KeepWidths && size > varintSize(x) {
						return events
					}
					p += size - 2
				}
			}
			if x < 1000 {
				digits := shorts[x]
				binary.LittleEndian.PutUint32(to[q:], digits)
				q += int(digits >> 24)
			} else {
				q += putDecimal(to[q:], x)
			}
		}
		if in.pos+p > in.end {
			return events
		}
		to[q] = '\n'
		in.pos += p
		out.size += q + 1
		events++
	}
}

// quickWire copies plain events from text to the wire. Like quickText, it stops at whatever else comes.
func quickWire(w *Writer, r *TextReader) (events int64) {
	if r.err != nil || len(r.widths) > 0 || w.closed || w.out.err != nil {
		return 0
	}
	in, out := &r.in, &w.out
	for {
		if in.end-in.pos < maxPlainLine {
			in.need(maxPlainLine)
		}
		if len(out.buf)-out.size < maxPlain && !out.room(maxPlain) {
			return events
		}
		from := in.buf[in.pos:]
		c := r.f.leading(from)
		if c == nil || !c.plain {
			return events
		}
		to := out.buf[out.size : out.size+maxPlain]
		to[0] = w.f.first[c.typ]
		p, q := int(c.lead.size), 1
		for i := 0; i < int(c.args); i++ {
			if i > 0 {
				sep := &c.seps[i]
				if !sep.begins(from[p:]) {
					return events
				}
				p += int(sep.size)
			}
			x, size := quickDecimal(from[p:])
			if size == 0 {
				return events
			}
			p += size
			for x >= 0x80 {
				to[q] = byte(x) | 0x80
				q++
				x >>= 7
			}
			to[q] = byte(x)
			q++
		}
		if from[p] != '\n' {
			return events
		}
		in.pos += p + 1
		r.line++
		out.size += q
		events++
	}
}
