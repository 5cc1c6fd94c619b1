package godwarf

import (
	"fmt"
	"math"
)

// The tags, attributes and forms that matter (DWARF 5, chapter 7).
const (
	tagArrayType      = 0x01
	tagMember         = 0x0d
	tagPointerType    = 0x0f
	tagCompileUnit    = 0x11
	tagStructType     = 0x13
	tagSubroutineType = 0x15
	tagTypedef        = 0x16
	tagBaseType       = 0x24
	tagConstant       = 0x27
	tagVariable       = 0x34

	attrName           = 0x03
	attrByteSize       = 0x0b
	attrLanguage       = 0x13
	attrConstValue     = 0x1c
	attrProducer       = 0x25
	attrMemberLocation = 0x38
	attrType           = 0x49

	langGo = 0x16
)

// attr is one attribute of an abbreviation.
type attr struct {
	name, form uint16
	implicit   int64 // the value, with formImplicitConst
}

// abbrev says what an entry is made of.
type abbrev struct {
	tag      uint16
	children bool
	attrs    []attr
}

// abbrevs reads abbreviation tables and keeps those that were read.
type abbrevs struct {
	data   []byte // of .debug_abbrev
	tables map[uint64][]abbrev
	budget int // bytes that may still be read: units of a hostile file may all have long tables of their own
}

const (
	abbrevBudget  = 64 << 20
	maxAbbrevCode = 1 << 12 // Go uses fewer than 100
)

func newAbbrevs(data []byte) *abbrevs {
	return &abbrevs{data: data, tables: map[uint64][]abbrev{}, budget: abbrevBudget}
}

// find returns one abbreviation of the table at an offset, without keeping the table.
func (a *abbrevs) find(off, code uint64) (abbrev, error) {
	var found abbrev
	var ok bool
	err := a.walk(off, func(c uint64, ab abbrev) bool {
		found, ok = ab, c == code
		return !ok
	})
	if err == nil && !ok {
		err = fmt.Errorf("%w: no abbreviation %d at %#x", ErrCorrupt, code, off)
	}
	return found, err
}

// table returns the table at an offset, indexed by code.
func (a *abbrevs) table(off uint64) ([]abbrev, error) {
	if t, ok := a.tables[off]; ok {
		return t, nil
	}
	var t []abbrev
	var tooLarge bool
	err := a.walk(off, func(code uint64, ab abbrev) bool {
		if tooLarge = code >= maxAbbrevCode; tooLarge {
			return false
		}
		for uint64(len(t)) <= code {
			t = append(t, abbrev{})
		}
		t[code] = ab
		return true
	})
	if err == nil && tooLarge {
		err = fmt.Errorf("%w: abbreviation code over %d", ErrCorrupt, maxAbbrevCode)
	}
	if err != nil {
		return nil, err
	}
	a.tables[off] = t
	return t, nil
}

// walk calls f with the abbreviations of the table at an offset until it returns false.
func (a *abbrevs) walk(off uint64, f func(code uint64, ab abbrev) bool) error {
	if off >= uint64(len(a.data)) {
		return fmt.Errorf("%w: abbreviation table at %#x", ErrCorrupt, off)
	}
	c := cursor{b: a.data[off:]}
	for {
		start := c.i
		code := c.uleb()
		if code == 0 && !c.short {
			return nil
		}
		var ab abbrev
		tag := c.uleb()
		ab.tag, ab.children = uint16(min(tag, math.MaxUint16)), c.u8() != 0
		for !c.short {
			name, form := c.uleb(), c.uleb()
			if name == 0 && form == 0 {
				break
			}
			at := attr{name: uint16(min(name, math.MaxUint16)), form: uint16(min(form, math.MaxUint16))}
			if at.form == formImplicitConst {
				at.implicit = c.sleb()
			}
			ab.attrs = append(ab.attrs, at)
		}
		a.budget -= c.i - start
		if c.short || a.budget < 0 {
			return fmt.Errorf("%w: abbreviation table at %#x", ErrCorrupt, off)
		}
		if !f(code, ab) {
			return nil
		}
	}
}
