package writer

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// own returns the thread that an event happened on. When the event does not tell, it is the one that the goroutine executes
// on, or one that has the P and no goroutine, or one made for it: then the goroutine must be put there.
func (w *Writer) own(e *event.Event, g *goroutine) *thread {
	m := w.threadOf(e.TID)
	if m == nil && g != nil {
		m = g.m
	}
	if m == nil {
		if m = w.placeOf(e); m == nil || m.g != nil || m == w.observer {
			m = w.spareThread()
		}
	}
	return m
}

// placeOf returns the thread that an event happened on. When the event does not tell, it is the one that has the P. It is
// nil when that is not known either.
func (w *Writer) placeOf(e *event.Event) *thread {
	m := w.threadOf(e.TID)
	if id, ok := e.P.ID(); ok && m == nil && int(id) < len(w.procs) && w.procs[id] != nil {
		m = w.procs[id].m
	}
	return m
}

// runs returns the goroutine that an event is about, running on the thread of the event with a P. What is needed for that
// is written.
func (w *Writer) runs(e *event.Event) (*goroutine, *thread) {
	g := w.goroutines[e.G]
	m := w.own(e, g)
	w.settle(m, false)
	if g != nil && g.m == m && g.state == goRunning {
		w.acquire(m, e.P)
	} else {
		g = w.run(g, m, e)
	}
	g.guest, g.losses = false, w.losses
	return g, m
}

// run makes a goroutine run on a thread, whatever it did before; g is nil when nothing is known of it.
func (w *Writer) run(g *goroutine, m *thread, e *event.Event) *goroutine {
	if g != nil && g.m != nil {
		w.settle(g.m, false)
	}
	if g == nil || g.state == goAbsent {
		return w.found(g, e, goRunning, m)
	}
	if g.m == m && g.state == goRunning {
		w.acquire(m, e.P)
		return g
	}
	switch {
	case g.guest: // that is how it goes with them
	case g.hidden:
		w.stats.Bridged++
	default:
		w.stats.Repaired++
	}
	if g.m == m && m.p != nil && m.p.state == procSyscall {
		w.emit(m, raw.EvGoSyscallEnd)
		g.state, m.p.state = goRunning, procRunning
		w.acquire(m, e.P)
		return g
	}
	w.makeRunnable(g)
	w.clear(m)
	w.start(g, m, e.P)
	return g
}

// start writes that a runnable goroutine begins to run on a thread where none does.
func (w *Writer) start(g *goroutine, m *thread, p event.Proc) {
	w.acquire(m, p)
	seq := w.goSeq(g, m)
	w.emit(m, raw.EvGoStart, g.id, seq)
	g.state, g.hidden = goRunning, false
	w.bind(m, g)
}

// makeRunnable makes a goroutine runnable that is anything else, as a repair.
func (w *Writer) makeRunnable(g *goroutine) {
	switch g.state {
	case goRunning:
		w.stop(g, raw.EvGoStop, w.string(notObserved), 0)
	case goSyscall:
		w.syscallBlocked(g)
	case goWaiting:
		m := w.aside()
		seq := w.goSeq(g, m)
		w.emit(m, raw.EvGoUnblock, g.id, seq, 0)
		g.state = goRunnable
	}
}

// clear makes a thread free of its goroutine, whose end there was not observed. When no events were lost, it was in a
// system call, and has to wait for a P now. Otherwise nobody knows what it does. It is said to wait then rather than to be
// runnable, which would look like a delay of the scheduler.
func (w *Writer) clear(m *thread) {
	w.settle(m, true)
	g := m.g
	switch {
	case g == nil:
	case g.state == goSyscall:
		w.stats.Bridged++
		w.syscallBlocked(g)
	case g.guest:
		w.rest(g)
	case g.losses == w.losses:
		w.passSyscall(g)
	default:
		w.stats.Repaired++
		w.stop(g, raw.EvGoBlock, w.string(notObserved), 0)
	}
}

// passSyscall writes that a running goroutine has been in a system call, of which no event told, and has lost its P.
func (w *Writer) passSyscall(g *goroutine) {
	if g.m.p == nil {
		w.acquire(g.m, 0)
	}
	w.hiddenSyscall(g)
	w.syscallBlocked(g)
}

// stop writes a GoStop, GoBlock or GoDestroy of a running goroutine.
func (w *Writer) stop(g *goroutine, typ raw.Type, args ...uint64) {
	m := g.m
	if m.p == nil {
		w.acquire(m, 0)
	}
	w.endSTW(g)
	if typ == raw.EvGoDestroy {
		w.endAssist(g)
	}
	w.emit(m, typ, args...)
	switch typ {
	case raw.EvGoStop:
		w.unbind(g, goRunnable)
	case raw.EvGoBlock:
		w.unbind(g, goWaiting)
	default:
		w.unbind(g, goAbsent)
		w.endGoroutine(g)
	}
}

// syscallBlocked writes that a goroutine comes back from a system call and has lost its P.
func (w *Writer) syscallBlocked(g *goroutine) {
	m := g.m
	if m.p != nil && m.p.state == procSyscall {
		w.release(m)
	}
	w.emit(m, raw.EvGoSyscallEndBlocked)
	w.unbind(g, goRunnable)
}

// goStart takes GoStart. When it meets a goroutine that runs or is in a system call, a call is over that took long: the
// goroutine had lost its P. Calls need not be observed.
func (w *Writer) goStart(e *event.Event) {
	g := w.goroutines[e.G]
	if g != nil && g.m != nil && g.m.back != 0 {
		w.settle(g.m, true)
	}
	m := w.own(e, g)
	switch {
	case g == nil:
		g = w.found(nil, e, goRunnable, m)
	case g.state == goAbsent:
		g = w.found(g, e, goSyscall, m)
	}
	switch g.state {
	case goSyscall:
		w.syscallBlocked(g)
	case goRunning:
		w.passSyscall(g)
	case goWaiting:
		if !g.guest {
			w.stats.Repaired++
		}
		w.makeRunnable(g)
	}
	w.clear(m)
	g.guest, g.losses = false, w.losses
	w.start(g, m, e.P)
}

// goStop takes GoStop.
func (w *Writer) goStop(e *event.Event) {
	g, _ := w.runs(e)
	stack := w.stack(e.Stack)
	w.stop(g, raw.EvGoStop, w.string(e.StopReason()), stack)
	g.stack = e.Stack
}

// goBlock takes GoBlock.
func (w *Writer) goBlock(e *event.Event) {
	g, _ := w.runs(e)
	reason := blockReason(e)
	stack := w.stack(e.Stack)
	w.stop(g, raw.EvGoBlock, w.string(reason), stack)
	g.forever, g.stack = g.forever || reason == forever, e.Stack
}

// goDestroy takes GoDestroy.
func (w *Writer) goDestroy(e *event.Event) {
	g, _ := w.runs(e)
	w.stop(g, raw.EvGoDestroy)
}

// goUnblock takes GoUnblock.
func (w *Writer) goUnblock(e *event.Event) {
	g := w.goroutines[e.G]
	if g == nil || g.state != goWaiting {
		g = w.wait(g, e)
	}
	m := w.actor(e.By, e)
	stack := w.stack(e.Stack)
	seq := w.goSeq(g, m)
	w.emit(m, raw.EvGoUnblock, g.id, seq, stack)
	g.state, g.guest = goRunnable, false
}

// wait makes a goroutine wait, whatever it did before; g is nil when nothing is known of it.
func (w *Writer) wait(g *goroutine, e *event.Event) *goroutine {
	if g != nil && g.m != nil {
		w.settle(g.m, false)
	}
	if g == nil || g.state == goAbsent {
		return w.found(g, e, goWaiting, nil)
	}
	if g.state == goWaiting {
		return g
	}
	w.stats.Repaired++
	if g.state == goSyscall {
		w.syscallBlocked(g)
	}
	if g.state == goRunnable {
		m := w.aside()
		w.clear(m)
		w.start(g, m, 0)
	}
	w.stop(g, raw.EvGoBlock, w.string(notObserved), 0)
	return g
}

// actor returns the thread on which something was done to another goroutine, with the goroutine running there that did it.
// If that is 0, not known, or the one that it was done to, no goroutine runs on the thread.
func (w *Writer) actor(id uint64, e *event.Event) *thread {
	m, told := w.placeOf(e), w.threadOf(e.TID) != nil
	if m != nil && m.back != 0 {
		w.settle(m, m.g.id != id) // another one is there
	}
	if by := w.goroutines[id]; by != nil && id != e.G && !(by.guest && by.state == goWaiting) {
		if by.m != nil {
			w.settle(by.m, false)
		}
		if by.state == goRunning {
			return by.m
		}
		// A coroutine wakes the one that it hands over to when it has stopped already.
		if by.state == goAbsent || by.hidden || told && m.left != id {
			if !told {
				m = w.own(e, by)
				w.settle(m, false)
			}
			w.run(by, m, e)
			return m
		}
	}
	if m == nil || m.g != nil {
		return w.aside()
	}
	if e.P != 0 {
		w.acquire(m, e.P)
	}
	return m
}

// goCreate takes GoCreate.
func (w *Writer) goCreate(e *event.Event) {
	g := w.goroutines[e.G]
	if g != nil && g.state != goAbsent {
		w.stats.Skipped[e.Kind]++ // it was found before, or told twice
		return
	}
	m, p := w.actor(e.Parent, e), e.P
	if told := w.threadOf(e.TID); told != nil && told != m {
		p = 0 // which is that of another thread
	}
	w.acquire(m, p)
	stack := w.stack(e.Stack)
	if stack == 0 && e.Origin != nil {
		stack = w.newStack(nil, e.Origin.CreatedBy)
	}
	if g == nil {
		g = w.newGoroutine(e.G)
	}
	g.origin = e.Origin
	w.create(g, m, w.startStack(g), stack, e.State == event.StateWaiting)
}

// create writes that a goroutine is created, on a thread with a P where no goroutine is in a system call.
func (w *Writer) create(g *goroutine, m *thread, start, stack uint64, waiting bool) {
	typ := raw.EvGoCreate
	if waiting && w.opt.Version >= raw.Go123 {
		typ = raw.EvGoCreateBlocked
	}
	w.emit(m, typ, g.id, start, stack)
	g.gen, g.seq, g.state = w.gen, 0, goRunnable
	switch {
	case typ == raw.EvGoCreateBlocked:
		g.state = goWaiting
	case waiting:
		w.stats.Bridged++
		m = w.aside()
		w.clear(m)
		w.start(g, m, 0)
		w.stop(g, raw.EvGoBlock, 0, 0)
	}
}

// found takes a goroutine into the trace that no event has told of before, in a state that it must have had. m is where
// it runs, or nil.
func (w *Writer) found(g *goroutine, e *event.Event, state goState, m *thread) *goroutine {
	if g == nil {
		g = w.newGoroutine(e.G)
		if e.Kind < 64 && ownStackKinds.Has(e.Kind) {
			g.stack = e.Stack
		}
		w.stats.Found++
	}
	w.introduce(g, state, m, e.P)
	return g
}

// introduce takes a goroutine into the trace. While the first generation lasts, the trace can say that it has been in its
// state all the time; afterwards it seems to be created.
func (w *Writer) introduce(g *goroutine, state goState, m *thread, p event.Proc) {
	if w.gen == firstGen {
		w.introduceStatus(g, state, m, p)
		return
	}
	w.stats.Bridged++
	by := w.aside()
	w.clear(by)
	w.acquire(by, 0)
	w.create(g, by, w.startStack(g), 0, state == goWaiting)
	if state == goRunning || state == goSyscall {
		w.clear(m)
		w.start(g, m, p)
		if state == goSyscall {
			w.syscallBegin(g, 0)
		}
	}
}

// introduceStatus tells in the first generation what a goroutine has been doing since the trace began.
func (w *Writer) introduceStatus(g *goroutine, state goState, m *thread, p event.Proc) {
	if state == goRunning || state == goSyscall {
		w.clear(m)
		if state == goRunning {
			w.hasHad(m, p)
		}
		w.bind(m, g)
	}
	g.state, g.hidden = state, state == goSyscall
	w.emitStatus(g, w.aside(), w.fullStack(g))
}

// hasHad gives a thread a P that it has had since the trace began, if it has none. A P that was used meanwhile is none of
// these.
func (w *Writer) hasHad(m *thread, told event.Proc) {
	id, known := told.ID()
	known = known && id < maxProc
	if m.p != nil || known && w.proc(id).gen != 0 || !known && w.procsFull() {
		w.acquire(m, told)
		return
	}
	var p *proc
	if known {
		p = w.proc(id)
	} else {
		p = w.makeProc()
	}
	w.procsKnown = w.procsKnown || known
	w.emit(m, raw.EvProcStatus, p.id, uint64(procRunning))
	p.gen = w.gen
	w.holds(m, p)
	m.guessed = !known
}
