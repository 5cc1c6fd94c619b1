package native

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// cursor reads from the start of a slice. After an error it returns zeros.
type cursor struct {
	b    []byte
	addr uint64 // of b[0] in the file
	err  error
}

func (c *cursor) fail(what string) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s at %#x", ErrMalformed, what, c.addr)
	}
	c.b = nil
}

// take returns the next n bytes; nil if there are fewer.
func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.fail("an entry ends early")
		return nil
	}
	b := c.b[:n]
	c.b, c.addr = c.b[n:], c.addr+n
	return b
}

func (c *cursor) skip(n uint64) { c.take(n) }

func (c *cursor) u8() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

// number reads an unsigned number of some bytes.
func (c *cursor) number(size uint64) uint64 {
	var b [8]byte
	copy(b[:], c.take(size))
	return binary.LittleEndian.Uint64(b[:])
}

// signed reads a signed number of some bytes.
func (c *cursor) signed(size uint64) int64 {
	unused := 64 - 8*size
	return int64(c.number(size)<<unused) >> unused
}

func (c *cursor) u32() uint64 { return c.number(4) }

func (c *cursor) uleb() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.fail("a number ends early")
		return 0
	}
	c.skip(uint64(n))
	return v
}

func (c *cursor) sleb() int64 {
	var v int64
	for shift := uint(0); shift < 64; shift += 7 {
		b := c.u8()
		v |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			if b&0x40 != 0 && shift+7 < 64 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	c.fail("a number of too many bytes")
	return 0
}

func (c *cursor) text() string {
	n := bytes.IndexByte(c.b, 0)
	if n < 0 {
		c.fail("a text without an end")
		return ""
	}
	return string(c.take(uint64(n) + 1)[:n])
}

// block reads a number of bytes, and these.
func (c *cursor) block() []byte { return c.take(c.uleb()) }

// pointer reads a pointer in one of the encodings of the Linux Standard Base: absolute or relative to itself.
func (c *cursor) pointer(encoding byte) uint64 {
	at := c.addr
	var v uint64
	switch encoding & 0x0f {
	case 0x00, 0x04, 0x0c:
		v = c.number(8)
	case 0x01:
		v = c.uleb()
	case 0x02:
		v = c.number(2)
	case 0x03:
		v = c.number(4)
	case 0x09:
		v = uint64(c.sleb())
	case 0x0a:
		v = uint64(c.signed(2))
	case 0x0b:
		v = uint64(c.signed(4))
	default:
		c.fail("a pointer of unknown encoding")
	}
	switch encoding & 0xf0 {
	case 0x00:
	case 0x10:
		v += at
	default:
		c.fail("a pointer of unknown encoding")
	}
	return v
}
