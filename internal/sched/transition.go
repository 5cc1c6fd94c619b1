package sched

import (
	"math"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// goroutine applies an event about a goroutine's state. It returns the place that the event names, for the history; for
// GoCreate the site.
func (m *Machine) goroutine(e *event.Event, t int64) uint32 {
	if by := e.By | e.Parent; by != 0 && e.Kind != event.GoStatus {
		m.proves(by, e, t)
	}
	en := m.table.Find(e.G)
	if en == nil {
		return m.first(e, t)
	}
	if en.flags&(flagInferred|flagReturned) != 0 {
		m.resolve(en, e.Kind, t)
	}
	switch e.Kind {
	case event.GoUnblock:
		return m.unblocked(en, e, t)
	case event.GoDestroy:
		m.destroyed(e.G, en, t)
		return 0
	}
	place := m.change(en, e, t)
	if e.Kind != event.GoCreate { // which happens on the creator's thread
		m.seat(e.G, en, e, t)
	}
	return place
}

// change applies an event of a goroutine that does not end.
func (m *Machine) change(en *entry, e *event.Event, t int64) uint32 {
	switch e.Kind {
	case event.GoStart:
		return m.started(en, t)
	case event.GoStop:
		p := m.placeOf(en.place, Stops, e)
		m.move(en, e.Kind, t)
		en.place, en.cause = p, causeStopped
		return p
	case event.GoBlock:
		if e.Value > 0 {
			return m.blockedUntilNow(en, e, t)
		}
		p := m.placeOf(en.place, Waits, e)
		en.blocks++
		m.moveTo(en, e.Kind, t, m.rules.Next[e.Kind], p)
		return p
	case event.GoSyscallBegin:
		p := m.placeOf(en.place, Syscalls, e)
		m.moveTo(en, e.Kind, t, m.rules.Next[e.Kind], p)
		return p
	case event.GoCreate, event.GoStatus:
		return m.again(en, e, t)
	case event.GoSyscallEnd:
		if lostP(e) {
			m.moveTo(en, e.Kind, t, m.rules.Reported[gostate.Runnable], en.place)
			en.cause = causeReturned
			return 0
		}
	}
	// It runs: it returned from a system call, or had an event that only running goroutines have.
	if en.state != m.rules.Next[e.Kind] || en.epoch != m.epoch {
		m.move(en, e.Kind, t)
		if e.Kind == event.GoSyscallEnd && en.state == gostate.Running {
			en.flags |= flagReturned
		}
	}
	if e.Stack != nil {
		en.place = m.placeOf(en.place, Points, e)
		return en.place
	}
	return 0
}

// first applies the first event of a goroutine.
func (m *Machine) first(e *event.Event, t int64) uint32 {
	if e.Kind == event.GoDestroy {
		m.life.endedUnseen++
		return 0
	}
	en := m.table.Insert(e.G)
	if en == nil {
		m.life.untracked++
		return 0
	}
	*en = entry{seen: t, since: t, epoch: m.epoch}
	next := m.rules.Reported[gostate.After(e)]
	told := uint32(0)
	switch e.Kind {
	case event.GoCreate:
		en.site = m.siteID(e.Origin, e.Stack)
		en.parent = e.Parent
		m.creates(e.Parent)
		en.cause = causeCreated
		if e.State == event.StateWaiting {
			en.flags |= flagCoroutine
			en.place = m.placeID(placeKey{reason: m.reasonID(e.Reason, ""), role: Waits})
		}
		m.sites.at(en.site).created++
		told = en.site
	case event.GoStatus:
		en.flags |= flagAtStart | flagInitial
		en.site = m.siteID(e.Origin, nil)
		en.parent = e.Parent
		m.creates(e.Parent)
		en.since = max(t-max(e.Value, 0), 0)
		next, en.place = m.status(en, e)
		en.leaked(e)
		m.sites.at(en.site).atStart++
		told = en.place
	default:
		en.flags |= flagFound
		en.site = m.siteID(nil, nil)
		m.sites.at(en.site).found++
		told = m.found(en, e, t)
		if lostP(e) {
			en.cause = causeReturned
		}
	}
	m.enter(en, m.sites.at(en.site), t, next)
	if e.Kind != event.GoCreate && e.Kind != event.GoUnblock { // which happen on other threads
		m.seat(e.G, en, e, t)
	}
	return told
}

// lostP reports whether an event is the end of a system call after which the goroutine waits for a P.
func lostP(e *event.Event) bool {
	return e.Kind == event.GoSyscallEnd && gostate.After(e) == gostate.Runnable
}

// found applies the other data of a goroutine's first event if it is not the first event of its life.
func (m *Machine) found(en *entry, e *event.Event, t int64) uint32 {
	switch e.Kind {
	case event.GoStart:
		en.starts++
	case event.GoStop:
		en.place, en.cause = m.placeOf(0, Stops, e), causeStopped
	case event.GoBlock:
		en.place = m.placeOf(0, Waits, e)
		en.blocks++
	case event.GoUnblock:
		en.cause = causeWoken
		m.woken(en, e, reasonNone)
		return en.wake
	case event.GoSyscallBegin:
		en.place = m.placeOf(0, Syscalls, e)
	default:
		if e.Stack != nil {
			en.place = m.placeOf(0, Points, e)
		}
	}
	return en.place
}

// status returns the state and place of a goroutine in a snapshot.
func (m *Machine) status(en *entry, e *event.Event) (gostate.State, uint32) {
	s := gostate.Of(e.State)
	role := Points
	switch s {
	case gostate.Waiting:
		role = Waits
	case gostate.Syscall:
		role = Syscalls
	}
	return m.rules.Reported[s], m.placeOf(en.place, role, e)
}

// again applies a GoCreate or GoStatus of a known goroutine: it supplies missing data. A GoStatus is right about the
// state if the goroutine's state is uncertain or differs.
func (m *Machine) again(en *entry, e *event.Event, t int64) uint32 {
	if en.parent == 0 {
		en.parent = e.Parent
	}
	if e.Origin != nil && m.sites.at(en.site).origin == originUnknown {
		m.moveSite(en, m.siteID(e.Origin, nil))
	}
	if e.Kind == event.GoCreate {
		m.count(en, gostate.Misfit)
		return en.site
	}
	next, p := m.status(en, e)
	if next != en.state || en.epoch != m.epoch {
		how := gostate.Misfit
		switch {
		case next == en.state:
			how = gostate.Fits
		case next == gostate.Unknown || en.state == gostate.Unknown:
			how = gostate.Unsure
		}
		// The wait had begun before: its start is known now.
		m.close(en, max(t-max(e.Value, 0), 0), how)
		en.cause, en.place = causeNone, p
		m.enter(en, m.sites.at(en.site), en.since, next)
	}
	en.leaked(e)
	return p
}

// moveSite moves a goroutine to another site. Past times remain at the old site.
func (m *Machine) moveSite(en *entry, to uint32) {
	from, s := m.sites.at(en.site), m.sites.at(to)
	from.sync(m.epoch)
	s.sync(m.epoch)
	pools := func(a *tally) *pool {
		if en.epoch != m.epoch {
			return &a.stale[en.state]
		}
		return &a.open[en.state]
	}
	pools(&from.tally).leave(en.counted())
	pools(&s.tally).enter(en.counted())
	switch {
	case en.flags&flagAtStart != 0:
		from.atStart--
		s.atStart++
	case en.flags&flagFound != 0:
		from.found--
		s.found++
	default:
		from.created--
		s.created++
	}
	en.site = to
}

// move moves a goroutine to the state that follows an event, without a change of place.
func (m *Machine) move(en *entry, kind event.Kind, t int64) {
	m.moveTo(en, kind, t, m.rules.Next[kind], en.place)
}

// moveTo moves a goroutine to a state at a place.
func (m *Machine) moveTo(en *entry, kind event.Kind, t int64, next gostate.State, place uint32) {
	m.close(en, t, m.fit(en, kind))
	en.cause, en.place = causeNone, place
	m.enter(en, m.sites.at(en.site), en.since, next)
}

// started applies a GoStart.
func (m *Machine) started(en *entry, t int64) uint32 {
	how := m.fit(en, event.GoStart)
	switch {
	case en.state == gostate.Running && en.epoch == m.epoch:
		m.life.resumed++
	case en.state == gostate.Waiting && m.isCoroutine(en):
		how = gostate.Fits
	}
	initial := en.flags&flagInitial != 0
	before, why := en.state, en.cause
	d, known := m.close(en, t, how)
	s := m.sites.at(en.site)
	if known && before == gostate.Runnable && !initial && why != causeNone {
		m.latency[why].record(d)
		if why == causeCreated {
			s.delay.add(d)
		} else {
			m.places.at(en.place).delay.add(d)
		}
	}
	en.cause = causeNone
	en.starts++
	m.enter(en, s, en.since, m.rules.Next[event.GoStart])
	return 0
}

// isCoroutine reports whether a waiting goroutine may start without being unblocked.
func (m *Machine) isCoroutine(en *entry) bool {
	return en.flags&flagCoroutine != 0 && en.starts == 0 || m.places.at(en.place).text == gostate.Coroutine
}

// blockedUntilNow applies a GoBlock of a wait that has ended: e.Time is its start and e.Value its length.
func (m *Machine) blockedUntilNow(en *entry, e *event.Event, begin int64) uint32 {
	end := begin + min(e.Value, math.MaxInt64-begin)
	m.now = max(m.now, end)
	place := m.placeOf(en.place, Waits, e)
	m.close(en, begin, m.fit(en, e.Kind))
	en.cause, en.place = causeNone, place
	en.blocks++

	d := max(end-en.since, 0)
	s := m.sites.at(en.site)
	en.spent[gostate.Waiting-1] += d
	s.done[gostate.Waiting].add(d)
	m.places.at(place).add(d)
	en.flags = en.flags&^flagWoken | flagOver
	en.waker = uint64(d)
	m.enter(en, s, max(end, en.since), gostate.Unknown)
	return place
}

// unblocked applies a GoUnblock.
func (m *Machine) unblocked(en *entry, e *event.Event, t int64) uint32 {
	over := en.flags&flagOver != 0
	length := int64(en.waker)
	why := m.places.at(en.place).reason
	waited := over || en.state == gostate.Waiting
	if !waited {
		why = reasonNone
	}
	d, known := m.close(en, t, m.fit(en, e.Kind))
	if over {
		d, known = length, true
	}
	en.cause = causeWoken
	p := m.woken(en, e, why)
	switch {
	case known && waited:
		p.add(d)
	case !waited:
		p.uncertainCount++
	default:
		p.uncertainCount++
		p.uncertainTime.add(d)
	}
	m.enter(en, m.sites.at(en.site), en.since, m.rules.Next[e.Kind])
	return en.wake
}

// woken records the waker of a goroutine, and returns the place of the waker.
func (m *Machine) woken(en *entry, e *event.Event, why uint32) *place {
	en.flags |= flagWoken
	en.waker = e.By
	if p := m.places.at(en.wake); p.stack == e.Stack && p.reason == why && p.role == Wakes {
		return p
	}
	recent := m.recentPlace(e.Stack, Wakes)
	if p := m.places.at(*recent); p.stack != e.Stack || p.reason != why || p.role != Wakes {
		*recent = m.placeID(placeKey{stack: e.Stack, reason: why, role: Wakes})
	}
	en.wake = *recent
	return m.places.at(en.wake)
}

// destroyed applies a GoDestroy.
func (m *Machine) destroyed(id uint64, en *entry, t int64) {
	m.close(en, t, m.fit(en, event.GoDestroy))
	m.end(id, en)
}

// end removes a goroutine whose last state was closed from the table.
func (m *Machine) end(id uint64, en *entry) {
	if en.thread != 0 {
		m.detach(en, en.since)
	}
	s := m.sites.at(en.site)
	s.ended++
	if en.flags&(flagAtStart|flagFound) == 0 {
		s.lived++
		s.lifetime.add(en.since - en.seen)
	}
	if en.flags&flagCreator != 0 {
		m.ancestors.add(id, en)
	}
	m.table.Remove(id)
}

// close ends the current state of a goroutine at t, or at its start if t is before that. It returns
// the length, and whether the goroutine was in the state all the time. enter or end must follow.
func (m *Machine) close(en *entry, t int64, how gostate.Fit) (int64, bool) {
	s := m.sites.at(en.site)
	s.sync(m.epoch)
	from := en.counted()
	t = max(t, from)
	d := t - from
	known := how == gostate.Fits
	stale := en.epoch != m.epoch
	if stale {
		known = false
		s.stale[en.state].leave(from)
	} else {
		s.open[en.state].leave(from)
	}
	if how != silent && (stale || how == gostate.Misfit) {
		m.count(en, how)
	}
	if known {
		en.spent[en.state-1] += d
		s.done[en.state].add(d)
	} else {
		s.done[gostate.Unknown].add(d)
	}
	m.count1(en.state, -1)
	if en.atPlace() {
		m.leavePlace(en, from, d, known, stale)
	}
	en.flags &^= flagInitial | flagLeaked | flagOver | flagInferred
	en.since = t
	return d, known
}

// count counts a repair, or a state that was right despite a loss.
func (m *Machine) count(en *entry, how gostate.Fit) {
	if how != gostate.Misfit {
		m.life.confirmed++
		return
	}
	m.life.repairs++
	if en.repairs < math.MaxUint16 {
		en.repairs++
	}
}

// leavePlace ends a wait or a system call at its place.
func (m *Machine) leavePlace(en *entry, from, d int64, known, stale bool) {
	p := m.places.at(en.place)
	p.sync(m.epoch)
	if stale {
		p.stale.leave(from)
	} else {
		p.open.leave(from)
	}
	if known {
		p.add(d)
	} else {
		p.uncertainCount++
		p.uncertainTime.add(d)
	}
}

// enter starts a state at a time, from which it counts.
func (m *Machine) enter(en *entry, s *site, t int64, next gostate.State) {
	s.sync(m.epoch)
	en.state, en.epoch = next, m.epoch
	if en.flags&flagInitial == 0 {
		en.since = t
	}
	s.open[next].enter(t)
	m.count1(next, 1)
	if en.thread != 0 && next != gostate.Running && next != gostate.Syscall {
		m.detach(en, t)
	}
	if en.atPlace() {
		p := m.places.at(en.place)
		p.sync(m.epoch)
		p.open.enter(t)
	}
}
