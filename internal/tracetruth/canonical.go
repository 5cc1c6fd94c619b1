package tracetruth

import (
	"github.com/loupe-go/loupe/event"
)

// canonical returns the records of a trace without those that the rules remove, in Loupe's order, with marks where the rules
// allow a choice.
func (t *Trace) canonical(kinds event.Kinds, used RuleCounts) []Record {
	c := truthCanon{kinds: kinds, used: used, restarts: map[uint64]bool{}, resized: map[uint64]bool{}, switched: map[uint64]bool{}}
	for i := 0; i < len(t.Records); i++ {
		r := t.Records[i]
		if i+2 < len(t.Records) && c.isSwitch(t.Records[i:i+3]) {
			c.used[RuleSwitchOrder]++
			c.add(t.Records[i+1])
			c.add(r)
			i++
			continue
		}
		c.add(r)
	}
	return c.out
}

// truthCanon processes the records of a trace.
type truthCanon struct {
	kinds event.Kinds // the compared kinds of KindsSyscall and KindsGC
	used  RuleCounts
	out   []Record

	restarts map[uint64]bool // back from a system call without a P
	resized  map[uint64]bool // reported as stopped by procresize
	switched map[uint64]bool // coroutines that wait for a switch
}

// isSwitch reports whether three records are one coroutine switch. A coroutine that waits for a switch is woken only by
// a switch.
func (c *truthCanon) isSwitch(r []Record) bool {
	wake, stop, start := &r[0], &r[1], &r[2]
	return wake.Kind == event.GoUnblock && c.switched[wake.G] && stop.G == wake.By &&
		(stop.Kind == event.GoBlock && stop.Switch || stop.Kind == event.GoDestroy) &&
		start.Kind == event.GoStart && start.G == wake.G
}

func (c *truthCanon) add(r Record) {
	switch r.Kind {
	case event.GoSyscallBegin, event.GoSyscallEnd:
		if r.lostP {
			c.restarts[r.G] = true
		}
		if !c.kinds.Has(r.Kind) {
			return
		}
	case event.GCBegin, event.STWBegin:
		if !c.kinds.Has(r.Kind) {
			return
		}
	case event.GoStart:
		r.optional = c.restarts[r.G]
		delete(c.restarts, r.G)
		if c.resized[r.G] {
			delete(c.resized, r.G)
			return
		}
		delete(c.switched, r.G)
	case event.GoStop:
		if isResize(&r) {
			c.resized[r.G] = true
			c.used[RuleResize]++
			return
		}
	case event.GoCreate:
		c.switched[r.G] = r.Waiting
	case event.GoBlock:
		c.switched[r.G] = r.Switch
	}
	c.out = append(c.out, r)
}

// isResize reports whether a stop was written by procresize, which runs while the world is started again. There a
// goroutine yields only to hand over a semaphore, which the trace calls a preemption.
func isResize(r *Record) bool {
	return r.TraceReason == event.StopGosched && r.within("runtime.startTheWorld")
}

// A stream is what Loupe has seen.
type stream struct {
	records []Record
	lost    int64
	// waits reports whether goroutines that were alive at the start were in a wait that the runtime may end.
	waits map[uint64]bool
	// reasons has the wait reasons of goroutines that waited.
	reasons map[uint64]string
}

// canonicalEvents converts the compared events to records. Their times remain Unix times.
func canonicalEvents(events []event.Event, release int, kinds event.Kinds, used RuleCounts) *stream {
	s := &stream{waits: make(map[uint64]bool), reasons: make(map[uint64]string)}
	for i := range events {
		ev := &events[i]
		r := Record{Time: ev.Time, Kind: ev.Kind, G: ev.G, Index: i, Stack: eventFrames(ev.Stack)}
		switch ev.Kind {
		case event.GoStatus:
			s.reasons[ev.G] = ev.WaitReason()
			s.waits[ev.G] = ev.State == event.StateWaiting && isRuntimeWait(ev.WaitReason(), release)
			continue
		case event.Lost:
			s.lost += ev.Missing()
			continue
		case event.GoSyscallBegin, event.GoSyscallEnd:
			if !kinds.Has(ev.Kind) {
				continue
			}
		case event.GCBegin:
			if !kinds.Has(ev.Kind) {
				continue
			}
		case event.STWBegin:
			if !kinds.Has(ev.Kind) || release < minorTraceV2 {
				continue
			}
			r.TraceReason = ev.STWReason()
		case event.GoCreate:
			r.By, r.Waiting = ev.Parent, ev.State == event.StateWaiting
			if ev.Origin != nil {
				r.Start = ev.Origin.Start.Func
			}
		case event.GoStart, event.GoDestroy:
		case event.GoStop:
			r.TraceReason = ev.StopReason()
		case event.GoBlock:
			r.Reason, r.TraceReason = ev.WaitReason(), ev.TraceReason
			r.Switch = ev.WaitReason() == waitCoroutine
		case event.GoUnblock:
			r.By = ev.By
			if r.By == r.G {
				used[RuleSelfWake]++
				r.By = 0
			}
		default:
			continue
		}
		s.records = append(s.records, r)
	}
	return s
}

// eventFrames returns the frames of an event's stack.
func eventFrames(s *event.Stack) []Frame {
	if s == nil {
		return nil
	}
	var list []Frame
	for _, f := range s.Frames {
		list = append(list, Frame{f.Func, f.Line})
	}
	return list
}
