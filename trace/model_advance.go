package trace

import "github.com/loupe-go/loupe/trace/raw"

// modelVerdict says what became of an event.
type modelVerdict uint8

const (
	modelDone modelVerdict = iota // it has happened
	modelWait                     // something must happen before; nothing has changed
	modelBad                      // a problem was reported that ends all
)

// advance lets the event of a cursor happen, if it can.
func (md *model) advance(c *modelCursor) modelVerdict {
	t := c.thread
	t.seen = true
	md.ctx.m, md.ctx.p, md.ctx.g = t.id, t.pid, t.gid
	verdict := modelDone
	switch c.kind {
	case raw.EvGoStart:
		verdict = md.goStart(c)
	case raw.EvGoBlock:
		verdict = md.goLeave(c, modelGoWaiting)
	case raw.EvGoStop:
		verdict = md.goLeave(c, modelGoRunnable)
	case raw.EvGoUnblock:
		verdict = md.goUnblock(c)
	case raw.EvGoSyscallBegin:
		verdict = md.goSyscallBegin(c)
	case raw.EvGoSyscallEnd:
		verdict = md.goSyscallEnd(c)
	case raw.EvHeapAlloc, raw.EvHeapGoal:
		verdict = md.need(c, modelNeedProc)
	case raw.EvGoCreate, raw.EvGoCreateBlocked:
		verdict = md.goCreate(c)
	case raw.EvGoDestroy:
		verdict = md.goDestroy(c)
	case raw.EvProcStart:
		verdict = md.procStart(c)
	case raw.EvProcStop:
		verdict = md.procStop(c)
	default:
		verdict = md.advanceRare(c)
	}
	if verdict != modelDone {
		return verdict
	}
	spec := &modelSpecs[c.kind]
	if spec.stack != 0 && !md.gen.stacks.has(c.args[(spec.stack-1)&3]) || spec.text != 0 && !md.gen.strings.has(c.args[(spec.text-1)&3]) ||
		spec.stack2|spec.text2 != 0 {
		if !md.idsExist(c, spec) && !md.lenient {
			return modelBad
		}
	}
	if md.checks {
		md.checkEvent(c)
	}
	return modelDone
}

// advanceRare is advance for the events of which there are few.
func (md *model) advanceRare(c *modelCursor) modelVerdict {
	md.stolen = false
	verdict := md.dispatchRare(c)
	if t := c.thread; t.id == modelNone {
		t.pid, t.gid = modelNone, modelNone // no thread keeps anything
	}
	return verdict
}

func (md *model) dispatchRare(c *modelCursor) modelVerdict {
	switch c.kind {
	case raw.EvGoSwitch, raw.EvGoSwitchDestroy:
		return md.goSwitch(c)
	case raw.EvGoLabel, raw.EvUserLog, raw.EvProcsChange:
		return md.need(c, modelNeedProc|modelNeedGo)
	case raw.EvProcSteal:
		return md.procSteal(c)
	case raw.EvProcStatus:
		return md.procStatus(c)
	case raw.EvGoStatus, raw.EvGoStatusStack:
		return md.goStatus(c)
	case raw.EvGoSyscallEndBlocked:
		return md.goSyscallEndBlocked(c)
	case raw.EvGoCreateSyscall:
		return md.goCreateSyscall(c)
	case raw.EvGoDestroySyscall:
		return md.goDestroySyscall(c)
	case raw.EvSTWBegin:
		return md.stwBegin(c)
	case raw.EvSTWEnd:
		return md.stwEnd(c)
	case raw.EvGCActive:
		return md.gcActive(c)
	case raw.EvGCBegin:
		return md.gcBegin(c)
	case raw.EvGCEnd:
		return md.gcEnd(c)
	case raw.EvGCSweepActive:
		return md.sweepActive(c)
	case raw.EvGCSweepBegin:
		return md.sweepBegin(c)
	case raw.EvGCSweepEnd:
		return md.sweepEnd(c)
	case raw.EvGCMarkAssistActive:
		return md.assistActive(c)
	case raw.EvGCMarkAssistBegin:
		return md.assistBegin(c)
	case raw.EvGCMarkAssistEnd:
		return md.assistEnd(c)
	case raw.EvUserTaskBegin:
		return md.taskBegin(c)
	case raw.EvUserTaskEnd:
		return md.taskEnd(c)
	case raw.EvUserRegionBegin:
		return md.regionBegin(c)
	case raw.EvUserRegionEnd:
		return md.regionEnd(c)
	}
	return md.need(c, 0) // an experiment's
}

// idsExist reports whether the strings and stacks of an event exist, or a problem if not.
func (md *model) idsExist(c *modelCursor, spec *modelSpec) bool {
	ok := true
	for _, i := range [2]uint8{spec.stack, spec.stack2} {
		if i != 0 && !md.gen.stacks.has(c.args[i-1]) {
			ok = false
			md.judge.addUnlessUnsure(Error, CodeUnknownStack, md.at(c), "%s with stack %d, which does not exist", md.name(c), c.args[i-1])
		}
	}
	for _, i := range [2]uint8{spec.text, spec.text2} {
		if i != 0 && !md.gen.strings.has(c.args[i-1]) {
			ok = false
			md.judge.addUnlessUnsure(Error, CodeUnknownString, md.at(c), "%s with string %d, which does not exist", md.name(c), c.args[i-1])
		}
	}
	return ok
}

// checkEvent reports what readers do not mind.
func (md *model) checkEvent(c *modelCursor) {
	if int(c.kind) >= len(md.specs) || md.specs[c.kind].Name == "" {
		md.judge.add(Warning, CodeVersion, md.at(c), "%s in a trace of %v", md.name(c), md.version)
	}
	id, ok := uint64(0), true
	switch c.kind {
	case raw.EvGoCreate, raw.EvGoCreateBlocked, raw.EvGoCreateSyscall, raw.EvGoStart, raw.EvGoUnblock, raw.EvGoStatus,
		raw.EvGoStatusStack, raw.EvGoSwitch, raw.EvGoSwitchDestroy, raw.EvUserTaskBegin:
		id, ok = c.args[0], c.args[0] != 0 && c.args[0] != modelNone
	}
	if !ok && id == 0 {
		md.judge.add(Warning, CodeZeroID, md.at(c), "%s with the ID 0, which means none", md.name(c))
	} else if !ok {
		md.judge.add(Warning, CodeZeroID, md.at(c), "%s with the ID %d, which readers take for none", md.name(c), id)
	}
}

// afterProblem returns the verdict for an event with a problem that was reported.
func (md *model) afterProblem() modelVerdict {
	if md.lenient {
		return modelDone
	}
	return modelBad
}

// bad reports an Error that is about the order of events, and returns the verdict.
func (md *model) bad(c *modelCursor, code Code, format string, args ...any) modelVerdict {
	md.judge.addUnlessUnsure(Error, code, md.at(c), format, args...)
	return md.afterProblem()
}

// What an event needs, beside a thread.
const (
	modelNeedProc = 1 << iota
	modelNeedGo
)

// need lets an event happen that needs something and changes nothing.
func (md *model) need(c *modelCursor, what uint8) modelVerdict {
	if md.has(c, what) {
		return modelDone
	}
	return modelBad
}

// has reports whether an event's thread has what the event needs. If not, that is reported; with a list of problems the
// event happens all the same.
func (md *model) has(c *modelCursor, what uint8) bool {
	t := c.thread
	if t.pid != modelNone && t.gid != modelNone {
		return true // as no thread has
	}
	return md.lacks(c, what)
}

// lacks is has for a thread that has not both.
func (md *model) lacks(c *modelCursor, what uint8) bool {
	t := c.thread
	switch {
	case t.id == modelNone:
		md.bad(c, CodeNoThread, "%s in a batch of no thread", md.name(c))
	case what&modelNeedProc != 0 && t.pid == modelNone:
		if !t.unsureP {
			md.bad(c, CodeNoProc, "%s on a thread without a P", md.name(c))
		}
		t.unsureP = true
	case what&modelNeedGo != 0 && t.gid == modelNone:
		if !t.unsureG {
			md.bad(c, CodeNoGoroutine, "%s on a thread without a goroutine", md.name(c))
		}
		t.unsureG = true
	default:
		return true
	}
	return md.lenient
}
