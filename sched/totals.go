package sched

import (
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// Times is the time that goroutines spent in each state, summed over the goroutines.
type Times struct {
	Running   Nanos // running, including the time that their threads waited for a processor
	Runnable  Nanos // runnable, waiting for a P
	Blocked   Nanos // waiting
	Syscall   Nanos // in system calls or C code
	Uncertain Nanos // in an unknown or uncertain state
}

// Add returns the sums of each part of t and o.
func (t Times) Add(o Times) Times {
	return Times{t.Running.Add(o.Running), t.Runnable.Add(o.Runnable), t.Blocked.Add(o.Blocked), t.Syscall.Add(o.Syscall),
		t.Uncertain.Add(o.Uncertain)}
}

// Sub returns the differences of each part of t and o. A part that is smaller in t becomes 0.
func (t Times) Sub(o Times) Times {
	return Times{t.Running.Sub(o.Running), t.Runnable.Sub(o.Runnable), t.Blocked.Sub(o.Blocked), t.Syscall.Sub(o.Syscall),
		t.Uncertain.Sub(o.Uncertain)}
}

// Sum returns the sum of all parts.
func (t Times) Sum() Nanos {
	return t.Running.Add(t.Runnable).Add(t.Blocked).Add(t.Syscall).Add(t.Uncertain)
}

// States counts live goroutines by state. A goroutine is in exactly one of the states other than Uncertain.
type States struct {
	Running  uint64 // running on a P
	Runnable uint64 // waiting for a P
	Waiting  uint64 // blocked, for example on a channel, a lock or the network
	Syscall  uint64 // in a system call or C code
	Unknown  uint64 // the observed kinds of events do not show the state

	// Uncertain is the number of goroutines without an event since the last loss. They are also counted in the state that
	// they had before the loss.
	Uncertain uint64
}

// Add returns the sums of each count of s and o.
func (s States) Add(o States) States {
	return States{s.Running + o.Running, s.Runnable + o.Runnable, s.Waiting + o.Waiting, s.Syscall + o.Syscall,
		s.Unknown + o.Unknown, s.Uncertain + o.Uncertain}
}

// A Flow is the number of goroutines of a set that were created and have ended, and the time that they spent in each state.
// Counts and times are since the start of the observation. Live is Created + AtStart + Found - Ended - Unsampled.
type Flow struct {
	Live    uint64 // goroutines that are alive now
	Created uint64 // goroutines whose GoCreate was observed
	Ended   uint64 // goroutines that have ended

	// Unsampled is the number of goroutines that were alive when a Resample event said that they are no longer sampled. They are not
	// Live, and not in Ended.
	Unsampled uint64

	// AtStart is the number of goroutines that were alive at the start of the observation, or when they began to be sampled: their
	// first event is GoStatus.
	// It decreases if the origin of such a goroutine becomes known, and the goroutine is moved to another site.
	AtStart int64

	// Found is the number of goroutines whose first event is neither GoCreate nor GoStatus, because earlier events are
	// missing. It decreases as AtStart does.
	Found int64

	States States // the states of the live goroutines now

	// Done is the time in states that have ended. Time in a state moves from Open to Done when the state ends. If events were
	// lost in between, it moves to Done.Uncertain.
	Done Times

	// Open is the time that live goroutines have been in their current states.
	Open Times

	Lived    uint64 // goroutines whose creation and end were both observed
	Lifetime Nanos  // sum of the times from their creation to their end

	// FirstStart is the scheduler latency of new goroutines: the time from creation to the first start.
	FirstStart Delays

	// GCWait is the part of Done.Blocked in which the goroutines waited for the garbage collector: to assist it, or to begin or end a
	// collection. GCAssist is the part of Done.Running in which they assisted it: they marked objects, because they allocate. Assists
	// during which events were lost are not included.
	GCWait, GCAssist Nanos

	// CPU is an estimate of the processor time of these goroutines since the first call of [Machine.Account].
	CPU Nanos
}

// Time returns the time in each state: the sum of Done and Open.
func (f *Flow) Time() Times { return f.Done.Add(f.Open) }

// empty reports whether the set never had a goroutine. A site from which all goroutines were moved is not empty if they
// spent time there.
func (f *Flow) empty() bool {
	return f.Live == 0 && f.Ended == 0 && f.Unsampled == 0 && f.Done == Times{}
}

// add adds the goroutines of a site.
func (f *Flow) add(s *site, now int64) {
	f.Created += s.created
	f.Ended += s.ended
	f.Unsampled += s.unsampled
	f.AtStart += s.atStart
	f.Found += s.found
	f.Lived += s.lived
	f.Lifetime = f.Lifetime.Add(s.lifetime)
	f.FirstStart.merge(&s.delay)
	f.GCWait = f.GCWait.Add(s.gcWait)
	f.GCAssist = f.GCAssist.Add(s.gcAssist)
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

// sub returns the difference to an earlier value, as Totals.Sub does.
func (f Flow) sub(o *Flow) Flow {
	f.Done = f.Time().Sub(o.Time())
	f.Open = Times{}
	f.Created -= min(f.Created, o.Created)
	f.Ended -= min(f.Ended, o.Ended)
	f.Unsampled -= min(f.Unsampled, o.Unsampled)
	f.AtStart = max(f.AtStart-o.AtStart, 0)
	f.Found = max(f.Found-o.Found, 0)
	f.Lived -= min(f.Lived, o.Lived)
	f.Lifetime = f.Lifetime.Sub(o.Lifetime)
	f.FirstStart.sub(&o.FirstStart)
	f.GCWait = f.GCWait.Sub(o.GCWait)
	f.GCAssist = f.GCAssist.Sub(o.GCAssist)
	f.CPU = f.CPU.Sub(o.CPU)
	return f
}

// Totals is the sums over the whole program. Counts and times are since the start of the observation, or since the last Exec
// event.
type Totals struct {
	Flow // of all goroutines

	Start int64  // time of the first event, in nanoseconds since the Unix epoch; 0 if there was no event
	Now   int64  // current time: of the latest event or of Machine.Advance, in nanoseconds since the Unix epoch
	Execs uint64 // number of Exec events: how often the process has executed another program

	Events       uint64                // events of known kinds
	Kinds        map[event.Kind]uint64 // events by kind; kinds without events are absent
	UnknownKinds uint64                // events of unknown kinds; not included in Events
	Ignored      uint64                // events that are about a goroutine but have no goroutine ID

	Losses uint64 // Lost events
	Lost   uint64 // events that were lost, as far as the Lost events contain their number

	Repairs    uint64 // events that contradicted the known state of their goroutine; the state was corrected
	Confirmed  uint64 // first events of goroutines after a loss that did not contradict the state before the loss
	Resumed    uint64 // GoStart events of running goroutines, which return from system calls that were not observed
	Inferred   uint64 // changes of state that no event reported, inferred from threads and Ps
	Reconciled uint64 // goroutines that Machine.Reconcile ended; included in Ended

	// EndedUnseen is the number of GoDestroy events of unknown goroutines. These goroutines are not included in Ended.
	EndedUnseen uint64

	// Untracked is the number of events, except GoDestroy, of goroutines beyond Options.MaxGoroutines. These goroutines are
	// not included in other counts. Their events are included in Events and Kinds.
	Untracked uint64

	Overflow Overflow

	Processor CPU // processor time of the process
}

// Totals returns the sums over the whole program.
func (m *Machine) Totals() Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := Totals{
		Start: m.start, Now: m.now, Execs: m.execs, Kinds: map[event.Kind]uint64{}, UnknownKinds: m.unknownKinds,
		Ignored: m.life.ignored, Losses: m.life.losses, Lost: m.life.lost, Repairs: m.life.repairs,
		Confirmed: m.life.confirmed, Resumed: m.life.resumed, Inferred: m.life.inferred, Reconciled: m.life.reconciled,
		EndedUnseen: m.life.endedUnseen, Untracked: m.life.untracked, Overflow: m.overflow, Processor: m.cpu,
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

// Sub returns the change since earlier, a previous result of [Machine.Totals]. Counts and times are differences. Done is the
// time in each state during the interval, also of states that have not ended, and Open is zero. Live, States, Start, Now,
// Execs, FirstStart.Max and the fields of Processor that are not times are not differences: they are copied from t.
//
// If there was an Exec event in between, Sub returns the values of t, with Done and Open combined.
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
		{&d.Events, &earlier.Events}, {&d.UnknownKinds, &earlier.UnknownKinds}, {&d.Ignored, &earlier.Ignored},
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

// Rate returns count per second. It returns 0 if interval is zero or negative.
func Rate(count uint64, interval time.Duration) float64 {
	if interval <= 0 {
		return 0
	}
	return float64(count) / interval.Seconds()
}

// Latency holds the scheduler latencies: the times from the event that made a goroutine runnable to its GoStart, by that event.
// Latencies during which events were lost, or whose start was not observed, are not included.
type Latency struct {
	Created  Histogram // after GoCreate
	Woken    Histogram // after GoUnblock
	Stopped  Histogram // after GoStop: the goroutine yielded or was preempted
	Returned Histogram // after a GoSyscallEnd, of goroutines that had lost their P during the system call

	execs uint64
}

// All returns a histogram of all latencies.
func (l *Latency) All() *Histogram {
	h := l.Created
	h.Merge(&l.Woken)
	h.Merge(&l.Stopped)
	h.Merge(&l.Returned)
	return &h
}

// Sub returns the latencies that were added since earlier, a previous result of [Machine.Latency]. If there was an Exec event
// in between, it returns a copy of l.
func (l *Latency) Sub(earlier *Latency) Latency {
	if l.execs != earlier.execs {
		return *l
	}
	return Latency{l.Created.Sub(&earlier.Created), l.Woken.Sub(&earlier.Woken), l.Stopped.Sub(&earlier.Stopped),
		l.Returned.Sub(&earlier.Returned), l.execs}
}

// Latency returns the scheduler latencies since the start of the observation, or since the last Exec event.
func (m *Machine) Latency() Latency {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Latency{m.latency[causeCreated], m.latency[causeWoken], m.latency[causeStopped], m.latency[causeReturned], m.execs}
}
