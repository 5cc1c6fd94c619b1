package insn

// An Exit is a way out of a function: the last call before a return
// instruction, after which the code only loads the results and removes the
// frame. Functions with deferred calls end like this. Their results are on the
// stack, because a deferred call may change them.
type Exit struct {
	PC     uint64 // the call instruction
	Target uint64 // the function that is called; 0 if the address is computed
	// After is the first instruction after the call that loads a result and is
	// longer than a jump, or else the instruction after the call. The results
	// are still in their slots there.
	After uint64
	// Results are the offsets from the stack pointer at the call instruction of
	// the words that are loaded into the result registers.
	Results []int
}

// jumpLen is the length of an amd64 jump with 32 bits of displacement.
const jumpLen = 5

// Exits returns the exits of an amd64 function whose first words result words
// are in registers, one for each return instruction and in their order. ok is
// false if a return instruction has no such call before it, as in functions
// without deferred calls, and for other architectures.
func Exits(c Code, words int) (exits []Exit, ok bool) {
	if c.check() != nil || c.Arch != AMD64 || words > MaxResults {
		return nil, false
	}
	ok = true
	var steps []step // the straight code since the last join
	joins := branchTargets(c)
	walk(c, func(s step) {
		if joins.has(s.off) {
			steps = steps[:0]
		}
		steps = append(steps, s)
		if s.flow == flowRet {
			e, found := exitAt(c, steps, words)
			ok = ok && found
			exits = append(exits, e)
		}
		if s.flow.endsBlock() {
			steps = steps[:0]
		}
	})
	return exits, ok && len(exits) > 0
}

// exitAt returns the exit of straight code that ends with a return.
func exitAt(c Code, steps []step, words int) (Exit, bool) {
	abi := callABIs[AMD64]
	slots := map[int]int{} // by register
	unknown := uint32(0)   // registers that are written in another way
	after := 0             // the offset of the first long load; 0: none yet
	for i := len(steps) - 2; i >= 0; i-- {
		s := steps[i]
		switch s.flow {
		case flowNext:
		case flowCall, flowCallReg:
			e := Exit{PC: c.Entry + uint64(s.off), Target: s.target, After: c.Entry + uint64(after)}
			if e.After == c.Entry {
				e.After += uint64(s.off + s.len)
			}
			for _, name := range abi.regs[:words] {
				slot, ok := slots[regNumber(AMD64, name)]
				if !ok {
					return Exit{}, false
				}
				e.Results = append(e.Results, slot)
			}
			return e, true
		default:
			return Exit{}, false
		}
		var x x86Inst
		x.decode(c.Bytes[s.off:])
		reg, slot, loads := x.loadedFromStack()
		if loads && s.len > jumpLen {
			after = s.off
		}
		_, known := slots[reg]
		e := x.effect()
		switch {
		case loads && !known && unknown>>reg&1 == 0:
			slots[reg] = slot
		case !loads && e.writes&abi.mask != 0:
			unknown |= e.writes
		}
		if e.spMoved != 0 || !e.spKnown {
			if len(slots) > 0 { // the loads follow: their offsets are not those at the call
				return Exit{}, false
			}
		}
	}
	return Exit{}, false
}

// loadedFromStack returns the register and the offset if x is MOV
// offset(SP), register of 64 bits.
func (x *x86Inst) loadedFromStack() (reg, offset int, ok bool) {
	const wide = 8 // REX.W
	if !x.valid || !x.legacy(0, 0x8B) || x.rex&wide == 0 || x.pfx != 0 || x.mem.kind != x86RegMem || x.mem.base != x86SP || x.mem.index >= 0 {
		return 0, 0, false
	}
	return x.regField(), int(x.mem.disp), true
}
