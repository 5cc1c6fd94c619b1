package writer

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// acquire gives a thread the P that an event tells, or, when it tells none and the thread has none, any one.
func (w *Writer) acquire(m *thread, told event.Proc) {
	id, known := told.ID()
	if !known || id >= maxProc {
		if m.p == nil {
			w.guess(m)
		}
		return
	}
	w.procsKnown = true
	p := w.proc(id)
	if m.p != p {
		g := m.g
		if g != nil && g.state == goRunning && m.p != nil && !m.guessed {
			// A running goroutine changes its P only by a system call.
			w.passSyscall(g)
		}
		w.take(m, p)
		if m.g != g {
			w.start(g, m, 0)
		}
	}
	m.guessed, p.made = false, false
}

// guess gives a thread a P that no goroutine uses: the one that it had before, or the one that has been unused for
// longest, or a new one.
func (w *Writer) guess(m *thread) {
	switch p := w.unused.next; {
	case m.used != nil && m.used.unused:
		w.take(m, m.used)
	case p != &w.unused && !(w.procsKnown && m == w.observer && !w.procsFull()): // which does not take what is the program's
		w.take(m, p)
	case w.procsFull():
		w.take(m, w.lender(m))
	default:
		w.take(m, w.makeProc())
	}
	m.guessed = true
}

// procsFull reports whether there are as many Ps as the program has.
func (w *Writer) procsFull() bool {
	return w.opt.Procs > 0 && w.nProcs > 0 && w.nextProc() >= w.opt.Procs
}

// lender returns the P of another thread for one that must have a P when all are used: one whose goroutine is in a system
// call, else one of which no event has told that the thread has it, else any, whose goroutine must have entered a system call.
func (w *Writer) lender(m *thread) *proc {
	var best *proc
	rank := func(p *proc) int {
		switch {
		case p.state == procSyscall:
			return 0
		case p.m.guessed:
			return 1
		}
		return 2
	}
	for i := range w.procs {
		p := w.procs[(w.lent+1+i)%len(w.procs)]
		if p == nil || p.m == nil || p.m == m {
			continue
		}
		if best == nil || rank(p) < rank(best) {
			best = p
		}
	}
	w.lent = int(best.id)
	return best
}

// guessFree gives a thread a P of the program that no goroutine uses, if there is one.
func (w *Writer) guessFree(m *thread) {
	for p := w.unused.next; p != &w.unused; p = p.next {
		if !p.made || !w.procsKnown {
			w.take(m, p)
			m.guessed = true
			return
		}
	}
}

// take gives a thread a P.
func (w *Writer) take(m *thread, p *proc) {
	if m.p != nil {
		w.release(m)
	}
	if p.m != nil {
		w.takeFrom(p.m, m)
	}
	seq := w.procSeq(p, m)
	w.emit(m, raw.EvProcStart, p.id, seq)
	w.holds(m, p)
}

// holds notes that a thread has a P.
func (w *Writer) holds(m *thread, p *proc) {
	m.p, m.used, p.m, p.state = p, p, m, procRunning
	w.setUnused(p, m.g == nil)
}

// release makes a thread give up its P.
func (w *Writer) release(m *thread) {
	w.emit(m, raw.EvProcStop)
	w.lacks(m)
}

// lacks notes that a thread has no P any more.
func (w *Writer) lacks(m *thread) {
	p := m.p
	m.p, p.m, p.state = nil, nil, procIdle
	w.setUnused(p, true)
}

// takeFrom takes the P of a thread away, for another thread.
func (w *Writer) takeFrom(m, by *thread) {
	p := m.p
	if m.back != 0 {
		// Its goroutine came back from a system call and did not get this P. It may have got another, without an event.
		g := m.g
		w.settle(m, true)
		g.hidden = true
		if m.p == nil {
			return
		}
	}
	switch {
	case m.g == nil || p.state == procRunning && m.g.state != goRunning:
		w.release(m)
		return
	case m.guessed && p.state == procRunning:
		// It had another one. Which one that was shows later.
		w.release(m)
		return
	case p.state == procRunning:
		// A running goroutine loses its P without an event only by a system call.
		w.hiddenSyscall(m.g)
	}
	seq := w.procSeq(p, m)
	w.emit(by, raw.EvProcSteal, p.id, seq, m.id)
	w.lacks(m)
}

// hiddenSyscall writes that a goroutine has entered a system call, of which no event tells.
func (w *Writer) hiddenSyscall(g *goroutine) {
	w.stats.Bridged++
	w.syscallBegin(g, 0)
	g.hidden = true
}

// syscallBegin writes that a running goroutine enters a system call. Its thread has a P.
func (w *Writer) syscallBegin(g *goroutine, stack uint64) {
	m := g.m
	w.endSTW(g)
	seq := w.procSeq(m.p, m)
	w.emit(m, raw.EvGoSyscallBegin, seq, stack)
	g.state, m.p.state, g.hidden = goSyscall, procSyscall, false
}

// procSeq returns the next sequence number of a P. Numbers begin anew in each generation, with a status, which is told on
// the thread that has the P.
func (w *Writer) procSeq(p *proc, m *thread) uint64 {
	w.tellProc(p, m)
	p.seq++
	return p.seq
}

// tellProc tells the status of a P once in a generation. m is where it is told if no thread has the P.
func (w *Writer) tellProc(p *proc, m *thread) {
	if p.gen == w.gen {
		return
	}
	if p.m != nil {
		m = p.m
	}
	w.emit(m, raw.EvProcStatus, p.id, uint64(p.state))
	p.gen, p.seq = w.gen, 0
}

// goSeq returns the next sequence number of a goroutine. m is where its status is told if it does not execute.
func (w *Writer) goSeq(g *goroutine, m *thread) uint64 {
	w.tellStatus(g, m)
	g.seq++
	return g.seq
}

// tellStatus tells the status of a goroutine once in a generation.
func (w *Writer) tellStatus(g *goroutine, m *thread) {
	if g.gen == w.gen {
		return
	}
	stack := uint64(0)
	if g.state == goRunning {
		stack = w.startStack(g) // it has gone on since its stack was seen
	} else {
		stack = w.fullStack(g)
	}
	w.emitStatus(g, m, stack)
}

// emitStatus writes the status of a goroutine. m is where it is told if the goroutine does not execute.
func (w *Writer) emitStatus(g *goroutine, m *thread, stack uint64) {
	thread := uint64(noID)
	if g.m != nil {
		m, thread = g.m, g.m.id
	}
	if stack != 0 && w.opt.Version >= raw.Go123 {
		w.emit(m, raw.EvGoStatusStack, g.id, thread, uint64(g.state), stack)
	} else {
		w.emit(m, raw.EvGoStatus, g.id, thread, uint64(g.state))
	}
	g.gen, g.seq = w.gen, 0
	if g.assists {
		w.emit(m, raw.EvGCMarkAssistActive, g.id)
	}
}
