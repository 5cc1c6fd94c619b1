package observe

import (
	"slices"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/glti/observe/wire"
	"github.com/loupe-go/loupe/internal/gostate"
)

// kindOf are the kinds of the agent's events.
var kindOf = [wire.NumEvents]event.Kind{
	wire.GoCreate:     event.GoCreate,
	wire.GoStart:      event.GoStart,
	wire.GoPark:       event.GoBlock,
	wire.GoYield:      event.GoStop,
	wire.GoPreempt:    event.GoStop,
	wire.GoUnblock:    event.GoUnblock,
	wire.GoEnd:        event.GoDestroy,
	wire.SyscallBegin: event.GoSyscallBegin,
	wire.SyscallEnd:   event.GoSyscallEnd,
	wire.GCBegin:      event.GCBegin,
	wire.GCEnd:        event.GCEnd,
	wire.STWBegin:     event.STWBegin,
	wire.STWEnd:       event.STWEnd,
	wire.AssistBegin:  event.GCMarkAssistBegin,
	wire.AssistEnd:    event.GCMarkAssistEnd,
	wire.HeapLive:     event.HeapAlloc,
}

// kindsOf returns the kinds of a set of the agent's events.
func kindsOf(mask uint64) event.Kinds {
	kinds := event.KindsOf(event.GoStatus)
	for e, k := range kindOf {
		if mask>>e&1 != 0 && k != 0 {
			kinds = kinds.Union(event.KindsOf(k))
		}
	}
	return kinds
}

// Kinds returns the kinds of events that an agent of this version of the protocol has.
func Kinds() event.Kinds { return kindsOf(1<<wire.NumEvents - 1) }

// eventsOf returns the agent's events for kinds. The rules for the states of goroutines need those that begin and end a goroutine.
func eventsOf(kinds event.Kinds) uint64 {
	mask := uint64(1<<wire.GoCreate | 1<<wire.GoEnd)
	for e, k := range kindOf {
		if kinds.Has(k) && k != 0 {
			mask |= 1 << e
		}
	}
	return mask
}

// stopReasons are the reasons of the agent's STWBegin, as the runtime spells them.
var stopReasons = map[uint64]string{wire.STWMarkTermination: "GC mark termination", wire.STWSweepTermination: "GC sweep termination"}

// states are the states of the agent's goroutines.
var states = map[wire.State]event.State{wire.Runnable: event.StateRunnable, wire.Running: event.StateRunning, wire.InSyscall: event.StateSyscall,
	wire.Waiting: event.StateWaiting, wire.Preempted: event.StateWaiting}

// converter makes events of records. It follows on which thread each goroutine runs, and which goroutines are not observed.
type converter struct {
	names  *names
	opt    Options
	pid    int32
	offset int64 // from the clock of the program to Unix time

	threads map[uint64]int32 // of the goroutines that have a thread
	hidden  map[uint64]bool  // goroutines of the runtime
	ev      event.Event
}

// wanted reports whether the options select a goroutine.
func (c *converter) wanted(g uint64) bool {
	if c.hidden[g] || !c.opt.Sample.Selects(g) {
		return false
	}
	return len(c.opt.Goroutines) == 0 || slices.Contains(c.opt.Goroutines, g)
}

// event returns the event of a record, or nil if it is not wanted. It is valid until the next call.
func (c *converter) event(r *wire.Record) *event.Event {
	e := &c.ev
	*e = event.Event{Time: r.Time + c.offset, Kind: kindOf[r.Event], PID: c.pid, G: r.G, TID: c.threads[r.G], Stack: c.names.stack(r.Stack)}
	switch r.Event {
	case wire.GoCreate:
		e.Parent, e.Origin, e.TID = r.By, c.names.origin(r.Arg, r.Arg2), c.threads[r.By]
		if e.Origin.Start.Func == "runtime.corostart" {
			e.State = event.StateWaiting
		}
		if e.Origin.System && !c.opt.System {
			c.hidden[r.G] = true
		}
	case wire.GoStart:
		e.TID, e.P = int32(r.Arg), event.ProcOf(r.P)
		c.threads[r.G] = e.TID
	case wire.GoPark:
		e.Reason, e.TraceReason = c.names.reason(r.Arg), c.names.traceReason(r.Arg2)
		delete(c.threads, r.G)
	case wire.GoYield, wire.GoPreempt:
		if e.Reason = event.StopGosched; r.Event == wire.GoPreempt {
			e.Reason = event.StopPreempted
		}
		delete(c.threads, r.G)
	case wire.GoUnblock:
		e.By, e.TID = r.By, c.threads[r.By]
	case wire.GoEnd:
		delete(c.threads, r.G)
		if c.hidden[r.G] {
			delete(c.hidden, r.G)
			return nil
		}
	case wire.GCBegin:
		e.G, e.TID = r.By, c.threads[r.By]
	case wire.STWBegin:
		e.G, e.TID, e.Reason = r.By, c.threads[r.By], stopReasons[r.Arg]
	case wire.HeapLive:
		e.Value = int64(r.Arg)
	}
	if !c.opt.Kinds.Has(e.Kind) || !gostate.OfProgram().Has(e.Kind) && !c.wanted(e.G) {
		return nil
	}
	return e
}

// status returns the event for a goroutine that was alive when the stream began.
func (c *converter) status(g *wire.Goroutine, at int64) *event.Event {
	if !c.wanted(g.ID) || !c.opt.Kinds.Has(event.GoStatus) {
		return nil
	}
	c.ev = event.Event{Time: at + c.offset, Kind: event.GoStatus, PID: c.pid, G: g.ID, Parent: g.Parent, TID: c.threads[g.ID],
		State: states[g.State], Value: max(g.Wait, 0), Stack: c.names.stack(g.Stack), Origin: c.names.origin(g.CreatedBy, g.Func)}
	switch g.State {
	case wire.Waiting:
		c.ev.Reason = c.names.reason(g.Reason)
	case wire.Preempted:
		c.ev.Reason = "preempted"
	}
	return &c.ev
}

// begin corrects the goroutines of the list, which the agent read while they ran, to those that existed when the stream began. The state that
// a goroutine had before follows from its first record. begin notes threads and hidden goroutines.
func (c *converter) begin(list []wire.Goroutine, records []wire.Record) []wire.Goroutine {
	first := map[uint64]*wire.Record{}
	for i := range records {
		if r := &records[i]; r.G != 0 && first[r.G] == nil {
			first[r.G] = r
		}
	}
	var alive []wire.Goroutine
	for _, g := range list {
		if g.ID == 1 { // no go statement has created it
			g.CreatedBy = 0
		}
		r := first[g.ID]
		delete(first, g.ID)
		if g.System && !c.opt.System {
			c.hidden[g.ID] = true
		}
		if r != nil && r.Event == wire.GoCreate {
			continue
		}
		if r != nil {
			if before := stateBefore(r); before != g.State && !(before == wire.Waiting && g.State == wire.Preempted) {
				g.State, g.Reason, g.Wait, g.Stack, g.Thread = before, 0, 0, 0, 0
			}
		}
		if t := int32(g.Thread); t > 0 && (g.State == wire.Running || g.State == wire.InSyscall) {
			c.threads[g.ID] = t
		}
		alive = append(alive, g)
	}
	for id, r := range first { // ended before the agent read it
		if r.Event != wire.GoCreate {
			alive = append(alive, wire.Goroutine{ID: id, State: stateBefore(r)})
		}
	}
	return alive
}

// stateBefore returns the state that a goroutine was in before a record about it.
func stateBefore(r *wire.Record) wire.State {
	switch gostate.Before(kindOf[r.Event]) {
	case gostate.Runnable:
		return wire.Runnable
	case gostate.Waiting:
		return wire.Waiting
	case gostate.Syscall:
		return wire.InSyscall
	}
	return wire.Running
}
