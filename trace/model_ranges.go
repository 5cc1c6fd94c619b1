package trace

import "slices"

// gcActive handles GCActive: a collection is under way when the generation begins.
func (md *model) gcActive(c *modelCursor) modelVerdict {
	if md.number == md.initial {
		if md.gc.state != modelGCUnknown {
			md.bad(c, CodeGCPairing, "%s is not the first event of the collector", md.name(c))
			if !md.lenient {
				return modelBad
			}
		}
		md.gc = modelGC{modelSeq{n: c.args[0]}, modelGCOn}
		return modelDone
	}
	return md.gcEvent(c, modelGCOn, modelGCOn)
}

// gcBegin handles GCBegin.
func (md *model) gcBegin(c *modelCursor) modelVerdict {
	if md.gc.state == modelGCUnknown {
		md.gc = modelGC{modelSeq{n: c.args[0]}, modelGCOn}
		return modelDone
	}
	return md.gcEvent(c, modelGCOff, modelGCOn)
}

// gcEnd handles GCEnd.
func (md *model) gcEnd(c *modelCursor) modelVerdict { return md.gcEvent(c, modelGCOn, modelGCOff) }

// gcEvent handles an event of the collector, which must be in a state and goes to another one. All of them have one
// sequence.
func (md *model) gcEvent(c *modelCursor, want, next modelGCState) modelVerdict {
	gc := &md.gc
	seq := c.args[0]
	if !gc.seq.precedes(0, seq) {
		if !md.forced {
			return modelWait
		}
		if gc.state != modelGCUnknown || next == modelGCOn {
			md.bad(c, CodeGCSequence, "%s with sequence number %d, not %d", md.name(c), seq, gc.seq.n+1)
			if !md.lenient {
				return modelBad
			}
			gc.seq.force(0, seq)
			gc.state = next
			return md.need(c, modelNeedProc|modelNeedGo)
		}
	}
	if gc.state != want {
		md.bad(c, CodeGCPairing, "%s while %s", md.name(c), modelGCText(gc.state))
		if !md.lenient {
			return modelBad
		}
	}
	*gc = modelGC{modelSeq{n: seq}, next}
	return md.need(c, modelNeedProc|modelNeedGo)
}

func modelGCText(s modelGCState) string {
	switch s {
	case modelGCOn:
		return "a collection is under way"
	case modelGCOff:
		return "no collection is under way"
	}
	return "the trace has not told whether a collection is under way"
}

// active returns the goroutine of an event that needs one in any status, with a P.
func (md *model) active(c *modelCursor) (g *modelGo, ok bool) {
	if !md.has(c, modelNeedProc|modelNeedGo) {
		return nil, false
	}
	g = md.current(c.thread)
	if g != nil && g.status != modelGoEnded || c.thread.gid == modelNone {
		return g, true
	}
	md.bad(c, CodeUnknownGo, "%s on a thread whose goroutine %d does not exist", md.name(c), c.thread.gid)
	return nil, md.lenient
}

// stwBegin handles STWBegin.
func (md *model) stwBegin(c *modelCursor) modelVerdict {
	g, ok := md.active(c)
	if !ok {
		return modelBad
	}
	if g == nil {
		return modelDone
	}
	stop := modelStop{c.args[0]}
	if slices.Contains(g.stops, stop) {
		md.bad(c, CodeSTWPairing, "goroutine %d stops the world again, for the same reason", g.id)
		return md.afterProblem()
	}
	if md.checks && len(g.stops) > 0 {
		md.judge.addUnlessUnsure(Warning, CodeSTWPairing, md.at(c), "goroutine %d stops the world again", g.id)
	}
	g.stops = append(g.stops, stop)
	return modelDone
}

// stwEnd handles STWEnd.
func (md *model) stwEnd(c *modelCursor) modelVerdict {
	g, ok := md.active(c)
	if !ok {
		return modelBad
	}
	if g == nil {
		return modelDone
	}
	if len(g.stops) == 0 {
		return md.bad(c, CodeSTWPairing, "goroutine %d lets the world go on without having stopped it", g.id)
	}
	n := len(g.stops) - 1
	g.stops[0] = g.stops[n]
	g.stops = g.stops[:n]
	return modelDone
}

// sweepActive handles GCSweepActive: a P sweeps when the generation begins.
func (md *model) sweepActive(c *modelCursor) modelVerdict {
	p := md.procs.find(c.args[0])
	switch {
	case p == nil:
		return md.bad(c, CodeUnknownProc, "%s of P %d, of which the trace has not told before", md.name(c), c.args[0])
	case md.number == md.initial && p.sweeps:
		return md.bad(c, CodeSweepPairing, "%s of P %d, which is sweeping already", md.name(c), p.id)
	case md.number != md.initial && !p.sweeps:
		md.bad(c, CodeSweepPairing, "%s of P %d, which is not sweeping by what was told before", md.name(c), p.id)
		if !md.lenient {
			return modelBad
		}
	}
	p.sweeps = true
	return modelDone
}

// sweepBegin handles GCSweepBegin.
func (md *model) sweepBegin(c *modelCursor) modelVerdict { return md.sweep(c, true) }

// sweepEnd handles GCSweepEnd.
func (md *model) sweepEnd(c *modelCursor) modelVerdict { return md.sweep(c, false) }

// sweep begins or ends the sweeping of a thread's P.
func (md *model) sweep(c *modelCursor, begin bool) modelVerdict {
	if c.thread.pid == modelNone {
		return md.need(c, modelNeedProc)
	}
	p := c.thread.p
	if p.sweeps == begin {
		text := "which is sweeping already"
		if !begin {
			text = "which is not sweeping"
		}
		return md.bad(c, CodeSweepPairing, "%s of P %d, %s", md.name(c), p.id, text)
	}
	p.sweeps = begin
	return modelDone
}

// assistActive handles GCMarkAssistActive: a goroutine helps the collector when the generation begins.
func (md *model) assistActive(c *modelCursor) modelVerdict {
	g := md.goroutine(c.args[0])
	switch {
	case g == nil:
		return md.bad(c, CodeUnknownGo, "%s of goroutine %d, which does not exist", md.name(c), c.args[0])
	case md.number == md.initial && g.assist:
		return md.bad(c, CodeAssistPairing, "%s of goroutine %d, which is assisting already", md.name(c), g.id)
	case md.number != md.initial && !g.assist:
		md.bad(c, CodeAssistPairing, "%s of goroutine %d, which is not assisting by what was told before", md.name(c), g.id)
		if !md.lenient {
			return modelBad
		}
	}
	g.assist = true
	return modelDone
}

// assistBegin handles GCMarkAssistBegin.
func (md *model) assistBegin(c *modelCursor) modelVerdict { return md.assists(c, true) }

// assistEnd handles GCMarkAssistEnd.
func (md *model) assistEnd(c *modelCursor) modelVerdict { return md.assists(c, false) }

// assists begins or ends a mark assist of the running goroutine.
func (md *model) assists(c *modelCursor, begin bool) modelVerdict {
	g, ok := md.active(c)
	if !ok {
		return modelBad
	}
	if g == nil {
		return modelDone
	}
	if g.assist == begin {
		text := "which is assisting already"
		if !begin {
			text = "which is not assisting"
		}
		return md.bad(c, CodeAssistPairing, "%s of goroutine %d, %s", md.name(c), g.id, text)
	}
	g.assist = begin
	return modelDone
}
