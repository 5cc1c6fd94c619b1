package trace

import "strconv"

// procStart handles ProcStart: a thread takes a P.
func (md *model) procStart(c *modelCursor) modelVerdict {
	id, seq := c.args[0], c.args[1]
	t := c.thread
	p := md.procs.find(id)
	if p == nil || p.status != modelProcIdle || t.pid != modelNone || !p.seq.precedes(md.number, seq) {
		if !md.forced {
			return modelWait
		}
		if p = md.forceStart(c, p, seq); p == nil {
			return modelBad
		}
	} else {
		p.seq.set(md.number, seq)
	}
	if t.id == modelNone {
		return md.bad(c, CodeNoThread, "%s in a batch of no thread", md.name(c))
	}
	p.status = modelProcRunning
	t.bindProc(p)
	t.unsureP = false
	return modelDone
}

// forceStart reports why a P cannot be taken, and returns it as the event has it; nil if the Error ends all.
func (md *model) forceStart(c *modelCursor, p *modelProc, seq uint64) *modelProc {
	id := c.args[0]
	name := md.name(c)
	owner := md.owner(p)
	switch {
	case p == nil:
		md.bad(c, CodeUnknownProc, "%s of P %d, of which the trace has not told before", name, id)
	case p.seq.gen != md.number:
		md.bad(c, CodeNoStatus, "%s of P %d, whose status the generation has not told", name, id)
	case c.thread.pid != modelNone:
		md.bad(c, CodeSecondProc, "%s of P %d on a thread that has P %d", name, id, c.thread.pid)
	case owner != nil && owner != c.thread:
		md.bad(c, CodeProcOnTwo, "%s of P %d, which thread %d has", name, id, owner.id)
	case p.status != modelProcIdle:
		md.bad(c, CodeProcStatus, "%s of P %d, which is %s, not idle", name, id, modelProcStatusName(p.status))
	default:
		md.bad(c, CodeProcSequence, "%s of P %d with sequence number %d, not %d", name, id, seq, p.seq.n+1)
	}
	if !md.lenient {
		return nil
	}
	if owner != nil && owner != c.thread {
		owner.pid, owner.unsureP = modelNone, true
	}
	if c.thread.pid != modelNone && c.thread.p != p {
		c.thread.p.status = modelProcIdle
	}
	return md.forceSeq(p, id, seq)
}

// forceSeq gives a P the sequence number that is written, and makes it if there is none.
func (md *model) forceSeq(p *modelProc, id, seq uint64) *modelProc {
	if p == nil {
		p = md.newProc(id, modelProcIdle)
		p.seq.set(md.number, seq)
	} else {
		p.seq.force(md.number, seq)
	}
	return p
}

// owner returns the thread that has a P; nil if none has.
func (md *model) owner(p *modelProc) *modelThread {
	if p == nil || p.thread == nil || p.thread.pid != p.id || p.id == modelNone {
		return nil
	}
	return p.thread
}

// procStop handles ProcStop: a thread gives up its P.
func (md *model) procStop(c *modelCursor) modelVerdict {
	t := c.thread
	if t.pid == modelNone {
		if !md.lacks(c, modelNeedProc) {
			return modelBad
		}
		t.unsureP = false
		return modelDone
	}
	p := t.p
	if p.status != modelProcRunning && p.status != modelProcSyscall {
		md.bad(c, CodeProcStatus, "%s of P %d, which is %s", md.name(c), p.id, modelProcStatusName(p.status))
		if !md.lenient {
			return modelBad
		}
	}
	p.status = modelProcIdle
	t.pid = modelNone
	return modelDone
}

// procSteal handles ProcSteal: a thread takes the P of another one, which is in a system call, or of itself.
func (md *model) procSteal(c *modelCursor) modelVerdict {
	id, seq, from := c.args[0], c.args[1], c.args[2]
	p := md.procs.find(id)
	if p == nil || p.status != modelProcSyscall && p.status != modelProcAbandoned || !p.seq.precedes(md.number, seq) {
		if !md.forced {
			return modelWait
		}
		if p = md.forceSteal(c, p, seq); p == nil {
			return modelBad
		}
	} else {
		p.seq.set(md.number, seq)
	}
	if c.thread.id == modelNone {
		return md.bad(c, CodeNoThread, "%s in a batch of no thread", md.name(c))
	}
	abandoned := p.status == modelProcAbandoned
	p.status = modelProcIdle
	if abandoned {
		return modelDone // by whom is lost
	}
	t := c.thread
	if from != t.id {
		t = md.threads.find(from)
		if from == modelNone || t == nil || !t.seen {
			return md.bad(c, CodeWrongThread, "%s of P %d from a thread of which the trace has not told", md.name(c), id)
		}
	}
	if t.pid != id {
		if t.unsureP && t.pid == modelNone {
			t.unsureP = false
			return modelDone
		}
		return md.bad(c, CodeWrongThread, "%s of P %d from thread %d, which has %s", md.name(c), id, t.id, modelProcText(t.pid))
	}
	t.pid = modelNone
	return modelDone
}

// forceSteal reports why a P cannot be taken away, and returns it as the event has it; nil if the Error ends all.
func (md *model) forceSteal(c *modelCursor, p *modelProc, seq uint64) *modelProc {
	id, name := c.args[0], md.name(c)
	switch {
	case p == nil:
		md.bad(c, CodeUnknownProc, "%s of P %d, of which the trace has not told before", name, id)
	case p.seq.gen != md.number:
		md.bad(c, CodeNoStatus, "%s of P %d, whose status the generation has not told", name, id)
	case p.status != modelProcSyscall && p.status != modelProcAbandoned:
		md.bad(c, CodeProcStatus, "%s of P %d, which is %s, not in a system call", name, id, modelProcStatusName(p.status))
	default:
		md.bad(c, CodeProcSequence, "%s of P %d with sequence number %d, not %d", name, id, seq, p.seq.n+1)
	}
	if !md.lenient {
		return nil
	}
	if owner := md.owner(p); owner == nil && p != nil {
		p.status = modelProcAbandoned // nobody to take it from
	}
	return md.forceSeq(p, id, seq)
}

// procStatus handles ProcStatus.
func (md *model) procStatus(c *modelCursor) modelVerdict {
	id, status := c.args[0], modelStatus(c.args[1])
	if status >= modelProcStatuses {
		return md.bad(c, CodeBadStatus, "%s of P %d with status %d, which does not exist", md.name(c), id, c.args[1])
	}
	if md.checks && (status == modelProcBad || c.args[1] >= uint64(modelProcStatuses)) {
		md.judge.add(Warning, CodeBadStatus, md.at(c), "%s of P %d with status %d, which does not exist", md.name(c), id, c.args[1])
	}
	p := md.procs.find(id)
	md.first = p == nil
	switch {
	case p == nil:
		p = md.newProc(id, status)
	case status == modelProcAbandoned && p.status == modelProcSyscall:
		// It is about to be taken. The event counts as one of the thread that has the P.
		owner := md.owner(p)
		if owner == nil {
			md.bad(c, CodeWrongThread, "P %d is said to be %s, but no thread has it", id, modelProcStatusName(status))
			if !md.lenient {
				return modelBad
			}
			p.status = status
			break
		}
		p.seq.set(md.number, 0)
		md.ctx = modelContext{owner.id, id, owner.gid}
		return modelDone
	case p.status != status:
		md.bad(c, CodeContradiction, "P %d is said to be %s, but is %s by what was told before", id,
			modelProcStatusName(status), modelProcStatusName(p.status))
		if !md.lenient {
			return modelBad
		}
		p.status = status
	}
	p.seq.set(md.number, 0)
	t := c.thread
	if status == modelProcRunning || status == modelProcSyscall {
		md.checkOwner(c, p)
		t.bindProc(p)
		t.unsureP = false
	}
	return modelDone
}

// checkOwner reports a P that is said to belong to a thread that has another one, or that another thread has. Both have it from
// then on, as readers take it: the model is the same whether it checks or not.
func (md *model) checkOwner(c *modelCursor, p *modelProc) {
	t := c.thread
	if !md.checks || t.pid == p.id || t.id == modelNone {
		return
	}
	if o := md.owner(p); o != nil {
		md.judge.addUnlessUnsure(Warning, CodeProcOnTwo, md.at(c), "P %d is said to belong to this thread, but thread %d has it", p.id, o.id)
	}
	if t.pid != modelNone {
		md.judge.addUnlessUnsure(Warning, CodeSecondProc, md.at(c), "P %d is said to belong to this thread, which has P %d", p.id, t.pid)
	}
}

// modelProcText returns "P 3" for an ID, "no P" for modelNone.
func modelProcText(id uint64) string {
	if id == modelNone {
		return "no P"
	}
	return "P " + strconv.FormatUint(id, 10)
}
