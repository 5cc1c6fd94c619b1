package sched

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// cause is why a goroutine is runnable.
type cause uint8

const (
	causeNone cause = iota
	causeCreated
	causeWoken
	causeStopped
	causeReturned // from a system call, without a P
	numCauses
)

// Flags of an entry.
const (
	flagInitial   = 1 << iota // still in its state at the start of the observation; time counts from seen, not since
	flagAtStart               // was alive at the start of the observation
	flagFound                 // its first events were missed: its origin is unknown
	flagCoroutine             // was created waiting: it is started without being unblocked
	flagOver                  // its last wait was reported when it ended; waker holds the wait's length until GoUnblock
	flagWoken                 // waker is valid
	flagAlive                 // Reconcile has found it in the list
	flagLeaked                // the runtime found that its wait cannot end
	flagInferred              // its state is inferred: its thread or its P runs another goroutine
	flagReturned              // its last event was the end of a system call: it may have to wait for a P
	flagCreator               // has created others
)

// entry is a live goroutine. A million entries and their index must fit in 128 MB: strings and stacks are
// interned, and the uncertain time is not stored because it follows from the others.
type entry struct {
	since int64                        // when it entered its state; on flagInitial maybe before it was seen
	spent [gostate.NumStates - 1]int64 // certain time in states that have ended, from runnable on
	place uint32                       // its last place: stack and wait reason
	site  uint32                       // where it was created
	epoch uint32                       // the goroutine is uncertain if this is not the machine's epoch
	state gostate.State
	cause cause
	flags uint16

	starts, blocks uint64
	parent, waker  uint64
	seen           int64  // when it was created, or first seen
	wake           uint32 // the place from which it was woken last
	repairs        uint16 // how often its state was repaired; saturates
	thread         uint16 // the slot of its thread; 0: none, or unknown
}

// counted returns the time from which the current state counts.
func (en *entry) counted() int64 {
	if en.flags&flagInitial != 0 {
		return en.seen
	}
	return en.since
}

// leaked records whether a snapshot says that the wait cannot end.
func (en *entry) leaked(e *event.Event) {
	en.flags &^= flagLeaked
	if e.State == event.StateLeaked {
		en.flags |= flagLeaked
	}
}

// uncertain returns the uncertain time in states that have ended: the rest of its life so far.
func (en *entry) uncertain() int64 {
	left := en.counted() - en.seen
	for _, d := range en.spent {
		left -= d
	}
	return left
}

// atPlace reports whether it waits, or is in a system call, at a place that an event named.
func (en *entry) atPlace() bool { return en.state >= gostate.Syscall && en.flags&flagInferred == 0 }
