package godwarf

import (
	"fmt"
)

// unit is the header of a unit of .debug_info and what its first entry says.
type unit struct {
	off, end  uint64 // in the section; end is behind its last byte
	version   uint16
	kind      uint8 // since DWARF 5
	addrSize  uint8
	offSize   uint8 // of references in the section: 4, or 8 in the 64-bit format
	abbrevOff uint64

	language       uint64
	name, producer string
	children       bool
}

const (
	maxUnitHeader = 32
	unitCompile   = 0x01 // DW_UT_compile

	// escape64 as the length of a unit says that the 64-bit format follows, reservedLengths that it is no length.
	escape64        = 0xffffffff
	reservedLengths = 0xfffffff0
)

// nextUnit reads the next unit's header; nil at the end of the section.
func (s *scanner) nextUnit() (*unit, error) {
	b := s.in.window(maxUnitHeader)
	if len(b) == 0 {
		if s.in.atEnd() {
			return nil, nil
		}
		return nil, s.in.failure()
	}
	c := cursor{b: b}
	u := &unit{off: s.in.off, offSize: 4}
	length := c.uint(4)
	if length == escape64 {
		length, u.offSize = c.uint(8), 8
	} else if length >= reservedLengths {
		return nil, fmt.Errorf("%w: length %#x of the unit at %#x", ErrCorrupt, length, u.off)
	}
	if length > maxInfo {
		return nil, fmt.Errorf("%w: unit of %d bytes at %#x", ErrCorrupt, length, u.off)
	}
	u.end = u.off + uint64(c.i) + length
	u.version = uint16(c.uint(2))
	switch {
	case u.version == 5:
		u.kind, u.addrSize = c.u8(), c.u8()
		u.abbrevOff = c.uint(u.offSize)
	case 2 <= u.version && u.version < 5:
		u.kind = unitCompile
		u.abbrevOff = c.uint(u.offSize)
		u.addrSize = c.u8()
	}
	if c.short || u.off+uint64(c.i) > u.end {
		return nil, fmt.Errorf("%w: unit header at %#x", ErrCorrupt, u.off)
	}
	s.in.pass(c.i)
	return u, nil
}

// known tells whether the unit's entries can be read at all.
func (u *unit) known() bool {
	return 2 <= u.version && u.version <= 5 && u.kind == unitCompile && (u.addrSize == 4 || u.addrSize == 8)
}

// readRoot reads the unit's first entry. ok is false when it is not one that can be read, which in a unit of another
// language may well be.
func (s *scanner) readRoot(u *unit) (ok bool) {
	if !u.known() {
		return false
	}
	for size := minWindow; size <= maxWindow; size *= 2 {
		b := s.in.window(size)
		full := len(b) >= size
		c := cursor{b: b}
		code := c.uleb()
		if c.short || code == 0 {
			return false
		}
		ab, err := s.abbrevs.find(u.abbrevOff, code)
		if err != nil || ab.tag != tagCompileUnit {
			return false
		}
		for _, at := range ab.attrs {
			v, err := u.value(&c, at)
			if err != nil {
				return false
			}
			if c.short {
				break
			}
			switch at.name {
			case attrLanguage:
				u.language, _ = v.number()
			case attrName:
				u.name = string(s.text(v))
			case attrProducer:
				u.producer = string(s.text(v))
			}
		}
		if !c.short {
			u.children = ab.children
			s.in.pass(c.i)
			return s.in.off <= u.end
		}
		if !full {
			return false
		}
	}
	return false
}

// text returns the string that a value is or refers to; nil when it is out of reach.
func (s *scanner) text(v value) []byte {
	switch v.form {
	case formString:
		return v.b
	case formStrp:
		return stringAt(s.src.Str, v.n)
	case formLineStrp:
		return stringAt(s.src.LineStr, v.n)
	}
	return nil
}

// stringAt returns the string at an offset of a string section.
func stringAt(section func() []byte, off uint64) []byte {
	if section == nil {
		return nil
	}
	b := section()
	if off >= uint64(len(b)) {
		return nil
	}
	c := cursor{b: b[off:]}
	return c.str()
}
