package insn

// Register numbers with a fixed role.
const (
	x86AX, x86CX, x86DX, x86BX, x86SP, x86BP, x86SI, x86DI = 0, 1, 2, 3, 4, 5, 6, 7
	x86R11                                                 = 11
)

const x86AllRegs = 0xFFFF

// regField is the register in the reg field of the ModRM byte.
func (x *x86Inst) regField() int { return int(x.modrm>>3&7 | x.rex&4<<1) }

// rmField is the register in the rm field of the ModRM byte, or -1 when that is memory.
func (x *x86Inst) rmField() int {
	if !x.hasModRM || x.modrm>>6 != 3 {
		return -1
	}
	return int(x.modrm&7 | x.rex&1<<3)
}

// opField is the register in the low bits of the opcode.
func (x *x86Inst) opField() int { return int(x.op&7 | x.rex&1<<3) }

// sub is the opcode extension in the reg field of the ModRM byte.
func (x *x86Inst) sub() byte { return x.modrm >> 3 & 7 }

func (x *x86Inst) legacy(space, op byte) bool {
	return x.mode == x86Legacy && x.space == space && x.op == op
}

func (x *x86Inst) isLEA() bool { return x.legacy(0, 0x8D) }

// isPushReg says whether x is PUSH of a general register.
func (x *x86Inst) isPushReg() bool {
	return x.mode == x86Legacy && x.space == 0 && x.op&^7 == 0x50
}

// addedConst returns what ADD or SUB of an immediate adds to register rm.
func (x *x86Inst) addedConst() (n int64, ok bool) {
	if x.mode != x86Legacy || x.space != 0 || x.op != 0x81 && x.op != 0x83 {
		return 0, false
	}
	switch x.sub() {
	case 0:
		return x.imm, true
	case 5:
		return -x.imm, true
	}
	return 0, false
}

// x86Compare notes comparisons of a register with a constant.
func (t *tracker) x86Compare(x *x86Inst) {
	if x.mode != x86Legacy || x.space != 0 {
		return
	}
	switch x.op {
	case 0x3C, 0x3D:
		t.compare(x86AX, x.imm)
	case 0x80, 0x81, 0x83:
		if rm := x.rmField(); rm >= 0 && x.sub() == 7 {
			t.compare(rm, x.imm)
		}
	case 0x84, 0x85: // TEST r, r compares with zero
		if rm := x.rmField(); rm >= 0 && rm == x.regField() {
			t.compare(rm, 0)
		}
	}
}

// x86Result returns the register that x leaves a known content in, or -1. at
// and ref are the static memory x refers to, if any.
func (t *tracker) x86Result(x *x86Inst, at content, ref int) (int, content) {
	if x.mode != x86Legacy || x.pfx&x86OpSize != 0 {
		return -1, content{}
	}
	if x.space == 1 {
		switch x.op {
		case 0xB6, 0xB7, 0xBE, 0xBF: // MOVZX, MOVSX
			return t.x86Load(x, ref)
		}
		return -1, content{}
	}
	if x.space != 0 {
		return -1, content{}
	}
	reg, rm := x.regField(), x.rmField()
	switch x.op {
	case 0x01: // ADD rm, reg
		if rm >= 0 {
			return rm, t.reg[rm].plusVariable(t.reg[reg])
		}
	case 0x03: // ADD reg, rm
		if rm >= 0 {
			return reg, t.reg[reg].plusVariable(t.reg[rm])
		}
	case 0x31, 0x33: // XOR r, r
		if rm == reg {
			return reg, content{kind: constant}
		}
	case 0x63: // MOVSXD
		return t.x86Load(x, ref)
	case 0x81, 0x83:
		if n, ok := x.addedConst(); ok && rm >= 0 {
			return rm, t.reg[rm].plus(n)
		}
	case 0x89: // MOV rm, reg
		if rm >= 0 {
			return rm, t.reg[reg]
		}
	case 0x8B: // MOV reg, rm
		if rm >= 0 {
			return reg, t.reg[rm]
		}
		return t.x86Load(x, ref)
	case 0x8D:
		if at.kind != unknown {
			return reg, at
		}
	case 0xB8, 0xB9, 0xBA, 0xBB, 0xBC, 0xBD, 0xBE, 0xBF:
		return x.opField(), content{kind: constant, val: x.constant()}
	case 0xC7:
		if rm >= 0 && x.sub() == 0 {
			return rm, content{kind: constant, val: x.constant()}
		}
	}
	return -1, content{}
}

// x86Load is the result of loading from static memory.
func (t *tracker) x86Load(x *x86Inst, ref int) (int, content) {
	if ref < 0 {
		return -1, content{}
	}
	return x.regField(), content{kind: loaded, ref: ref}
}

// constant is the value that a move of the immediate leaves in the register.
func (x *x86Inst) constant() uint64 {
	if x.rex&8 == 0 {
		return uint64(uint32(x.imm))
	}
	return uint64(x.imm)
}

// gprWrites returns the general registers x may write, one bit each. It may
// name too many, never too few; the stack pointer counts only as an operand.
func (x *x86Inst) gprWrites() uint16 {
	reg, rm := uint16(1)<<x.regField(), uint16(0)
	if r := x.rmField(); r >= 0 {
		rm = 1 << r
	}
	if !x.hasModRM {
		reg = 0
	}
	switch {
	case x.mode == x86XOP:
		return x86AllRegs
	case x.mode != x86Legacy:
		return x.vectorWrites(reg, rm)
	case x.space == 1:
		return x.twoByteWrites(reg, rm)
	case x.space == 2: // SSE, and MOVBE, CRC32, ADCX in row F0
		if x.op >= 0xF0 {
			return reg | rm
		}
		return 0
	case x.space == 3:
		return threeAWrites(x.op, rm)
	}
	w := x.oneByteWrites(reg, rm)
	if x.rex == 0 && x.byteOperand() { // AH, CH, DH and BH are numbered as SP, BP, SI and DI
		w |= w >> 4 & 0xF
	}
	return w
}

// byteOperand says whether a one-byte opcode can write a register of one byte.
func (x *x86Inst) byteOperand() bool {
	switch op := x.op; {
	case op < 0x40, op >= 0x80 && op < 0x8C, op >= 0xC0 && op < 0xC8, op >= 0xD0 && op < 0xD4, op >= 0xF6:
		return op&1 == 0
	case op >= 0xB0 && op < 0xB8:
		return true
	}
	return false
}

// vectorWrites is gprWrites for VEX and EVEX.
func (x *x86Inst) vectorWrites(reg, rm uint16) uint16 {
	switch {
	case x.space == 2 && x.op >= 0xF0, x.space > 3: // BMI and later: the destination may be in the prefix
		return x86AllRegs
	case x.space == 3:
		return reg | threeAWrites(x.op, rm)
	}
	return reg | rm
}

// threeAWrites is gprWrites for the 0F3A map: extractions to a register, and
// string comparisons, whose index is in CX.
func threeAWrites(op byte, rm uint16) uint16 {
	switch {
	case op >= 0x14 && op <= 0x17:
		return rm
	case op >= 0x60 && op <= 0x63:
		return 1 << x86CX
	}
	return 0
}

func (x *x86Inst) oneByteWrites(reg, rm uint16) uint16 {
	const ax, cx, dx = 1 << x86AX, 1 << x86CX, 1 << x86DX
	switch op := x.op; {
	case op < 0x40: // the eight arithmetic operations; CMP, the last, writes nothing
		return [8]uint16{rm, rm, reg, reg, ax, ax}[op&7] &^ cmpMask(op >= 0x38)
	case op < 0x58: // PUSH
		return 0
	case op < 0x60, op >= 0xB0 && op < 0xC0: // POP; MOV of an immediate
		return 1 << x.opField()
	case op == 0x63, op == 0x69, op == 0x6B, op == 0x8A, op == 0x8B, op == 0x8D:
		return reg
	case op == 0x68, op == 0x6A, op >= 0x70 && op < 0x80, op == 0x84, op == 0x85:
		return 0
	case op >= 0x80 && op <= 0x83:
		return rm &^ cmpMask(x.sub() == 7)
	case op == 0x86, op == 0x87:
		return reg | rm
	case op == 0x88, op == 0x89, op == 0x8F, op == 0xC0, op == 0xC1, op == 0xC6, op == 0xC7, op >= 0xD0 && op <= 0xD3:
		return rm
	case op >= 0x90 && op < 0x98:
		if x.opField() == 0 { // NOP, PAUSE
			return 0
		}
		return ax | 1<<x.opField()
	case op == 0x98, op >= 0xD8 && op <= 0xDF: // CWDE; x87, of which FNSTSW writes AX
		return ax
	case op == 0x99:
		return dx
	case op >= 0xA0 && op < 0xB0:
		return ax | cx | 1<<x86SI | 1<<x86DI
	case op == 0xF6, op == 0xF7:
		return [8]uint16{0, 0, rm, rm, ax | dx, ax | dx, ax | dx, ax | dx}[x.sub()]
	case op == 0xFE, op == 0xFF:
		return rm &^ cmpMask(x.sub() > 1)
	}
	return x86AllRegs
}

// cmpMask takes the destination away from an instruction that writes none.
func cmpMask(none bool) uint16 {
	if none {
		return x86AllRegs
	}
	return 0
}

func (x *x86Inst) twoByteWrites(reg, rm uint16) uint16 {
	const ax, cx, dx = 1 << x86AX, 1 << x86CX, 1 << x86DX
	switch op := x.op; {
	case op == 0x05: // SYSCALL
		return ax | cx | 1<<x86R11
	case op == 0x01, op == 0x31, op == 0xA2: // XGETBV, RDTSCP; RDTSC; CPUID
		return ax | cx | dx | 1<<x86BX | rm
	case op == 0x2C, op == 0x2D, op == 0x50, op == 0xC5, op == 0xD7: // vector to register
		return reg
	case op == 0x7E, op == 0xAE, op == 0x1E: // MOVD; RDFSBASE; RDSSP
		return rm
	case op >= 0x0D && op < 0x80, op == 0xA3, op == 0xC2, op == 0xC3, op == 0xC4, op == 0xC6, op >= 0xD0:
		if op >= 0x40 && op < 0x50 { // CMOVcc
			return reg
		}
		return 0
	case op >= 0x80 && op < 0x90: // Jcc
		return 0
	case op >= 0x90 && op < 0xA0, op == 0xA4, op == 0xA5, op == 0xAB, op == 0xAC, op == 0xAD, op == 0xB3, op == 0xBA, op == 0xBB:
		return rm | rm>>4&0xF // SETcc may name AH...BH
	case op == 0xAF, op == 0xB6, op == 0xB7, op == 0xB8, op >= 0xBC && op <= 0xBF:
		return reg
	case op == 0xB0, op == 0xB1:
		return ax | rm | rm>>4&0xF
	case op == 0xC0, op == 0xC1:
		return reg | rm | (reg|rm)>>4&0xF
	case op == 0xC7: // CMPXCHG8B, RDRAND
		return ax | dx | rm
	case op >= 0xC8 && op <= 0xCF:
		return 1 << x.opField()
	}
	return x86AllRegs
}
