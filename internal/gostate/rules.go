package gostate

import (
	"time"

	"github.com/loupe-go/loupe/event"
)

// Fit says whether an event is consistent with the state of its goroutine before it.
type Fit uint8

// The values of Fit.
const (
	Unsure Fit = iota // the state changed before the event, at an unknown time
	Misfit            // as Unsure, and the change should have been observed: an event is missing
	Fits              // the goroutine was in the state until the event
)

// rule is what the events of a kind imply for the state of their goroutine.
type rule struct {
	about  bool  // the events are about a goroutine's state; false for the other kinds
	before State // the goroutine was in this state until the event; Unknown if it had none, or any
	also   State // another state that fits; Unknown if there is none
	after  State // the goroutine is in this state now, unless the event itself names the state, see After
}

// rules has a row for each kind of event that is about the state of a goroutine.
//
// A long system call can end with a GoStart if the goroutine lost its P. A GoSyscallEnd then comes while it runs.
var rules = [event.KindLimit]rule{
	event.GoStatus:       {true, Unknown, Unknown, Unknown},
	event.GoCreate:       {true, Unknown, Unknown, Runnable},
	event.GoStart:        {true, Runnable, Syscall, Running},
	event.GoStop:         {true, Running, Unknown, Runnable},
	event.GoBlock:        {true, Running, Unknown, Waiting},
	event.GoUnblock:      {true, Waiting, Unknown, Runnable},
	event.GoDestroy:      {true, Running, Unknown, Unknown},
	event.GoSyscallBegin: {true, Running, Unknown, Syscall},
	event.GoSyscallEnd:   {true, Syscall, Running, Running},
	event.ChanMake:       {true, Running, Unknown, Running},
	event.ChanSend:       {true, Running, Unknown, Running},
	event.ChanReceive:    {true, Running, Unknown, Running},
	event.ChanClose:      {true, Running, Unknown, Running},
	event.Select:         {true, Running, Unknown, Running},
	event.SemAcquire:     {true, Running, Unknown, Running},
	event.SemRelease:     {true, Running, Unknown, Running},

	event.GCMarkAssistBegin: {true, Running, Unknown, Running},
	event.GCMarkAssistEnd:   {true, Running, Unknown, Running},
}

// About reports whether events of a kind are about the state of a goroutine.
func About(k event.Kind) bool { return rules[k].about }

// ofProgram are the kinds for garbage collections that are not about a goroutine, although they may name one.
var ofProgram = event.KindsGC.Without(event.KindsOf(event.GCMarkAssistBegin, event.GCMarkAssistEnd))

// OfProgram returns the kinds for garbage collections and STW pauses that concern the whole program. Filters of goroutines do not
// apply to them, even if an event has the goroutine that caused it.
func OfProgram() event.Kinds { return ofProgram }

// Before returns the state that events of a kind normally end. It is Unknown for kinds that are not about a goroutine's
// state, for GoCreate and for GoStatus.
func Before(k event.Kind) State { return rules[k].before }

// After returns the state of the goroutine e.G after the event. It is Unknown if the goroutine has ended, if a GoStatus
// does not contain the state, and for kinds that are not about a goroutine's state.
func After(e *event.Event) State {
	switch e.Kind {
	case event.GoStatus:
		return Of(e.State)
	case event.GoCreate:
		if e.State == event.StateWaiting { // a coroutine
			return Waiting
		}
	case event.GoSyscallEnd:
		if e.State == event.StateRunnable { // it waits for a P
			return Runnable
		}
	}
	return rules[e.Kind].after
}

// FitOf returns the fit of an event of a kind after a state, if all kinds are observed.
func FitOf(k event.Kind, before State) Fit {
	r := &rules[k]
	switch {
	case before == Unknown, r.before == Unknown:
		return Unsure
	case before == r.before, before == r.also:
		return Fits
	}
	return Misfit
}

// endings are the kinds that normally end a state. A state whose endings are not observed is never reported, because it
// would never end. The exception is a goroutine that a snapshot found in a system call: it is reported there until its next
// event, and the time then counts as uncertain.
var endings = [NumStates]event.Kinds{
	Runnable: event.KindsOf(event.GoStart),
	Running:  event.KindsOf(event.GoStop, event.GoBlock),
	Waiting:  event.KindsOf(event.GoUnblock),
}

// Rules are the rules for the kinds of events that are observed.
type Rules struct {
	Kinds    event.Kinds // the observed kinds
	Fit      [event.KindLimit][NumStates]Fit
	Next     [event.KindLimit]State // the state after an event of a kind; Unknown if it is not reported
	Reported [NumStates]State       // the state itself, or Unknown if it is not reported
}

// RulesFor returns the rules for the given kinds; zero means event.KindsDefault. minBlock is not zero if only waits of that
// length are observed.
func RulesFor(kinds event.Kinds, minBlock time.Duration) Rules {
	if kinds.IsEmpty() {
		kinds = event.KindsDefault
	}
	if minBlock > 0 {
		// Starts and stops are missing, and a wait is reported only when it ends.
		kinds = kinds.Without(event.KindsOf(event.GoStart, event.GoStop, event.GoUnblock))
	}
	r := Rules{Kinds: kinds}
	for s, want := range endings {
		if r.Observed(want) {
			r.Reported[s] = State(s)
		}
	}
	whole, syscalls := r.Observed(event.KindsGoroutine), r.Observed(event.KindsSyscall)
	for k := range rules {
		kind := event.Kind(k)
		for s := Unknown; s < NumStates; s++ {
			fit := FitOf(kind, s)
			switch {
			case syscalls || s != Syscall && (s != Running || kind != event.GoStart):
				if fit == Misfit && !whole { // the user excluded the missing events
					fit = Unsure
				}
			case s == Syscall: // a snapshot found the call
				fit = Unsure
			default: // a goroutine that returns from a long system call starts anew
				fit = Fits
			}
			r.Fit[k][s] = fit
		}
		r.Next[k] = r.Reported[rules[k].after]
	}
	return r
}

// Observed reports whether all of the given kinds are observed.
func (r *Rules) Observed(want event.Kinds) bool { return r.Kinds.Contains(want) }
