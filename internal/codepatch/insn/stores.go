package insn

import "slices"

// StoreSites returns the amd64 instructions that store a register in the word at an offset from the pointer in another
// register, that every call which returns executes exactly once. Site.Object and Site.Value name the registers. On arm64
// nothing requires such sites, and StoreSites returns none.
func StoreSites(c Code, minor int, offset int64) ([]Site, error) {
	if err := c.check(); err != nil || c.Arch != AMD64 {
		return nil, err
	}
	p := prologue{code: c, minor: minor}
	frames, ok := p.frames()
	if !ok {
		return nil, nil
	}
	var sites []Site
	walk(c, func(s step) {
		var x x86Inst
		x.decode(c.Bytes[s.off:])
		object, value, ok := x.storedWord(offset)
		if f, known := frames[s.off]; !ok || !known || f.mixed || !p.onceBeforeReturn(s) {
			return
		}
		site := p.newSite(s, SiteStore, frames[s.off].moved)
		site.Framed, site.Object, site.Value = frames[s.off].framed, object, value
		sites = append(sites, site)
	})
	return sites, nil
}

// readable are the registers that probes can read, by their numbers in machine code.
var readable = map[int]string{x86AX: "RAX", x86CX: "RCX", x86DX: "RDX", x86BX: "RBX", x86SI: "RSI", x86DI: "RDI"}

// storedWord returns the names of the registers if x is MOV value, offset(object) of 64 bits and probes can read both.
func (x *x86Inst) storedWord(offset int64) (object, value string, ok bool) {
	const wide = 8 // REX.W
	if !x.valid || !x.legacy(0, 0x89) || x.rex&wide == 0 || x.pfx != 0 || x.mem.kind != x86RegMem || x.mem.index >= 0 || x.mem.disp != offset {
		return "", "", false
	}
	object, value = readable[int(x.mem.base)], readable[x.regField()]
	return object, value, object != "" && value != ""
}

// frame is the stack at an instruction.
type frame struct {
	moved  int  // bytes that the stack pointer is below its value at entry
	framed bool // the frame pointer is the function's own
	mixed  bool // the ways to the instruction disagree
}

// frames returns the frames of all instructions that are reached from the entry. ok is false if a branch leads to an
// unknown address.
func (p *prologue) frames() (frames map[int]frame, ok bool) {
	frames = map[int]frame{0: {}}
	for work := []int{0}; len(work) > 0; {
		off := work[len(work)-1]
		work = work[:len(work)-1]
		f, s := frames[off], p.stepAt(off)
		if s.flow == flowJumpReg {
			return nil, false
		}
		if s.flow == flowNext {
			e := p.effect(off)
			f.moved += e.spMoved
			f.mixed = f.mixed || !e.spKnown
			f.framed = f.framed != (e.writes>>x86BP&1 != 0) // the first write sets it up, the second one restores the caller's
		}
		for _, to := range p.following(s) {
			old, seen := frames[to]
			switch {
			case !seen:
				frames[to] = f
				work = append(work, to)
			case old != f && !old.mixed:
				old.mixed = true
				frames[to] = old
			}
		}
	}
	return frames, true
}

// StackMoved returns how many bytes the stack pointer is below its value at the
// entry of an amd64 function, at the instruction at pc. ok is false if that is
// not the same for all ways to the instruction.
func StackMoved(c Code, pc uint64) (moved int, ok bool) {
	if c.check() != nil || c.Arch != AMD64 {
		return 0, false
	}
	p := prologue{code: c}
	frames, ok := p.frames()
	f, found := frames[int(pc-c.Entry)]
	return f.moved, ok && found && !f.mixed
}

// following returns the offsets of the instructions that can come after s in the same call. After a branch to the entry
// the call starts over.
func (p *prologue) following(s step) []int {
	var to []int
	if (s.flow == flowCond || s.flow == flowJump) && p.code.contains(s.target) && s.target != p.code.Entry {
		to = append(to, int(s.target-p.code.Entry))
	}
	if next := s.off + s.len; !s.flow.endsBlock() && next < len(p.code.Bytes) {
		to = append(to, next)
	}
	return to
}

// onceBeforeReturn reports whether every way from the entry to a return passes s, and none passes it twice.
func (p *prologue) onceBeforeReturn(s step) bool {
	leaves := func(off int) bool {
		t := p.stepAt(off)
		return t.flow == flowRet || (t.flow == flowCond || t.flow == flowJump) && !p.code.contains(t.target)
	}
	past := p.reached([]int{0}, s.off)
	again := p.reached(p.following(s), -1)
	return !slices.ContainsFunc(past, leaves) && !slices.Contains(again, s.off)
}

// reached returns the offsets of the instructions that are reached from others, without passing one of them.
func (p *prologue) reached(from []int, without int) []int {
	seen := newOffsetSet(len(p.code.Bytes))
	var list []int
	for work := from; len(work) > 0; {
		off := work[len(work)-1]
		work = work[:len(work)-1]
		if off == without || seen.has(off) {
			continue
		}
		seen.add(off)
		list = append(list, off)
		work = append(work, p.following(p.stepAt(off))...)
	}
	return list
}
