package order

import (
	"strconv"

	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/internal/problem"
)

// goSyscallBegin handles GoSyscallBegin.
func (md *Model) goSyscallBegin(c *Cursor) verdict {
	g, ok := md.running(c, GoRunning, needProc|needGo)
	if !ok {
		return bad
	}
	if g != nil {
		g.status = GoSyscall
	}
	t := c.Thread
	if t.pid == generation.None {
		return done
	}
	// The number is that of the P, so that it is known which system call the P is taken from.
	p, seq := t.p, c.Args[0]
	p.status = procSyscall
	if p.seq.precedes(md.number, seq) {
		p.seq.set(md.number, seq)
		return done
	}
	if p.seq.gen != md.number {
		md.bad(c, problem.NoStatus, "%s with P %d, which has no status in this generation", md.name(c), p.id)
	} else {
		md.bad(c, problem.ProcSequence, "%s with sequence number %d for P %d, want %d", md.name(c), seq, p.id, p.seq.n+1)
	}
	p.seq.force(md.number, seq)
	return md.afterProblem()
}

// goSyscallEnd handles GoSyscallEnd: a system call during which the P was not taken away.
func (md *Model) goSyscallEnd(c *Cursor) verdict {
	g, ok := md.running(c, GoSyscall, needProc|needGo)
	if !ok {
		return bad
	}
	if g != nil {
		g.status = GoRunning
	}
	t := c.Thread
	if t.pid == generation.None {
		return done
	}
	if t.p.status != procSyscall {
		md.bad(c, problem.ProcStatus, "%s with P %d, which is %s, not in a system call", md.name(c), t.p.id, procStatusName(t.p.status))
		if !md.lenient {
			return bad
		}
	}
	t.p.status = procRunning
	return done
}

// goSyscallEndBlocked handles GoSyscallEndBlocked: a system call during which the P was taken away. It can happen once
// that has.
func (md *Model) goSyscallEndBlocked(c *Cursor) verdict {
	t := c.Thread
	if t.pid != generation.None && t.p.status == procSyscall {
		if !md.forced {
			return wait
		}
		md.bad(c, problem.ProcStatus, "%s, which means that the P was stolen, on a thread that holds P %d", md.name(c), t.pid)
		if !md.lenient {
			return bad
		}
		t.p.status = procIdle
		t.pid, t.unsureP = generation.None, true
	}
	g, ok := md.running(c, GoSyscall, needGo)
	if !ok {
		return bad
	}
	if g != nil {
		g.status = GoRunnable
	}
	t.gid, t.unsureG = generation.None, false
	return done
}

// goCreateSyscall handles GoCreateSyscall: a thread that C has made calls Go.
func (md *Model) goCreateSyscall(c *Cursor) verdict {
	if !md.has(c, 0) || !md.isNew(c) {
		return bad
	}
	t := c.Thread
	if t.gid != generation.None {
		md.bad(c, problem.SecondGoroutine, "%s of goroutine %d on a thread that has goroutine %d", md.name(c), c.Args[0], t.gid)
		if !md.lenient {
			return bad
		}
	}
	g := md.newGo(c.Args[0], GoSyscall)
	t.bindGo(g)
	t.unsureG = false
	return done
}

// goDestroySyscall handles GoDestroySyscall: the thread of GoCreateSyscall has gone back to C for good. A P that it still
// has is abandoned: the ID of the thread may be used again, and the P taken from there.
func (md *Model) goDestroySyscall(c *Cursor) verdict {
	g, ok := md.running(c, GoSyscall, needGo)
	if !ok {
		return bad
	}
	if g != nil {
		md.endGo(g)
	}
	t := c.Thread
	t.gid, t.unsureG = generation.None, false
	if t.pid == generation.None {
		return done
	}
	if t.p.status != procSyscall {
		md.bad(c, problem.ProcStatus, "%s with P %d, which is %s, not in a system call", md.name(c), t.pid, procStatusName(t.p.status))
		if !md.lenient {
			return bad
		}
	}
	t.p.status = procAbandoned
	t.pid = generation.None
	md.StolenProc = true
	return done
}

// goroutineText returns "goroutine 7" for an ID, "no goroutine" for generation.None.
func goroutineText(id uint64) string {
	if id == generation.None {
		return "no goroutine"
	}
	return "goroutine " + strconv.FormatUint(id, 10)
}
