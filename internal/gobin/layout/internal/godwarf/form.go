package godwarf

import "fmt"

// The forms of attribute values (DWARF 5, section 7.5.6, and GNU's extensions).
const (
	formAddr          = 0x01
	formBlock2        = 0x03
	formBlock4        = 0x04
	formData2         = 0x05
	formData4         = 0x06
	formData8         = 0x07
	formString        = 0x08
	formBlock         = 0x09
	formBlock1        = 0x0a
	formData1         = 0x0b
	formFlag          = 0x0c
	formSdata         = 0x0d
	formStrp          = 0x0e
	formUdata         = 0x0f
	formRefAddr       = 0x10
	formRef1          = 0x11
	formRef2          = 0x12
	formRef4          = 0x13
	formRef8          = 0x14
	formRefUdata      = 0x15
	formIndirect      = 0x16
	formSecOffset     = 0x17
	formExprloc       = 0x18
	formFlagPresent   = 0x19
	formStrx          = 0x1a
	formAddrx         = 0x1b
	formRefSup4       = 0x1c
	formStrpSup       = 0x1d
	formData16        = 0x1e
	formLineStrp      = 0x1f
	formRefSig8       = 0x20
	formImplicitConst = 0x21
	formLoclistx      = 0x22
	formRnglistx      = 0x23
	formRefSup8       = 0x24
	formStrx1         = 0x25
	formStrx2         = 0x26
	formStrx3         = 0x27
	formStrx4         = 0x28
	formAddrx1        = 0x29
	formAddrx2        = 0x2a
	formAddrx3        = 0x2b
	formAddrx4        = 0x2c
	formGNUAddrIndex  = 0x1f01
	formGNUStrIndex   = 0x1f02
	formGNURefAlt     = 0x1f20
	formGNUStrpAlt    = 0x1f21
)

// value is an attribute's value. Which part holds it depends on the form.
type value struct {
	form uint16
	n    uint64 // numbers, references and offsets; signed ones as two's complement
	b    []byte // strings and blocks; valid as long as the window that it was read from
}

// value reads an attribute's value.
func (u *unit) value(c *cursor, at attr) (v value, err error) {
	v.form = at.form
	switch at.form {
	case formString:
		v.b = c.str()
	case formData1, formFlag, formRef1, formStrx1, formAddrx1:
		v.n = uint64(c.u8())
	case formData2, formRef2, formStrx2, formAddrx2:
		v.n = c.uint(2)
	case formStrx3, formAddrx3:
		v.n = c.uint(3)
	case formData4, formRef4, formRefSup4, formStrx4, formAddrx4:
		v.n = c.uint(4)
	case formData8, formRef8, formRefSig8, formRefSup8:
		v.n = c.uint(8)
	case formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex:
		v.n = c.uleb()
	case formSdata:
		v.n = uint64(c.sleb())
	case formImplicitConst:
		v.n = uint64(at.implicit)
	case formFlagPresent:
		v.n = 1
	case formAddr:
		v.n = c.uint(u.addrSize)
	case formRefAddr:
		size := u.offSize
		if u.version <= 2 {
			size = u.addrSize
		}
		v.n = c.uint(size)
	case formStrp, formLineStrp, formSecOffset, formStrpSup, formGNURefAlt, formGNUStrpAlt:
		v.n = c.uint(u.offSize)
	case formBlock1:
		v.b = c.take(uint64(c.u8()))
	case formBlock2:
		v.b = c.take(c.uint(2))
	case formBlock4:
		v.b = c.take(c.uint(4))
	case formBlock, formExprloc:
		v.b = c.take(c.uleb())
	case formData16:
		v.b = c.take(16)
	case formIndirect:
		form := c.uleb()
		if form == formIndirect || form == formImplicitConst || form > formGNUStrpAlt {
			return v, fmt.Errorf("%w: indirect form %#x", ErrCorrupt, form)
		}
		return u.value(c, attr{name: at.name, form: uint16(form)})
	default:
		return v, fmt.Errorf("%w: form %#x", ErrCorrupt, at.form)
	}
	return v, nil
}

// number returns a number's value; false for other forms.
func (v value) number() (uint64, bool) {
	switch v.form {
	case formData1, formData2, formData4, formData8, formUdata, formSdata, formImplicitConst:
		return v.n, true
	}
	return 0, false
}

// opPlusUconst is the one operation that DWARF 2 and 3 place a member with.
const opPlusUconst = 0x23

// memberOffset returns a member's place in its struct.
func (v value) memberOffset() (uint64, bool) {
	if n, ok := v.number(); ok {
		return n, true
	}
	if len(v.b) == 0 || v.b[0] != opPlusUconst {
		return 0, false
	}
	c := cursor{b: v.b[1:]}
	n := c.uleb()
	return n, !c.short
}

// reference returns the offset in the section that a value refers to; false when it refers to somewhere else.
func (u *unit) reference(v value) (uint64, bool) {
	switch v.form {
	case formRefAddr:
		return v.n, true
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		return u.off + v.n, true
	}
	return 0, false
}
