package glti

import (
	"container/heap"
)

// traceModel follows the goroutines and processors of a trace, to convert its events to records. It lives as long as a trace.
type traceModel struct {
	emit func(Record)

	threads map[uint64]*traceThread
	lastP   map[uint64]int32 // of each goroutine, the processor of its last event
	own     map[uint64]bool  // goroutines of this package, whose events are skipped
	known   map[string]bool  // strings of the last generation
	gcSTW   bool             // the world is stopped for the garbage collector

	// Of the current generation:
	clock    traceClock
	strings  map[uint64]string
	begin    int64
	describe func(Record) // called for what existed before: strings, and goroutines that are blocked or in a system call
	lost     uint64       // events that could not be converted
}

// traceThread is a thread of the program.
type traceThread struct {
	id      uint64
	g       uint64 // current goroutine, or 0
	p       int32  // current processor, or -1
	syscall bool   // the goroutine is in a system call
}

func newTraceModel(emit func(Record)) *traceModel {
	return &traceModel{
		emit:    emit,
		threads: map[uint64]*traceThread{},
		lastP:   map[uint64]int32{},
		own:     map[uint64]bool{},
	}
}

// convert emits the records of a generation in the order of their times, and calls describe for what existed before.
func (m *traceModel) convert(g *generation, describe func(Record)) error {
	clock, err := g.readClock()
	if err != nil {
		return err
	}
	if m.strings, err = g.readStrings(); err != nil {
		return err
	}
	m.clock, m.describe = clock, describe
	m.lost += g.lost
	merged, err := mergeBatches(g.batches)
	first := true
	for merged.Len() > 0 {
		c := (*merged)[0]
		if first {
			m.begin = clock.time(c.event.time)
			m.newStrings()
			first = false
		}
		m.event(m.thread(c.thread), &c.event)
		switch c.advance() {
		case false:
			if c.err != nil {
				err = c.err
			}
			heap.Pop(merged)
		case true:
			heap.Fix(merged, 0)
		}
	}
	return err
}

// newStrings emits the strings that the last generation did not have.
func (m *traceModel) newStrings() {
	known := make(map[string]bool, len(m.strings))
	for _, s := range m.strings {
		known[s] = true
		r := Record{Event: EvString, Late: true, Time: m.begin, Text: [2]string{s}}
		if m.known[s] {
			m.describe(r)
		} else {
			m.emit(r)
		}
	}
	m.known = known
}

// isOwn marks a goroutine as one of this package. Those that it creates are as well.
func (m *traceModel) isOwn(g uint64) { m.own[g] = true }

func (m *traceModel) thread(id uint64) *traceThread {
	t := m.threads[id]
	if t == nil {
		t = &traceThread{id: id, p: -1}
		m.threads[id] = t
	}
	return t
}

// mergedThread reads the batches of a thread one after the other.
type mergedThread struct {
	thread  uint64
	batches []traceBatch
	batchCursor
}

// advance reads the next event. It skips the rest of a batch that cannot be read, and keeps the error.
func (c *mergedThread) advance() bool {
	for !c.batchCursor.next() {
		if len(c.batches) == 0 {
			return false
		}
		b := c.batches[0]
		c.batches = c.batches[1:]
		c.batchCursor = batchCursor{data: b.data, event: wireEvent{time: b.time}, err: nil}
	}
	return true
}

// mergedThreads is a heap of threads, ordered by the times of their current events.
type mergedThreads []*mergedThread

func (h mergedThreads) Len() int           { return len(h) }
func (h mergedThreads) Less(i, j int) bool { return h[i].event.time < h[j].event.time }
func (h mergedThreads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *mergedThreads) Push(x any)        { *h = append(*h, x.(*mergedThread)) }
func (h *mergedThreads) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// mergeBatches returns a heap of the threads that have events.
func mergeBatches(batches []traceBatch) (*mergedThreads, error) {
	byThread := map[uint64]*mergedThread{}
	merged := &mergedThreads{}
	for _, b := range batches {
		c := byThread[b.thread]
		if c == nil {
			c = &mergedThread{thread: b.thread}
			byThread[b.thread] = c
		}
		c.batches = append(c.batches, b)
	}
	var err error
	for _, c := range byThread {
		if c.advance() {
			*merged = append(*merged, c)
		} else if c.err != nil {
			err = c.err
		}
	}
	heap.Init(merged)
	return merged, err
}

// send emits a record, unless a goroutine of this package is concerned.
func (m *traceModel) send(r Record) {
	switch {
	case m.own[r.G.ID] || m.own[r.By.ID]:
		return
	case events[r.Event].fields&fieldG != 0 && r.G.ID == 0:
		m.lost++ // what happened before is not known
		return
	}
	m.emit(r)
}

// event converts an event.
func (m *traceModel) event(t *traceThread, e *wireEvent) {
	r := Record{Late: true, Time: m.clock.time(e.time), G: G{ID: t.g}}
	switch {
	case e.kind <= wireProcStatus:
		m.procEvent(t, e, r)
	case e.kind <= wireGoStatus || e.kind >= wireGoSwitch:
		m.goEvent(t, e, r)
	default:
		m.otherEvent(e, r)
	}
}

// Statuses of processors and goroutines at the begin of a generation.
const (
	procRunning = 1
	procSyscall = 3
	goRunning   = 2
	goSyscall   = 3
	goWaiting   = 4
)

// procEvent converts the events of processors.
func (m *traceModel) procEvent(t *traceThread, e *wireEvent, r Record) {
	p := int32(e.args[0])
	switch e.kind {
	case wireProcStart:
		t.p = p
		r.Event, r.P.ID = EvProcStart, p
	case wireProcStop:
		m.sysBlock(t, r.Time)
		r.Event, r.P.ID = EvProcStop, t.p
		t.p = -1
	case wireProcSteal:
		from := m.thread(e.args[2])
		m.sysBlock(from, r.Time)
		if from.p == p { // otherwise it has another already: a thread that steals may be delayed before it writes that it did
			from.p = -1
		}
		r.Event, r.P.ID = EvProcStop, p
	case wireProcStatus:
		if e.args[1] == procRunning || e.args[1] == procSyscall && t.p < 0 && t.syscall {
			t.p = p
		}
		return
	default:
		return
	}
	r.G = G{}
	if r.P.ID < 0 {
		m.lost++
		return
	}
	m.send(r)
}

// sysBlock emits that the system call of a thread's goroutine takes so long that the thread loses its processor.
func (m *traceModel) sysBlock(t *traceThread, time int64) {
	if t.syscall {
		m.send(Record{Event: EvGoSysBlock, Late: true, Time: time, G: G{ID: t.g}})
	}
}

// blockEvents are the events for the reasons of blocking that the tracer spells.
var blockEvents = map[string]Event{
	"chan send":         EvGoBlockSend,
	"chan receive":      EvGoBlockRecv,
	"select":            EvGoBlockSelect,
	"sync":              EvGoBlockSync,
	"sync.(*Cond).Wait": EvGoBlockCond,
	"network":           EvGoBlockNet,
	"sleep":             EvGoSleep,
	"forever":           EvGoStop,

	"GC mark assist wait for work": EvGoBlockGC,
}

// stopEvents are the events for the reasons of stopping that the tracer spells.
var stopEvents = map[string]Event{
	"runtime.Gosched": EvGoSched,
	"preempted":       EvGoPreempt,
}

// goEvent converts the events of goroutines.
func (m *traceModel) goEvent(t *traceThread, e *wireEvent, r Record) {
	switch e.kind {
	case wireGoCreate, wireGoCreateBlocked, wireGoCreateSyscall:
		m.create(t, e, r)
	case wireGoStart:
		m.start(t, e.args[0], r)
	case wireGoDestroy, wireGoDestroySyscall:
		m.destroy(t, r)
	case wireGoStop:
		r.Event = lookUp(stopEvents, m.strings[e.args[0]], EvGoPreempt)
		m.leave(t, r)
	case wireGoBlock:
		r.Event = lookUp(blockEvents, m.strings[e.args[0]], EvGoBlock)
		m.leave(t, r)
	case wireGoUnblock:
		r.Event, r.G.ID, r.By.ID = EvGoUnblock, e.args[0], t.g
		m.sendLocal(r, EvGoUnblockLocal, m.touch(e.args[0], t.p))
	case wireGoSyscallBegin:
		t.syscall = true
		r.Event = EvGoSysCall
		m.send(r)
	case wireGoSyscallEnd:
		t.syscall = false
		r.Event = EvGoSysExit
		m.sendLocal(r, EvGoSysExitLocal, true)
	case wireGoSyscallEndBlocked:
		t.syscall = false
		r.Event = EvGoSysExit
		m.leave(t, r)
	case wireGoStatus, wireGoStatusStack:
		m.goStatus(e)
	case wireGoSwitch:
		r.Event = EvGoBlock
		m.leave(t, r)
		m.start(t, e.args[0], r)
	case wireGoSwitchDestroy:
		m.destroy(t, r)
		m.start(t, e.args[0], r)
	}
}

func lookUp(table map[string]Event, reason string, otherwise Event) Event {
	if ev, ok := table[reason]; ok {
		return ev
	}
	return otherwise
}

// touch notes the processor of a goroutine's event, and reports whether that of its last event was the same.
func (m *traceModel) touch(g uint64, p int32) (local bool) {
	if p < 0 || g == 0 {
		return false
	}
	last, ok := m.lastP[g]
	m.lastP[g] = p
	return ok && last == p
}

// sendLocal emits a record, and its local variant if the event was local.
func (m *traceModel) sendLocal(r Record, variant Event, local bool) {
	m.send(r)
	if local {
		r.Event = variant
		m.send(r)
	}
}

// create converts the creation of a goroutine. In a callback from C, it is in a system call first.
func (m *traceModel) create(t *traceThread, e *wireEvent, r Record) {
	created := e.args[0]
	if m.own[t.g] {
		m.own[created] = true
	}
	m.touch(created, t.p)
	r.Event, r.G.ID, r.By.ID = EvGoCreate, created, t.g
	if e.kind == wireGoCreateSyscall {
		r.By.ID = 0
		t.g, t.syscall = created, true
	}
	m.send(r)
}

// start converts the start of a goroutine on a thread.
func (m *traceModel) start(t *traceThread, g uint64, r Record) {
	t.g, t.syscall = g, false
	r.Event, r.G.ID = EvGoStart, g
	m.sendLocal(r, EvGoStartLocal, m.touch(g, t.p))
}

// leave emits that a thread's goroutine stops running.
func (m *traceModel) leave(t *traceThread, r Record) {
	m.send(r)
	t.g = 0
}

// destroy converts the end of a thread's goroutine.
func (m *traceModel) destroy(t *traceThread, r Record) {
	r.Event = EvGoEnd
	m.send(r)
	delete(m.lastP, t.g)
	delete(m.own, t.g)
	t.g, t.syscall = 0, false
}

// goStatus notes what a goroutine does at the begin of a generation.
func (m *traceModel) goStatus(e *wireEvent) {
	g, thread, status := e.args[0], e.args[1], e.args[2]
	switch status {
	case goRunning, goSyscall:
		t := m.thread(thread)
		t.g, t.syscall = g, status == goSyscall
	}
	r := Record{Late: true, Time: m.begin, G: G{ID: g}}
	switch {
	case m.own[g]:
		return
	case status == goWaiting:
		r.Event = EvGoWaiting
	case status == goSyscall:
		r.Event = EvGoInSyscall
	default:
		return
	}
	m.describe(r)
}

// stwKinds are the kinds of the stops of the world by the garbage collector that the tracer spells.
var stwKinds = map[string]uint64{
	"GC mark termination":  STWMarkTermination,
	"GC sweep termination": STWSweepTermination,
}

// otherEvent converts the events of the garbage collector, the heap and the program's annotations.
func (m *traceModel) otherEvent(e *wireEvent, r Record) {
	switch e.kind {
	case wireSTWBegin:
		kind, ok := stwKinds[m.strings[e.args[0]]]
		m.gcSTW = ok
		if !ok {
			return
		}
		r.Event, r.G, r.Args[0] = EvGCSTWStart, G{}, kind
	case wireSTWEnd:
		if !m.gcSTW {
			return
		}
		m.gcSTW = false
		r.Event, r.G = EvGCSTWDone, G{}
	case wireGoLabel:
		r.Event, r.Text[0] = EvGoStartLabel, m.strings[e.args[0]]
	case wireUserTaskBegin:
		r.Event, r.Args, r.Text[0] = EvUserTaskCreate, [2]uint64{e.args[0], e.args[1]}, m.strings[e.args[2]]
	case wireUserTaskEnd:
		r.Event, r.Args[0] = EvUserTaskEnd, e.args[0]
	case wireUserRegionBegin:
		r.Event, r.Args, r.Text[0] = EvUserRegion, [2]uint64{e.args[0], RegionStart}, m.strings[e.args[1]]
	case wireUserRegionEnd:
		r.Event, r.Args, r.Text[0] = EvUserRegion, [2]uint64{e.args[0], RegionEnd}, m.strings[e.args[1]]
	case wireUserLog:
		r.Event, r.Args[0], r.Text = EvUserLog, e.args[0], [2]string{m.strings[e.args[1]], m.strings[e.args[2]]}
	default:
		m.gcEvent(e, r)
		return
	}
	m.send(r)
}

// gcEvents are the events of the garbage collector and the heap that have the same arguments in records.
var gcEvents = map[byte]Event{
	wireGCBegin:           EvGCStart,
	wireGCEnd:             EvGCDone,
	wireGCSweepBegin:      EvGCSweepStart,
	wireGCSweepEnd:        EvGCSweepDone,
	wireGCMarkAssistBegin: EvGCMarkAssistStart,
	wireGCMarkAssistEnd:   EvGCMarkAssistDone,
	wireHeapAlloc:         EvHeapAlloc,
	wireHeapGoal:          EvNextGC,
}

// gcEvent converts the events of the garbage collector and the heap.
func (m *traceModel) gcEvent(e *wireEvent, r Record) {
	ev, ok := gcEvents[e.kind]
	if !ok {
		return
	}
	r.Event = ev
	fields := events[ev].fields
	if fields&fieldG == 0 {
		r.G = G{}
	}
	if fields&fieldArg0 != 0 {
		r.Args = [2]uint64{e.args[0], e.args[1]}
	}
	if fields&fieldArg1 == 0 {
		r.Args[1] = 0
	}
	m.send(r)
}
