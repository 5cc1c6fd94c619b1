package trace

import "github.com/loupe-go/loupe/trace/raw"

// running returns the goroutine of an event that needs one in a certain status, with a P. What is missing is reported. ok
// is false if that ends all; g is nil if there is none.
func (md *model) running(c *modelCursor, want modelStatus, what uint8) (g *modelGo, ok bool) {
	if !md.has(c, what) {
		return nil, false
	}
	t := c.thread
	if g = md.current(t); g != nil && g.status == want {
		return g, true
	}
	return md.notRunning(c, g, want)
}

// notRunning is running for a thread that has no goroutine in that status.
func (md *model) notRunning(c *modelCursor, g *modelGo, want modelStatus) (*modelGo, bool) {
	t := c.thread
	switch {
	case t.gid == modelNone: // told by has
		return nil, md.lenient
	case g == nil:
		md.bad(c, CodeUnknownGo, "%s on a thread whose goroutine %d does not exist", md.name(c), t.gid)
	case g.status == modelGoEnded:
		md.bad(c, CodeEndedGo, "%s of goroutine %d, which has ended", md.name(c), g.id)
		g = nil
	default:
		md.bad(c, CodeGoStatus, "%s of goroutine %d, which is %s, not %s", md.name(c), g.id, modelGoStatusName(g.status), modelGoStatusName(want))
	}
	return g, md.lenient
}

// goLeave handles GoStop and GoBlock, which say what the running goroutine does from then on.
func (md *model) goLeave(c *modelCursor, next modelStatus) modelVerdict {
	g, ok := md.running(c, modelGoRunning, modelNeedProc|modelNeedGo)
	if !ok {
		return modelBad
	}
	if g != nil {
		g.status = next
	}
	c.thread.gid, c.thread.unsureG = modelNone, false
	return modelDone
}

// goDestroy handles GoDestroy.
func (md *model) goDestroy(c *modelCursor) modelVerdict {
	g, ok := md.running(c, modelGoRunning, modelNeedProc|modelNeedGo)
	if !ok {
		return modelBad
	}
	if g != nil {
		md.endGo(g)
	}
	c.thread.gid, c.thread.unsureG = modelNone, false
	return modelDone
}

// goStart handles GoStart.
func (md *model) goStart(c *modelCursor) modelVerdict {
	id, seq := c.args[0], c.args[1]
	g := md.gos.find(id)
	if g == nil || g.status != modelGoRunnable || !g.seq.precedes(md.number, seq) {
		if !md.forced {
			return modelWait
		}
		if g = md.force(c, g, modelGoRunnable, seq); g == nil {
			return modelBad
		}
	} else {
		g.seq.set(md.number, seq)
	}
	t := c.thread
	if t.pid == modelNone && !md.lacks(c, modelNeedProc) {
		return modelBad
	}
	if t.gid != modelNone && t.id != modelNone {
		if md.bad(c, CodeSecondGoroutine, "goroutine %d starts on a thread that runs goroutine %d", id, t.gid); !md.lenient {
			return modelBad
		}
	}
	g.status = modelGoRunning
	if t.id != modelNone {
		t.bindGo(g)
		t.unsureG = false
	}
	return modelDone
}

// goUnblock handles GoUnblock.
func (md *model) goUnblock(c *modelCursor) modelVerdict {
	id, seq := c.args[0], c.args[1]
	g := md.gos.find(id)
	if g == nil || g.status != modelGoWaiting || !g.seq.precedes(md.number, seq) {
		if !md.forced {
			return modelWait
		}
		if g = md.force(c, g, modelGoWaiting, seq); g == nil {
			return modelBad
		}
	} else {
		g.seq.set(md.number, seq)
	}
	g.status = modelGoRunnable
	return modelDone
}

// force reports why an event of a goroutine cannot happen: the goroutine has to be in a certain status, and the sequence
// number must be the next one. It returns the goroutine as the event has it; nil if the Error ends all.
func (md *model) force(c *modelCursor, g *modelGo, want modelStatus, seq uint64) *modelGo {
	id := c.args[0]
	name := md.name(c)
	switch {
	case g == nil:
		md.bad(c, CodeUnknownGo, "%s of goroutine %d, of which the trace has not told before", name, id)
	case g.status == modelGoEnded:
		md.bad(c, CodeEndedGo, "%s of goroutine %d, which has ended", name, id)
	case g.seq.gen != md.number:
		md.bad(c, CodeNoStatus, "%s of goroutine %d, whose status the generation has not told", name, id)
	case g.status != want:
		md.bad(c, CodeGoStatus, "%s of goroutine %d, which is %s, not %s", name, id, modelGoStatusName(g.status), modelGoStatusName(want))
	default:
		md.bad(c, CodeGoSequence, "%s of goroutine %d with sequence number %d, not %d", name, id, seq, g.seq.n+1)
	}
	if !md.lenient {
		return nil
	}
	if g == nil || g.status == modelGoEnded {
		g = md.newGo(id, want)
		g.seq.set(md.number, seq)
	} else {
		g.seq.force(md.number, seq)
	}
	return g
}

// goCreate handles GoCreate and GoCreateBlocked.
func (md *model) goCreate(c *modelCursor) modelVerdict {
	if !md.has(c, modelNeedProc) {
		return modelBad
	}
	if g := md.current(c.thread); g != nil && g.status != modelGoRunning && g.status != modelGoEnded {
		if md.bad(c, CodeGoStatus, "%s by goroutine %d, which is %s, not running", md.name(c), g.id, modelGoStatusName(g.status)); !md.lenient {
			return modelBad
		}
	}
	if !md.isNew(c) {
		return modelBad
	}
	status := modelGoRunnable
	if c.kind == raw.EvGoCreateBlocked {
		status = modelGoWaiting
	}
	if md.goroutine(c.args[0]) == nil {
		md.newGo(c.args[0], status)
	}
	return modelDone
}

// isNew reports whether the goroutine that an event creates is new; if it is not, the event happens with a list of
// problems only.
func (md *model) isNew(c *modelCursor) bool {
	g := md.gos.find(c.args[0])
	switch {
	case g == nil:
		return true
	case g.status != modelGoEnded:
		md.bad(c, CodeGoExists, "%s of goroutine %d, which exists: it is %s", md.name(c), g.id, modelGoStatusName(g.status))
		return md.lenient
	}
	if c.kind != raw.EvGoCreateSyscall { // the goroutines that wait for threads of C come again
		md.judge.addUnlessUnsure(Warning, CodeEndedGo, md.at(c), "%s of goroutine %d, which has ended: no ID is used twice", md.name(c), g.id)
	}
	return true
}

// goSwitch handles GoSwitch and GoSwitchDestroy: the running goroutine unblocks another one, waits or ends, and the other
// one starts.
func (md *model) goSwitch(c *modelCursor) modelVerdict {
	cur, ok := md.running(c, modelGoRunning, modelNeedProc|modelNeedGo)
	if !ok {
		return modelBad
	}
	id, seq := c.args[0], c.args[1]
	next := md.gos.find(id)
	if next == nil || next.status != modelGoWaiting || !next.seq.precedes(md.number, seq) {
		if !md.forced {
			return modelWait
		}
		if next = md.force(c, next, modelGoWaiting, seq); next == nil {
			return modelBad
		}
	} else {
		next.seq.set(md.number, seq)
	}
	switch {
	case cur == nil || cur == next:
	case c.kind == raw.EvGoSwitch:
		cur.status = modelGoWaiting
	default:
		md.endGo(cur)
	}
	next.status = modelGoRunning
	c.thread.bindGo(next)
	c.thread.unsureG = false
	return modelDone
}

// goStatus handles GoStatus and GoStatusStack.
func (md *model) goStatus(c *modelCursor) modelVerdict {
	id, status := c.args[0], modelStatus(c.args[2])
	if status >= modelGoStatuses {
		if md.bad(c, CodeBadStatus, "%s of goroutine %d with status %d, which does not exist", md.name(c), id, c.args[2]); !md.lenient {
			return modelBad
		}
		return modelDone
	}
	if md.checks && (status == modelGoBad || c.args[2] >= uint64(modelGoStatuses)) {
		md.judge.add(Warning, CodeBadStatus, md.at(c), "%s of goroutine %d with status %d, which does not exist", md.name(c), id, c.args[2])
	}
	g := md.gos.find(id)
	md.first = false
	switch {
	case g != nil && g.status == modelGoEnded:
		severity := Error
		if md.number == md.initial {
			severity = Warning // readers cannot tell
		}
		md.judge.addUnlessUnsure(severity, CodeEndedGo, md.at(c), "%s of goroutine %d, which has ended", md.name(c), id)
		md.first = true
		g = md.newGo(id, status)
	case g != nil && g.status != status:
		if md.bad(c, CodeContradiction, "goroutine %d is said to be %s, but is %s by what was told before", id,
			modelGoStatusName(status), modelGoStatusName(g.status)); !md.lenient {
			return modelBad
		}
		g.status = status
	case g == nil:
		if md.number != md.initial {
			if md.bad(c, CodeUnknownGo, "%s of goroutine %d, of which earlier generations have not told", md.name(c), id); !md.lenient {
				return modelBad
			}
		}
		md.first = true
		g = md.newGo(id, status)
	}
	g.seq.set(md.number, 0)
	return md.bindStatus(c, g)
}

// bindStatus gives a thread the goroutine that it is said to have.
func (md *model) bindStatus(c *modelCursor, g *modelGo) modelVerdict {
	t := c.thread
	switch g.status {
	case modelGoRunning:
		md.checkBinding(c, g)
		t.bindGo(g)
		t.unsureG = false
	case modelGoSyscall:
		if c.args[1] == modelNone {
			return md.bad(c, CodeWrongThread, "goroutine %d is said to be in a system call on no thread", g.id)
		}
		if c.args[1] == t.id {
			if md.number != md.initial && t.gid != g.id && !t.unsureG {
				md.bad(c, CodeWrongThread, "goroutine %d is said to be in a system call on its own thread, which has %s", g.id, modelGoText(t.gid))
				if !md.lenient {
					return modelBad
				}
			}
			t.bindGo(g)
			t.unsureG = false
			return modelDone
		}
		return md.bindOther(c, g)
	}
	return modelDone
}

// bindOther handles the status of a goroutine that is in a system call on another thread.
func (md *model) bindOther(c *modelCursor, g *modelGo) modelVerdict {
	t := md.thread(c.args[1])
	switch {
	case !t.seen:
		t.seen = true
		t.bindGo(g)
	case t.gid != g.id:
		if !t.unsureG {
			md.bad(c, CodeWrongThread, "goroutine %d is said to be in a system call on thread %d, which has %s", g.id, t.id, modelGoText(t.gid))
			if !md.lenient {
				return modelBad
			}
		}
		t.bindGo(g)
		t.unsureG = false
	default:
		md.ctx.g = g.id
	}
	md.ctx.m = t.id
	return modelDone
}

// checkBinding reports a goroutine that is said to run where another one runs, or on a second thread.
func (md *model) checkBinding(c *modelCursor, g *modelGo) {
	t := c.thread
	if !md.checks || t.gid == g.id || t.id == modelNone {
		return
	}
	if t.gid != modelNone {
		md.judge.addUnlessUnsure(Warning, CodeSecondGoroutine, md.at(c), "goroutine %d is said to run on a thread that runs goroutine %d", g.id, t.gid)
	}
	if o := g.thread; o != nil && o != t && o.gid == g.id {
		md.judge.addUnlessUnsure(Warning, CodeWrongThread, md.at(c), "goroutine %d is said to run here, but runs on thread %d", g.id, o.id)
	}
}
