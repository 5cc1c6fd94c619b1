package insn

// LaterSites returns the places behind a function's first instruction, and behind its stack check, that every call passes
// exactly once, with the first words argument words still where the caller puts them and the registers that a stub may
// change still unused. They are in order of address; whether the kernel emulates them does not matter. neverReturns is the
// address of runtime.throw: ways that lead there are no concern.
func LaterSites(c Code, minor, words int, neverReturns uint64) ([]Site, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	abi := callABIs[c.Arch]
	p := prologue{code: c, minor: minor}
	if words > 0 {
		p.keep = argMask(c.Arch, minor, words) &^ (1 << abi.ctxt)
		p.stackArgs = minor < abi.regsSince
	}
	return p.later(neverReturns), nil
}

// scratch are the registers that stubs change: no argument is in them. framePointers are the numbers of the frame pointers.
var (
	scratch       = map[string]uint32{AMD64: 1<<12 | 1<<13, ARM64: 1<<16 | 1<<17 | 0x7F<<19}
	framePointers = map[string]int{AMD64: x86BP, ARM64: 29}
)

func (p *prologue) later(neverReturns uint64) []Site {
	abi, overwritten := callABIs[p.code.Arch], p.keep|scratch[p.code.Arch]
	g, behind := GReg(p.code.Arch, p.minor), 1 // behind is the first offset that a site may have
	check, checked := p.stackCheck()
	if checked {
		behind = check.off + check.len
	}
	var sites []Site
	moved, framed, branched := 0, false, false
	for off, n := p.start, 0; off < len(p.code.Bytes) && n < maxPrologue; n++ {
		s := p.stepAt(off)
		if off >= behind && p.passedOnce(off, neverReturns) {
			sites = append(sites, p.laterSite(s, moved, framed, g))
		}
		off += s.len
		switch s.flow {
		case flowNext:
		case flowCond, flowJump:
			branched = branched || off > behind
			continue
		case flowCall, flowCallReg:
			if p.keep != 0 {
				return sites
			}
			branched, g = true, GReg(p.code.Arch, p.minor)
			continue
		default:
			return sites
		}
		e := p.effect(s.off)
		if checked && s.off < check.off { // what the stack check computes is of no use behind it
			if e.writes&p.keep != 0 {
				return sites
			}
			if p.minor < abi.gSince {
				g = abi.splitG
			}
			continue
		}
		if e.writes&overwritten != 0 || !e.spKnown || branched && e.spMoved != 0 ||
			p.stackArgs && e.storesAt >= moved+abi.stackArgs {
			return sites
		}
		moved += e.spMoved
		framed = framed || e.writes>>framePointers[p.code.Arch]&1 != 0
		if g != "" && g == abi.splitG && e.writes>>regNumber(p.code.Arch, g)&1 != 0 {
			g = ""
		}
	}
	return sites
}

func (p *prologue) laterSite(s step, moved int, framed bool, g string) Site {
	kind := siteKind(p.code, s)
	if kind == SiteEntry {
		kind = SiteBody
	}
	site := p.newSite(s, kind, moved)
	site.Framed, site.GReg = framed, g
	return site
}

// passedOnce reports whether every call of the function that returns passes off, and only once: no branch leads past it
// from before, none back to it, and the function is not left before.
func (p *prologue) passedOnce(off int, neverReturns uint64) bool {
	once := true
	walk(p.code, func(s step) {
		switch s.flow {
		case flowCond, flowJump:
			to := s.target - p.code.Entry
			switch inside := p.code.contains(s.target); {
			case s.off >= off:
				once = once && (!inside || to > uint64(off) || to == uint64(p.start)) // back to the start when the stack has grown
			case inside && to > uint64(off):
				once = once && (s.flow == flowCond && p.growsStack(s.target) || p.ends(s.target, neverReturns))
			default:
				once = once && inside
			}
		case flowRet, flowJumpReg:
			once = once && s.off >= off
		}
	})
	return once
}

// ends reports whether the code at target does nothing but call a function that never returns.
func (p *prologue) ends(target, neverReturns uint64) bool {
	for n := 0; p.code.contains(target) && n < maxPrologue; n++ {
		s := p.stepAt(int(target - p.code.Entry))
		switch {
		case s.flow == flowCall:
			return s.target == neverReturns
		case s.flow != flowNext:
			return false
		}
		target += uint64(s.len)
	}
	return false
}
