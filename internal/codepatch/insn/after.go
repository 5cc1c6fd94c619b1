package insn

import "cmp"

// AfterCall returns two places after the call instruction at pc where the first words result words of the call are still in registers:
// the first instruction that is longer than a jump, before which the registers that a stub may change are unused, and the first one that
// the kernel emulates. Where there is no such instruction, it is the one that follows the call. AfterCall returns none if the code also
// gets there in another way, or if the release passes results on the stack.
func AfterCall(c Code, minor, words int, pc uint64) ([]Site, error) {
	if err := c.check(); err != nil || !c.contains(pc) {
		return nil, err
	}
	abi := callABIs[c.Arch]
	if minor < abi.regsSince || words > min(MaxResults, len(abi.regs)) {
		return nil, nil
	}
	p := prologue{code: c, minor: minor}
	for _, name := range abi.regs[:words] {
		p.keep |= 1 << regNumber(c.Arch, name)
	}
	var next, roomy, cheap *Site
	written := uint32(0) // registers
	joins := branchTargets(c)
	call := p.stepAt(int(pc - c.Entry))
	for off, n := call.off+call.len, 0; off < len(c.Bytes) && n < maxPrologue && !joins.has(off); n++ {
		s := p.stepAt(off)
		kind := siteKind(c, s)
		if kind == SiteEntry {
			kind = SiteBody
		}
		site := p.newSite(s, kind, 0)
		site.Emulated = site.Emulated && !widelyEmulated.Before(site.Since)
		stub := written&scratch[c.Arch] == 0 // a stub could be here
		if next == nil {
			next = &site
		}
		if roomy == nil && s.flow == flowNext && stub && (c.Arch == ARM64 || s.len > jumpLen) {
			roomy = &site
		}
		// At a branch of amd64 the flags are live, so it never has a stub. At a call these registers are not.
		if cheap == nil && site.Emulated && (stub || c.Arch == AMD64 && s.flow == flowCond || s.flow == flowCall) {
			cheap = &site
		}
		e := p.effect(off)
		if roomy != nil && cheap != nil || s.flow != flowNext || e.writes&p.keep != 0 || !e.spKnown || e.spMoved != 0 {
			break
		}
		written |= e.writes
		off += s.len
	}
	if next == nil {
		return nil, nil
	}
	return []Site{*cmp.Or(roomy, next), *cmp.Or(cheap, next)}, nil
}
