package godwarf

import (
	"bytes"
	"encoding/binary"
)

// cursor takes values off the front of a slice. Once a value does not fit, short is set and all values are zero.
type cursor struct {
	b     []byte
	i     int
	short bool
}

func (c *cursor) take(n uint64) []byte {
	if uint64(len(c.b)-c.i) < n {
		c.short, c.i = true, len(c.b)
		return nil
	}
	b := c.b[c.i : c.i+int(n)]
	c.i += int(n)
	return b
}

func (c *cursor) u8() uint8 {
	if c.i >= len(c.b) {
		c.short = true
		return 0
	}
	v := c.b[c.i]
	c.i++
	return v
}

// uint reads a little-endian number of n bytes, at most 8.
func (c *cursor) uint(n uint8) uint64 {
	b := c.take(uint64(n))
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	case 8:
		return binary.LittleEndian.Uint64(b)
	}
	var v uint64
	for i, x := range b {
		v |= uint64(x) << (8 * i)
	}
	return v
}

// maxLEB is the length of the longest encoding of 64 bits.
const maxLEB = 10

func (c *cursor) uleb() uint64 {
	if c.i < len(c.b) && c.b[c.i] < 0x80 {
		c.i++
		return uint64(c.b[c.i-1])
	}
	var v uint64
	for n := 0; n < maxLEB; n++ {
		b := c.u8()
		v |= uint64(b&0x7f) << (7 * n)
		if b < 0x80 {
			return v
		}
	}
	c.short = true
	return 0
}

func (c *cursor) sleb() int64 {
	var v int64
	for n := 0; n < maxLEB; n++ {
		b := c.u8()
		v |= int64(b&0x7f) << (7 * n)
		if b < 0x80 {
			if shift := 7 * (n + 1); b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
	c.short = true
	return 0
}

// str reads a string that ends with a zero byte.
func (c *cursor) str() []byte {
	n := bytes.IndexByte(c.b[c.i:], 0)
	if n < 0 {
		c.short, c.i = true, len(c.b)
		return nil
	}
	s := c.b[c.i : c.i+n]
	c.i += n + 1
	return s
}
