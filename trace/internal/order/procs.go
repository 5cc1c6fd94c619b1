package order

import (
	"strconv"

	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/internal/problem"
)

// procStart handles ProcStart: a thread takes a P.
func (md *Model) procStart(c *Cursor) verdict {
	id, seq := c.Args[0], c.Args[1]
	t := c.Thread
	p := md.procs.Find(id)
	if p == nil || p.status != procIdle || t.pid != generation.None || !p.seq.precedes(md.number, seq) {
		if !md.forced {
			return wait
		}
		if p = md.forceStart(c, p, seq); p == nil {
			return bad
		}
	} else {
		p.seq.set(md.number, seq)
	}
	if t.id == generation.None {
		return md.bad(c, problem.NoThread, "%s in a batch without a thread", md.name(c))
	}
	p.status = procRunning
	t.bindProc(p)
	t.unsureP = false
	return done
}

// forceStart reports why a P cannot be taken, and returns it as the event has it; nil if the Error ends all.
func (md *Model) forceStart(c *Cursor, p *Proc, seq uint64) *Proc {
	id := c.Args[0]
	name := md.name(c)
	owner := md.owner(p)
	switch {
	case p == nil:
		md.bad(c, problem.UnknownProc, "%s of unknown P %d", name, id)
	case p.seq.gen != md.number:
		md.bad(c, problem.NoStatus, "%s of P %d, which has no status in this generation", name, id)
	case c.Thread.pid != generation.None:
		md.bad(c, problem.SecondProc, "%s of P %d on a thread that holds P %d", name, id, c.Thread.pid)
	case owner != nil && owner != c.Thread:
		md.bad(c, problem.ProcOnTwo, "%s of P %d, which thread %d holds", name, id, owner.id)
	case p.status != procIdle:
		md.bad(c, problem.ProcStatus, "%s of P %d, which is %s, not idle", name, id, procStatusName(p.status))
	default:
		md.bad(c, problem.ProcSequence, "%s of P %d with sequence number %d, want %d", name, id, seq, p.seq.n+1)
	}
	if !md.lenient {
		return nil
	}
	if owner != nil && owner != c.Thread {
		owner.pid, owner.unsureP = generation.None, true
	}
	if c.Thread.pid != generation.None && c.Thread.p != p {
		c.Thread.p.status = procIdle
	}
	return md.forceSeq(p, id, seq)
}

// forceSeq gives a P the sequence number that is written, and makes it if there is none.
func (md *Model) forceSeq(p *Proc, id, seq uint64) *Proc {
	if p == nil {
		p = md.newProc(id, procIdle)
		p.seq.set(md.number, seq)
	} else {
		p.seq.force(md.number, seq)
	}
	return p
}

// owner returns the thread that has a P; nil if none has.
func (md *Model) owner(p *Proc) *Thread {
	if p == nil || p.thread == nil || p.thread.pid != p.id || p.id == generation.None {
		return nil
	}
	return p.thread
}

// procStop handles ProcStop: a thread gives up its P.
func (md *Model) procStop(c *Cursor) verdict {
	t := c.Thread
	if t.pid == generation.None {
		if !md.lacks(c, needProc) {
			return bad
		}
		t.unsureP = false
		return done
	}
	p := t.p
	if p.status != procRunning && p.status != procSyscall {
		md.bad(c, problem.ProcStatus, "%s of P %d, which is %s", md.name(c), p.id, procStatusName(p.status))
		if !md.lenient {
			return bad
		}
	}
	p.status = procIdle
	t.pid = generation.None
	return done
}

// procSteal handles ProcSteal: a thread takes the P of another one, which is in a system call, or of itself.
func (md *Model) procSteal(c *Cursor) verdict {
	id, seq, from := c.Args[0], c.Args[1], c.Args[2]
	p := md.procs.Find(id)
	if p == nil || p.status != procSyscall && p.status != procAbandoned || !p.seq.precedes(md.number, seq) {
		if !md.forced {
			return wait
		}
		if p = md.forceSteal(c, p, seq); p == nil {
			return bad
		}
	} else {
		p.seq.set(md.number, seq)
	}
	if c.Thread.id == generation.None {
		return md.bad(c, problem.NoThread, "%s in a batch without a thread", md.name(c))
	}
	abandoned := p.status == procAbandoned
	p.status = procIdle
	if abandoned {
		return done // by whom is lost
	}
	t := c.Thread
	if from != t.id {
		t = md.threads.Find(from)
		if from == generation.None || t == nil || !t.seen {
			return md.bad(c, problem.WrongThread, "%s of P %d from an unknown thread", md.name(c), id)
		}
	}
	if t.pid != id {
		if t.unsureP && t.pid == generation.None {
			t.unsureP = false
			return done
		}
		return md.bad(c, problem.WrongThread, "%s of P %d from thread %d, which holds %s", md.name(c), id, t.id, procText(t.pid))
	}
	t.pid = generation.None
	return done
}

// forceSteal reports why a P cannot be taken away, and returns it as the event has it; nil if the Error ends all.
func (md *Model) forceSteal(c *Cursor, p *Proc, seq uint64) *Proc {
	id, name := c.Args[0], md.name(c)
	switch {
	case p == nil:
		md.bad(c, problem.UnknownProc, "%s of unknown P %d", name, id)
	case p.seq.gen != md.number:
		md.bad(c, problem.NoStatus, "%s of P %d, which has no status in this generation", name, id)
	case p.status != procSyscall && p.status != procAbandoned:
		md.bad(c, problem.ProcStatus, "%s of P %d, which is %s, not in a system call", name, id, procStatusName(p.status))
	default:
		md.bad(c, problem.ProcSequence, "%s of P %d with sequence number %d, want %d", name, id, seq, p.seq.n+1)
	}
	if !md.lenient {
		return nil
	}
	if owner := md.owner(p); owner == nil && p != nil {
		p.status = procAbandoned // nobody to take it from
	}
	return md.forceSeq(p, id, seq)
}

// procStatus handles ProcStatus.
func (md *Model) procStatus(c *Cursor) verdict {
	id, status := c.Args[0], Status(c.Args[1])
	if status >= procStatuses {
		return md.bad(c, problem.BadStatus, "%s of P %d with invalid status %d", md.name(c), id, c.Args[1])
	}
	if md.checks && (status == procBad || c.Args[1] >= uint64(procStatuses)) {
		md.Judge.Add(problem.Warning, problem.BadStatus, md.at(c), "%s of P %d with invalid status %d", md.name(c), id, c.Args[1])
	}
	p := md.procs.Find(id)
	md.FirstStatus = p == nil
	switch {
	case p == nil:
		p = md.newProc(id, status)
	case status == procAbandoned && p.status == procSyscall:
		// It is about to be taken. The event counts as one of the thread that has the P.
		owner := md.owner(p)
		if owner == nil {
			md.bad(c, problem.WrongThread, "status of P %d is %s, but no thread holds it", id, procStatusName(status))
			if !md.lenient {
				return bad
			}
			p.status = status
			break
		}
		p.seq.set(md.number, 0)
		md.Context = Context{owner.id, id, owner.gid}
		return done
	case p.status != status:
		md.bad(c, problem.Contradiction, "status of P %d is %s, but according to earlier events it is %s", id,
			procStatusName(status), procStatusName(p.status))
		if !md.lenient {
			return bad
		}
		p.status = status
	}
	p.seq.set(md.number, 0)
	t := c.Thread
	if status == procRunning || status == procSyscall {
		md.checkOwner(c, p)
		t.bindProc(p)
		t.unsureP = false
	}
	return done
}

// checkOwner reports a P that is said to belong to a thread that has another one, or that another thread has. Both have it from
// then on, as readers take it: the model is the same whether it checks or not.
func (md *Model) checkOwner(c *Cursor, p *Proc) {
	t := c.Thread
	if !md.checks || t.pid == p.id || t.id == generation.None {
		return
	}
	if o := md.owner(p); o != nil {
		md.Judge.AddUnlessUnsure(problem.Warning, problem.ProcOnTwo, md.at(c), "status puts P %d on this thread, but thread %d holds it", p.id, o.id)
	}
	if t.pid != generation.None {
		md.Judge.AddUnlessUnsure(problem.Warning, problem.SecondProc, md.at(c), "status puts P %d on this thread, which holds P %d", p.id, t.pid)
	}
}

// procText returns "P 3" for an ID, "no P" for generation.None.
func procText(id uint64) string {
	if id == generation.None {
		return "no P"
	}
	return "P " + strconv.FormatUint(id, 10)
}
