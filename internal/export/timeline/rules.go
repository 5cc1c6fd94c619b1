package timeline

import (
	"time"

	"github.com/loupe-go/loupe/event"
)

// state is the state of a goroutine. The zero value means that nothing is drawn.
type state uint8

const (
	none state = iota
	runnable
	running
	syscall
	waiting
	numStates
)

// stateOf returns the state of a snapshot.
func stateOf(s event.State) state {
	switch s {
	case event.StateRunnable:
		return runnable
	case event.StateRunning, event.StateCopystack:
		return running
	case event.StateSyscall:
		return syscall
	case event.StateWaiting, event.StatePreempted, event.StateLeaked:
		return waiting
	}
	return none
}

// fit is the consistency of an event with the previous state.
type fit uint8

const (
	misfit  fit = iota // the end of the state was missed
	unsure             // the state may have ended before, with events that are not observed
	fitting            // the state lasted until the event
)

// fits is the fit of an event and the goroutine's state if all kinds are observed. The order of the states is
// none, runnable, running, syscall, waiting. The rules are those of package sched.
var fits = map[event.Kind][numStates]fit{
	event.GoStart:        {fitting, fitting, misfit, fitting, misfit},
	event.GoUnblock:      {fitting, misfit, misfit, misfit, fitting},
	event.GoSyscallEnd:   {fitting, misfit, fitting, fitting, misfit},
	event.GoStop:         needsRunning,
	event.GoBlock:        needsRunning,
	event.GoDestroy:      needsRunning,
	event.GoSyscallBegin: needsRunning,
	event.ChanMake:       needsRunning,
	event.ChanSend:       needsRunning,
	event.ChanReceive:    needsRunning,
	event.ChanClose:      needsRunning,
	event.Select:         needsRunning,
	event.SemAcquire:     needsRunning,
	event.SemRelease:     needsRunning,
}

var needsRunning = [numStates]fit{fitting, misfit, fitting, misfit, misfit}

// endings are the kinds that end a state. Without them it would never end.
var stateEnds = [numStates]event.Kinds{
	runnable: event.KindsOf(event.GoStart),
	running:  event.KindsOf(event.GoStop, event.GoBlock),
	waiting:  event.KindsOf(event.GoUnblock),
}

// conduct is the rules for the observed kinds.
type conduct struct {
	fits   [64][numStates]fit
	can    [numStates]bool // the state is drawn
	counts [NumCounters]bool
}

func newConduct(kinds event.Kinds, minBlock time.Duration) conduct {
	if kinds == 0 {
		kinds = event.KindsDefault
	}
	if minBlock > 0 {
		kinds &^= event.KindsOf(event.GoStart, event.GoStop, event.GoUnblock)
	}
	has := func(want event.Kinds) bool { return kinds&want == want }
	var c conduct
	for s := runnable; s < numStates; s++ {
		c.can[s] = has(stateEnds[s])
	}
	whole, calls := has(event.KindsGoroutine), has(event.KindsSyscall)
	for kind, row := range fits {
		for s := range row {
			if !whole && row[s] == misfit {
				row[s] = unsure // the user excluded the missing events
			}
		}
		if !calls {
			// A snapshot found the call. And who comes back from a long call, which is not observed, starts anew.
			row[syscall] = unsure
			if kind == event.GoStart {
				row[running] = fitting
			}
		}
		c.fits[kind] = row
	}
	c.counts = [NumCounters]bool{Alive: has(event.KindsOf(event.GoStatus, event.GoCreate, event.GoDestroy)),
		NowRunning: c.can[running], NowRunnable: c.can[runnable], Heap: true}
	return c
}
