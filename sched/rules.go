package sched

import (
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// silent is the fit of a state that Reconcile ends. The time is uncertain, as for gostate.Unsure, but there is no event to
// count as a repair or a confirmation.
const silent = gostate.Fits + 1

// cut is the fit of a state that a Resample event ends. The goroutine is known to have been in the state until then, but the end of a wait
// was not observed.
const cut = silent + 1

// observed holds what depends on the set of observed kinds.
type observed struct {
	rules    gostate.Rules
	syscalls bool // event.KindsSyscall is observed
	seesGC   bool // GCBegin and GCEnd are observed
	ends     bool // GoDestroy is observed
}

func newObserved(kinds event.Kinds, minBlock time.Duration) observed {
	r := gostate.RulesFor(kinds, minBlock)
	if start := &r.Fit[event.GoStart][gostate.Running]; *start == gostate.Misfit {
		*start = gostate.Unsure // an unobserved system call: see Totals.Resumed
	}
	return observed{rules: r, syscalls: r.Observed(event.KindsSyscall), seesGC: r.Observed(event.KindsOf(event.GCBegin, event.GCEnd)),
		ends: r.Observed(event.KindsOf(event.GoDestroy))}
}
