package insn

// indexBounds returns the constants that an unsigned comparison in c holds a
// register against before a branch, as the number of values that pass it.
func indexBounds(c Code) []int64 {
	var bounds []int64
	add := func(n int64, cond uint8) {
		switch cond {
		case boundBelow:
			bounds = append(bounds, n)
		case boundBelowEqual:
			bounds = append(bounds, n+1)
		}
	}
	if c.check() != nil {
		return nil
	}
	if c.Arch == ARM64 {
		for off := 0; off+8 <= len(c.Bytes); off += 4 {
			if n, ok := armCompared(armWord(c.Bytes[off:])); ok {
				add(n, armBound(armWord(c.Bytes[off+4:])))
			}
		}
		return bounds
	}
	var x, next x86Inst
	for off := 0; off < len(c.Bytes); off += x.len {
		x.decode(c.Bytes[off:])
		if n, ok := x.compared(); ok && off+x.len < len(c.Bytes) {
			next.decode(c.Bytes[off+x.len:])
			add(n, next.bound())
		}
	}
	return bounds
}

// What a conditional branch tells about the comparison before it.
const (
	boundNone       = iota
	boundBelow      // branches apart below from not below
	boundBelowEqual // branches apart below or equal from above
)

// compared returns the constant x compares a register with.
func (x *x86Inst) compared() (int64, bool) {
	if !x.valid || x.mode != x86Legacy || x.space != 0 {
		return 0, false
	}
	switch x.op {
	case 0x3C, 0x3D:
		return x.imm, true
	case 0x80, 0x81, 0x83:
		return x.imm, x.sub() == 7 && x.rmField() >= 0
	}
	return 0, false
}

// bound tells unsigned conditional jumps.
func (x *x86Inst) bound() uint8 {
	if !x.valid || x.mode != x86Legacy {
		return boundNone
	}
	if x.space == 0 && x.op&0xF0 == 0x70 || x.space == 1 && x.op&0xF0 == 0x80 {
		switch x.op & 0xF {
		case 2, 3: // JB, JAE
			return boundBelow
		case 6, 7: // JBE, JA
			return boundBelowEqual
		}
	}
	return boundNone
}

// armCompared returns the constant w compares a register with.
func armCompared(w uint32) (int64, bool) {
	const cmp = 0x71000000 | armZero // SUBS ZR, Rn, #imm
	return int64(w >> 10 & 0xFFF), w&0x7FC0001F == cmp
}

// armBound tells unsigned conditional branches.
func armBound(w uint32) uint8 {
	if w>>24 == 0x54 {
		switch w & 0xF {
		case 2, 3: // B.HS, B.LO
			return boundBelow
		case 8, 9: // B.HI, B.LS
			return boundBelowEqual
		}
	}
	return boundNone
}
