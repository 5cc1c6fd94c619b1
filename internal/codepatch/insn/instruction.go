package insn

// Flow is what an instruction does to the order of execution.
type Flow uint8

const (
	FlowNext     Flow = Flow(flowNext)    // goes on to the next instruction
	FlowCond     Flow = Flow(flowCond)    // conditional branch to a fixed address
	FlowJump     Flow = Flow(flowJump)    // unconditional branch to a fixed address
	FlowIndirect Flow = Flow(flowJumpReg) // unconditional branch to a computed address
	FlowCall     Flow = Flow(flowCall)    // call of a fixed address
	FlowCallReg  Flow = Flow(flowCallReg) // call of a computed address
	FlowReturn   Flow = Flow(flowRet)     // return
	FlowTrap     Flow = Flow(flowTrap)    // never goes on (undefined instruction, breakpoint, hlt)
)

// EndsBlock says whether execution never passes to the next instruction.
func (f Flow) EndsBlock() bool { return flow(f).endsBlock() }

// Instruction is one instruction of a function as somebody sees it who wants
// to move it.
type Instruction struct {
	PC     uint64
	Len    int
	Flow   Flow
	Target uint64 // of FlowCond, FlowJump and FlowCall
	// Valid is false for bytes that encode no instruction, and for the few
	// encodings whose length or target differs between processors.
	Valid bool
	// VEX says that an instruction of amd64 has a VEX, EVEX or XOP prefix.
	// Versions of x86asm without AVX decode it as another instruction.
	VEX bool
	// PCRelField is where in an amd64 instruction the 32-bit displacement of an
	// operand relative to the program counter stands, in bytes from its start;
	// 0 when it has none. The operand is at PCRelAddr.
	PCRelField int
	PCRelAddr  uint64
	// SPMoved is how many bytes it lowers the stack pointer, the return address
	// of a call left out; SPKnown says that this is right.
	SPMoved int
	SPKnown bool
}

// Next is the address behind the instruction.
func (i Instruction) Next() uint64 { return i.PC + uint64(i.Len) }

// Instructions returns all instructions of c in order of address. Unlike the
// functions that find places for probes it tells what it does not understand.
func Instructions(c Code) ([]Instruction, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Arch == ARM64 {
		return armInstructions(c), nil
	}
	list := make([]Instruction, 0, len(c.Bytes)/4+1)
	var x x86Inst
	for off := 0; off < len(c.Bytes); off += x.len {
		x.decode(c.Bytes[off:])
		list = append(list, x.instruction(c.Entry+uint64(off)))
	}
	return list, nil
}

func armInstructions(c Code) []Instruction {
	list := make([]Instruction, 0, len(c.Bytes)/4)
	for off := 0; off+4 <= len(c.Bytes); off += 4 {
		w := armWord(c.Bytes[off:])
		i := Instruction{PC: c.Entry + uint64(off), Len: 4, Valid: true}
		f, target := armFlow(w, i.PC)
		i.Flow, i.Target = Flow(f), target
		if f == flowNext {
			e := armEffect(w)
			i.SPMoved, i.SPKnown = e.spMoved, e.spKnown
		} else {
			i.SPKnown = true
		}
		list = append(list, i)
	}
	return list
}

// instruction describes x, which stands at pc.
func (x *x86Inst) instruction(pc uint64) Instruction {
	i := Instruction{PC: pc, Len: x.len, Valid: x.valid, VEX: x.mode != x86Legacy}
	f, target := x.flow(pc)
	if x.isXBEGIN() {
		f, target = flowCond, pc+uint64(x.len)+uint64(x.imm)
	}
	i.Flow, i.Target = Flow(f), target
	if x.pfx&x86OpSize != 0 && f != flowNext && f != flowTrap {
		i.Valid = false // some processors then read a target of 16 bits
	}
	if x.mem.kind == x86RIPMem {
		i.PCRelField = x.len - x.immLen - x.mem.dispLen
		i.PCRelAddr = i.Next() + uint64(x.mem.disp)
	}
	if f == flowNext && x.valid {
		e := x.effect()
		i.SPMoved, i.SPKnown = e.spMoved, e.spKnown
	} else {
		i.SPKnown = x.valid
	}
	return i
}

// isXBEGIN says whether x starts a transaction; when that fails it goes on at
// its target.
func (x *x86Inst) isXBEGIN() bool {
	return x.legacy(0, 0xC7) && x.hasModRM && x.modrm == 0xF8
}
