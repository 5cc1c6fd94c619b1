package writer

import (
	"github.com/loupe-go/loupe/event"
)

// A goState is what a goroutine is doing, by the numbers of the trace.
type goState uint8

const (
	goAbsent   goState = iota // not told in the trace yet
	goRunnable                // 1 to 4 are the trace's own
	goRunning
	goSyscall
	goWaiting
)

// A goroutine is a goroutine as readers of the trace know it.
type goroutine struct {
	id     uint64
	seq    uint64 // sequence number of its last event that has one, in generation gen
	gen    uint64 // the last generation that told its status
	m      *thread
	origin *event.Origin
	stack  *event.Stack // where it was when it ran last
	index  int          // in all
	losses uint64       // how often events had been lost when it did something last
	state  goState
	// guest is set for a goroutine that is known only because the garbage collector ran on it, or because the writer itself
	// needs one. It waits when it is not needed.
	guest   bool
	hidden  bool // entered a system call, or came back from one, without an event
	forever bool // has begun to wait for ever: for viewers it has ended
	assists bool // marks for the garbage collector
	regions []region
}

// A region is a region of runtime/trace that has begun.
type region struct {
	task uint64
	name string
}

// A thread is a thread (an M) as readers of the trace know it.
type thread struct {
	id   uint64
	g    *goroutine // the goroutine that runs or is in a system call
	p    *proc
	left uint64 // the goroutine that was last on it
	used *proc  // the P that it had last
	// back is when the goroutine came back from its system call, 0 when it did not. Whether it had a P then shows only at
	// its next event. What tells of it is written then; it has this tick and the next.
	back  uint64
	made  bool // stands for a thread that is not known
	spare bool // is in spareM
	// guessed is set when no event has told that the thread has its P.
	guessed bool
	batch   batch
}

// A procState is what a P is doing, by the numbers of the trace.
type procState uint8

const (
	procRunning procState = iota + 1
	procIdle
	procSyscall
)

// A proc is a P as readers of the trace know it.
type proc struct {
	id    uint64
	seq   uint64 // sequence number of its last event that has one, in generation gen
	gen   uint64 // the last generation that told its status
	m     *thread
	state procState
	made  bool // no event has told its ID

	// Ps that no goroutine uses form a list, the one that has been unused for longest first.
	unused     bool
	prev, next *proc
}

// A model is what readers of the trace know at the moment. It is their model of the scheduler, followed to write only
// what that accepts.
type model struct {
	goroutines map[uint64]*goroutine
	all        []*goroutine // the same in no order
	threads    map[uint64]*thread
	order      []*thread // the same in the order in which they were found
	newThreads int       // found in this generation
	procs      []*proc   // by ID; nil for IDs that are not in use
	unused     proc      // of the list: next is the first, prev the last
	nProcs     int
	freeProc   int  // no ID below is free
	procsKnown bool // an event has told the ID of a P
	lent       int  // the P that was taken from a thread last, for one that had to have any

	spareG   []*goroutine
	spareM   []*thread // made threads on which nothing runs
	lastMade uint64
	lastM    *thread // found last
	observer *thread // a made thread for what happens on none of the program's

	executing []executing
}

// An executing is a goroutine that was running or in a system call by its status. The trace tells of it when it does
// something, or else when the generation ends: on which thread it was is certain only then.
type executing struct {
	g     *goroutine
	id    uint64 // g's; another one when g is not in use any more
	state goState
	tid   int32
	p     event.Proc
}

// Bounds of IDs. A thread ID that is none of a Linux kernel's is not known, as is a P that no machine has: viewers have a
// row for each P up to the last.
const (
	maxThread = 1 << 30 // made threads have IDs from here on
	// maxNewThreads is how many threads a generation finds at most before it ends early, so that they can be forgotten.
	maxNewThreads = 1 << 14
	maxProc       = 1 << 12
	guestID       = 1 << 62 // of the goroutine that the writer makes when none runs on which something could be told
	maxGoID       = 1<<63 - 1
)

func newModel() model {
	return model{goroutines: map[uint64]*goroutine{}, threads: map[uint64]*thread{}}
}

// newGoroutine adds a goroutine that the trace has not told of.
func (w *Writer) newGoroutine(id uint64) *goroutine {
	var g *goroutine
	if n := len(w.spareG); n > 0 {
		g = w.spareG[n-1]
		w.spareG = w.spareG[:n-1]
	} else {
		g = new(goroutine)
	}
	*g = goroutine{id: id, index: len(w.all), regions: g.regions[:0]}
	w.goroutines[id] = g
	w.all = append(w.all, g)
	w.stats.Goroutines++
	return g
}

// endGoroutine forgets a goroutine that has ended.
func (w *Writer) endGoroutine(g *goroutine) {
	w.stats.Ended++
	delete(w.goroutines, g.id)
	last := w.all[len(w.all)-1]
	w.all[g.index], last.index = last, g.index
	w.all = w.all[:len(w.all)-1]
	g.id, g.origin, g.stack = 0, nil, nil
	w.spareG = append(w.spareG, g)
}

// threadOf returns the thread with an ID; nil when that is not known.
func (w *Writer) threadOf(tid int32) *thread {
	if tid <= 0 || tid >= maxThread {
		return nil
	}
	if m := w.lastM; m != nil && m.id == uint64(tid) {
		return m
	}
	m := w.threads[uint64(tid)]
	if m == nil {
		m = w.newThread(uint64(tid))
	}
	w.lastM = m
	return m
}

func (w *Writer) newThread(id uint64) *thread {
	m := &thread{id: id}
	w.threads[id] = m
	w.order = append(w.order, m)
	w.newThreads++
	return m
}

// spareThread returns a made thread on which nothing runs, for a goroutine that is to run there.
func (w *Writer) spareThread() *thread {
	for n := len(w.spareM); n > 0; n = len(w.spareM) {
		m := w.spareM[n-1]
		w.spareM = w.spareM[:n-1]
		m.spare = false
		if m.g == nil {
			return m
		}
	}
	w.lastMade++
	m := w.newThread(maxThread + w.lastMade)
	m.made = true
	return m
}

// aside returns the thread for what happens on none of the program's threads.
func (w *Writer) aside() *thread {
	if w.observer == nil {
		w.observer = w.newThread(maxThread)
	}
	return w.observer
}

// bind notes that a goroutine executes on a thread, where none does.
func (w *Writer) bind(m *thread, g *goroutine) {
	m.g, g.m = g, m
	if m.p != nil {
		w.setUnused(m.p, false)
	}
}

// unbind notes that a goroutine does not execute any more.
func (w *Writer) unbind(g *goroutine, to goState) {
	m := g.m
	g.state, g.m = to, nil
	m.left, m.g = g.id, nil
	if m.p != nil {
		w.setUnused(m.p, true)
	}
	if m.made && !m.spare {
		m.spare = true
		w.spareM = append(w.spareM, m)
	}
}

// setUnused puts a P at the end of the list of those that no goroutine uses, or takes it out of it.
func (w *Writer) setUnused(p *proc, unused bool) {
	if p.unused {
		p.prev.next, p.next.prev = p.next, p.prev
		p.prev, p.next = nil, nil
	}
	if p.unused = unused; unused {
		last := w.unused.prev
		p.prev, p.next = last, &w.unused
		last.next, w.unused.prev = p, p
	}
}

// proc returns the P with an ID that the program uses.
func (w *Writer) proc(id int32) *proc {
	if int(id) < len(w.procs) && w.procs[id] != nil {
		return w.procs[id]
	}
	return w.newProc(int(id))
}

func (w *Writer) newProc(id int) *proc {
	for len(w.procs) <= id {
		w.procs = append(w.procs, nil)
	}
	p := &proc{id: uint64(id), state: procIdle}
	w.procs[id] = p
	w.nProcs++
	w.setUnused(p, true)
	return p
}

// makeProc returns a P that is not in use, of an ID that the program has not used yet.
func (w *Writer) makeProc() *proc {
	p := w.newProc(w.nextProc())
	p.made = true
	return p
}

// nextProc returns the lowest ID of a P that is not in use.
func (w *Writer) nextProc() int {
	for w.freeProc < len(w.procs) && w.procs[w.freeProc] != nil {
		w.freeProc++
	}
	return w.freeProc
}
