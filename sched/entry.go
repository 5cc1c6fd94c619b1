package sched

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// cause is the event that made a goroutine runnable.
type cause uint8

const (
	causeNone     cause = iota // unknown, or the goroutine is not runnable
	causeCreated               // GoCreate
	causeWoken                 // GoUnblock
	causeStopped               // GoStop
	causeReturned              // GoSyscallEnd, without a P
	numCauses
)

// Flags of an entry.
const (
	flagInitial   = 1 << iota // in its first state since GoStatus; time in the state counts from seen, not from since
	flagAtStart               // its first event is GoStatus
	flagFound                 // its first event is neither GoCreate nor GoStatus: earlier events are missing
	flagCoroutine             // it was created as waiting, and is started without GoUnblock
	flagWaitEnded             // its last GoBlock reported a complete wait; waker holds the duration until GoUnblock
	flagWoken                 // waker is the ID of a goroutine
	flagAlive                 // it is in the list of Reconcile
	flagLeaked                // a snapshot reported it as leaked
	flagInferred              // its state is inferred: its thread or its P runs another goroutine
	flagReturned              // its last event is GoSyscallEnd: it may have to wait for a P
	flagCreator               // it has created other goroutines
)

// entry is a live goroutine. A million entries and their index must fit in 128 MB. Therefore strings and stacks are interned,
// and the uncertain time, which follows from the other fields, is not stored. Times are in nanoseconds.
type entry struct {
	since int64                        // when it entered its state; can be before seen if flagInitial is set
	spent [gostate.NumStates - 1]int64 // certain time in states that have ended, by state - 1
	place uint32                       // the number of its last place
	site  uint32                       // the number of its site
	epoch uint32                       // the machine's epoch at its last event; if they differ, it is uncertain
	state gostate.State
	cause cause
	flags uint16

	starts, blocks uint64
	parent, waker  uint64
	seen           int64  // time of its first event
	wake           uint32 // the number of the place of its last GoUnblock
	repairs        uint16 // number of repairs of its state; saturates
	thread         uint16 // the slot of its thread; 0 if it has no thread or the thread is unknown
}

// counted returns the time from which the current state counts, in nanoseconds since the Unix epoch.
func (en *entry) counted() int64 {
	if en.flags&flagInitial != 0 {
		return en.seen
	}
	return en.since
}

// leaked records whether a GoStatus reports the goroutine as leaked.
func (en *entry) leaked(e *event.Event) {
	en.flags &^= flagLeaked
	if e.State == event.StateLeaked {
		en.flags |= flagLeaked
	}
}

// uncertain returns the uncertain time in states that have ended. It is the time since seen that is not in spent and not in
// the current state.
func (en *entry) uncertain() int64 {
	left := en.counted() - en.seen
	for _, d := range en.spent {
		left -= d
	}
	return left
}

// atPlace reports whether the goroutine is in a wait or a system call that began with an event, so that its place is known.
func (en *entry) atPlace() bool { return en.state >= gostate.Syscall && en.flags&flagInferred == 0 }
