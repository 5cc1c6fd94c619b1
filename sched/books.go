package sched

import (
	"math/bits"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// CPU is the processor time of a process, by use, and further data of event.Usage. Times are since the first call of
// [Machine.Account].
type CPU struct {
	// Process is the processor time of the process, as accounted by the kernel. It is the sum of Goroutines and Runtime.
	Process Nanos

	// Goroutines is the processor time of observed goroutines that do not belong to the runtime itself: in Go code, in C
	// code, and in the kernel. It is an estimate, see Machine.Account.
	Goroutines Nanos

	// Runtime is the remaining processor time: of the scheduler, the garbage collector's workers, threads without a
	// goroutine, and goroutines that are not observed.
	Runtime Nanos

	// RunQueue is the time that threads were ready to run and waited for a processor, summed over the threads.
	RunQueue Nanos

	Threads int   // number of threads at the last call of Machine.Account
	Procs   int   // GOMAXPROCS at the last call of Machine.Account; 0 if unknown
	RSS     int64 // resident memory in bytes at the last call of Machine.Account

	Known bool // Machine.Account has been called; otherwise all fields are 0
}

// sub returns c with its times less those of o.
func (c CPU) sub(o *CPU) CPU {
	c.Process, c.Goroutines, c.Runtime = c.Process.Sub(o.Process), c.Goroutines.Sub(o.Goroutines), c.Runtime.Sub(o.Runtime)
	c.RunQueue = c.RunQueue.Sub(o.RunQueue)
	return c
}

// work is what a thread did since the last Account. Times are in nanoseconds.
type work struct {
	began int64 // when the current goroutine started on the thread
	from  int64 // start of the time of the current goroutine that is not yet in busy
	left  int64 // when the last goroutine left the thread
	gaps  int64 // estimated processor time of the scheduler between goroutines
	busy  stays // time of goroutines on the thread

	// The garbage collector's workers are not observed. They run in the gaps between goroutines.
	collected int64 // total collection time when the last goroutine left the thread
	collector int64 // collection time in gaps

	// ahead is the time of goroutines on the thread that exceeds the running and waiting time of the thread. The kernel
	// accounts a wait for a processor when it ends, so this time is accounted later.
	ahead int64

	usage event.ThreadUsage // as of the last Account
	round uint64            // number of the last Account that contained the thread
}

// stay is the total time of goroutines on a thread, in nanoseconds: in periods shorter than shortStay, and in longer periods.
type stay struct{ short, long int64 }

// shortStay is the duration below which a goroutine on a thread is assumed to run all the time.
const shortStay = int64(100 * time.Microsecond)

// charge adds the time of the current goroutine of a thread, until t, to the thread's work. leaves says that the goroutine
// leaves the thread. Otherwise a short period is added later, when its full length is known.
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

// stays is the total time of goroutines on a thread, by site. Recently used sums are cached, because switches between
// goroutines are the most frequent events.
type stays struct {
	recent [16]struct {
		site uint32
		stay
	}
	rest map[uint32]stay
}

// of returns the cached sum of a site. The pointer is valid until the next call of a method.
func (s *stays) of(site uint32) *stay {
	r := &s.recent[site%uint32(len(s.recent))]
	if r.site != site {
		s.put(r.site, r.stay)
		r.site, r.stay = site, stay{}
	}
	return &r.stay
}

// put adds d to the sum of a site that is not cached.
func (s *stays) put(site uint32, d stay) {
	if d == (stay{}) {
		return
	}
	if s.rest == nil {
		s.rest = map[uint32]stay{}
	}
	s.rest[site] = s.rest[site].add(d)
}

// all returns the sums by site. The map is valid until the next call of a method.
func (s *stays) all() map[uint32]stay {
	for i := range s.recent {
		r := &s.recent[i]
		s.put(r.site, r.stay)
		r.stay = stay{}
	}
	return s.rest
}

// eventLag is an upper bound of the time that an event takes to arrive, in nanoseconds. If the last event of a goroutine is
// older, the state of the Ps that was read from the target is more reliable than the events.
const eventLag = int64(10 * time.Millisecond)

// Account processes the current resource usage of the process. It divides the processor time since the previous call among
// the creation sites of goroutines ([Flow].CPU) and updates [Totals].Processor. If u.Procs is known, it also corrects which
// goroutines count as running. The first call only sets the starting point for processor times. Before a call, all events
// until the time at which u was read should have been applied, and [Machine.Advance] should have been called with that time.
// Account ignores u.Err.
//
// The processor time of goroutines is an estimate. For each thread, the kernel reports the time that it ran (C) and the time
// that it waited to run (W). Events show the time that goroutines were on the thread. C is divided as follows:
//
//   - Goroutines that were on the thread for less than 100 µs ran all the time. In a longer period, the thread can also have
//     waited for a processor or slept in a system call.
//   - The scheduler uses up to 25 µs of each gap between two goroutines.
//   - During a garbage collection, its workers run in the gaps, for the fraction C/(C+W) of the time.
//   - The rest belongs to the goroutines that were on the thread for 100 µs or more, up to the time that they were there.
func (m *Machine) Account(u event.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.divide(&u)
	if u.Procs > 0 {
		m.setProcs(u.Procs)
		if u.Running != nil {
			m.correct(u.Running)
		}
	}
}

// divide divides the processor time since the last Account among threads and sites.
func (m *Machine) divide(u *event.Usage) {
	first := !m.cpu.Known
	m.cpu.Known = true
	m.rounds++
	var accounted, goroutines int64 // processor time of live threads, and the part of it that belongs to goroutines
	m.limitCollector()
	for i := range u.Threads {
		now := &u.Threads[i]
		th := m.threads.of(now.TID)
		if th == nil {
			continue
		}
		before := th.usage
		if th.round == 0 || now.CPU < before.CPU { // a new thread, or one that has reused the ID
			before = event.ThreadUsage{}
		}
		if first {
			th.work = work{began: m.now, from: m.now, left: m.now, collected: m.collection(m.now)}
		}
		th.usage, th.round = *now, m.rounds
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
	spent := max(int64(u.CPU-m.spent), 0)
	m.spent = u.CPU
	m.cpu.Threads, m.cpu.Procs, m.cpu.RSS = len(u.Threads), u.Procs, u.RSS
	if first {
		return
	}
	goroutines += m.shareEnded(max(spent-accounted, 0))
	goroutines = min(goroutines, spent)
	m.cpu.Process.add(spent)
	m.cpu.Goroutines.add(goroutines)
	m.cpu.Runtime.add(spent - goroutines)
}

// limitCollector limits the collection time of all threads to that of all Ps, because most threads without a goroutine sleep
// during a collection.
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

// gapTime returns the estimated processor time of the scheduler in a gap between two goroutines. It is the whole gap if the gap
// is short. In a longer gap, the thread sleeps. Falling asleep and waking up takes some microseconds, and more after a long
// sleep, because the caches are cold. TestShare compares the result with measurements.
func gapTime(gap int64) int64 {
	const least, most = int64(8 * time.Microsecond), int64(25 * time.Microsecond)
	if gap <= least {
		return gap
	}
	return min(least+gap/16, gap, most)
}

// leave records that the goroutine of a thread leaves it at t.
func (m *Machine) leave(w *work, t int64) { w.left, w.collected = t, m.collection(t) }

// idle adds the collection time until t to the work of a thread without a goroutine.
func (m *Machine) idle(w *work, t int64) {
	until := m.collection(t)
	w.collector += max(until-w.collected, 0)
	w.collected = until
}

// collection returns the total collection time until t. If garbage collections are not observed, any time can be collection
// time, and collection returns t.
func (m *Machine) collection(t int64) int64 {
	if !m.seesGC {
		return t
	}
	return m.phases.gc.until(t)
}

// begin records that a goroutine starts on a thread at t.
func (m *Machine) begin(w *work, t int64) {
	m.idle(w, t)
	w.gaps += gapTime(max(t-w.left, 0))
	w.began, w.from = t, t
}

// share distributes the processor time of a thread, ran, to the sites of the goroutines that were on it. awake is ran plus the
// time that the thread waited to run. share returns the time of goroutines that do not belong to the runtime.
func (m *Machine) share(w *work, ran, awake int64) (goroutines int64) {
	busy := w.busy.all()
	var all stay
	for _, d := range busy {
		all = all.add(d)
	}
	short, gaps := all.short, w.gaps
	if sum := short + gaps; sum > ran { // short periods and gaps include waits for a processor
		short, gaps = scale(ran, short, sum), scale(ran, gaps, sum)
	}
	rest, left := ran-short-gaps, max(awake-short-gaps, 0)
	w.ahead += all.long - left
	if w.ahead < 0 {
		w.ahead = 0
	} else if all.long < left { // the excess of left belongs to an earlier period
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

// shareEnded distributes the processor time of threads that have exited since the last Account, as share does, and removes the
// threads.
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

// scale returns n * part / whole, where part is at most whole. It returns 0 if an argument is zero or negative.
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

// correct compares the goroutines that count as running with those that have a P in the target, by goroutine ID, and corrects
// their states.
func (m *Machine) correct(running map[uint64]event.Proc) {
	for _, th := range m.threads.list[1:] {
		if th == nil || th.en == nil || m.now-th.lastEvent < eventLag {
			continue
		}
		_, on := running[th.g]
		if th.en.state == gostate.Running && !on {
			m.lostProc(th, m.now)
		}
	}
	for g, p := range running {
		en := m.table.Find(g)
		if en == nil || en.thread == 0 || en.epoch != m.epoch || en.flags&flagInferred == 0 || en.state != gostate.Syscall {
			continue
		}
		th := m.threads.list[en.thread]
		if m.now-th.lastEvent < eventLag {
			continue
		}
		m.close(en, m.now, gostate.Unsure)
		m.enter(en, m.sites.at(en.site), en.since, m.rules.Reported[gostate.Running])
		if id, known := p.ID(); known && id < maxProcs {
			m.gotProc(th, id, m.now)
		}
	}
	for ts := &m.threads; ts.running > ts.limit && m.evict(nil, m.now); {
	}
}
