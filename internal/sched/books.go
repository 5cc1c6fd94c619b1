package sched

import (
	"math/bits"
	"time"
)

// Books is what the kernel and the runtime account of the process at one moment.
type Books struct {
	CPU     time.Duration // processor time of the process, all its threads that have been (utime + stime)
	Threads []ThreadBooks
	RSS     int64 // resident memory in bytes

	Procs int   // GOMAXPROCS; 0 if it could not be read
	OnP   []OnP // the goroutines that had a P and were not in a system call; nil if that could not be read
}

// ThreadBooks is what the kernel accounts of a thread.
type ThreadBooks struct {
	TID  int32         // as in event.Event
	CPU  time.Duration // it ran on a processor
	Wait time.Duration // it could run and waited for a processor, in the kernel's run queue
}

// OnP is a goroutine that has a P.
type OnP struct {
	G uint64
	P int32
}

// CPU is processor time by what it was used for, and what else the books say. Times count from the first Account on.
type CPU struct {
	// Process is the processor time of the whole process, as the kernel accounts it. It is the sum of the next two.
	Process Nanos
	// Goroutines is the part of it while an observed goroutine, other than the runtime's own, was on the thread: in Go code,
	// in C code, or in the kernel for it. How a thread's time is divided is an estimate, see Machine.Account.
	Goroutines Nanos
	// Runtime is the rest: the scheduler, the garbage collector's workers, threads without a goroutine, and goroutines
	// that are not observed.
	Runtime Nanos

	// RunQueue is how long threads could run and waited for a processor, all together.
	RunQueue Nanos

	// Of the last Account:
	Threads int
	Procs   int   // GOMAXPROCS; 0 if unknown
	RSS     int64 // bytes

	Known bool // there was an Account
}

func (c CPU) sub(o *CPU) CPU {
	c.Process, c.Goroutines, c.Runtime = c.Process.Sub(o.Process), c.Goroutines.Sub(o.Goroutines), c.Runtime.Sub(o.Runtime)
	c.RunQueue = c.RunQueue.Sub(o.RunQueue)
	return c
}

// work is what a thread has done since the last Account.
type work struct {
	began int64           // when the goroutine that is on the thread got there
	from  int64           // since when its time is not in busy
	site  uint32          // the site to which time was added last
	time  stay            // what was added to it and is not in busy
	busy  map[uint32]stay // how long goroutines were on the thread, by site

	left int64 // when the last goroutine left
	gaps int64 // what the scheduler is taken to have used between goroutines

	// ahead is how much longer goroutines have been on the thread than it was awake: the kernel adds a wait for a processor
	// when it is over.
	ahead int64

	books ThreadBooks // of the last Account
	round uint64      // and its number
}

// stay is how long goroutines were on a thread, those that were there for less than shortStay and the others. A thread
// that is made to wait for a processor in between is there for longer: another one has a time slice meanwhile.
type stay struct{ short, long int64 }

const shortStay = int64(500 * time.Microsecond)

// charge adds the time of the goroutine that is on a thread, until t. It goes on there unless it leaves.
func (m *Machine) charge(th *thread, t int64, leaves bool) {
	en := th.en
	if en == nil || !m.cpu.Known || t <= th.from {
		return
	}
	isShort := t-th.began < shortStay
	if isShort && !leaves {
		return
	}
	if en.site != th.site {
		th.flush()
		th.site = en.site
	}
	if isShort {
		th.time.short += t - th.from
	} else {
		th.time.long += t - th.from
	}
	th.from = t
}

func (w *work) flush() {
	if w.time == (stay{}) {
		return
	}
	if w.busy == nil {
		w.busy = map[uint32]stay{}
	}
	w.busy[w.site] = w.busy[w.site].add(w.time)
	w.time = stay{}
}

func (s stay) add(o stay) stay { return stay{s.short + o.short, s.long + o.long} }

// lookLag is how long ago a goroutine must have done something last for a look at the Ps to say more than its events,
// of which one may be on its way.
const lookLag = int64(10 * time.Millisecond)

// Account takes the books of the process, of now. It divides the processor time since the last Account among the sites of
// goroutines, and corrects which goroutines run.
//
// Of each thread the kernel tells how long it ran (C) and waited to run (W), and the events how long goroutines were on it.
// Goroutines that were there for a short time ran all the time: a thread that waits for a processor in between is there for
// longer, since another one has a time slice. Each gap between goroutines costs the scheduler gapTime at most. What is left
// of C is that of goroutines that were there for longer. While the garbage collector is at work, its workers may run in the
// gaps: then goroutines get the part of C that their time is of C+W. It is too much by what the scheduler used beyond
// gapTime of a thread whose goroutines slept in system calls.
func (m *Machine) Account(b Books) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.divide(&b)
	if b.Procs > 0 {
		m.setProcs(b.Procs)
		if b.OnP != nil {
			m.correct(b.OnP)
		}
	}
}

// divide divides processor time.
func (m *Machine) divide(b *Books) {
	first := !m.cpu.Known
	m.cpu.Known = true
	m.rounds++
	collecting := m.collecting()
	var accounted, goroutines int64 // of threads that live
	for i := range b.Threads {
		now := &b.Threads[i]
		th := m.threads.of(now.TID)
		if th == nil {
			continue
		}
		before := th.books
		if th.round == 0 || now.CPU < before.CPU { // another thread has got the number
			before = ThreadBooks{}
		}
		th.books, th.round = *now, m.rounds
		if first {
			th.from = m.now
			continue
		}
		m.charge(th, m.now, false)
		ran, waited := int64(now.CPU-before.CPU), max(int64(now.Wait-before.Wait), 0)
		accounted += ran
		m.cpu.RunQueue.add(waited)
		goroutines += m.share(&th.work, ran, ran+waited, collecting)
		if th.en == nil || m.now-th.began < shortStay {
			th.ahead = 0
		}
	}
	spent := max(int64(b.CPU-m.spent), 0)
	m.spent = b.CPU
	m.cpu.Threads, m.cpu.Procs, m.cpu.RSS = len(b.Threads), b.Procs, b.RSS
	if first {
		return
	}
	goroutines += m.shareEnded(max(spent-accounted, 0))
	goroutines = min(goroutines, spent)
	m.cpu.Process.add(spent)
	m.cpu.Goroutines.add(goroutines)
	m.cpu.Runtime.add(spent - goroutines)
}

// gapTime is what the scheduler uses between two goroutines at most: it looks for work, and makes system calls to sleep and
// to wake up.
const gapTime = int64(50 * time.Microsecond)

// begin notes that a goroutine gets on a thread.
func (w *work) begin(t int64) {
	w.gaps += min(max(t-w.left, 0), gapTime)
	w.began, w.from = t, t
}

// share gives the goroutines that were on a thread their part of the time that it ran. awake is that time and the time
// it waited to run, collecting the part of the time in which the garbage collector was at work. It returns what
// goroutines that are not the runtime's own got.
func (m *Machine) share(w *work, ran, awake int64, collecting float64) (goroutines int64) {
	w.flush()
	var all stay
	for _, d := range w.busy {
		all = all.add(d)
	}
	short := min(all.short, ran)
	gaps := min(w.gaps, ran-short)
	rest := ran - short - gaps
	awake = max(awake-short-gaps, 0)
	w.ahead += all.long - awake
	if w.ahead < 0 {
		w.ahead = 0
	} else if all.long < awake { // what is accounted now was before
		awake = all.long
	}
	most := min(all.long, rest)
	least := min(scale(rest, all.long, max(all.long, awake)), most)
	long := most - int64(collecting*float64(most-least))
	for site, d := range w.busy {
		s := m.sites.at(site)
		part := scale(short, d.short, all.short) + scale(long, d.long, all.long)
		s.cpu.add(part)
		if o := m.origins[s.origin]; o == nil || !o.System {
			goroutines += part
		}
	}
	clear(w.busy)
	w.gaps = 0
	return goroutines
}

// collecting returns which part of the time since the last Account the garbage collector was at work: 1 if it is unknown.
func (m *Machine) collecting() float64 {
	gc := m.phases.gc.time
	if m.phases.gc.active {
		gc.add(max(m.now-m.phases.gc.since, 0))
	}
	spent, whole := gc.Sub(m.collected).Seconds(), float64(m.now-m.accounted)/1e9
	m.collected, m.accounted = gc, m.now
	if !m.seesGC || whole <= 0 {
		return 1
	}
	return min(spent/whole, 1)
}

// shareEnded does the same for the threads that have ended since the last Account, and forgets them.
func (m *Machine) shareEnded(ran int64) int64 {
	all := work{busy: map[uint32]stay{}}
	for _, th := range m.threads.list[1:] {
		if th == nil || th.round == m.rounds {
			continue
		}
		m.charge(th, m.now, false)
		th.flush()
		for site, d := range th.busy {
			all.busy[site] = all.busy[site].add(d)
		}
		clear(th.busy)
		if th.en == nil {
			m.threads.forget(th)
		}
	}
	return m.share(&all, ran, ran, 0)
}

// scale returns n * part / whole.
func scale(n, part, whole int64) int64 {
	if whole <= 0 || n <= 0 || part <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(min(part, whole)))
	q, _ := bits.Div64(hi, lo, uint64(whole))
	return int64(q)
}

// setProcs takes GOMAXPROCS. Ps beyond do not exist any more.
func (m *Machine) setProcs(n int) {
	ts := &m.threads
	ts.limit = n
	for id := n; id < len(ts.procs); id++ {
		if slot := ts.procs[id]; slot != 0 {
			m.lostProc(ts.list[slot], m.now)
		}
	}
	for ts.running > ts.limit && m.evict(nil, m.now) {
	}
}

// correct compares the goroutines that are taken to run with those that have a P.
func (m *Machine) correct(onP []OnP) {
	has := make(map[uint64]int32, len(onP))
	for _, on := range onP {
		has[on.G] = on.P
	}
	for _, th := range m.threads.list[1:] {
		if th == nil || th.en == nil || m.now-th.heard < lookLag {
			continue
		}
		_, on := has[th.en.id]
		if th.en.state == running && !on {
			m.lostProc(th, m.now)
		}
	}
	for _, on := range onP {
		en := m.table.find(on.G)
		if en == nil || en.thread == 0 || en.epoch != m.epoch || en.flags&flagInferred == 0 || en.state != syscall {
			continue
		}
		th := m.threads.list[en.thread]
		if m.now-th.heard < lookLag {
			continue
		}
		m.close(en, m.now, mixed)
		m.enter(en, m.sites.at(en.site), en.since, m.can[running])
		if on.P >= 0 && on.P < maxProcs {
			m.gotProc(th, on.P, m.now)
		}
	}
	for ts := &m.threads; ts.running > ts.limit && m.evict(nil, m.now); {
	}
}
