package insn

// LocalArg returns the offset from the stack pointer of the variable whose address is argument word n of the call at pc. ok is false if
// the word is something else, or if the code gets to the call in several ways after it was computed.
func LocalArg(c Code, minor int, pc uint64, n int) (offset int, ok bool) {
	abi := callABIs[c.Arch]
	if c.check() != nil || !c.contains(pc) || minor < abi.regsSince || n >= len(abi.regs) {
		return 0, false
	}
	reg := regNumber(c.Arch, abi.regs[n])
	joins := branchTargets(c)
	walk(c, func(s step) {
		at := c.Entry + uint64(s.off)
		if at > pc {
			return
		}
		if joins.has(s.off) {
			ok = false
		}
		if at == pc {
			return
		}
		e := effectAt(c, s.off)
		switch {
		case s.flow != flowNext, !e.spKnown, e.spMoved != 0:
			ok = false
		case e.writes>>reg&1 != 0:
			offset, ok = localAddress(c, s.off)
		}
	})
	return offset, ok
}

// localAddress returns the offset from the stack pointer of the address that the instruction at off computes.
func localAddress(c Code, off int) (offset int, ok bool) {
	if c.Arch == ARM64 {
		w := armWord(c.Bytes[off:])
		if w>>22 != 0b1001000100 || armRn(w) != armZero { // ADD $offset, SP, register
			return 0, false
		}
		return int(w >> 10 & 0xFFF), true
	}
	const wide = 8 // REX.W
	var x x86Inst
	x.decode(c.Bytes[off:])
	if !x.valid || !x.isLEA() || x.rex&wide == 0 || x.pfx != 0 || x.mem.kind != x86RegMem || x.mem.base != x86SP || x.mem.index >= 0 {
		return 0, false
	}
	return int(x.mem.disp), true
}

// Ahead returns the instructions at which the code first arrives after the call at pc and for which suitable is true, on each way. A way ends
// without one at another call, at the end of the function, and where the word at an offset from the stack pointer is overwritten.
func Ahead(c Code, minor int, pc uint64, local int, suitable func(Place) bool) []Site {
	if c.check() != nil || !c.contains(pc) {
		return nil
	}
	type way struct {
		off     int
		written uint32 // registers
	}
	p := prologue{code: c, minor: minor}
	call := p.stepAt(int(pc - c.Entry))
	seen := newOffsetSet(len(c.Bytes))
	var sites []Site
	for work := []way{{off: call.off + call.len}}; len(work) > 0; {
		w := work[len(work)-1]
		work = work[:len(work)-1]
		if w.off >= len(c.Bytes) || seen.has(w.off) {
			continue
		}
		seen.add(w.off)
		s, e := p.stepAt(w.off), p.effect(w.off)
		if suitable(Place{Target: s.target, Call: s.flow == flowCall, Roomy: s.flow == flowNext && w.written&scratch[c.Arch] == 0 && replaceable(c, s)}) {
			kind := SiteBody
			if s.flow == flowCall {
				kind = SiteCall
			}
			sites = append(sites, p.newSite(s, kind, 0))
			continue
		}
		overwritten := e.storesAt > local-8 && e.storesAt < local+8
		if s.flow == flowCall || s.flow == flowCallReg || !e.spKnown || e.spMoved != 0 || overwritten {
			continue
		}
		for _, next := range p.following(s) {
			work = append(work, way{next, w.written | e.writes})
		}
	}
	return sites
}

// A Place is what Ahead knows of an instruction.
type Place struct {
	Call   bool // it is a direct call
	Target uint64
	Roomy  bool // it can be replaced by a jump of its own length
}

// replaceable reports whether an amd64 instruction can be replaced by a jump that begins with the same byte, a REX prefix, and does not fault
// elsewhere.
func replaceable(c Code, s step) bool {
	if c.Arch != AMD64 || s.len <= jumpLen || c.Bytes[s.off]&0xF0 != 0x40 {
		return false
	}
	var x x86Inst
	x.decode(c.Bytes[s.off:])
	return x.valid && (x.isLEA() || x.mem.kind == x86NoMem || x.mem.kind == x86RegMem && x.mem.base == x86SP && x.mem.index < 0)
}
