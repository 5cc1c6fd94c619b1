package insn

// Return is one return instruction of a function.
type Return struct {
	Site // the instruction itself; SPMoved is 0
	// Early is an emulated instruction a little before it, when there is one:
	// whoever passes there returns here, with all results in their final
	// place. It is nil otherwise, which on amd64 is the rule: the end of a
	// frame is ADD, POP and RET, none of them emulated. On arm64 the return
	// itself is emulated and Early is always nil.
	Early *Site
	// Frame is the instruction before it that removes the frame, if a jump can
	// replace that instruction alone: on amd64, where the frame is large. All
	// results are in their final place there. Otherwise it is nil.
	Frame *Site
}

// Returns returns the return instructions of c, in order of address. Functions
// can also be left by the jumps that [Calls] marks as tail calls.
func Returns(c Code) ([]Return, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	p := prologue{code: c}
	var returns []Return
	var steps []step // the straight code since the last join or branch
	joins := branchTargets(c)
	walk(c, func(s step) {
		if joins.has(s.off) {
			steps = steps[:0]
		}
		steps = append(steps, s)
		if s.flow == flowRet {
			r := Return{Site: p.newSite(s, SiteReturn, 0)}
			if !r.Emulated {
				r.Early = p.earlyReturn(steps)
			}
			r.Frame = p.frameRemoved(steps)
			returns = append(returns, r)
		}
		if s.flow != flowNext {
			steps = steps[:0]
		}
	})
	return returns, nil
}

// earlyReturn looks backwards through straight code that ends with a return
// for an emulated instruction after which no result changes.
func (p *prologue) earlyReturn(steps []step) *Site {
	abi := callABIs[p.code.Arch]
	moved := 0
	for i := len(steps) - 2; i >= 0; i-- {
		s := steps[i]
		e := p.effect(s.off)
		moved -= e.spMoved
		site := p.newSite(s, siteKind(p.code, s), moved)
		if site.Emulated && !widelyEmulated.Before(site.Since) {
			return &site
		}
		if e.writes&abi.mask != 0 || !e.spKnown || e.storesAt >= 0 {
			return nil
		}
	}
	return nil
}

// frameRemoved looks backwards through straight code that ends with a return
// for the instruction that removes the frame.
func (p *prologue) frameRemoved(steps []step) *Site {
	if p.code.Arch != AMD64 {
		return nil
	}
	abi := callABIs[AMD64]
	moved := 0
	for i := len(steps) - 2; i >= 0; i-- {
		s := steps[i]
		e := p.effect(s.off)
		if e.writes&abi.mask != 0 || !e.spKnown || e.storesAt >= 0 {
			return nil
		}
		if moved -= e.spMoved; e.spMoved < 0 && s.len > jumpLen {
			site := p.newSite(s, SiteBody, moved)
			return &site
		}
	}
	return nil
}
