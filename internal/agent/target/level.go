package target

import (
	"time"

	"github.com/loupe-go/loupe/event"
)

// A Level says what is observed of a process. A higher level costs the process more.
type Level int

// The levels.
const (
	Memory    Level = iota // no events
	Lifecycle              // creations and ends of goroutines, garbage collections
	Waits                  // also when goroutines begin and end to wait
	Runs                   // also when they begin and stop to run, so that scheduler latencies are known
)

// kinds are the events of each level.
var kinds = [...]event.Kinds{
	Lifecycle: event.KindsOf(event.GoCreate, event.GoDestroy, event.GCBegin, event.GCEnd),
	Waits:     event.KindsOf(event.GoCreate, event.GoDestroy, event.GCBegin, event.GCEnd, event.GoBlock, event.GoUnblock),
	Runs: event.KindsOf(event.GoCreate, event.GoDestroy, event.GCBegin, event.GCEnd, event.GoBlock, event.GoUnblock,
		event.GoStart, event.GoStop),
}

// activity is what the goroutines of a process did in an interval, by the counts of its runtime.
type activity struct {
	created, ended, starts float64       // for each second; starts is negative if it is unknown (before Go 1.17)
	cpu                    float64       // processor time for each second, in seconds
	over                   time.Duration // the interval
}

// hits predicts how often a process runs into probes of a level, for each second.
func (a *activity) hits(l Level) float64 {
	n := 0.0
	if l >= Lifecycle {
		n += a.created + a.ended
	}
	if l >= Waits {
		n += 2 * a.starts // each start follows the end of a wait or a creation; preemptions are rare
	}
	if l >= Runs {
		n += 1.2 * a.starts
	}
	return n
}

// idleCPU is the processor time for each second that a process is granted at least when its overhead is limited: an idle process can afford
// some events, too.
const idleCPU = 0.1

// A policy chooses the level of a process.
type policy struct {
	want     Level
	overhead float64       // the part of the processor time that probes may take
	hitCost  time.Duration // of one hit

	calm time.Duration // for how long a higher level has been affordable
	wait time.Duration // for how long it must be
	held time.Duration // for how long the current level has been affordable, if it was chosen because it is; negative: otherwise
}

const (
	// upAfter is for how long a higher level must be affordable before it is chosen. Attaching costs more than staying.
	// The time doubles each time that it was not affordable after all, up to upMost, and is forgotten when it was for so long.
	upAfter = 20 * time.Second
	upMost  = 10 * time.Minute
	// upMargin is the part of the budget that a higher level may take when it is chosen.
	upMargin = 0.6
)

// budget returns the processor time for each second that probes may take.
func (p *policy) budget(a *activity) float64 { return p.overhead * max(a.cpu, idleCPU) }

// affordable returns the highest level that is wanted and whose hits take at most a part of the budget.
func (p *policy) affordable(a *activity, part float64) Level {
	if a.starts < 0 {
		return min(p.want, Lifecycle) // what the rest would cost is unknown
	}
	for l := p.want; l > Memory; l-- {
		if a.hits(l)*p.hitCost.Seconds() <= part*p.budget(a) {
			return l
		}
	}
	return Memory
}

// next returns the level that follows the current one.
func (p *policy) next(current Level, a *activity) Level {
	if l := p.affordable(a, 1); l < current {
		if current <= p.want {
			p.wait = min(max(2*p.wait, upAfter), upMost)
		}
		p.calm, p.held = 0, -1
		return l
	}
	if p.held >= upMost {
		p.wait = 0
	} else if p.held >= 0 {
		p.held += a.over
	}
	up := p.affordable(a, upMargin)
	if up <= current {
		p.calm = 0
		return min(current, p.want)
	}
	if p.calm += a.over; p.calm < max(p.wait, upAfter) {
		return current
	}
	p.calm, p.held = 0, 0
	return up
}
