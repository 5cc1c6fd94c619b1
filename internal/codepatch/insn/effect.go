package insn

// effect is what an instruction that is no branch does to registers and stack.
type effect struct {
	writes  uint32 // the general registers it may write, one bit each, the stack pointer left out
	spMoved int    // bytes by which it lowers the stack pointer
	spKnown bool   // spMoved is right
	// storesAt is the offset from the stack pointer before the instruction of
	// the memory it may write, or -1 when it writes none that way.
	storesAt int
}

// effect decodes the instruction at off.
func (p *prologue) effect(off int) effect { return effectAt(p.code, off) }

func effectAt(c Code, off int) effect {
	if c.Arch == ARM64 {
		return armEffect(armWord(c.Bytes[off:]))
	}
	var x x86Inst
	x.decode(c.Bytes[off:])
	return x.effect()
}

// stepAt decodes the instruction at off for its control flow.
func stepAt(c Code, off int) step {
	if c.Arch == ARM64 {
		if len(c.Bytes)-off < 4 {
			return step{off: off, len: len(c.Bytes) - off, flow: flowTrap}
		}
		f, target := armFlow(armWord(c.Bytes[off:]), c.Entry+uint64(off))
		return step{off: off, len: 4, flow: f, target: target}
	}
	var x x86Inst
	x.decode(c.Bytes[off:])
	f, target := x.flow(c.Entry + uint64(off))
	if !x.valid {
		f = flowTrap
	}
	return step{off: off, len: x.len, flow: f, target: target}
}

func (x *x86Inst) effect() effect {
	const sp = 1 << x86SP
	w := uint32(x.gprWrites())
	e := effect{writes: w &^ sp, spKnown: w&sp == 0, storesAt: -1}
	if x.mem.kind == x86RegMem && x.mem.base == x86SP && !x.isLEA() {
		e.storesAt = int(x.mem.disp) // loads too: telling them apart is not worth it here
		if x.isLoad() {
			e.storesAt = -1
		}
	}
	if x.mode != x86Legacy || x.space != 0 {
		return e
	}
	switch {
	case x.isPushReg():
		e.spMoved = 8
	case x.op >= 0x58 && x.op <= 0x5F: // POP
		e.spMoved, e.spKnown = -8, x.opField() != x86SP
	case x.op == 0x68 || x.op == 0x6A || x.op == 0x9C: // PUSH imm, PUSHF
		e.spMoved = 8
	case x.op == 0x9D: // POPF
		e.spMoved, e.spKnown = -8, true
	case x.isLEA() && x.regField() == x86SP && x.mem.base == x86SP && x.mem.index < 0:
		e.spMoved, e.spKnown = -int(x.mem.disp), true
	case x.rmField() == x86SP:
		if n, ok := x.addedConst(); ok {
			e.spMoved, e.spKnown = -int(n), true
		}
	case x.op == 0xFF && x.sub() == 6, x.op == 0x8F, x.op == 0xC8, x.op == 0xC9:
		e.spKnown = false // PUSH and POP of memory, ENTER, LEAVE
	}
	return e
}

// isLoad says whether x, with a memory operand, only reads it.
func (x *x86Inst) isLoad() bool {
	if x.mode != x86Legacy {
		return false
	}
	switch x.space {
	case 0:
		switch {
		case x.op < 0x40:
			return x.op&7 >= 2 || x.op >= 0x38
		case x.op == 0x63, x.op == 0x69, x.op == 0x6B, x.op == 0x84, x.op == 0x85, x.op == 0x8A, x.op == 0x8B:
			return true
		case x.op >= 0x80 && x.op <= 0x83:
			return x.sub() == 7
		case x.op == 0xF6, x.op == 0xF7:
			return x.sub() != 2 && x.sub() != 3
		}
	case 1:
		switch {
		case x.op == 0x10, x.op == 0x28, x.op == 0x6F, x.op >= 0x40 && x.op < 0x50, x.op == 0xAF,
			x.op >= 0xB6 && x.op <= 0xB8, x.op >= 0xBC && x.op <= 0xBF, x.op == 0xA3:
			return true
		}
	}
	return false
}

func armEffect(w uint32) effect {
	e := effect{spKnown: true, storesAt: -1}
	rd, rn := armRd(w), armRn(w)
	switch w >> 25 & 15 {
	case 8, 9:
		if w>>23&7 == 2 && rd == armZero && w>>29&1 == 0 { // ADD, SUB to the stack pointer
			n := int(w >> 10 & 0xFFF << (12 * (w >> 22 & 1)))
			if w>>30&1 == 0 {
				n = -n
			}
			e.spMoved, e.spKnown = n, rn == armZero
			return e
		}
		e.writes = 1 << rd
		e.spKnown = rd != armZero || w>>23&7 != 4 // AND, ORR and EOR can write the stack pointer
	case 4, 6, 12, 14:
		return armMemEffect(w)
	default:
		e.writes = 1 << rd
		// ADD extended can write the stack pointer.
		e.spKnown = rd != armZero || w>>21&0x3FF != 0x059 && w>>21&0x3FF != 0x259
	}
	e.writes &^= 1 << armZero
	return e
}

// armMemEffect is armEffect for loads and stores.
func armMemEffect(w uint32) effect {
	e := effect{spKnown: true, storesAt: -1}
	if w>>27&7 == 3 && w>>24&3 == 0 { // literal
		if w>>26&1 == 0 {
			e.writes = 1 << armRd(w) &^ (1 << armZero)
		}
		return e
	}
	a, ok := armDecodeAccess(w)
	if !ok {
		e.writes = 1<<armRd(w) | 1<<armRn(w) | 1<<armRm(w) | 1<<armR2(w)
		e.spKnown = armRn(w) != armZero
		e.writes &^= 1 << armZero
		return e
	}
	for _, r := range a.data {
		if a.load && r >= 0 {
			e.writes |= 1 << r
		}
	}
	if a.status >= 0 {
		e.writes |= 1 << a.status
	}
	if a.writeback {
		e.writes |= 1 << a.base
	}
	e.writes &^= 1 << armZero
	if a.base == armZero {
		if a.store {
			e.storesAt = int(a.offset)
		}
		if a.writeback {
			e.spMoved = -a.wbOffset
		}
	}
	return e
}
