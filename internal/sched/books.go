package sched

import (
	"math/bits"
	"time"

	"github.com/loupe-go/loupe/internal/gostate"
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

// work is the work of a thread since the last Account.
type work struct {
	began int64 // when the current goroutine started on the thread
	from  int64 // start of its time that is not yet in busy
	left  int64 // when the last goroutine left
	gaps  int64 // estimated time of the scheduler between goroutines
	busy  stays // how long goroutines were on the thread

	// The garbage collector's workers are not observed. They run between goroutines too.
	collected int64 // total collection time when the last goroutine left
	collector int64 // collection time between goroutines

	// ahead is how much longer goroutines were on the thread than it was awake: the kernel accounts a wait for a processor
	// when it ends.
	ahead int64

	books ThreadBooks // of the last Account
	round uint64      // number of that Account
}

// stay is how long goroutines were on a thread, separately for stays shorter than shortStay and for others.
type stay struct{ short, long int64 }

const shortStay = int64(100 * time.Microsecond)

// charge adds the time of the current goroutine of a thread, until t.
func (m *Machine) charge(th *thread, t int64, leaves bool) {
	en := th.en
	if en == nil || t <= th.from {
		return
	}
	isShort := t-th.began < shortStay
	if isShort && !leaves {
		return
	}
	d := th.busy.of(en.site)
	if isShort {
		d.short += t - th.from
	} else {
		d.long += t - th.from
	}
	th.from = t
}

func (s stay) add(o stay) stay { return stay{s.short + o.short, s.long + o.long} }

// stays is the total time of goroutines on a thread, by site. Recently used sums are cached: switches between goroutines
// are the most frequent of all events.
type stays struct {
	recent [16]struct {
		site uint32
		stay
	}
	rest map[uint32]stay
}

// of returns the sum of a site, for adding to it.
func (s *stays) of(site uint32) *stay {
	r := &s.recent[site%uint32(len(s.recent))]
	if r.site != site {
		s.put(r.site, r.stay)
		r.site, r.stay = site, stay{}
	}
	return &r.stay
}

// put adds to a sum that is not cached.
func (s *stays) put(site uint32, d stay) {
	if d == (stay{}) {
		return
	}
	if s.rest == nil {
		s.rest = map[uint32]stay{}
	}
	s.rest[site] = s.rest[site].add(d)
}

// all returns the sums by site, until the next change.
func (s *stays) all() map[uint32]stay {
	for i := range s.recent {
		r := &s.recent[i]
		s.put(r.site, r.stay)
		r.stay = stay{}
	}
	return s.rest
}

// lookLag is the age of a goroutine's last event above which a look at the Ps is more reliable than its events,
// because no later event can be in transit.
const lookLag = int64(10 * time.Millisecond)

// Account takes the books of the process, of now. It divides the processor time since the last Account among the sites of
// goroutines, and corrects which goroutines run.
//
// Of each thread the kernel reports how long it ran (C) and waited to run (W), and the events how long goroutines were on it.
// Goroutines that were there for less than shortStay ran all the time. The longer one is there, the more likely the thread
// waited for a processor or slept in a system call meanwhile. The scheduler uses gapTime of each gap between goroutines. During
// garbage collections its workers run in the gaps, for the part C/(C+W) of them. What is left of C is that of goroutines that
// were there for longer, up to the time that they were there.
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
	var accounted, goroutines int64 // of live threads
	m.limitCollector()
	for i := range b.Threads {
		now := &b.Threads[i]
		th := m.threads.of(now.TID)
		if th == nil {
			continue
		}
		before := th.books
		if th.round == 0 || now.CPU < before.CPU { // another thread has reused the ID
			before = ThreadBooks{}
		}
		if first {
			th.work = work{began: m.now, from: m.now, left: m.now, collected: m.collection(m.now)}
		}
		th.books, th.round = *now, m.rounds
		if first {
			continue
		}
		m.charge(th, m.now, false)
		ran, waited := int64(now.CPU-before.CPU), max(int64(now.Wait-before.Wait), 0)
		accounted += ran
		m.cpu.RunQueue.add(waited)
		goroutines += m.share(&th.work, ran, ran+waited)
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

// limitCollector limits the time of the garbage collector on threads without a goroutine to the time of the Ps: most of
// these threads sleep during a collection.
func (m *Machine) limitCollector() {
	until := m.collection(m.now)
	most := (until - m.collected) * int64(max(m.threads.limit, 1))
	m.collected = until
	var all int64
	for _, th := range m.threads.list[1:] {
		if th == nil {
			continue
		}
		if th.en == nil {
			m.idle(&th.work, m.now)
		}
		all += th.collector
	}
	for _, th := range m.threads.list[1:] {
		if th != nil && all > most {
			th.collector = scale(th.collector, max(most, 0), all)
		}
	}
}

// gapTime returns how long the scheduler runs in a gap between two goroutines: all of a short gap. In a longer gap
// the thread sleeps. Sleeping and waking up takes some microseconds, more after a long sleep, because the caches are cold.
// TestShare compares this with measurements.
func gapTime(gap int64) int64 {
	const least, most = int64(8 * time.Microsecond), int64(25 * time.Microsecond)
	if gap <= least {
		return gap
	}
	return min(least+gap/16, gap, most)
}

// leave records that a thread's goroutine leaves it.
func (m *Machine) leave(w *work, t int64) { w.left, w.collected = t, m.collection(t) }

// idle adds the time of the garbage collector's workers on a thread without a goroutine, until t.
func (m *Machine) idle(w *work, t int64) {
	until := m.collection(t)
	w.collector += max(until-w.collected, 0)
	w.collected = until
}

// collection returns the total collection time until t; all the time if collections are not observed.
func (m *Machine) collection(t int64) int64 {
	if !m.seesGC {
		return t
	}
	return m.phases.gc.until(t)
}

// begin records that a goroutine starts on a thread.
func (m *Machine) begin(w *work, t int64) {
	m.idle(w, t)
	w.gaps += gapTime(max(t-w.left, 0))
	w.began, w.from = t, t
}

// share distributes the processor time of a thread to the goroutines that were on it. awake is that time plus the time
// it waited to run. share returns the time of goroutines that do not belong to the runtime.
func (m *Machine) share(w *work, ran, awake int64) (goroutines int64) {
	busy := w.busy.all()
	var all stay
	for _, d := range busy {
		all = all.add(d)
	}
	short, gaps := all.short, w.gaps
	if sum := short + gaps; sum > ran { // these include waits for a processor
		short, gaps = scale(ran, short, sum), scale(ran, gaps, sum)
	}
	rest, left := ran-short-gaps, max(awake-short-gaps, 0)
	w.ahead += all.long - left
	if w.ahead < 0 {
		w.ahead = 0
	} else if all.long < left { // this time was accounted before
		left = all.long
	}
	collector := scale(min(w.collector, max(left-all.long, 0)), ran, awake)
	long := min(all.long, max(rest-collector, 0))
	for site, d := range busy {
		s := m.sites.at(site)
		part := scale(short, d.short, all.short) + scale(long, d.long, all.long)
		s.cpu.add(part)
		if o := m.origins[s.origin]; o == nil || !o.System {
			goroutines += part
		}
	}
	clear(busy)
	w.gaps, w.collector = 0, 0
	return goroutines
}

// shareEnded does the same for the threads that have exited since the last Account, and removes them.
func (m *Machine) shareEnded(ran int64) int64 {
	var all work
	for _, th := range m.threads.list[1:] {
		if th == nil || th.round == m.rounds {
			continue
		}
		m.charge(th, m.now, false)
		busy := th.busy.all()
		for site, d := range busy {
			all.busy.put(site, d)
		}
		clear(busy)
		if th.en == nil {
			m.threads.forget(th)
		}
	}
	return m.share(&all, ran, ran)
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

// setProcs sets GOMAXPROCS. Ps with larger IDs no longer exist.
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

// correct compares the goroutines that are counted as running with those that have a P.
func (m *Machine) correct(onP []OnP) {
	has := make(map[uint64]int32, len(onP))
	for _, on := range onP {
		has[on.G] = on.P
	}
	for _, th := range m.threads.list[1:] {
		if th == nil || th.en == nil || m.now-th.heard < lookLag {
			continue
		}
		_, on := has[th.g]
		if th.en.state == gostate.Running && !on {
			m.lostProc(th, m.now)
		}
	}
	for _, on := range onP {
		en := m.table.Find(on.G)
		if en == nil || en.thread == 0 || en.epoch != m.epoch || en.flags&flagInferred == 0 || en.state != gostate.Syscall {
			continue
		}
		th := m.threads.list[en.thread]
		if m.now-th.heard < lookLag {
			continue
		}
		m.close(en, m.now, gostate.Unsure)
		m.enter(en, m.sites.at(en.site), en.since, m.rules.Reported[gostate.Running])
		if on.P >= 0 && on.P < maxProcs {
			m.gotProc(th, on.P, m.now)
		}
	}
	for ts := &m.threads; ts.running > ts.limit && m.evict(nil, m.now); {
	}
}
