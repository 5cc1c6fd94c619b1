package sched

import (
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// tally is the time that goroutines spend in each state.
type tally struct {
	epoch uint32
	open  [gostate.NumStates]pool  // goroutines now in a state
	stale [gostate.NumStates]pool  // those of open for which events may have been lost
	done  [gostate.NumStates]Nanos // times in states that have ended; uncertain times count as unknown
}

// sync applies losses since the last use: everything open becomes stale. Doing this lazily keeps a loss cheap.
func (a *tally) sync(epoch uint32) {
	if a.epoch == epoch {
		return
	}
	a.epoch = epoch
	for s := range a.open {
		a.stale[s].merge(&a.open[s])
	}
}

// site holds the counts of the goroutines of one origin that were created from one stack.
type site struct {
	tally
	origin uint32
	stack  *event.Stack

	created, ended uint64
	atStart, found int64 // goroutines alive at the start, or first seen later; may fall when an origin becomes known
	lived          uint64
	lifetime       Nanos // of goroutines that were created and ended under observation
	delay          Delays
	cpu            Nanos // processor time, see Machine.Account
}

// Delays are the times from runnable to running: how long the scheduler let goroutines wait.
type Delays struct {
	Count uint64
	Sum   Nanos
	Max   time.Duration
}

func (d *Delays) add(v int64) {
	d.Count++
	d.Sum.add(v)
	d.Max = max(d.Max, time.Duration(v))
}

func (d *Delays) merge(o *Delays) {
	d.Count += o.Count
	d.Sum = d.Sum.Add(o.Sum)
	d.Max = max(d.Max, o.Max)
}

// sub subtracts an earlier value. The maximum remains the overall maximum.
func (d *Delays) sub(o *Delays) {
	d.Count -= min(d.Count, o.Count)
	d.Sum = d.Sum.Sub(o.Sum)
}

// place holds the counts of one stack at which goroutines wait or stop.
type place struct {
	stack       *event.Stack
	text, trace string // the reason
	reason      uint32
	role        Role

	epoch       uint32
	open, stale pool // goroutines that are at the place now

	count uint64
	time  Nanos
	max   int64

	uncertainCount uint64
	uncertainTime  Nanos

	delay Delays // from runnable to running, of goroutines whose last place it was
}

func (p *place) sync(epoch uint32) {
	if p.epoch != epoch {
		p.epoch = epoch
		p.stale.merge(&p.open)
	}
}

func (p *place) add(d int64) {
	p.count++
	p.time.add(d)
	p.max = max(p.max, d)
}
