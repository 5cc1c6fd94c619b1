package sched

import (
	"cmp"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
)

// A Place is a stack, a reason and a [Role]: where goroutines wait, for example, and why. Counts and times are since the
// start of the observation, or since the last Exec event. What they measure depends on the role:
//
//	Waits     waits that have ended
//	Wakes     waits of other goroutines, ended by a GoUnblock with this stack
//	Syscalls  system calls that have ended
//	Stops     nothing; only Delay is set
//	Points    nothing
type Place struct {
	ID    int          // does not change until the next Exec event
	Stack *event.Stack // nil if it was not recorded
	Other bool         // combines the stacks beyond Options.MaxPlaces; Stack is nil

	// Reason is the wait reason (for Waits and Wakes) or the stop reason (for Stops). If the stack shows work for the runtime,
	// the reason contains the work: see event.WaitText. It is "(other)" if there are too many different reasons.
	Reason string

	Count uint64        // number of waits or system calls
	Time  Nanos         // their total duration
	Max   time.Duration // the longest duration since the start of the observation, also in a result of SubPlaces

	// UncertainCount and UncertainTime are the number and the total duration of waits and system calls during which events
	// were lost or the state was repaired. For Wakes, UncertainCount includes GoUnblock events of goroutines that were not
	// known to wait. They are not included in Count, Time and Max.
	UncertainCount uint64
	UncertainTime  Nanos

	Now          uint64 // goroutines that are waiting or in a system call at this place now
	NowUncertain uint64 // part of Now: goroutines without an event since the last loss
	NowTime      Nanos  // how long the other goroutines of Now have been at this place, in total

	// Delay is the scheduler latency of goroutines after they were at this place: after a wait, a system call or a stop.
	Delay Delays

	execs uint64
}

// Places returns all places with the given role, sorted by Time in descending order. The places of Waits are the data of a
// block profile. Places of Waits whose reason is a lock show which goroutines waited for the lock, and places of Wakes show
// which goroutines held it, as a mutex profile does.
func (m *Machine) Places(role Role) []Place {
	m.mu.Lock()
	var list []Place
	for i := range m.places.n {
		if p := m.places.at(i); p.role == role {
			list = append(list, m.viewPlace(i, p))
		}
	}
	m.mu.Unlock()
	slices.SortFunc(list, func(a, b Place) int {
		return cmp.Or(b.Time.Cmp(a.Time), b.Delay.Sum.Cmp(a.Delay.Sum), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Contention returns the first limit of the places where goroutines wait, sorted by Time + NowTime in descending order. A limit
// of 0 means no limit.
func (m *Machine) Contention(limit int) []Place {
	list := m.Places(Waits)
	slices.SortStableFunc(list, func(a, b Place) int {
		return b.Time.Add(b.NowTime).Cmp(a.Time.Add(a.NowTime))
	})
	if limit > 0 && len(list) > limit {
		list = list[:limit]
	}
	return list
}

func (m *Machine) viewPlace(id uint32, p *place) Place {
	p.sync(m.epoch)
	return Place{
		ID: int(id), Stack: publicStack(p.stack), Other: p.stack == otherStack, Reason: p.text,
		Count: p.count, Time: p.time, Max: time.Duration(p.max),
		UncertainCount: p.uncertainCount, UncertainTime: p.uncertainTime,
		Now: p.open.n + p.stale.n, NowUncertain: p.stale.n, NowTime: p.open.open(m.now), Delay: p.delay, execs: m.execs,
	}
}

// SubPlaces returns the change of each place of now since earlier, a previous result of [Machine.Places] or
// [Machine.Contention]. The order is that of now. Counts and times are differences. Time includes the time in waits and system
// calls that have not ended, and NowTime is 0. Max, Delay.Max, Now and NowUncertain are not differences: they are copied from
// now. So are all counts and times if there was an Exec event in between, or if the place is not in earlier.
func SubPlaces(now, earlier []Place) []Place {
	before := make(map[int]*Place, len(earlier))
	for i := range earlier {
		if len(now) > 0 && earlier[i].execs == now[0].execs {
			before[earlier[i].ID] = &earlier[i]
		}
	}
	list := slices.Clone(now)
	for i := range list {
		p, old := &list[i], before[list[i].ID]
		if old == nil {
			old = &Place{}
		}
		p.Time = p.Time.Add(p.NowTime).Sub(old.Time.Add(old.NowTime))
		p.NowTime = Nanos{}
		p.Count -= min(p.Count, old.Count)
		p.UncertainCount -= min(p.UncertainCount, old.UncertainCount)
		p.UncertainTime = p.UncertainTime.Sub(old.UncertainTime)
		p.Delay.sub(&old.Delay)
	}
	return list
}

// A Wait is all waits for one reason. Counts and times are since the start of the observation, or since the last Exec event.
type Wait struct {
	Reason string // as Place.Reason

	Count uint64        // waits that have ended
	Time  Nanos         // their total duration
	Max   time.Duration // the duration of the longest

	UncertainCount uint64 // waits during which events were lost; not included in Count
	UncertainTime  Nanos  // their total duration; not included in Time

	Now          uint64 // goroutines that are waiting now
	NowUncertain uint64 // part of Now: goroutines without an event since the last loss
	NowTime      Nanos  // how long the other goroutines of Now have been waiting, in total
}

// Waits returns the waits by reason, sorted by Time + NowTime in descending order. If the execution tracer has several reasons
// for one wait reason (event.Event.TraceReason), the result has a Wait for each of them, with the same Reason.
func (m *Machine) Waits() []Wait {
	m.mu.Lock()
	list := make([]Wait, len(m.reasons))
	for i := range m.places.n {
		p := m.places.at(i)
		if p.role != Waits {
			continue
		}
		v, w := m.viewPlace(i, p), &list[p.reason]
		w.Count += v.Count
		w.Time = w.Time.Add(v.Time)
		w.Max = max(w.Max, v.Max)
		w.UncertainCount += v.UncertainCount
		w.UncertainTime = w.UncertainTime.Add(v.UncertainTime)
		w.Now += v.Now
		w.NowUncertain += v.NowUncertain
		w.NowTime = w.NowTime.Add(v.NowTime)
	}
	for i, r := range m.reasons {
		list[i].Reason = r.reason
	}
	m.mu.Unlock()
	list = slices.DeleteFunc(list, func(w Wait) bool { return w.Count == 0 && w.UncertainCount == 0 && w.Now == 0 })
	slices.SortStableFunc(list, func(a, b Wait) int { return b.Time.Add(b.NowTime).Cmp(a.Time.Add(a.NowTime)) })
	return list
}
