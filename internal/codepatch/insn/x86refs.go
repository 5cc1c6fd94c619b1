package insn

import "golang.org/x/arch/x86/x86asm"

// amd64 collects the references of x86-64 code.
func (t *tracker) amd64(joins offsetSet) {
	var x x86Inst
	b := t.code.Bytes
	for off := 0; off < len(b); off += x.len {
		if joins.has(off) {
			t.forgetAll()
		}
		x.decode(b[off:])
		if !x.valid {
			t.forgetAll()
			continue
		}
		t.x86Step(&x, b[off:off+x.len], t.code.Entry+uint64(off))
	}
}

// x86Step takes one instruction into account: first what it refers to, then
// what it leaves in registers.
func (t *tracker) x86Step(x *x86Inst, b []byte, pc uint64) {
	at := t.x86Target(x, pc)
	ref := -1
	if at.kind != unknown {
		ref = t.x86Ref(x, b, pc, at)
	}
	if f, _ := x.flow(pc); f == flowCall || f == flowCallReg || f.endsBlock() {
		t.forgetAll() // Go functions keep no register for their caller
		return
	}
	t.x86Compare(x)
	dst, v := t.x86Result(x, at, ref)
	t.forget(uint32(x.gprWrites()))
	if dst >= 0 {
		t.reg[dst] = v
	}
}

// x86Target returns the static address that x's memory operand refers to, of
// kind address or indexed, or unknown.
func (t *tracker) x86Target(x *x86Inst, pc uint64) content {
	m := &x.mem
	if x.pfx&(x86Seg|x86AddrSize) != 0 {
		return content{}
	}
	switch m.kind {
	case x86RIPMem:
		return content{kind: address, val: pc + uint64(x.len) + uint64(m.disp)}
	case x86AbsMem:
		return content{kind: address, val: uint64(m.disp)}
	case x86NoMem:
		if x.isMoffs() {
			return content{kind: address, val: uint64(x.imm)}
		}
	case x86RegMem:
		return t.x86Indirect(m)
	}
	return content{}
}

// x86Indirect resolves a memory operand that goes through registers.
func (t *tracker) x86Indirect(m *x86Mem) content {
	if m.base < 0 { // index*scale + disp32
		if m.disp > 0 {
			return content{kind: indexed, val: uint64(m.disp)}
		}
		return content{}
	}
	v := t.reg[m.base]
	if m.index >= 0 {
		w := t.reg[m.index]
		if m.scale != 1 && w.pointer() {
			w = content{}
		}
		if w.kind == constant {
			w.val *= uint64(m.scale)
		}
		v = v.plusVariable(w)
	}
	if !v.pointer() {
		return content{}
	}
	return v.plus(m.disp)
}

func (x *x86Inst) isMoffs() bool {
	return x.mode == x86Legacy && x.space == 0 && x.op&^3 == 0xA0
}

// x86Ref records the reference of x to at and returns its index, or -1 when
// there is none to record.
func (t *tracker) x86Ref(x *x86Inst, b []byte, pc uint64, at content) int {
	r := Ref{PC: pc, Addr: at.val, Index: at.kind == indexed}
	if x.isLEA() {
		r.Op = x86asm.LEA.String()
		return t.add(r)
	}
	if x.mode != x86Legacy { // see Instruction.VEX
		return t.add(r)
	}
	inst, err := x86asm.Decode(b, 64)
	if err != nil || inst.Len != x.len {
		return t.add(r)
	}
	if x86NoAccess[inst.Op] {
		return -1
	}
	r.Op = inst.Op.String()
	arg := x86MemArg(&inst)
	if arg < 0 && !x.isMoffs() {
		return t.add(r)
	}
	r.Read, r.Write = x86Access(inst.Op, arg)
	if r.Read || r.Write {
		r.Size = inst.MemBytes
	}
	if r.Write && !r.Read || x86Compares[inst.Op] {
		r.Imm = t.x86Operand(inst.Args[1-min(arg, 1)])
	}
	return t.add(r)
}

// x86MemArg returns the position of the memory operand, or -1.
func x86MemArg(inst *x86asm.Inst) int {
	for i, a := range inst.Args {
		if _, ok := a.(x86asm.Mem); ok {
			return i
		}
	}
	return -1
}

// x86Operand returns the value of an operand when it is known.
func (t *tracker) x86Operand(a x86asm.Arg) *int64 {
	switch a := a.(type) {
	case x86asm.Imm:
		n := int64(a)
		return &n
	case x86asm.Reg:
		if r := x86GPR(a); r >= 0 {
			return t.stored(r)
		}
	}
	return nil
}

// x86GPR numbers a general register that is named by its low part or whole; -1 for others.
func x86GPR(r x86asm.Reg) int {
	switch {
	case r >= x86asm.RAX && r <= x86asm.R15:
		return int(r - x86asm.RAX)
	case r >= x86asm.EAX && r <= x86asm.R15L:
		return int(r - x86asm.EAX)
	case r >= x86asm.AX && r <= x86asm.R15W:
		return int(r - x86asm.AX)
	case r >= x86asm.AL && r <= x86asm.BL:
		return int(r - x86asm.AL)
	case r >= x86asm.SPB && r <= x86asm.R15B:
		return int(r-x86asm.SPB) + 4
	}
	return -1
}

var x86Compares = map[x86asm.Op]bool{x86asm.CMP: true, x86asm.TEST: true}

// x86ReadsFirst are the instructions that only read a memory operand in first place.
var x86ReadsFirst = map[x86asm.Op]bool{
	x86asm.CMP: true, x86asm.TEST: true, x86asm.BT: true, x86asm.PUSH: true,
	x86asm.CALL: true, x86asm.JMP: true, x86asm.MUL: true, x86asm.IMUL: true,
	x86asm.DIV: true, x86asm.IDIV: true, x86asm.COMISD: true, x86asm.COMISS: true,
	x86asm.UCOMISD: true, x86asm.UCOMISS: true, x86asm.LDMXCSR: true,
	x86asm.FLD: true, x86asm.FILD: true, x86asm.FLDCW: true, x86asm.FXRSTOR: true,
	x86asm.XRSTOR: true,
}

// x86Updates are the instructions that read and write a memory operand in first place.
var x86Updates = map[x86asm.Op]bool{
	x86asm.ADD: true, x86asm.ADC: true, x86asm.SUB: true, x86asm.SBB: true,
	x86asm.AND: true, x86asm.OR: true, x86asm.XOR: true, x86asm.INC: true,
	x86asm.DEC: true, x86asm.NEG: true, x86asm.NOT: true, x86asm.XADD: true,
	x86asm.XCHG: true, x86asm.CMPXCHG: true, x86asm.CMPXCHG8B: true,
	x86asm.CMPXCHG16B: true, x86asm.BTS: true, x86asm.BTR: true, x86asm.BTC: true,
	x86asm.SHL: true, x86asm.SHR: true, x86asm.SAR: true, x86asm.ROL: true,
	x86asm.ROR: true, x86asm.RCL: true, x86asm.RCR: true, x86asm.SHLD: true,
	x86asm.SHRD: true,
}

// x86NoAccess are the instructions whose memory operand means nothing to the program.
var x86NoAccess = map[x86asm.Op]bool{
	x86asm.NOP: true, x86asm.PREFETCHNTA: true, x86asm.PREFETCHT0: true,
	x86asm.PREFETCHT1: true, x86asm.PREFETCHT2: true, x86asm.PREFETCHW: true,
}

// x86Access says what op does to its memory operand, which stands at position arg.
func x86Access(op x86asm.Op, arg int) (read, write bool) {
	switch {
	case op == x86asm.XCHG:
		return true, true
	case arg != 0:
		return true, false
	case x86ReadsFirst[op]:
		return true, false
	case x86Updates[op]:
		return true, true
	}
	return false, true
}
