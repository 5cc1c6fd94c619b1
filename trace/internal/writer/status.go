package writer

import (
	"maps"
	"slices"
	"strconv"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/sampling"
	"github.com/loupe-go/loupe/trace/raw"
)

// stateOf returns the state of the trace for one of the stream.
func stateOf(s event.State) goState {
	switch s {
	case event.StateRunnable:
		return goRunnable
	case event.StateRunning, event.StateCopystack:
		return goRunning
	case event.StateSyscall:
		return goSyscall
	}
	return goWaiting
}

// goStatus takes GoStatus.
func (w *Writer) goStatus(e *event.Event) {
	g, state := w.goroutines[e.G], stateOf(e.State)
	if g != nil && g.state != goAbsent {
		w.corrected(g, state, e)
		return
	}
	listed := g != nil
	if g == nil {
		g = w.newGoroutine(e.G)
	}
	g.origin, g.stack = e.Origin, e.Stack
	if state == goRunning || state == goSyscall {
		if listed {
			return // its status was told twice
		}
		w.executing = append(w.executing, executing{g: g, id: g.id, state: state, tid: e.TID, p: e.P})
		return
	}
	w.introduce(g, state, nil, 0)
}

// corrected takes the status of a goroutine that is known already.
func (w *Writer) corrected(g *goroutine, state goState, e *event.Event) {
	if g.m != nil {
		w.settle(g.m, false)
	}
	if g.state == state {
		return
	}
	switch state {
	case goWaiting:
		w.wait(g, e)
	case goRunnable:
		w.stats.Repaired++
		w.makeRunnable(g)
	case goRunning:
		w.runs(e)
	case goSyscall:
		w.runs(e)
		w.syscallBegin(g, w.stack(e.Stack))
	}
}

// tellExecuting tells of the goroutines that were running or in a system call by their status and have done nothing since.
// One of which the thread is not known, or is another's, is said to be runnable.
func (w *Writer) tellExecuting() {
	for _, x := range w.executing {
		g := x.g
		if g.id != x.id || g.state != goAbsent {
			continue
		}
		m, state := w.threadOf(x.tid), x.state
		if m != nil && m.g != nil {
			m = nil
		}
		if m == nil {
			x.p = 0
			if state == goSyscall {
				m = w.spareThread()
			} else {
				state = goRunnable
			}
		}
		w.introduce(g, state, m, x.p)
	}
	w.executing = w.executing[:0]
}

// goSyscallBegin takes GoSyscallBegin.
func (w *Writer) goSyscallBegin(e *event.Event) {
	g, _ := w.runs(e)
	w.syscallBegin(g, w.stack(e.Stack))
	g.stack = e.Stack
}

// goSyscallEnd takes GoSyscallEnd. When it does not say that the goroutine is runnable, what it means is written at the
// goroutine's next event: when that is a GoStart, the goroutine was runnable in between.
func (w *Writer) goSyscallEnd(e *event.Event) {
	g := w.goroutines[e.G]
	if g == nil || g.state == goAbsent {
		m := w.own(e, g)
		w.settle(m, false)
		if w.gen > firstGen {
			w.run(g, m, e)
			return
		}
		g = w.found(g, e, goSyscall, m)
	}
	if g.state != goSyscall {
		if g.state != goRunning { // else it is back already, which its start has told
			w.runs(e)
		}
		return
	}
	m := g.m
	if m.back != 0 {
		return
	}
	waits := e.State == event.StateRunnable
	if m.p == nil && !waits {
		w.guessFree(m) // if there is none, it has to wait for one
	}
	w.tellStatus(g, m)
	m.back = max(w.last+1, w.want)
	w.last = m.back + 1
	if waits {
		w.settle(m, true)
	}
}

// settle writes what the end of a system call meant, if that is still to be done on a thread. started says that the
// goroutine had to wait for a P. Otherwise it ran at once, if there was one for it.
func (w *Writer) settle(m *thread, started bool) {
	if m.back == 0 {
		return
	}
	t, g := m.back, m.g
	m.back = 0
	if m.p != nil && m.p.state == procSyscall {
		if !started {
			w.emitAt(m, t, raw.EvGoSyscallEnd)
			g.state, m.p.state, m.guessed = goRunning, procRunning, true
			return
		}
		w.emitAt(m, t, raw.EvProcStop)
		w.lacks(m)
		t++
	}
	w.emitAt(m, t, raw.EvGoSyscallEndBlocked)
	w.unbind(g, goRunnable)
	switch {
	case started:
	case m.p == nil:
		g.hidden = true
	default:
		g.seq++
		w.emitAt(m, t+1, raw.EvGoStart, g.id, g.seq)
		g.state = goRunning
		w.bind(m, g)
	}
}

// settleAll settles all threads.
func (w *Writer) settleAll() {
	for _, m := range w.order {
		w.settle(m, false)
	}
}

// exec takes Exec: all that was known of the program has ended.
func (w *Writer) exec() {
	w.settleAll()
	w.tellExecuting()
	m := w.user()
	w.emit(m, raw.EvUserLog, 0, w.string(logCategory), w.string("the process executed another program"), 0)
	if w.gc == gcRunning {
		w.endGC(m)
	}
	if w.stw != nil {
		w.endSTW(w.stw)
	}
	for _, id := range slices.Sorted(maps.Keys(w.tasks)) {
		w.stats.Bridged++
		w.emit(m, raw.EvUserTaskEnd, id, 0)
	}
	clear(w.tasks)
	for _, id := range slices.Sorted(maps.Keys(w.goroutines)) {
		w.destroy(w.goroutines[id])
	}
}

// resample ends the goroutines that are no longer sampled: a trace cannot say that it has no further events of them.
func (w *Writer) resample(e *event.Event) {
	w.settleAll()
	w.tellExecuting()
	m := w.user()
	w.stats.Logged[e.Kind]++
	w.emit(m, raw.EvUserLog, 0, w.string(e.Kind.String()), w.string(strconv.FormatInt(e.Sampled(), 10)+" of 2^32 goroutines are sampled"), 0)
	w.leave(m)
	rule := sampling.OfShare(e.Sampled())
	for _, id := range slices.Sorted(maps.Keys(w.goroutines)) {
		if g := w.goroutines[id]; !g.guest && g != w.stw && !rule.Selects(id) {
			w.destroy(g)
		}
	}
}

// destroy ends a goroutine, whatever it does.
func (w *Writer) destroy(g *goroutine) {
	if g.state != goRunning {
		w.makeRunnable(g)
		m := w.aside()
		w.clear(m)
		w.start(g, m, 0)
	}
	w.stats.Bridged++
	w.stop(g, raw.EvGoDestroy)
}
