package sched

import (
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// class says what an event implies about the time since the previous event.
type class uint8

const (
	mixed  class = iota // the state changed in between at an unknown time
	repair              // as mixed, and the change should have been observed: an event is missing
	exact               // the goroutine was in its state for the whole time
	silent              // as mixed, without an event: Reconcile ended it
)

// rules map an event and the goroutine's state to a class, if all kinds are observed. The order of the states
// is unknown, runnable, running, syscall, waiting. Rows of kinds that are not about a goroutine's state are absent.
var rules = map[event.Kind][gostate.NumStates]class{
	event.GoStart:        {mixed, exact, mixed, exact, repair},
	event.GoStop:         {mixed, repair, exact, repair, repair},
	event.GoBlock:        {mixed, repair, exact, repair, repair},
	event.GoUnblock:      {mixed, repair, repair, repair, exact},
	event.GoDestroy:      {mixed, repair, exact, repair, repair},
	event.GoSyscallBegin: {mixed, repair, exact, repair, repair},
	event.GoSyscallEnd:   {mixed, repair, exact, exact, repair},
	event.ChanMake:       {mixed, repair, exact, repair, repair},
	event.ChanSend:       {mixed, repair, exact, repair, repair},
	event.ChanReceive:    {mixed, repair, exact, repair, repair},
	event.ChanClose:      {mixed, repair, exact, repair, repair},
	event.Select:         {mixed, repair, exact, repair, repair},
	event.SemAcquire:     {mixed, repair, exact, repair, repair},
	event.SemRelease:     {mixed, repair, exact, repair, repair},
}

// follows is the state after an event.
var follows = map[event.Kind]gostate.State{
	event.GoCreate:       gostate.Runnable,
	event.GoStart:        gostate.Running,
	event.GoStop:         gostate.Runnable,
	event.GoBlock:        gostate.Waiting,
	event.GoUnblock:      gostate.Runnable,
	event.GoSyscallBegin: gostate.Syscall,
	event.GoSyscallEnd:   gostate.Running,
	event.ChanMake:       gostate.Running,
	event.ChanSend:       gostate.Running,
	event.ChanReceive:    gostate.Running,
	event.ChanClose:      gostate.Running,
	event.Select:         gostate.Running,
	event.SemAcquire:     gostate.Running,
	event.SemRelease:     gostate.Running,
}

// endings are the kinds that normally end a state. A state whose endings are not observed is never reported, because it
// would never end. The exception is a goroutine that a snapshot found in a system call: it is reported there until its next
// event, and the time then counts as uncertain.
var endings = [gostate.NumStates]event.Kinds{
	gostate.Runnable: event.KindsOf(event.GoStart),
	gostate.Running:  event.KindsOf(event.GoStop, event.GoBlock),
	gostate.Waiting:  event.KindsOf(event.GoUnblock),
}

// conduct is the rules for the observed kinds.
type conduct struct {
	rules    [64][gostate.NumStates]class
	follows  [64]gostate.State                // unknown for states that are not reported
	tells    [64]bool                         // the kind is about a goroutine's state
	can      [gostate.NumStates]gostate.State // the state itself, or unknown if it is not reported
	syscalls bool                             // are observed
	seesGC   bool                             // the garbage collector is observed
	ends     bool                             // GoDestroy is observed
}

func newConduct(kinds event.Kinds, minBlock time.Duration) conduct {
	if kinds == 0 {
		kinds = event.KindsDefault
	}
	if minBlock > 0 {
		// Starts and stops are missing, and a wait is reported only when it ends.
		kinds &^= event.KindsOf(event.GoStart, event.GoStop, event.GoUnblock)
	}
	has := func(want event.Kinds) bool { return kinds&want == want }
	c := conduct{syscalls: has(event.KindsSyscall), seesGC: has(event.KindsOf(event.GCBegin, event.GCEnd)), ends: kinds.Has(event.GoDestroy)}
	for s, want := range endings {
		if has(want) {
			c.can[s] = gostate.State(s)
		}
	}
	whole := has(event.KindsGoroutine)
	for kind, row := range rules {
		if !whole {
			for s := range row {
				if row[s] == repair { // the user excluded the missing events
					row[s] = mixed
				}
			}
		}
		if !c.syscalls {
			row[gostate.Syscall] = mixed
			if kind == event.GoStart {
				row[gostate.Running] = exact
			}
		}
		c.rules[kind] = row
		c.tells[kind] = true
	}
	for kind, s := range follows {
		c.follows[kind] = c.can[s]
	}
	c.tells[event.GoCreate], c.tells[event.GoStatus] = true, true
	return c
}
