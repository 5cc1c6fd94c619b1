package sched

import (
	"cmp"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
)

// Place is a stack at which goroutines do the same thing for the same reason. What Count and Time say depends on the role.
//
//	Waits     waits that are over, and their length
//	Wakes     waits of other goroutines that were ended there, and their length; the reason is that of the wait
//	Syscalls  system calls that are over, and their length
//	Stops     only Delay applies
//	Points    only the stack applies
type Place struct {
	ID    int          // stays the same as long as the program is not replaced
	Stack *event.Stack // nil when it was not recorded
	Other bool         // stacks beyond Options.MaxPlaces, put together; Stack is nil

	Reason string // as in event.Event

	Count uint64
	Time  Nanos
	Max   time.Duration // of all time

	// UncertainCount and UncertainTime are of waits and calls over which events were lost: they are in no other number.
	UncertainCount uint64
	UncertainTime  Nanos

	Now          uint64 // goroutines that wait there now, or are in a call
	NowUncertain uint64 // of them, those that had no event since the last loss
	NowTime      Nanos  // how long they have waited, without the uncertain ones

	// Delay is the time from runnable to running of goroutines that were there before: what they waited for a processor
	// after their wait, or after they were stopped.
	Delay Delays

	execs uint64
}

// Places returns all places of a role, those with the most time first. Those of Waits are what a block profile is made
// of, restricted to reasons that are locks also a mutex profile of who waits; those of Wakes make one of who held the lock.
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

// Contention returns the places where goroutines wait, those with the most time first, the waits under way included; at
// most limit, 0 means all.
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
		ID: int(id), Stack: shown(p.stack), Other: p.stack == otherStack, Reason: p.text,
		Count: p.count, Time: p.time, Max: time.Duration(p.max),
		UncertainCount: p.uncertainCount, UncertainTime: p.uncertainTime,
		Now: p.open.n + p.stale.n, NowUncertain: p.stale.n, NowTime: p.open.open(m.now), Delay: p.delay, execs: m.execs,
	}
}

// SubPlaces returns now with counts and times as differences to an earlier look, in the order of now. Time then includes
// what passed in waits under way; NowTime is empty. Max and Now are those of now.
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

// Wait is all waits for one reason.
type Wait struct {
	Reason string

	Count          uint64 // waits that are over
	Time           Nanos  // their length
	Max            time.Duration
	UncertainCount uint64 // waits over which events were lost
	UncertainTime  Nanos

	Now, NowUncertain uint64 // goroutines that wait now; those that had no event since the last loss
	NowTime           Nanos  // how long they have waited, without the uncertain ones
}

// Waits returns the time blocked by wait reason, the most first, waits under way included.
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
