package trace

import (
	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/raw"
)

// Statuses as a trace has them.
const (
	goRunnable, goSyscall, goWaiting = 1, 3, 4
	procIdle, procAbandoned          = 2, 4
)

// What a script makes, which no real trace has.
const (
	scriptThread, scriptThread2 = 4242, 4243
	scriptProc, scriptProc2     = 77, 78
	scriptGo, scriptGo2         = 7000, 7001
)

// script appends events of a new thread to the trace, which takes a new P first. It returns the index of the first event.
func (e *traceEdit) script(events ...raw.Event) int {
	e.t.Helper()
	takes := []raw.Event{e.ev(raw.EvProcStatus, scriptProc, procIdle), e.ev(raw.EvProcStart, scriptProc, 1)}
	return e.newBatch(scriptThread, append(takes, events...)...) + 1 + len(takes)
}

// running is script with a new goroutine that runs.
func (e *traceEdit) running(events ...raw.Event) int {
	e.t.Helper()
	starts := []raw.Event{e.ev(raw.EvGoCreate, scriptGo, 0, 0), e.ev(raw.EvGoStart, scriptGo, 1)}
	return e.script(append(starts, events...)...) + len(starts)
}

// inLast returns a match for events of the last generation.
func inLast(e *traceEdit) func(i int, ev *raw.Event) bool {
	last := e.generationOf(len(e.events) - 2)
	return func(i int, _ *raw.Event) bool { return e.generationOf(i) == last }
}

var goroutineMutations = []mutation{
	{name: "status of a goroutine that does not exist", code: CodeBadStatus, change: func(e *traceEdit) int {
		return e.script(e.ev(raw.EvGoStatus, scriptGo, generation.None, 9))
	}},
	{name: "status 0", code: CodeBadStatus, warning: true, change: func(e *traceEdit) int {
		i := e.find(0, raw.EvGoStatusStack, nil)
		e.insert(i, e.ev(raw.EvGoStatus, scriptGo, generation.None, 0))
		return i
	}},
	{name: "an event of the running goroutine in a batch of no thread", code: CodeNoThread, change: func(e *traceEdit) int {
		return e.newBatch(generation.None, e.ev(raw.EvGoLabel, 0)) + 1
	}},
	{name: "the heap's size without a P", code: CodeNoProc, change: func(e *traceEdit) int {
		return e.script(e.ev(raw.EvProcStop), e.ev(raw.EvHeapAlloc, 1000)) + 1
	}},
	{name: "several events without a P are one problem", code: CodeNoProc, change: func(e *traceEdit) int {
		i := e.last(raw.EvProcStop, nil) + 1
		e.insert(i, e.ev(raw.EvHeapAlloc, 1000), e.ev(raw.EvHeapAlloc, 1001), e.ev(raw.EvHeapGoal, 1002))
		return i
	}},
	{name: "a label without a goroutine", code: CodeNoGoroutine, change: func(e *traceEdit) int {
		return e.script(e.ev(raw.EvGoLabel, 0))
	}},
	{name: "two goroutines on one thread", code: CodeSecondGoroutine, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvGoCreate, scriptGo2, 0, 0), e.ev(raw.EvGoStart, scriptGo2, 1)) + 1
	}},
	{name: "unblock of a runnable goroutine", code: CodeGoStatus, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvGoCreate, scriptGo2, 0, 0), e.ev(raw.EvGoUnblock, scriptGo2, 1, 0)) + 1
	}},
	{name: "start of a waiting goroutine", code: CodeGoStatus, change: func(e *traceEdit) int {
		return e.script(e.ev(raw.EvGoCreateBlocked, scriptGo, 0, 0), e.ev(raw.EvGoStart, scriptGo, 1)) + 1
	}},
	{name: "end of a system call that did not begin", code: CodeGoStatus, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvGoSyscallEndBlocked))
	}},
	{name: "a goroutine is created by one in a system call", code: CodeGoStatus, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvGoSyscallBegin, 2, 0), e.ev(raw.EvGoCreate, scriptGo2, 0, 0)) + 1
	}},
	{name: "switch to a runnable goroutine", code: CodeGoStatus, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvGoCreate, scriptGo2, 0, 0), e.ev(raw.EvGoSwitch, scriptGo2, 1)) + 1
	}},
	{name: "unblock of a goroutine that was never told of", code: CodeUnknownGo, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvGoUnblock, scriptGo2, 1, 0))
	}},
	{name: "status of an unknown goroutine in a later generation", code: CodeUnknownGo, change: func(e *traceEdit) int {
		return e.script(e.ev(raw.EvGoStatus, scriptGo, generation.None, goWaiting))
	}},
	{name: "unblock of a goroutine that has ended", code: CodeEndedGo, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvGoDestroy), e.ev(raw.EvGoUnblock, scriptGo, 2, 0)) + 1
	}},
	{name: "an ended goroutine is created again", code: CodeEndedGo, warning: true, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvGoDestroy), e.ev(raw.EvGoCreate, scriptGo, 0, 0)) + 1
	}},
	{name: "a goroutine that exists is created", code: CodeGoExists, change: func(e *traceEdit) int {
		i := e.last(raw.EvGoCreate, nil)
		e.insert(i, e.ev(raw.EvGoCreate, 1, 0, 0))
		return i
	}},
	{name: "no status in a generation", code: CodeNoStatus, change: func(e *traceEdit) int {
		ok := inLast(e)
		status := e.find(0, raw.EvGoStatus, func(i int, ev *raw.Event) bool {
			return ok(i, ev) && ev.Args[3] == goWaiting && e.uses(i, ev.Args[1]) >= 0
		})
		g := e.events[status].Args[1]
		e.remove(status)
		return e.uses(status-1, g)
	}},
	{name: "another status than in the generation before", code: CodeContradiction, change: func(e *traceEdit) int {
		ok := inLast(e)
		i := e.find(0, raw.EvGoStatusStack, func(i int, ev *raw.Event) bool {
			return ok(i, ev) && ev.Args[3] == goWaiting && e.uses(i, ev.Args[1]) < 0
		})
		e.events[i].Args[3] = goRunnable
		return i
	}},
	{name: "a system call on a thread that has another goroutine", code: CodeWrongThread, change: func(e *traceEdit) int {
		i := e.last(raw.EvGoStatusStack, func(_ int, ev *raw.Event) bool { return ev.Args[3] == goSyscall })
		start := e.find(0, raw.EvGoStart, inLast(e))
		e.events[i].Args[2] = e.events[e.batchOf(start)].Args[1]
		return i
	}},
	{name: "a system call on no thread", code: CodeWrongThread, change: func(e *traceEdit) int {
		i := e.last(raw.EvGoStatusStack, func(_ int, ev *raw.Event) bool { return ev.Args[3] == goSyscall })
		e.events[i].Args[2] = generation.None
		return i
	}},
	{name: "a goroutine's sequence number is too high", code: CodeGoSequence, change: func(e *traceEdit) int {
		i := e.last(raw.EvGoStart, nil)
		e.events[i].Args[2] += 5
		return i
	}},
	{name: "a sequence number too high, and more events of the goroutine", code: CodeGoSequence, change: func(e *traceEdit) int {
		i := e.find(0, raw.EvGoStart, func(_ int, ev *raw.Event) bool { return ev.Args[1] == 1 })
		e.events[i].Args[2] += 5
		return i
	}},
	{name: "a goroutine's sequence number is too low", code: CodeGoSequence, change: func(e *traceEdit) int {
		i := e.last(raw.EvGoUnblock, func(_ int, ev *raw.Event) bool { return ev.Args[2] > 2 })
		e.events[i].Args[2] -= 2
		return i
	}},
}

// uses returns the first event with a sequence number of a goroutine, in the generation of the event with an index; -1 if
// there is none.
func (e *traceEdit) uses(i int, g uint64) int {
	gen := e.generationOf(i)
	best, bestTime, now, within := -1, uint64(0), uint64(0), false
	for j := range e.events {
		ev := &e.events[j]
		if ev.Type == raw.EvEventBatch {
			now, within = ev.Args[2], ev.Args[0] == gen
		}
		if spec := ev.Spec(); !within || !spec.Timed {
			continue
		}
		now += ev.Args[0]
		switch ev.Type {
		case raw.EvGoStart, raw.EvGoUnblock, raw.EvGoSwitch, raw.EvGoSwitchDestroy:
			if ev.Args[1] == g && (best < 0 || now < bestTime) {
				best, bestTime = j, now
			}
		}
	}
	return best
}

var procMutations = []mutation{
	{name: "status of a P that does not exist", code: CodeBadStatus, change: func(e *traceEdit) int {
		return e.script(e.ev(raw.EvProcStatus, scriptProc2, 9))
	}},
	{name: "a second P", code: CodeSecondProc, change: func(e *traceEdit) int {
		return e.script(e.ev(raw.EvProcStatus, scriptProc2, procIdle), e.ev(raw.EvProcStart, scriptProc2, 1)) + 1
	}},
	{name: "one P on two threads", code: CodeProcOnTwo, change: func(e *traceEdit) int {
		e.script(e.ev(raw.EvHeapAlloc, 1))
		return e.newBatch(scriptThread2, e.ev(raw.EvProcStart, scriptProc, 2), e.ev(raw.EvHeapAlloc, 1)) + 1
	}},
	{name: "one P said to be on two threads", code: CodeProcOnTwo, warning: true, change: func(e *traceEdit) int {
		const running = 1
		e.script(e.ev(raw.EvHeapAlloc, 1))
		return e.newBatch(scriptThread2, e.ev(raw.EvProcStatus, scriptProc, running), e.ev(raw.EvHeapAlloc, 1)) + 1
	}},
	{name: "start of an abandoned P", code: CodeProcStatus, change: func(e *traceEdit) int {
		return e.newBatch(scriptThread, e.ev(raw.EvProcStatus, scriptProc, procAbandoned), e.ev(raw.EvProcStart, scriptProc, 1)) + 2
	}},
	{name: "the P is not taken in a system call that is said to have lost it", code: CodeProcStatus, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvGoSyscallBegin, 2, 0), e.ev(raw.EvGoSyscallEndBlocked)) + 1
	}},
	{name: "a P is stolen from a thread that runs", code: CodeProcStatus, change: func(e *traceEdit) int {
		e.script(e.ev(raw.EvHeapAlloc, 1))
		return e.newBatch(scriptThread2, e.ev(raw.EvProcSteal, scriptProc, 2, scriptThread)) + 1
	}},
	{name: "start of an unknown P", code: CodeUnknownProc, change: func(e *traceEdit) int {
		return e.newBatch(scriptThread, e.ev(raw.EvProcStart, scriptProc, 1)) + 1
	}},
	{name: "another status of a P than before", code: CodeContradiction, change: func(e *traceEdit) int {
		return e.script(e.ev(raw.EvProcStatus, scriptProc, procIdle))
	}},
	{name: "a P is stolen from the wrong thread", code: CodeWrongThread, change: func(e *traceEdit) int {
		e.running(e.ev(raw.EvGoSyscallBegin, 2, 0))
		return e.newBatch(scriptThread2, e.ev(raw.EvProcSteal, scriptProc, 3, scriptThread2)) + 1
	}},
	{name: "a P is stolen from an unknown thread", code: CodeWrongThread, change: func(e *traceEdit) int {
		e.running(e.ev(raw.EvGoSyscallBegin, 2, 0))
		return e.newBatch(scriptThread2, e.ev(raw.EvProcSteal, scriptProc, 3, 1)) + 1
	}},
	{name: "a P's sequence number is too high", code: CodeProcSequence, change: func(e *traceEdit) int {
		i := e.last(raw.EvProcStart, nil)
		e.events[i].Args[2] += 5
		return i
	}},
	{name: "a P's sequence number is too high, and more events of it", code: CodeProcSequence, change: func(e *traceEdit) int {
		i := e.find(0, raw.EvProcStart, nil)
		e.events[i].Args[2] += 5
		return i
	}},
	{name: "the sequence number of a system call", code: CodeProcSequence, change: func(e *traceEdit) int {
		i := e.find(0, raw.EvGoSyscallBegin, nil)
		e.events[i].Args[1] += 5
		return i
	}},
}

var rangeMutations = []mutation{
	{name: "the collector's sequence number", code: CodeGCSequence, change: func(e *traceEdit) int {
		i := e.find(0, raw.EvGCEnd, nil)
		e.events[i].Args[1] += 5
		return i
	}},
	{name: "a collection ends twice", code: CodeGCPairing, change: func(e *traceEdit) int {
		seq := e.events[e.last(raw.EvGCEnd, nil)].Args[1]
		return e.running(e.ev(raw.EvGCEnd, seq+1))
	}},
	{name: "a collection begins within another one", code: CodeGCPairing, change: func(e *traceEdit) int {
		seq := e.events[e.last(raw.EvGCEnd, nil)].Args[1]
		return e.running(e.ev(raw.EvGCBegin, seq+1, 0), e.ev(raw.EvGCBegin, seq+2, 0)) + 1
	}},
	{name: "the world goes on and was not stopped", code: CodeSTWPairing, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvSTWEnd))
	}},
	{name: "the world is stopped twice", code: CodeSTWPairing, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvSTWBegin, 0, 0), e.ev(raw.EvSTWBegin, 0, 0)) + 1
	}},
	{name: "the world is stopped for two reasons", code: CodeSTWPairing, warning: true, change: func(e *traceEdit) int {
		reason := e.events[e.last(raw.EvString, nil)].Args[0]
		return e.running(e.ev(raw.EvSTWBegin, 0, 0), e.ev(raw.EvSTWBegin, reason, 0)) + 1
	}},
	{name: "sweeping ends and did not begin", code: CodeSweepPairing, change: func(e *traceEdit) int {
		return e.script(e.ev(raw.EvGCSweepEnd, 1, 1))
	}},
	{name: "sweeping is said to go on and did not begin", code: CodeSweepPairing, change: func(e *traceEdit) int {
		return e.script(e.ev(raw.EvGCSweepActive, scriptProc))
	}},
	{name: "assisting ends and did not begin", code: CodeAssistPairing, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvGCMarkAssistEnd))
	}},
	{name: "assisting is said to go on and did not begin", code: CodeAssistPairing, change: func(e *traceEdit) int {
		return e.script(e.ev(raw.EvGCMarkAssistActive, 1))
	}},
	{name: "a task begins twice", code: CodeTaskExists, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvUserTaskBegin, 500, 0, 0, 0), e.ev(raw.EvUserTaskBegin, 500, 0, 0, 0)) + 1
	}},
	{name: "a task ends and did not begin", code: CodeTaskNotBegun, warning: true, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvUserTaskEnd, 500, 0))
	}},
	{name: "a region ends that is not the innermost one", code: CodeRegionMismatch, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvUserRegionBegin, 1, 0, 0), e.ev(raw.EvUserRegionBegin, 2, 0, 0),
			e.ev(raw.EvUserRegionEnd, 1, 0, 0)) + 2
	}},
	{name: "a region ends and did not begin", code: CodeRegionNotBegun, warning: true, change: func(e *traceEdit) int {
		return e.running(e.ev(raw.EvUserRegionEnd, 1, 0, 0))
	}},
}
