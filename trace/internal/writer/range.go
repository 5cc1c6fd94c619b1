package writer

import (
	"strconv"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// gcState is what is known of the garbage collector.
type gcState uint8

const (
	gcUnknown gcState = iota
	gcIdle
	gcRunning
)

// user returns a thread on which a goroutine runs, with a P. When there is none, a goroutine is made for it.
func (w *Writer) user() *thread {
	if m := w.at; m != nil && m.g != nil {
		w.settle(m, false)
		if m.g != nil && m.g.state == goRunning {
			w.acquire(m, 0)
			return m
		}
	}
	for _, m := range w.order {
		w.settle(m, false)
		if m.g != nil && m.g.state == goRunning {
			w.acquire(m, 0)
			return m
		}
	}
	g := w.goroutines[guestID]
	if g == nil {
		g = w.newGoroutine(guestID)
		g.guest, g.origin = true, &event.Origin{Start: event.Frame{Func: logCategory}}
		by := w.aside()
		w.acquire(by, 0)
		w.create(g, by, w.startStack(g), 0, false)
	}
	if g.state != goRunnable {
		w.makeRunnable(g)
	}
	m := w.aside()
	w.clear(m)
	w.start(g, m, 0)
	return m
}

// rest makes a guest wait that runs.
func (w *Writer) rest(g *goroutine) {
	w.stop(g, raw.EvGoBlock, w.string(systemWait), 0)
}

// leave lets the goroutine of a thread rest when it was running only for an event that has been written.
func (w *Writer) leave(m *thread) {
	if g := m.g; g != nil && g.guest && g.state == goRunning && w.stw != g {
		w.rest(g)
	}
}

// phaseThread returns the thread of an event of the garbage collector, on which a goroutine runs. Its goroutine may be one
// of the runtime's, which are not always observed: then it is a guest.
func (w *Writer) phaseThread(e *event.Event) *thread {
	if e.G != 0 && e.G < guestID {
		g := w.goroutines[e.G]
		m := w.own(e, g)
		w.settle(m, false)
		if g == nil {
			g = w.found(nil, e, goWaiting, nil) // and not running, which it would have been since the trace began
			g.guest = true
		}
		w.run(g, m, e)
		return m
	}
	if m := w.placeOf(e); m != nil {
		w.settle(m, false)
		if m.g != nil && m.g.state == goRunning {
			w.acquire(m, e.P)
			return m
		}
	}
	return w.user()
}

// gcBegin takes GCBegin.
func (w *Writer) gcBegin(e *event.Event) {
	m := w.phaseThread(e)
	if w.gc == gcRunning {
		w.stats.Repaired++
		w.endGC(m)
	}
	w.gcSeq++
	w.emit(m, raw.EvGCBegin, w.gcSeq, w.stack(e.Stack))
	w.gc = gcRunning
	w.leave(m)
}

// gcEnd takes GCEnd. The begin of a collection that was under way when the trace began is not known.
func (w *Writer) gcEnd(e *event.Event) {
	m := w.phaseThread(e)
	switch {
	case w.gc == gcUnknown && w.gen == firstGen:
		w.tellGC(m)
	case w.gc != gcRunning:
		w.stats.Repaired++
		w.gcSeq++
		w.emit(m, raw.EvGCBegin, w.gcSeq, 0)
	}
	w.endGC(m)
	w.leave(m)
}

// tellGC tells on a thread where a goroutine runs that a collection is under way.
func (w *Writer) tellGC(m *thread) {
	w.gcSeq++
	w.emit(m, raw.EvGCActive, w.gcSeq)
	w.gcUntold = false
}

// endGC ends a collection that is under way.
func (w *Writer) endGC(m *thread) {
	if w.gcUntold {
		w.tellGC(m)
	}
	w.gcSeq++
	w.emit(m, raw.EvGCEnd, w.gcSeq)
	w.gc = gcIdle
}

// stwBegin takes STWBegin.
func (w *Writer) stwBegin(e *event.Event) {
	if w.stw != nil {
		w.stats.Repaired++
		w.endSTW(w.stw)
	}
	m := w.phaseThread(e)
	if m.g.forever { // viewers do not expect anything of it any more
		w.stats.Skipped[e.Kind]++
		return
	}
	reason := e.STWReason()
	if reason == "" {
		reason = "unknown"
	}
	id := w.string(reason)
	w.emit(m, raw.EvSTWBegin, id, w.stack(e.Stack))
	w.stw = m.g
}

// stwEnd takes STWEnd.
func (w *Writer) stwEnd(e *event.Event) {
	if w.stw == nil {
		w.stats.Skipped[e.Kind]++ // its begin was not seen
		return
	}
	m := w.stw.m
	w.settle(m, false)
	w.endSTW(w.stw)
	w.leave(m)
}

// endSTW ends the stop of the world that a running goroutine has begun, if it has.
func (w *Writer) endSTW(g *goroutine) {
	if w.stw != g {
		return
	}
	w.stw = nil
	if g.m.p == nil {
		w.acquire(g.m, 0)
	}
	w.emit(g.m, raw.EvSTWEnd)
}

// markAssist takes GCMarkAssistBegin and GCMarkAssistEnd.
func (w *Writer) markAssist(e *event.Event) {
	g, m := w.runs(e)
	begins := e.Kind == event.GCMarkAssistBegin
	switch {
	case g.assists && begins:
		w.stats.Repaired++
		w.endAssist(g)
	case !g.assists && !begins:
		w.stats.Skipped[e.Kind]++ // its begin was not observed
		return
	}
	if !begins {
		w.endAssist(g)
		return
	}
	g.assists = true
	w.emit(m, raw.EvGCMarkAssistBegin, w.stack(e.Stack))
}

// endAssist ends the mark assist of a running goroutine, if it has begun one.
func (w *Writer) endAssist(g *goroutine) {
	if g.assists {
		g.assists = false
		w.emit(g.m, raw.EvGCMarkAssistEnd)
	}
}

// heapSize takes HeapAlloc and HeapGoal.
func (w *Writer) heapSize(e *event.Event, kind raw.Type) {
	m, p := w.placeOf(e), e.P
	if m == nil || m.back != 0 || m.p == nil && m.g != nil {
		m, p = w.aside(), 0
	}
	w.acquire(m, p)
	w.emit(m, kind, uint64(max(e.Value, 0)))
}

// counterLog writes a counter that traces have no event for as a message.
func (w *Writer) counterLog(e *event.Event) {
	if w.opt.OmitOperations {
		w.stats.Skipped[e.Kind]++
		return
	}
	m := w.user()
	w.stats.Logged[e.Kind]++
	text := e.Kind.String() + " " + strconv.FormatInt(max(e.Value, 0), 10)
	w.emit(m, raw.EvUserLog, 0, w.string(logCategory), w.string(text), 0)
	w.leave(m)
}

// operationLog writes an operation that traces have no event for as a message.
func (w *Writer) operationLog(e *event.Event) {
	if w.opt.OmitOperations {
		w.stats.Skipped[e.Kind]++
		return
	}
	_, m := w.runs(e)
	w.stats.Logged[e.Kind]++
	w.emit(m, raw.EvUserLog, 0, w.string(e.Kind.String()), w.operation(e.Object, e.Value), w.stack(e.Stack))
}

// someone returns the thread of an event that any goroutine can write, on which one runs: that of the event, if it has one.
func (w *Writer) someone(e *event.Event) *thread {
	if e.G == 0 || e.G >= guestID {
		return w.user()
	}
	_, m := w.runs(e)
	return m
}

// userTask takes UserTaskBegin and UserTaskEnd.
func (w *Writer) userTask(e *event.Event) {
	if e.Task() < 0 {
		w.stats.Skipped[e.Kind]++
		return
	}
	m := w.someone(e)
	defer w.leave(m)
	id, stack := uint64(e.Task()), w.stack(e.Stack)
	if w.tasks[id] {
		if e.Kind == event.UserTaskBegin {
			w.stats.Repaired++
			w.emit(m, raw.EvUserTaskEnd, id, 0)
		}
		delete(w.tasks, id)
	}
	if e.Kind == event.UserTaskEnd {
		w.emit(m, raw.EvUserTaskEnd, id, stack)
		return
	}
	w.tasks[id] = true
	parent := e.ParentTask()
	if parent == id || parent > maxGoID {
		parent = 0
	}
	w.emit(m, raw.EvUserTaskBegin, id, parent, w.string(e.Text), stack)
}

// userRegion takes UserRegionBegin and UserRegionEnd. Regions of a goroutine are nested.
func (w *Writer) userRegion(e *event.Event) {
	g, m := w.runs(e)
	r := region{task: uint64(max(e.Task(), 0)), name: w.cut(e.Text)}
	stack := w.stack(e.Stack)
	if e.Kind == event.UserRegionBegin {
		g.regions = append(g.regions, r)
		w.emit(m, raw.EvUserRegionBegin, r.task, w.string(r.name), stack)
		return
	}
	n := len(g.regions) - 1
	for n >= 0 && g.regions[n] != r {
		n--
	}
	if n < 0 && len(g.regions) > 0 {
		w.stats.Skipped[e.Kind]++
		return
	}
	for i := len(g.regions) - 1; i > n && n >= 0; i-- { // their ends were not seen
		w.stats.Repaired++
		w.emit(m, raw.EvUserRegionEnd, g.regions[i].task, w.string(g.regions[i].name), 0)
	}
	w.emit(m, raw.EvUserRegionEnd, r.task, w.string(r.name), stack)
	g.regions = g.regions[:max(n, 0)]
}

// userLog takes UserLog.
func (w *Writer) userLog(e *event.Event) {
	m := w.someone(e)
	defer w.leave(m)
	category, text := w.string(e.Category()), w.string(e.Text)
	w.emit(m, raw.EvUserLog, uint64(max(e.Task(), 0)), category, text, w.stack(e.Stack))
}

// cpuSample takes CPUSample.
func (w *Writer) cpuSample(e *event.Event) {
	stack := w.stack(e.Stack)
	m, p, thread := w.threadOf(e.TID), uint64(noID), uint64(noID)
	if m != nil {
		thread = m.id
		if m.p != nil {
			p = m.p.id
		}
	}
	if id, ok := e.P.ID(); ok && id < maxProc {
		p = uint64(id)
	}
	b := w.tableRoom(&w.samples, raw.EvCPUSamples)
	b.buf = append(b.buf, byte(raw.EvCPUSample))
	for _, x := range [...]uint64{w.want, thread, p, e.G, stack} {
		b.buf = appendNumber(b.buf, x)
	}
	w.stats.Written++
}

// markLoss tells in the trace how many events were lost, as a message of a goroutine that runs on a thread with a P.
func (w *Writer) markLoss(m *thread) {
	var room [32]byte
	text := strconv.AppendUint(room[:0], w.unmarked, 10)
	w.unmarked = 0
	w.emit(m, raw.EvUserLog, 0, w.string(logCategory), w.string(string(append(text, " events lost"...))), 0)
}

// markProcs tells in the trace how many Ps there are.
func (w *Writer) markProcs(m *thread) {
	w.procsTold = w.nProcs
	w.emit(m, raw.EvProcsChange, uint64(w.nProcs), 0)
}
