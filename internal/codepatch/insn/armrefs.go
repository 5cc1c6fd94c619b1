package insn

// arm64 collects the references of arm64 code.
func (t *tracker) arm64(joins offsetSet) {
	for off := 0; off+4 <= len(t.code.Bytes); off += 4 {
		if joins.has(off) {
			t.forgetAll()
		}
		w, pc := armWord(t.code.Bytes[off:]), t.code.Entry+uint64(off)
		if f, _ := armFlow(w, pc); f == flowCall || f == flowCallReg || f.endsBlock() {
			t.forgetAll()
			continue
		} else if f == flowCond {
			if w>>25&0x3F == 0x1A { // CBZ, CBNZ
				t.compare(armRd(w), 0)
			}
			continue
		}
		t.armStep(w, pc)
		t.reg[armZero] = content{}
	}
}

// armStep takes one instruction that is no branch into account.
func (t *tracker) armStep(w uint32, pc uint64) {
	rd := armRd(w)
	switch w >> 25 & 15 {
	case 8, 9:
		t.armImmediate(w, pc)
	case 4, 6, 12, 14:
		t.armMemory(w, pc)
	case 5, 13:
		v := t.armRegisters(w)
		if rd == armZero {
			return
		}
		t.reg[rd] = v
	case 10, 11: // system: MRS writes Rd, the others name the zero register there
		t.reg[rd] = content{}
	default: // vector: moves to general registers have Rd in the same place
		t.reg[rd] = content{}
	}
}

// armImmediate follows the instructions that compute with a constant.
func (t *tracker) armImmediate(w uint32, pc uint64) {
	rd, rn := armRd(w), armRn(w)
	switch w >> 23 & 7 {
	case 0, 1: // ADR, ADRP
		n := signExtend(w>>5&0x7FFFF<<2|w>>29&3, 21)
		if w>>31 == 1 {
			t.reg[rd] = content{kind: page, val: pc&^0xFFF + uint64(n<<12)}
			return
		}
		t.reg[rd] = content{kind: address, val: pc + uint64(n)}
		t.add(Ref{PC: pc, Addr: pc + uint64(n), Op: "ADR"})
	case 2: // ADD, SUB
		n := int64(w >> 10 & 0xFFF << (12 * (w >> 22 & 1)))
		if w>>30&1 == 1 {
			n = -n
		}
		if w>>29&1 == 1 && rd == armZero { // CMP, CMN
			t.compare(rn, -n)
			return
		}
		v := t.reg[rn].plus(n)
		t.reg[rd] = v
		if v.kind == address && rd != armTmp {
			t.add(Ref{PC: pc, Addr: v.val, Op: "ADD"})
		}
	case 4: // AND, ORR, EOR, ANDS
		v, ok := armBitmask(w)
		t.reg[rd] = content{}
		if ok && w>>29&3 == 1 && rn == armZero {
			if w>>31 == 0 {
				v = uint64(uint32(v))
			}
			t.reg[rd] = content{kind: constant, val: v}
		}
	case 5:
		t.reg[rd] = armMovWide(w, t.reg[rd])
	default: // bit fields
		t.reg[rd] = content{}
	}
}

// armRegisters follows the instructions that compute with registers alone: MOV
// and ADD. It also takes comparisons with a constant in a register.
func (t *tracker) armRegisters(w uint32) content {
	rn, rm := t.armReg(armRn(w)), t.armReg(armRm(w))
	switch {
	case w>>21&0x3FF == 0x150 && armRn(w) == armZero && w>>10&63 == 0: // ORR Rd, ZR, Rm
		return rm
	case w>>21&0x3F9 == 0x058: // ADD Rd, Rn, Rm, shifted
		return armAdd(rn, rm, w>>10&63)
	case w>>21&0x3FF == 0x059: // ADD Rd, Rn, Rm, extended
		return armAdd(rn, rm, w>>10&7)
	case w>>21&0x3F9 == 0x358 && armRd(w) == armZero && rm.kind == constant: // CMP Rn, Rm
		t.compare(armRn(w), int64(rm.val))
	}
	return content{}
}

// armAdd adds rm shifted left to rn.
func armAdd(rn, rm content, shift uint32) content {
	if shift != 0 {
		if rm.kind == constant {
			rm.val <<= shift
		} else {
			rm = content{}
		}
	}
	return rn.plusVariable(rm)
}

// armReg is the content of a register read by an instruction in which number 31 is zero.
func (t *tracker) armReg(r int) content {
	if r == armZero {
		return content{kind: constant}
	}
	return t.reg[r]
}

// armMemory follows loads and stores.
func (t *tracker) armMemory(w uint32, pc uint64) {
	if w>>27&7 == 3 && w>>24&3 == 0 {
		t.armLiteral(w, pc)
		return
	}
	a, ok := armDecodeAccess(w)
	if !ok {
		t.forget(1<<armRd(w) | 1<<armRn(w) | 1<<armRm(w) | 1<<(armRm(w)|1) | 1<<armR2(w))
		return
	}
	at := t.reg[a.base]
	if a.base == armZero {
		at = content{}
	}
	if a.index >= 0 {
		at = armAdd(at, t.armReg(a.index), a.shift)
	}
	at = at.plus(a.offset)
	first := -1
	if at.pointer() {
		first = t.armRef(a, pc, at)
	}
	if a.writeback {
		t.reg[a.base] = content{}
	}
	if a.status >= 0 {
		t.reg[a.status] = content{}
	}
	for i, r := range a.data {
		if !a.load || r < 0 || r == armZero {
			continue
		}
		t.reg[r] = content{}
		if first >= 0 {
			t.reg[r] = content{kind: loaded, ref: first + min(i, a.count-1)}
		}
	}
}

// armRef records the references of an access to at, one for each element, and
// returns the index of the first.
func (t *tracker) armRef(a armAccess, pc uint64, at content) int {
	first := len(t.refs)
	for i := range a.count {
		r := Ref{
			PC: pc, Addr: at.val + uint64(i*a.size), Size: a.size,
			Read: a.load, Write: a.store, Op: a.op, Index: at.kind == indexed,
		}
		if d := a.data[i]; a.store && !a.load && d >= 0 {
			if v := t.armReg(d); v.kind == constant {
				n := int64(v.val)
				r.Imm = &n
			}
		}
		t.add(r)
	}
	return first
}

// armLiteral records a load from a literal pool.
func (t *tracker) armLiteral(w uint32, pc uint64) {
	opc, vector := w>>30, w>>26&1 == 1
	r := Ref{PC: pc, Addr: pc + uint64(signExtend(w>>5, 19)*4), Read: true, Op: "LDR"}
	switch {
	case vector:
		r.Size = 4 << opc
	case opc == 3: // prefetch
		return
	case opc == 1:
		r.Size = 8
	default:
		r.Size = 4
	}
	i := t.add(r)
	if rd := armRd(w); !vector {
		t.reg[rd] = content{kind: loaded, ref: i}
	}
}
