package sched

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// thread is a kernel thread of the program: an M of the runtime.
type thread struct {
	tid       int32
	slot      uint16 // its index in threads.list
	proc      uint16 // the ID of the P of its last GoStart, plus one; 0 if it has lost the P or the P is unknown
	g         uint64 // the ID of en
	en        *entry // the goroutine that runs on the thread or is in a system call there; nil if there is none
	lastEvent int64  // time of the last event of en
	work
}

// threads maps threads to goroutines, and Ps to threads. A thread runs at most one goroutine at a time, and so does a P. If a
// thread or a P starts another goroutine, the previous goroutine has left it, even if no event reported that.
type threads struct {
	list   []*thread // by slot; slot 0 stands for an unknown thread and is nil
	free   []uint16  // unused slots
	byTID  map[int32]*thread
	recent [64]*thread // cache of find, by the lower bits of the thread ID
	procs  []uint16    // the slot of the thread that has a P, by the ID of the P; 0 if unknown

	running int // number of goroutines that count as running
	limit   int // GOMAXPROCS; 0 if unknown
}

// The maximum number of threads, and the limit for the IDs of Ps. The runtime allows 10,000 threads by default.
const (
	maxThreads = 1 << 15
	maxProcs   = 1 << 12
)

func newThreads() threads { return threads{list: make([]*thread, 1), byTID: map[int32]*thread{}} }

// find returns the thread with an ID, or nil if the thread is unknown.
func (ts *threads) find(tid int32) *thread {
	recent := &ts.recent[uint32(tid)%uint32(len(ts.recent))]
	if th := *recent; th != nil && th.tid == tid {
		return th
	}
	th := ts.byTID[tid]
	if th != nil {
		*recent = th
	}
	return th
}

// of returns the thread with an ID. It adds the thread if it is unknown. It returns nil if the ID is not positive, or if there
// are too many threads.
func (ts *threads) of(tid int32) *thread {
	if tid <= 0 {
		return nil
	}
	if th := ts.find(tid); th != nil {
		return th
	}
	th := &thread{tid: tid}
	if n := len(ts.free); n > 0 {
		th.slot, ts.free = ts.free[n-1], ts.free[:n-1]
		ts.list[th.slot] = th
	} else if len(ts.list) < maxThreads {
		th.slot = uint16(len(ts.list))
		ts.list = append(ts.list, th)
	} else {
		return nil
	}
	ts.byTID[tid] = th
	return th
}

// forget removes a thread that has no goroutine.
func (ts *threads) forget(th *thread) {
	if th.proc != 0 && ts.procs[th.proc-1] == th.slot {
		ts.procs[th.proc-1] = 0
	}
	if recent := &ts.recent[uint32(th.tid)%uint32(len(ts.recent))]; *recent == th {
		*recent = nil
	}
	delete(ts.byTID, th.tid)
	ts.list[th.slot] = nil
	ts.free = append(ts.free, th.slot)
}

// assignThread assigns a goroutine that is running or in a system call to the thread of its event. It also ensures that the
// number of running goroutines does not exceed the number of Ps.
func (m *Machine) assignThread(id uint64, en *entry, e *event.Event, t int64) {
	ts := &m.threads
	if en.state == gostate.Running || en.state == gostate.Syscall {
		if th := ts.of(e.TID); th != nil {
			m.attach(id, en, th, t)
			if p, ok := e.P.ID(); ok && e.Kind == event.GoStart && p < maxProcs && th.proc != uint16(p)+1 {
				m.gotProc(th, p, t)
			}
		}
	}
	for ts.limit > 0 && ts.running > ts.limit {
		if !m.evict(en, t) {
			return
		}
	}
}

// attach assigns a goroutine to a thread. If the thread had another goroutine, the other goroutine has left it without an event.
func (m *Machine) attach(id uint64, en *entry, th *thread, t int64) {
	if th.en != en {
		if th.en != nil {
			m.leftThread(th, t)
		}
		if en.thread != 0 {
			m.detach(en, t)
		}
		th.g, th.en, en.thread = id, en, th.slot
		if m.cpu.Known {
			m.begin(&th.work, t)
		}
	}
	th.lastEvent = t
}

// detach removes a goroutine from its thread.
func (m *Machine) detach(en *entry, t int64) {
	th := m.threads.list[en.thread]
	if m.cpu.Known {
		m.charge(th, t, true)
		m.leave(&th.work, t)
	}
	th.en, en.thread = nil, 0
}

// gotProc records that a thread has a P. The previous thread of the P lost it while its goroutine was in a system call.
func (m *Machine) gotProc(th *thread, id int32, t int64) {
	ts := &m.threads
	for int(id) >= len(ts.procs) {
		ts.procs = append(ts.procs, 0)
	}
	if th.proc != 0 {
		ts.procs[th.proc-1] = 0
	}
	if slot := ts.procs[id]; slot != 0 {
		m.lostProc(ts.list[slot], t)
	}
	ts.procs[id], th.proc = th.slot, uint16(id)+1
}

// lostProc records that a thread has lost its P. A goroutine that ran on the thread is in a system call, or waits for a P
// after a system call.
func (m *Machine) lostProc(th *thread, t int64) {
	if th.proc != 0 {
		m.threads.procs[th.proc-1] = 0
		th.proc = 0
	}
	if th.en != nil && th.en.state == gostate.Running {
		m.inSyscall(th.en, t)
	}
}

// inSyscall changes the state of a goroutine that counts as running but has no P. The goroutine is in a system call, unless its
// last event was the end of one or its state is uncertain.
func (m *Machine) inSyscall(en *entry, t int64) {
	switch {
	case en.epoch != m.epoch:
		m.reclassify(en, gostate.Unknown)
	case en.flags&flagReturned != 0:
		m.reclassify(en, m.rules.Reported[gostate.Runnable])
	default:
		m.infer(en, t, gostate.Syscall, gostate.Fits)
	}
}

// leftThread records that the goroutine of a thread has left it, because the thread runs another goroutine. The goroutine has
// returned from a system call, found no P, and is runnable.
func (m *Machine) leftThread(th *thread, t int64) {
	en := th.en
	m.detach(en, t)
	switch {
	case en.epoch != m.epoch:
		if en.state == gostate.Running {
			m.reclassify(en, gostate.Unknown)
		}
	case en.flags&flagReturned != 0:
		m.reclassify(en, m.rules.Reported[gostate.Runnable])
	case en.state == gostate.Running, en.flags&flagInferred != 0:
		m.infer(en, t, m.rules.Reported[gostate.Runnable], gostate.Fits)
	case en.state == gostate.Syscall && !m.syscalls: // a GoStatus reported the system call
		m.infer(en, t, m.rules.Reported[gostate.Runnable], gostate.Unsure)
	}
}

// infer changes the state of a goroutine at t without an event. how is the fit of the state until t.
func (m *Machine) infer(en *entry, t int64, next gostate.State, how gostate.Fit) {
	m.close(en, t, how)
	en.cause = causeNone
	en.flags |= flagInferred
	m.enter(en, m.sites.at(en.site), en.since, next)
	m.life.inferred++
}

// reclassify replaces the current state of a goroutine, from the time at which the goroutine entered it.
func (m *Machine) reclassify(en *entry, to gostate.State) {
	s := m.sites.at(en.site)
	s.sync(m.epoch)
	pools := &s.open
	if en.epoch != m.epoch {
		pools = &s.stale
	}
	pools[en.state].leave(en.counted())
	pools[to].enter(en.counted())
	m.countRunning(en.state, -1)
	m.countRunning(to, 1)
	en.state = to
}

// countRunning adds by to the number of running goroutines if s is Running.
func (m *Machine) countRunning(s gostate.State, by int) {
	if s == gostate.Running {
		m.threads.running += by
	}
}

// resolve corrects an inferred state of a goroutine when its next event shows the real state.
func (m *Machine) resolve(en *entry, kind event.Kind, t int64) {
	switch {
	case en.epoch != m.epoch || kind == event.GoStatus || kind == event.GoCreate:
	case en.flags&flagReturned != 0 && kind == event.GoStart: // it has waited for a P
		if to := m.rules.Reported[gostate.Runnable]; en.state != to {
			m.reclassify(en, to)
		}
		en.cause = causeReturned
	case en.flags&flagReturned != 0: // it got a P immediately
		if to := m.rules.Reported[gostate.Running]; en.state != to {
			m.reclassify(en, to)
		}
	case en.flags&flagInferred != 0 && en.state == gostate.Syscall && t <= en.since: // the event is older than the inference
		en.flags &^= flagInferred
		m.reclassify(en, m.rules.Reported[gostate.Running])
	}
	en.flags &^= flagReturned
}

// fit returns the fit of an event for a goroutine in its current state.
func (m *Machine) fit(en *entry, kind event.Kind) gostate.Fit {
	if en.flags&flagInferred != 0 && en.state == gostate.Syscall {
		if kind == event.GoStart || kind == event.GoSyscallEnd {
			return gostate.Fits
		}
		return gostate.Unsure // it started to run again at an unknown time
	}
	return m.rules.Fit[kind][en.state]
}

// confirmRunning applies an event that goroutine by caused on its thread: by is running there. This corrects its state if it
// was inferred to be in a system call.
func (m *Machine) confirmRunning(by uint64, e *event.Event, t int64) {
	th := m.threads.find(e.TID)
	if th == nil || th.en == nil || th.g != by {
		return
	}
	en := th.en
	th.lastEvent = t
	if en.flags&flagInferred == 0 || en.epoch != m.epoch || en.state != gostate.Syscall {
		return
	}
	m.close(en, t, gostate.Unsure)
	m.enter(en, m.sites.at(en.site), en.since, m.rules.Reported[gostate.Running])
	m.assignThread(by, en, e, t)
}

// evict is called if more goroutines count as running than there are Ps. It selects the goroutine that most likely no longer
// runs, and moves it to a system call. It does not select newest, which just had an event, unless that may wait for a P. It
// returns false if there is no such goroutine.
func (m *Machine) evict(newest *entry, t int64) bool {
	var found *thread
	for _, th := range m.threads.list[1:] {
		if th == nil || th.en == nil || th.en.state != gostate.Running || th.en == newest && !m.mayWait(th) {
			continue
		}
		if found == nil || m.likelier(th, found) {
			found = th
		}
	}
	if found != nil {
		m.inSyscall(found.en, t) // the thread keeps its P, because the choice is a guess
		return true
	}
	en := m.runningWithoutThread(newest)
	if en != nil {
		m.inSyscall(en, t)
	}
	return en != nil
}

// runningWithoutThread returns a goroutine other than newest that counts as running on an unknown thread, or nil if there is
// none. Such a goroutine has changed its state while the initial states were read, and has had no event since.
func (m *Machine) runningWithoutThread(newest *entry) *entry {
	for _, en := range m.table.All() {
		if en != newest && en.state == gostate.Running && en.thread == 0 {
			return en
		}
	}
	return nil
}

// mayWait reports whether the goroutine of a thread has returned from a system call and may still wait for a P.
func (m *Machine) mayWait(th *thread) bool { return th.en.flags&flagReturned != 0 && th.proc == 0 }

// likelier reports whether the goroutine of a is more likely to have lost its P than that of b. Uncertain goroutines are the
// most likely, then those that may wait for a P after a system call, then those whose P is unknown, then those with the oldest
// event.
func (m *Machine) likelier(a, b *thread) bool {
	for _, is := range []func(*thread) bool{
		func(th *thread) bool { return th.en.epoch != m.epoch },
		m.mayWait,
		func(th *thread) bool { return th.proc == 0 },
	} {
		if x, y := is(a), is(b); x != y {
			return x
		}
	}
	return a.lastEvent < b.lastEvent
}
