package sched

import (
	"iter"
	"sync"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// Options describes the events that a [Machine] receives, and limits the memory that it uses. The zero value is for a
// stream that was observed with the zero value of loupe.Options.
type Options struct {
	// Kinds is the set of observed kinds. Zero means event.KindsDefault.
	Kinds event.Kinds

	// MinBlock is the minimum duration of the observed waits, as in loupe.Options. Zero means that all waits are observed.
	MinBlock time.Duration

	// History is the minimum number of recent events that are kept for [Machine.History], 48 bytes each. It is rounded up to
	// a multiple of 2,048. Zero means that no events are kept.
	History int

	// MaxGoroutines is the maximum number of live goroutines that are tracked, at most 128 bytes each. Zero means
	// DefaultMaxGoroutines. Events of other goroutines are counted in Totals.Untracked.
	MaxGoroutines int

	// MaxSites is the maximum number of origins, and of pairs of an origin and a creation stack, less than 1 KiB each. Zero
	// means DefaultMaxSites. Further ones are combined, and counted in Totals.Overflow.
	MaxSites int

	// MaxPlaces is the maximum number of places, less than 1 KiB each. Zero means DefaultMaxPlaces. The stacks of further
	// places are combined into one place for each role and reason, and counted in Totals.Overflow.
	MaxPlaces int
}

// The default limits of [Options].
const (
	DefaultMaxGoroutines = 16 << 20
	DefaultMaxSites      = 16 << 10
	DefaultMaxPlaces     = 64 << 10
)

// maxReasons is the maximum number of wait and stop reasons. The runtime has about 50 of each.
const maxReasons = 1024

// A Machine tracks the goroutines of one process. [New] returns a Machine. Its methods may be called concurrently, but only
// one goroutine may apply events ([Machine.Apply], [Machine.ApplyBatch], [Machine.ApplyAll]).
type Machine struct {
	opt Options

	mu sync.Mutex // held while events are applied, and while a method copies data
	world
}

// world is the state of one program. Exec replaces it.
type world struct {
	observed
	table gostate.Table[entry]
	interned

	start, now   int64  // time of the first event; latest time of an event or of Advance
	epoch        uint32 // number of losses
	life         lifeCounts
	kinds        [event.NumKinds]uint64 // events by kind
	unknownKinds uint64                 // events of unknown kinds
	latency      [numCauses]Histogram
	phases       phases
	assists      assists
	threads      threads
	cpu          CPU
	spent        time.Duration // Usage.CPU of the last Account
	rounds       uint64        // number of calls of Account
	collected    int64         // total collection time at the last Account
	history      history
	ancestors    ancestors
	execs        uint64
}

// lifeCounts holds the counters of Totals that are not kept by site.
type lifeCounts struct {
	endedUnseen, reconciled, untracked, ignored uint64
	repairs, confirmed, resumed                 uint64
	losses, lost, inferred                      uint64
}

// New returns a Machine to which no events have been applied. Limits in opt that are zero or negative are replaced by the
// defaults.
func New(opt Options) *Machine {
	for _, bound := range []struct {
		value    *int
		fallback int
	}{
		{&opt.MaxGoroutines, DefaultMaxGoroutines},
		{&opt.MaxSites, DefaultMaxSites},
		{&opt.MaxPlaces, DefaultMaxPlaces},
	} {
		if *bound.value <= 0 {
			*bound.value = bound.fallback
		}
	}
	m := &Machine{opt: opt}
	m.reset()
	return m
}

// reset discards everything except the options and the number of Exec events.
func (m *Machine) reset() {
	m.world = world{
		observed: newObserved(m.opt.Kinds, m.opt.MinBlock),
		table:    gostate.NewTable[entry](m.opt.MaxGoroutines),
		interned: newInterned(m.opt),
		history:  newHistory(m.opt.History),
		execs:    m.execs,
		threads:  newThreads(),
		assists:  assists{},
	}
}

// Apply processes the next event. It does not retain e, but it retains e.Stack and e.Origin, which must not be modified
// afterwards.
//
// An Exec event discards everything that the Machine knows except [Totals].Execs.
func (m *Machine) Apply(e *event.Event) {
	m.mu.Lock()
	m.apply(e)
	m.mu.Unlock()
}

// ApplyBatch processes events as [Machine.Apply] does, but locks the Machine only once. It does not retain the slice.
func (m *Machine) ApplyBatch(events []event.Event) {
	m.mu.Lock()
	for i := range events {
		m.apply(&events[i])
	}
	m.mu.Unlock()
}

// ApplyAll processes the events of a sequence as [Machine.Apply] does. It locks the Machine until the sequence ends, so all
// other methods block until then.
func (m *Machine) ApplyAll(events iter.Seq[*event.Event]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := range events {
		m.apply(e)
	}
}

// Advance sets the current time of the Machine, in nanoseconds since the Unix epoch. The current states of goroutines count
// until this time. Events advance the time too, so that Advance is only necessary if none arrive. It has no effect if now is
// before the current time.
func (m *Machine) Advance(now int64) {
	m.mu.Lock()
	m.now = max(m.now, now)
	m.mu.Unlock()
}

// assisted applies an event to the mark assists in progress.
func (m *Machine) assisted(e *event.Event, t int64) {
	d := m.assists.apply(e, t)
	if en := m.table.Find(e.G); en != nil && d > 0 {
		m.sites.at(en.site).gcAssist.add(d)
	}
}

func (m *Machine) apply(e *event.Event) {
	if e.Kind == event.Exec {
		m.execs++
		m.reset()
	}
	t := max(e.Time, 0)
	if t > m.now {
		m.now = t
		if m.start == 0 {
			m.start = t
		}
	}
	if !e.Kind.Valid() {
		m.unknownKinds++
		return
	}
	m.kinds[e.Kind]++
	place := uint32(0)
	switch {
	case gostate.About(e.Kind):
		if e.G == 0 {
			m.life.ignored++
			return
		}
		place = m.goroutine(e, t)
		if len(m.assists) > 0 || e.Kind == event.GCMarkAssistBegin {
			m.assisted(e, t)
		}
	case e.Kind == event.Lost:
		m.epoch++
		clear(m.assists)
		m.life.losses++
		m.life.lost += uint64(max(e.Missing(), 0))
		m.phases.interrupt()
	case e.Kind == event.Resample:
		m.resample(e, t)
	default:
		m.phases.apply(e, t)
		if m.history.enabled() && e.Reason != "" {
			place = m.placeID(placeKey{reason: m.reasonID(e.Reason, ""), role: Points})
		}
	}
	if m.history.enabled() {
		m.history.add(e, t, place)
	}
}
