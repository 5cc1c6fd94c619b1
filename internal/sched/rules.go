package sched

import (
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// silent is as gostate.Unsure, without an event: Reconcile ended the state.
const silent = gostate.Fits + 1

// conduct is the rules for the observed kinds.
type conduct struct {
	rules    gostate.Rules
	syscalls bool // are observed
	seesGC   bool // the garbage collector is observed
	ends     bool // GoDestroy is observed
}

func newConduct(kinds event.Kinds, minBlock time.Duration) conduct {
	r := gostate.RulesFor(kinds, minBlock)
	if start := &r.Fit[event.GoStart][gostate.Running]; *start == gostate.Misfit {
		*start = gostate.Unsure // the runtime itself leaves out events: see Totals.Resumed
	}
	return conduct{rules: r, syscalls: r.Observed(event.KindsSyscall), seesGC: r.Observed(event.KindsOf(event.GCBegin, event.GCEnd)),
		ends: r.Observed(event.KindsOf(event.GoDestroy))}
}
