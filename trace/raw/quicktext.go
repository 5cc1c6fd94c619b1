package raw

import (
	"encoding/binary"
	"math/bits"
)

// Lines that look as a TextWriter writes them are read here, without a look for the end of the line or for tokens. What
// looks different in any way is left to the code that knows the whole grammar.
//
// The buffer goes on behind its content, with zeros at the end of the input, and zeros are neither digits nor part of any
// text that is expected. So nothing here looks for the end of the content.

// quickLine reads the line of an event. It returns nil, and has read nothing, if the line has to be read in another way.
func (r *TextReader) quickLine(ev *Event) *code {
	in := &r.in
	if in.end-in.pos < maxPlainLine {
		in.need(maxPlainLine)
	}
	b := in.buf[in.pos:]
	c := r.f.leading(b)
	if c == nil {
		return nil
	}
	n := int(c.args)
	if cap(ev.Args) < n {
		ev.Args = make([]uint64, maxArgs)
	}
	ev.Args = ev.Args[:n]
	p := int(c.lead.size)
	for i := range ev.Args {
		if i > 0 {
			sep := &c.seps[i]
			if !sep.begins(b[p:]) {
				return nil
			}
			p += int(sep.size)
		}
		x, size := quickDecimal(b[p:])
		if size == 0 {
			return nil
		}
		ev.Args[i] = x
		p += size
	}
	if b[p] == '\r' {
		p++
	}
	if b[p] != '\n' {
		return nil
	}
	in.pos += p + 1
	r.line++
	return c
}

// quickFrame reads the line of a frame. It returns false, and has read nothing, if the line has to be read in another way.
func (r *TextReader) quickFrame(f *[4]uint64) bool {
	in := &r.in
	if in.end-in.pos < maxPlainLine {
		in.need(maxPlainLine)
	}
	b := in.buf[in.pos:]
	p := 0
	for i := range f {
		sep := &framePieces[i]
		if !sep.begins(b[p:]) {
			return false
		}
		p += int(sep.size)
		x, size := quickDecimal(b[p:])
		if size == 0 {
			return false
		}
		f[i] = x
		p += size
	}
	if b[p] != '\n' {
		return false
	}
	in.pos += p + 1
	r.line++
	return true
}

// quickDecimal returns the number that b begins with and how many digits it has. They are 0 if there is none, or one of
// more digits than are sure to fit.
func quickDecimal(b []byte) (x uint64, size int) {
	b = b[:maxDecimal] // the last of which no number may have
	for i := range b {
		d := b[i] - '0'
		if d > 9 {
			return x, i
		}
		x = x*10 + uint64(d)
	}
	return 0, 0
}

// leading returns the event whose line b seems to begin, as far as its lead, or nil.
func (f *format) leading(b []byte) *code {
	const space = 0x2020202020202020
	w := binary.LittleEndian.Uint64(b)
	begin, end := w, w
	size := 0
	if m := zeroByte(w ^ space); m != 0 {
		size = bits.TrailingZeros64(m) >> 3
		begin &= 1<<(8*uint(size)) - 1
		end = begin
	} else if m := zeroByte(binary.LittleEndian.Uint64(b[8:]) ^ space); m != 0 {
		size = 8 + bits.TrailingZeros64(m)>>3
		end = binary.LittleEndian.Uint64(b[size-8:])
	} else if m := zeroByte(binary.LittleEndian.Uint64(b[16:]) ^ space); m != 0 {
		size = 16 + bits.TrailingZeros64(m)>>3
		end = binary.LittleEndian.Uint64(b[size-8:])
	}
	c := &f.codes[f.names.index[nameSlot(f.names.seed, begin, end, size)]]
	if c.args == 0 || !c.lead.begins(b) {
		return nil
	}
	return c
}

// zeroByte returns a word whose lowest set bit is the top bit of the lowest byte of x that is 0.
func zeroByte(x uint64) uint64 {
	return (x - 0x0101010101010101) & ^x & 0x8080808080808080
}
