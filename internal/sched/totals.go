package sched

import (
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// Times is time by state, summed over goroutines. Uncertain is the time of which the state is not known.
type Times struct{ Running, Runnable, Blocked, Syscall, Uncertain Nanos }

// Add returns the sum of both.
func (t Times) Add(o Times) Times {
	return Times{t.Running.Add(o.Running), t.Runnable.Add(o.Runnable), t.Blocked.Add(o.Blocked), t.Syscall.Add(o.Syscall),
		t.Uncertain.Add(o.Uncertain)}
}

// Sub returns what t is more than o; parts that are less become 0.
func (t Times) Sub(o Times) Times {
	return Times{t.Running.Sub(o.Running), t.Runnable.Sub(o.Runnable), t.Blocked.Sub(o.Blocked), t.Syscall.Sub(o.Syscall),
		t.Uncertain.Sub(o.Uncertain)}
}

// Sum returns the time in all states together.
func (t Times) Sum() Nanos {
	return t.Running.Add(t.Runnable).Add(t.Blocked).Add(t.Syscall).Add(t.Uncertain)
}

// States counts live goroutines by their state. Unknown are those whose state the observed kinds do not tell. Uncertain
// counts those that had no event since the last loss; they are in the state that they had before it, too.
type States struct{ Running, Runnable, Waiting, Syscall, Unknown, Uncertain uint64 }

// Add returns the sum of both.
func (s States) Add(o States) States {
	return States{s.Running + o.Running, s.Runnable + o.Runnable, s.Waiting + o.Waiting, s.Syscall + o.Syscall,
		s.Unknown + o.Unknown, s.Uncertain + o.Uncertain}
}

// Flow is how many goroutines came and went, and how they spent their time. Live is Created + AtStart + Found - Ended.
type Flow struct {
	Live    uint64
	Created uint64 // by GoCreate
	Ended   uint64
	AtStart int64 // were alive when the observation began
	Found   int64 // were first seen later, by another event than their first: origin and parent are not known

	States States

	// Done is the time in states that are over. It only grows. Open is that of the states that goroutines are in now. A
	// state over which events were lost goes from Open.Blocked, say, to Done.Uncertain.
	Done, Open Times

	// Lived counts those of which creation and end were seen, and Lifetime sums their lives.
	Lived    uint64
	Lifetime Nanos

	// FirstStart is the time from creation to the first start.
	FirstStart Delays

	// CPU is the processor time of these goroutines since the first Machine.Account, an estimate.
	CPU Nanos
}

// Time returns the time in states that are over and of those that are not.
func (f *Flow) Time() Times { return f.Done.Add(f.Open) }

// empty reports whether there never was a goroutine. Of those that were moved elsewhere, times remain.
func (f *Flow) empty() bool { return f.Live == 0 && f.Ended == 0 && f.Done == Times{} }

// add adds the goroutines of a site.
func (f *Flow) add(s *site, now int64) {
	f.Created += s.created
	f.Ended += s.ended
	f.AtStart += s.atStart
	f.Found += s.found
	f.Lived += s.lived
	f.Lifetime = f.Lifetime.Add(s.lifetime)
	f.FirstStart.merge(&s.delay)
	f.CPU = f.CPU.Add(s.cpu)
	f.Done = f.Done.Add(Times{s.done[gostate.Running], s.done[gostate.Runnable], s.done[gostate.Waiting], s.done[gostate.Syscall], s.done[gostate.Unknown]})

	var open [gostate.NumStates]Nanos
	var count [gostate.NumStates]uint64
	uncertain := s.open[gostate.Unknown].open(now)
	for i := range s.open {
		open[i] = s.open[i].open(now)
		count[i] = s.open[i].n + s.stale[i].n
		uncertain = uncertain.Add(s.stale[i].open(now))
		f.States.Uncertain += s.stale[i].n
		f.Live += count[i]
	}
	f.Open = f.Open.Add(Times{open[gostate.Running], open[gostate.Runnable], open[gostate.Waiting], open[gostate.Syscall], uncertain})
	f.States = f.States.Add(States{count[gostate.Running], count[gostate.Runnable], count[gostate.Waiting], count[gostate.Syscall], count[gostate.Unknown], 0})
}

// sub returns what changed since an earlier look: counts and times are differences, Live and States those of now. Done is
// the time of the interval, of states that are over or not; Open is empty.
func (f Flow) sub(o *Flow) Flow {
	f.Done = f.Time().Sub(o.Time())
	f.Open = Times{}
	f.Created -= min(f.Created, o.Created)
	f.Ended -= min(f.Ended, o.Ended)
	f.AtStart = max(f.AtStart-o.AtStart, 0)
	f.Found = max(f.Found-o.Found, 0)
	f.Lived -= min(f.Lived, o.Lived)
	f.Lifetime = f.Lifetime.Sub(o.Lifetime)
	f.FirstStart.sub(&o.FirstStart)
	f.CPU = f.CPU.Sub(o.CPU)
	return f
}

// Totals are sums over the whole program.
type Totals struct {
	Flow
	Start, Now int64  // nanoseconds since the Unix epoch: the first event, and the latest or what Advance told
	Execs      uint64 // how often the program was replaced; everything else counts from the last time on

	Events  uint64                // all of known kinds
	Kinds   map[event.Kind]uint64 // by kind, those that occurred
	Strange uint64                // events of kinds that are not known
	Ignored uint64                // goroutine events without a goroutine's ID

	Losses uint64 // how often events were lost
	Lost   uint64 // how many

	Repairs    uint64 // events that did not fit what was known of the goroutine, which follows the event then
	Confirmed  uint64 // first events after a loss that did fit
	Resumed    uint64 // GoStart of running goroutines: they come back from system calls that were not observed
	Inferred   uint64 // times that a goroutine was found not to run, because its thread or its P runs another
	Reconciled uint64 // goroutines that Reconcile ended; they are in Ended too

	// EndedUnseen counts goroutines of which nothing but the end was seen; they are in no other number.
	EndedUnseen uint64
	// Untracked counts events of goroutines beyond Options.MaxGoroutines; they are in no other number but Kinds.
	Untracked uint64
	Overflow  Overflow

	Processor CPU
}

// Totals returns sums over the whole program.
func (m *Machine) Totals() Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := Totals{
		Start: m.start, Now: m.now, Execs: m.execs, Kinds: map[event.Kind]uint64{}, Strange: m.strange,
		Ignored: m.life.ignored, Losses: m.life.losses, Lost: m.life.lost, Repairs: m.life.repairs,
		Confirmed: m.life.confirmed, Resumed: m.life.resumed, Inferred: m.life.inferred, Reconciled: m.life.reconciled,
		EndedUnseen: m.life.endedUnseen, Untracked: m.life.untracked, Overflow: m.over, Processor: m.cpu,
	}
	for kind, n := range m.kinds {
		if n > 0 {
			t.Events += n
			t.Kinds[event.Kind(kind)] = n
		}
	}
	for i := range m.sites.n {
		s := m.sites.at(i)
		s.sync(m.epoch)
		t.add(s, m.now)
	}
	return t
}

// Sub returns what changed since an earlier look. Counts are differences; Live, States, Execs, Start and Now are those of
// now; Done is the time of the interval, whether the states are over or not, and Open is empty. When the program was
// replaced in between, all is of the new one.
func (t *Totals) Sub(earlier *Totals) Totals {
	d := *t
	if earlier.Execs != t.Execs {
		d.Flow = t.sub(&Flow{})
		return d
	}
	d.Flow = t.sub(&earlier.Flow)
	d.Processor = t.Processor.sub(&earlier.Processor)
	d.Kinds = map[event.Kind]uint64{}
	for kind, n := range t.Kinds {
		if n -= min(n, earlier.Kinds[kind]); n > 0 {
			d.Kinds[kind] = n
		}
	}
	for _, c := range []struct{ now, before *uint64 }{
		{&d.Events, &earlier.Events}, {&d.Strange, &earlier.Strange}, {&d.Ignored, &earlier.Ignored},
		{&d.Losses, &earlier.Losses}, {&d.Lost, &earlier.Lost}, {&d.Repairs, &earlier.Repairs},
		{&d.Confirmed, &earlier.Confirmed}, {&d.Resumed, &earlier.Resumed}, {&d.Inferred, &earlier.Inferred}, {&d.Reconciled, &earlier.Reconciled},
		{&d.EndedUnseen, &earlier.EndedUnseen}, {&d.Untracked, &earlier.Untracked},
		{&d.Overflow.Reasons, &earlier.Overflow.Reasons}, {&d.Overflow.Places, &earlier.Overflow.Places},
		{&d.Overflow.Sites, &earlier.Overflow.Sites},
	} {
		*c.now -= min(*c.now, *c.before)
	}
	return d
}

// Rate returns a count by second; 0 when no time has passed.
func Rate(count uint64, interval time.Duration) float64 {
	if interval <= 0 {
		return 0
	}
	return float64(count) / interval.Seconds()
}

// Latency is how long runnable goroutines waited for a processor: from GoCreate, GoUnblock, GoStop, or a GoSyscallEnd that
// says so, to GoStart.
type Latency struct {
	Created  Histogram // after they were created
	Woken    Histogram // after they were unblocked
	Stopped  Histogram // after they were stopped: they yielded or were preempted
	Returned Histogram // after a system call during which they lost their P

	execs uint64
}

// All returns the latencies of all causes together.
func (l *Latency) All() *Histogram {
	h := l.Created
	h.Merge(&l.Woken)
	h.Merge(&l.Stopped)
	h.Merge(&l.Returned)
	return &h
}

// Sub returns what was added since an earlier look; all when the program was replaced in between.
func (l *Latency) Sub(earlier *Latency) Latency {
	if l.execs != earlier.execs {
		return *l
	}
	return Latency{l.Created.Sub(&earlier.Created), l.Woken.Sub(&earlier.Woken), l.Stopped.Sub(&earlier.Stopped),
		l.Returned.Sub(&earlier.Returned), l.execs}
}

// Latency returns the scheduler's latencies since the beginning.
func (m *Machine) Latency() Latency {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Latency{m.latency[causeCreated], m.latency[causeWoken], m.latency[causeStopped], m.latency[causeReturned], m.execs}
}
