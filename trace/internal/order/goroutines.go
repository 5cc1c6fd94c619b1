package order

import (
	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/internal/problem"
	"github.com/loupe-go/loupe/trace/raw"
)

// running returns the goroutine of an event that needs one in a certain status, with a P. What is missing is reported. ok
// is false if that ends all; g is nil if there is none.
func (md *Model) running(c *Cursor, want Status, what uint8) (g *Goroutine, ok bool) {
	if !md.has(c, what) {
		return nil, false
	}
	t := c.Thread
	if g = md.current(t); g != nil && g.status == want {
		return g, true
	}
	return md.notRunning(c, g, want)
}

// notRunning is running for a thread that has no goroutine in that status.
func (md *Model) notRunning(c *Cursor, g *Goroutine, want Status) (*Goroutine, bool) {
	t := c.Thread
	switch {
	case t.gid == generation.None: // told by has
		return nil, md.lenient
	case g == nil:
		md.bad(c, problem.UnknownGo, "%s on a thread that runs unknown goroutine %d", md.name(c), t.gid)
	case g.status == goEnded:
		md.bad(c, problem.EndedGo, "%s of goroutine %d, which has ended", md.name(c), g.ID)
		g = nil
	default:
		md.bad(c, problem.GoStatus, "%s of goroutine %d, which is %s, not %s", md.name(c), g.ID, goStatusName(g.status), goStatusName(want))
	}
	return g, md.lenient
}

// goLeave handles GoStop and GoBlock, which say what the running goroutine does from then on.
func (md *Model) goLeave(c *Cursor, next Status) verdict {
	g, ok := md.running(c, GoRunning, needProc|needGo)
	if !ok {
		return bad
	}
	if g != nil {
		g.status = next
	}
	c.Thread.gid, c.Thread.unsureG = generation.None, false
	return done
}

// goDestroy handles GoDestroy.
func (md *Model) goDestroy(c *Cursor) verdict {
	g, ok := md.running(c, GoRunning, needProc|needGo)
	if !ok {
		return bad
	}
	if g != nil {
		md.endGo(g)
	}
	c.Thread.gid, c.Thread.unsureG = generation.None, false
	return done
}

// goStart handles GoStart.
func (md *Model) goStart(c *Cursor) verdict {
	id, seq := c.Args[0], c.Args[1]
	g := md.gos.Find(id)
	if g == nil || g.status != GoRunnable || !g.seq.precedes(md.number, seq) {
		if !md.forced {
			return wait
		}
		if g = md.force(c, g, GoRunnable, seq); g == nil {
			return bad
		}
	} else {
		g.seq.set(md.number, seq)
	}
	t := c.Thread
	if t.pid == generation.None && !md.lacks(c, needProc) {
		return bad
	}
	if t.gid != generation.None && t.id != generation.None {
		if md.bad(c, problem.SecondGoroutine, "goroutine %d starts on a thread that runs goroutine %d", id, t.gid); !md.lenient {
			return bad
		}
	}
	g.status = GoRunning
	if t.id != generation.None {
		t.bindGo(g)
		t.unsureG = false
	}
	return done
}

// goUnblock handles GoUnblock.
func (md *Model) goUnblock(c *Cursor) verdict {
	id, seq := c.Args[0], c.Args[1]
	g := md.gos.Find(id)
	if g == nil || g.status != GoWaiting || !g.seq.precedes(md.number, seq) {
		if !md.forced {
			return wait
		}
		if g = md.force(c, g, GoWaiting, seq); g == nil {
			return bad
		}
	} else {
		g.seq.set(md.number, seq)
	}
	g.status = GoRunnable
	return done
}

// force reports why an event of a goroutine cannot happen: the goroutine has to be in a certain status, and the sequence
// number must be the next one. It returns the goroutine as the event has it; nil if the Error ends all.
func (md *Model) force(c *Cursor, g *Goroutine, want Status, seq uint64) *Goroutine {
	id := c.Args[0]
	name := md.name(c)
	switch {
	case g == nil:
		md.bad(c, problem.UnknownGo, "%s of unknown goroutine %d", name, id)
	case g.status == goEnded:
		md.bad(c, problem.EndedGo, "%s of goroutine %d, which has ended", name, id)
	case g.seq.gen != md.number:
		md.bad(c, problem.NoStatus, "%s of goroutine %d, which has no status in this generation", name, id)
	case g.status != want:
		md.bad(c, problem.GoStatus, "%s of goroutine %d, which is %s, not %s", name, id, goStatusName(g.status), goStatusName(want))
	default:
		md.bad(c, problem.GoSequence, "%s of goroutine %d with sequence number %d, want %d", name, id, seq, g.seq.n+1)
	}
	if !md.lenient {
		return nil
	}
	if g == nil || g.status == goEnded {
		g = md.newGo(id, want)
		g.seq.set(md.number, seq)
	} else {
		g.seq.force(md.number, seq)
	}
	return g
}

// goCreate handles GoCreate and GoCreateBlocked.
func (md *Model) goCreate(c *Cursor) verdict {
	if !md.has(c, needProc) {
		return bad
	}
	if g := md.current(c.Thread); g != nil && g.status != GoRunning && g.status != goEnded {
		if md.bad(c, problem.GoStatus, "%s by goroutine %d, which is %s, not running", md.name(c), g.ID, goStatusName(g.status)); !md.lenient {
			return bad
		}
	}
	if !md.isNew(c) {
		return bad
	}
	status := GoRunnable
	if c.Kind == raw.EvGoCreateBlocked {
		status = GoWaiting
	}
	if md.goroutine(c.Args[0]) == nil {
		md.newGo(c.Args[0], status)
	}
	return done
}

// isNew reports whether the goroutine that an event creates is new; if it is not, the event happens with a list of
// problems only.
func (md *Model) isNew(c *Cursor) bool {
	g := md.gos.Find(c.Args[0])
	switch {
	case g == nil:
		return true
	case g.status != goEnded:
		md.bad(c, problem.GoExists, "%s of goroutine %d, which already exists and is %s", md.name(c), g.ID, goStatusName(g.status))
		return md.lenient
	}
	if c.Kind != raw.EvGoCreateSyscall { // the goroutines that wait for threads of C come again
		md.Judge.AddUnlessUnsure(problem.Warning, problem.EndedGo, md.at(c), "%s of goroutine %d, which has ended: IDs are not reused", md.name(c), g.ID)
	}
	return true
}

// goSwitch handles GoSwitch and GoSwitchDestroy: the running goroutine unblocks another one, waits or ends, and the other
// one starts.
func (md *Model) goSwitch(c *Cursor) verdict {
	cur, ok := md.running(c, GoRunning, needProc|needGo)
	if !ok {
		return bad
	}
	id, seq := c.Args[0], c.Args[1]
	next := md.gos.Find(id)
	if next == nil || next.status != GoWaiting || !next.seq.precedes(md.number, seq) {
		if !md.forced {
			return wait
		}
		if next = md.force(c, next, GoWaiting, seq); next == nil {
			return bad
		}
	} else {
		next.seq.set(md.number, seq)
	}
	switch {
	case cur == nil || cur == next:
	case c.Kind == raw.EvGoSwitch:
		cur.status = GoWaiting
	default:
		md.endGo(cur)
	}
	next.status = GoRunning
	c.Thread.bindGo(next)
	c.Thread.unsureG = false
	return done
}

// goStatus handles GoStatus and GoStatusStack.
func (md *Model) goStatus(c *Cursor) verdict {
	id, status := c.Args[0], Status(c.Args[2])
	if status >= goStatuses {
		if md.bad(c, problem.BadStatus, "%s of goroutine %d with invalid status %d", md.name(c), id, c.Args[2]); !md.lenient {
			return bad
		}
		return done
	}
	if md.checks && (status == goBad || c.Args[2] >= uint64(goStatuses)) {
		md.Judge.Add(problem.Warning, problem.BadStatus, md.at(c), "%s of goroutine %d with invalid status %d", md.name(c), id, c.Args[2])
	}
	g := md.gos.Find(id)
	md.FirstStatus = false
	switch {
	case g != nil && g.status == goEnded:
		severity := problem.Error
		if md.number == md.initial {
			severity = problem.Warning // readers cannot tell
		}
		md.Judge.AddUnlessUnsure(severity, problem.EndedGo, md.at(c), "%s of goroutine %d, which has ended", md.name(c), id)
		md.FirstStatus = true
		g = md.newGo(id, status)
	case g != nil && g.status != status:
		if md.bad(c, problem.Contradiction, "status of goroutine %d is %s, but according to earlier events it is %s", id,
			goStatusName(status), goStatusName(g.status)); !md.lenient {
			return bad
		}
		g.status = status
	case g == nil:
		if md.number != md.initial {
			if md.bad(c, problem.UnknownGo, "%s of goroutine %d, which is unknown to earlier generations", md.name(c), id); !md.lenient {
				return bad
			}
		}
		md.FirstStatus = true
		g = md.newGo(id, status)
	}
	g.seq.set(md.number, 0)
	return md.bindStatus(c, g)
}

// bindStatus gives a thread the goroutine that it is said to have.
func (md *Model) bindStatus(c *Cursor, g *Goroutine) verdict {
	t := c.Thread
	switch g.status {
	case GoRunning:
		md.checkBinding(c, g)
		t.bindGo(g)
		t.unsureG = false
	case GoSyscall:
		if c.Args[1] == generation.None {
			return md.bad(c, problem.WrongThread, "goroutine %d is in a system call, but its status names no thread", g.ID)
		}
		if c.Args[1] == t.id {
			if md.number != md.initial && t.gid != g.ID && !t.unsureG {
				md.bad(c, problem.WrongThread, "status puts goroutine %d in a system call on this thread, which has %s", g.ID, goroutineText(t.gid))
				if !md.lenient {
					return bad
				}
			}
			t.bindGo(g)
			t.unsureG = false
			return done
		}
		return md.bindOther(c, g)
	}
	return done
}

// bindOther handles the status of a goroutine that is in a system call on another thread.
func (md *Model) bindOther(c *Cursor, g *Goroutine) verdict {
	t := md.thread(c.Args[1])
	switch {
	case !t.seen:
		t.seen = true
		t.bindGo(g)
	case t.gid != g.ID:
		if !t.unsureG {
			md.bad(c, problem.WrongThread, "status puts goroutine %d in a system call on thread %d, which has %s", g.ID, t.id, goroutineText(t.gid))
			if !md.lenient {
				return bad
			}
		}
		t.bindGo(g)
		t.unsureG = false
	default:
		md.Context.G = g.ID
	}
	md.Context.M = t.id
	return done
}

// checkBinding reports a goroutine that is said to run where another one runs, or on a second thread.
func (md *Model) checkBinding(c *Cursor, g *Goroutine) {
	t := c.Thread
	if !md.checks || t.gid == g.ID || t.id == generation.None {
		return
	}
	if t.gid != generation.None {
		md.Judge.AddUnlessUnsure(problem.Warning, problem.SecondGoroutine, md.at(c), "status puts goroutine %d on this thread, which runs goroutine %d", g.ID, t.gid)
	}
	if o := g.thread; o != nil && o != t && o.gid == g.ID {
		md.Judge.AddUnlessUnsure(problem.Warning, problem.WrongThread, md.at(c), "status puts goroutine %d on this thread, but it runs on thread %d", g.ID, o.id)
	}
}
