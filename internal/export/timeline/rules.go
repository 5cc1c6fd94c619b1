package timeline

import (
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// conduct is the rules for the observed kinds. States that are not reported are not drawn.
type conduct struct {
	rules  gostate.Rules
	counts [NumCounters]bool
}

func newConduct(kinds event.Kinds, minBlock time.Duration) conduct {
	c := conduct{rules: gostate.RulesFor(kinds, minBlock)}
	for kind := range c.rules.Fit {
		c.rules.Fit[kind][gostate.Unknown] = gostate.Fits // no slice contradicts the event
	}
	c.counts = [NumCounters]bool{Alive: c.rules.Observed(event.KindsOf(event.GoStatus, event.GoCreate, event.GoDestroy)),
		NowRunning: c.draws(gostate.Running), NowRunnable: c.draws(gostate.Runnable), Heap: true, HeapGoal: true, AllocBytes: true, AllocObjects: true}
	return c
}

// draws reports whether a state is drawn.
func (c *conduct) draws(s gostate.State) bool { return c.rules.Reported[s] == s }
