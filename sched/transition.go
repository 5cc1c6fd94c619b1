package sched

import (
	"math"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/internal/sampling"
)

// goroutine applies an event about the state of a goroutine. It returns the number that the history stores with the event: of
// the site for GoCreate, otherwise of the place.
func (m *Machine) goroutine(e *event.Event, t int64) uint32 {
	if by := e.By | e.Parent; by != 0 && e.Kind != event.GoStatus {
		m.confirmRunning(by, e, t)
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
	if e.Kind != event.GoCreate { // GoCreate happens on the creator's thread
		m.assignThread(e.G, en, e, t)
	}
	return place
}

// change applies an event of a known goroutine, except GoUnblock and GoDestroy.
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
		if e.Wait() > 0 {
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
		return m.update(en, e, t)
	case event.GoSyscallEnd:
		if lostP(e) {
			m.moveTo(en, e.Kind, t, m.rules.Reported[gostate.Runnable], en.place)
			en.cause = causeReturned
			return 0
		}
	}
	// The goroutine is running: it has returned from a system call, or has done something that requires running.
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
	id := uint32(0)
	switch e.Kind {
	case event.GoCreate:
		en.site = m.siteID(e.Origin, e.Stack)
		en.parent = e.Parent
		m.creates(e.Parent)
		en.cause = causeCreated
		if e.State == event.StateWaiting {
			en.flags |= flagCoroutine
			en.place = m.placeID(placeKey{reason: reasonNone, role: Waits})
		}
		m.sites.at(en.site).created++
		id = en.site
	case event.GoStatus:
		en.flags |= flagAtStart | flagInitial
		en.site = m.siteID(e.Origin, nil)
		en.parent = e.Parent
		m.creates(e.Parent)
		en.since = waitedSince(e, t)
		next, en.place = m.status(en, e)
		en.leaked(e)
		m.sites.at(en.site).atStart++
		id = en.place
	default:
		en.flags |= flagFound
		en.site = m.siteID(nil, nil)
		m.sites.at(en.site).found++
		id = m.found(en, e, t)
		if lostP(e) {
			en.cause = causeReturned
		}
	}
	m.enter(en, m.sites.at(en.site), t, next)
	if e.Kind != event.GoCreate && e.Kind != event.GoUnblock { // these happen on other threads
		m.assignThread(e.G, en, e, t)
	}
	return id
}

// waitedSince returns when the wait of a GoStatus began.
func waitedSince(e *event.Event, t int64) int64 { return max(t-max(int64(e.Wait()), 0), 0) }

// lostP reports whether an event is a GoSyscallEnd after which the goroutine waits for a P.
func lostP(e *event.Event) bool {
	return e.Kind == event.GoSyscallEnd && gostate.After(e) == gostate.Runnable
}

// found applies the data of the first event of a goroutine if the event is neither GoCreate nor GoStatus.
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

// status returns the state and the place that a GoStatus contains.
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

// update applies a GoCreate or GoStatus of a known goroutine, which supplies missing data. A GoStatus also replaces the state
// if the state is uncertain or differs.
func (m *Machine) update(en *entry, e *event.Event, t int64) uint32 {
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
		// The wait began before the GoStatus, which contains its start.
		m.close(en, waitedSince(e, t), how)
		en.cause, en.place = causeNone, p
		m.enter(en, m.sites.at(en.site), en.since, next)
	}
	en.leaked(e)
	return p
}

// moveSite moves a goroutine to another site. The time in states that have ended remains at the old site.
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

// move moves a goroutine to the state after an event. The place does not change.
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

// blockedUntilNow applies a GoBlock of a wait that has ended. e.Time is the start of the wait and e.Wait its duration.
func (m *Machine) blockedUntilNow(en *entry, e *event.Event, begin int64) uint32 {
	end := begin + min(int64(e.Wait()), math.MaxInt64-begin)
	m.now = max(m.now, end)
	place := m.placeOf(en.place, Waits, e)
	m.close(en, begin, m.fit(en, e.Kind))
	en.cause, en.place = causeNone, place
	en.blocks++

	d := max(end-en.since, 0)
	s := m.sites.at(en.site)
	en.spent[gostate.Waiting-1] += d
	s.done[gostate.Waiting].add(d)
	if p := m.places.at(place); p.collects {
		s.gcWait.add(d)
	}
	m.places.at(place).add(d)
	en.flags = en.flags&^flagWoken | flagWaitEnded
	en.waker = uint64(d)
	m.enter(en, s, max(end, en.since), gostate.Unknown)
	return place
}

// unblocked applies a GoUnblock.
func (m *Machine) unblocked(en *entry, e *event.Event, t int64) uint32 {
	ended := en.flags&flagWaitEnded != 0
	length := int64(en.waker)
	why := m.places.at(en.place).reason
	waited := ended || en.state == gostate.Waiting
	if !waited {
		why = reasonNone
	}
	d, known := m.close(en, t, m.fit(en, e.Kind))
	if ended {
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

// woken records the waker of a goroutine, and returns the place of the waker. why is the number of the wait reason.
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

// end removes a goroutine that has ended. Its last state must be closed.
func (m *Machine) end(id uint64, en *entry) {
	s := m.sites.at(en.site)
	s.ended++
	if en.flags&(flagAtStart|flagFound) == 0 {
		s.lived++
		s.lifetime.add(en.since - en.seen)
	}
	m.remove(id, en)
}

// resample removes the goroutines that a Resample event excludes.
func (m *Machine) resample(e *event.Event, t int64) {
	rule := sampling.OfShare(e.Sampled())
	for id, en := range m.table.All() {
		if rule.Selects(id) {
			continue
		}
		m.close(en, t, cut)
		m.sites.at(en.site).unsampled++
		delete(m.assists, id)
		m.remove(id, en)
	}
}

// remove removes a goroutine from the table. Its last state must be closed.
func (m *Machine) remove(id uint64, en *entry) {
	if en.thread != 0 {
		m.detach(en, en.since)
	}
	if en.flags&flagCreator != 0 {
		m.ancestors.add(id, en)
	}
	m.table.Remove(id)
}

// close ends the current state of a goroutine at t, or at the start of the state if t is earlier. It returns the duration in
// nanoseconds, and whether the goroutine is known to have been in the state all the time. The caller must call enter or end
// afterwards.
func (m *Machine) close(en *entry, t int64, how gostate.Fit) (int64, bool) {
	s := m.sites.at(en.site)
	s.sync(m.epoch)
	from := en.counted()
	t = max(t, from)
	d := t - from
	known := how == gostate.Fits || how == cut && en.state != gostate.Unknown
	stale := en.epoch != m.epoch
	if stale {
		known = false
		s.stale[en.state].leave(from)
	} else {
		s.open[en.state].leave(from)
	}
	if how < silent && (stale || how == gostate.Misfit) {
		m.count(en, how)
	}
	if known {
		en.spent[en.state-1] += d
		s.done[en.state].add(d)
		if en.state == gostate.Waiting && m.places.at(en.place).collects {
			s.gcWait.add(d)
		}
	} else {
		s.done[gostate.Unknown].add(d)
	}
	m.countRunning(en.state, -1)
	if en.atPlace() {
		m.leavePlace(en, from, d, known && how != cut, stale)
	}
	en.flags &^= flagInitial | flagLeaked | flagWaitEnded | flagInferred
	en.since = t
	return d, known
}

// count counts a repair, or the confirmation of a state after a loss.
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

// leavePlace ends a wait or a system call at its place. from is its start and d its duration.
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

// enter starts a state at t.
func (m *Machine) enter(en *entry, s *site, t int64, next gostate.State) {
	s.sync(m.epoch)
	en.state, en.epoch = next, m.epoch
	if en.flags&flagInitial == 0 {
		en.since = t
	}
	s.open[next].enter(t)
	m.countRunning(next, 1)
	if en.thread != 0 && next != gostate.Running && next != gostate.Syscall {
		m.detach(en, t)
	}
	if en.atPlace() {
		p := m.places.at(en.place)
		p.sync(m.epoch)
		p.open.enter(t)
	}
}
