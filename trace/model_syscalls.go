package trace

import "strconv"

// goSyscallBegin handles GoSyscallBegin.
func (md *model) goSyscallBegin(c *modelCursor) modelVerdict {
	g, ok := md.running(c, modelGoRunning, modelNeedProc|modelNeedGo)
	if !ok {
		return modelBad
	}
	if g != nil {
		g.status = modelGoSyscall
	}
	t := c.thread
	if t.pid == modelNone {
		return modelDone
	}
	// The number is that of the P, so that it is known which system call the P is taken from.
	p, seq := t.p, c.args[0]
	p.status = modelProcSyscall
	if p.seq.precedes(md.number, seq) {
		p.seq.set(md.number, seq)
		return modelDone
	}
	if p.seq.gen != md.number {
		md.bad(c, CodeNoStatus, "%s with P %d, whose status the generation has not told", md.name(c), p.id)
	} else {
		md.bad(c, CodeProcSequence, "%s with sequence number %d for P %d, not %d", md.name(c), seq, p.id, p.seq.n+1)
	}
	p.seq.force(md.number, seq)
	return md.afterProblem()
}

// goSyscallEnd handles GoSyscallEnd: a system call during which the P was not taken away.
func (md *model) goSyscallEnd(c *modelCursor) modelVerdict {
	g, ok := md.running(c, modelGoSyscall, modelNeedProc|modelNeedGo)
	if !ok {
		return modelBad
	}
	if g != nil {
		g.status = modelGoRunning
	}
	t := c.thread
	if t.pid == modelNone {
		return modelDone
	}
	if t.p.status != modelProcSyscall {
		md.bad(c, CodeProcStatus, "%s with P %d, which is %s, not in a system call", md.name(c), t.p.id, modelProcStatusName(t.p.status))
		if !md.lenient {
			return modelBad
		}
	}
	t.p.status = modelProcRunning
	return modelDone
}

// goSyscallEndBlocked handles GoSyscallEndBlocked: a system call during which the P was taken away. It can happen once
// that has.
func (md *model) goSyscallEndBlocked(c *modelCursor) modelVerdict {
	t := c.thread
	if t.pid != modelNone && t.p.status == modelProcSyscall {
		if !md.forced {
			return modelWait
		}
		md.bad(c, CodeProcStatus, "%s, which tells that the P was taken away, on a thread that has P %d", md.name(c), t.pid)
		if !md.lenient {
			return modelBad
		}
		t.p.status = modelProcIdle
		t.pid, t.unsureP = modelNone, true
	}
	g, ok := md.running(c, modelGoSyscall, modelNeedGo)
	if !ok {
		return modelBad
	}
	if g != nil {
		g.status = modelGoRunnable
	}
	t.gid, t.unsureG = modelNone, false
	return modelDone
}

// goCreateSyscall handles GoCreateSyscall: a thread that C has made calls Go.
func (md *model) goCreateSyscall(c *modelCursor) modelVerdict {
	if !md.has(c, 0) || !md.isNew(c) {
		return modelBad
	}
	t := c.thread
	if t.gid != modelNone {
		md.bad(c, CodeSecondGoroutine, "%s of goroutine %d on a thread that has goroutine %d", md.name(c), c.args[0], t.gid)
		if !md.lenient {
			return modelBad
		}
	}
	g := md.newGo(c.args[0], modelGoSyscall)
	t.bindGo(g)
	t.unsureG = false
	return modelDone
}

// goDestroySyscall handles GoDestroySyscall: the thread of GoCreateSyscall has gone back to C for good. A P that it still
// has is abandoned: the ID of the thread may be used again, and the P taken from there.
func (md *model) goDestroySyscall(c *modelCursor) modelVerdict {
	g, ok := md.running(c, modelGoSyscall, modelNeedGo)
	if !ok {
		return modelBad
	}
	if g != nil {
		md.endGo(g)
	}
	t := c.thread
	t.gid, t.unsureG = modelNone, false
	if t.pid == modelNone {
		return modelDone
	}
	if t.p.status != modelProcSyscall {
		md.bad(c, CodeProcStatus, "%s with P %d, which is %s, not in a system call", md.name(c), t.pid, modelProcStatusName(t.p.status))
		if !md.lenient {
			return modelBad
		}
	}
	t.p.status = modelProcAbandoned
	t.pid = modelNone
	md.stolen = true
	return modelDone
}

// modelGoText returns "goroutine 7" for an ID, "none" for modelNone.
func modelGoText(id uint64) string {
	if id == modelNone {
		return "none"
	}
	return "goroutine " + strconv.FormatUint(id, 10)
}
