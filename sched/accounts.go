package sched

import (
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// tally holds the time that goroutines spend in each state.
type tally struct {
	epoch uint32                   // the number of losses that sync has applied
	open  [gostate.NumStates]pool  // goroutines in a state, with an event since the last loss
	stale [gostate.NumStates]pool  // goroutines in a state, without an event since the last loss
	done  [gostate.NumStates]Nanos // time in states that have ended; uncertain time is in done[gostate.Unknown]
}

// sync applies the losses since its last call: all open goroutines become stale. It is called before each use, so that a
// Lost event itself is cheap.
func (a *tally) sync(epoch uint32) {
	if a.epoch == epoch {
		return
	}
	a.epoch = epoch
	for s := range a.open {
		a.stale[s].merge(&a.open[s])
	}
}

// site holds the counts of the goroutines of one origin that were created from one stack. The fields are those of Flow.
type site struct {
	tally
	origin uint32
	stack  *event.Stack

	created, ended uint64
	unsampled      uint64
	atStart, found int64
	lived          uint64
	lifetime       Nanos
	delay          Delays // from creation to the first start
	gcWait         Nanos
	gcAssist       Nanos
	cpu            Nanos
}

// Delays summarizes scheduler latencies: the times from runnable to running.
type Delays struct {
	Count uint64        // number of latencies
	Sum   Nanos         // their sum
	Max   time.Duration // the longest since the start of the observation, also in differences
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

// sub subtracts an earlier value. Max does not change.
func (d *Delays) sub(o *Delays) {
	d.Count -= min(d.Count, o.Count)
	d.Sum = d.Sum.Sub(o.Sum)
}

// place holds the counts of one Place.
type place struct {
	stack       *event.Stack
	text, trace string // the reason
	reason      uint32 // the number of the reason
	role        Role
	collects    bool // the reason is a wait for the garbage collector

	epoch       uint32 // the number of losses that sync has applied
	open, stale pool   // goroutines at the place now, as in tally

	count uint64
	time  Nanos
	max   int64 // nanoseconds

	uncertainCount uint64
	uncertainTime  Nanos

	delay Delays // from runnable to running, of goroutines that were at the place before
}

// sync applies the losses since its last call, as tally.sync does.
func (p *place) sync(epoch uint32) {
	if p.epoch != epoch {
		p.epoch = epoch
		p.stale.merge(&p.open)
	}
}

// add adds a wait or a system call of d nanoseconds that has ended.
func (p *place) add(d int64) {
	p.count++
	p.time.add(d)
	p.max = max(p.max, d)
}
