package order

import (
	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/internal/problem"
	"github.com/loupe-go/loupe/trace/raw"
)

// verdict says what became of an event.
type verdict uint8

const (
	done verdict = iota // it has happened
	wait                // something must happen before; nothing has changed
	bad                 // a problem was reported that ends all
)

// advance lets the event of a cursor happen, if it can.
func (md *Model) advance(c *Cursor) verdict {
	t := c.Thread
	t.seen = true
	md.Context.M, md.Context.P, md.Context.G = t.id, t.pid, t.gid
	verdict := done
	switch c.Kind {
	case raw.EvGoStart:
		verdict = md.goStart(c)
	case raw.EvGoBlock:
		verdict = md.goLeave(c, GoWaiting)
	case raw.EvGoStop:
		verdict = md.goLeave(c, GoRunnable)
	case raw.EvGoUnblock:
		verdict = md.goUnblock(c)
	case raw.EvGoSyscallBegin:
		verdict = md.goSyscallBegin(c)
	case raw.EvGoSyscallEnd:
		verdict = md.goSyscallEnd(c)
	case raw.EvHeapAlloc, raw.EvHeapGoal:
		verdict = md.need(c, needProc)
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
	if verdict != done {
		return verdict
	}
	spec := &generation.EventSpecs[c.Kind]
	if spec.Stack != 0 && !md.gen.Stacks.Has(c.Args[(spec.Stack-1)&3]) || spec.Text != 0 && !md.gen.Strings.Has(c.Args[(spec.Text-1)&3]) ||
		spec.Stack2|spec.Text2 != 0 {
		if !md.idsExist(c, spec) && !md.lenient {
			return bad
		}
	}
	if md.checks {
		md.checkEvent(c)
	}
	return done
}

// advanceRare is advance for the events of which there are few.
func (md *Model) advanceRare(c *Cursor) verdict {
	md.StolenProc = false
	verdict := md.dispatchRare(c)
	if t := c.Thread; t.id == generation.None {
		t.pid, t.gid = generation.None, generation.None // no thread keeps anything
	}
	return verdict
}

func (md *Model) dispatchRare(c *Cursor) verdict {
	switch c.Kind {
	case raw.EvGoSwitch, raw.EvGoSwitchDestroy:
		return md.goSwitch(c)
	case raw.EvGoLabel, raw.EvUserLog, raw.EvProcsChange:
		return md.need(c, needProc|needGo)
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
func (md *Model) idsExist(c *Cursor, spec *generation.EventSpec) bool {
	ok := true
	for _, i := range [2]uint8{spec.Stack, spec.Stack2} {
		if i != 0 && !md.gen.Stacks.Has(c.Args[i-1]) {
			ok = false
			md.Judge.AddUnlessUnsure(problem.Error, problem.UnknownStack, md.at(c), "%s with undefined stack %d", md.name(c), c.Args[i-1])
		}
	}
	for _, i := range [2]uint8{spec.Text, spec.Text2} {
		if i != 0 && !md.gen.Strings.Has(c.Args[i-1]) {
			ok = false
			md.Judge.AddUnlessUnsure(problem.Error, problem.UnknownString, md.at(c), "%s with undefined string %d", md.name(c), c.Args[i-1])
		}
	}
	return ok
}

// checkEvent reports what readers do not mind.
func (md *Model) checkEvent(c *Cursor) {
	if int(c.Kind) >= len(md.specs) || md.specs[c.Kind].Name == "" {
		md.Judge.Add(problem.Warning, problem.Version, md.at(c), "%s in a trace of %v", md.name(c), md.Version)
	}
	id, ok := uint64(0), true
	switch c.Kind {
	case raw.EvGoCreate, raw.EvGoCreateBlocked, raw.EvGoCreateSyscall, raw.EvGoStart, raw.EvGoUnblock, raw.EvGoStatus,
		raw.EvGoStatusStack, raw.EvGoSwitch, raw.EvGoSwitchDestroy, raw.EvUserTaskBegin:
		id, ok = c.Args[0], c.Args[0] != 0 && c.Args[0] != generation.None
	}
	if !ok && id == 0 {
		md.Judge.Add(problem.Warning, problem.ZeroID, md.at(c), "%s with ID 0, which stands for no goroutine or task", md.name(c))
	} else if !ok {
		md.Judge.Add(problem.Warning, problem.ZeroID, md.at(c), "%s with ID %d, which readers treat as no goroutine or task", md.name(c), id)
	}
}

// afterProblem returns the verdict for an event with a problem that was reported.
func (md *Model) afterProblem() verdict {
	if md.lenient {
		return done
	}
	return bad
}

// bad reports an Error that is about the order of events, and returns the verdict.
func (md *Model) bad(c *Cursor, code problem.Code, format string, args ...any) verdict {
	md.Judge.AddUnlessUnsure(problem.Error, code, md.at(c), format, args...)
	return md.afterProblem()
}

// What an event needs, beside a thread.
const (
	needProc = 1 << iota
	needGo
)

// need lets an event happen that needs something and changes nothing.
func (md *Model) need(c *Cursor, what uint8) verdict {
	if md.has(c, what) {
		return done
	}
	return bad
}

// has reports whether an event's thread has what the event needs. If not, that is reported; with a list of problems the
// event happens all the same.
func (md *Model) has(c *Cursor, what uint8) bool {
	t := c.Thread
	if t.pid != generation.None && t.gid != generation.None {
		return true // as no thread has
	}
	return md.lacks(c, what)
}

// lacks is has for a thread that has not both.
func (md *Model) lacks(c *Cursor, what uint8) bool {
	t := c.Thread
	switch {
	case t.id == generation.None:
		md.bad(c, problem.NoThread, "%s in a batch without a thread", md.name(c))
	case what&needProc != 0 && t.pid == generation.None:
		if !t.unsureP {
			md.bad(c, problem.NoProc, "%s on a thread without a P", md.name(c))
		}
		t.unsureP = true
	case what&needGo != 0 && t.gid == generation.None:
		if !t.unsureG {
			md.bad(c, problem.NoGoroutine, "%s on a thread without a goroutine", md.name(c))
		}
		t.unsureG = true
	default:
		return true
	}
	return md.lenient
}
