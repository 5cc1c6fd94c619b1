package sched

import (
	"iter"
	"sync"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// Options says what the events leave out and how much may be kept. The zero value fits an observation with default options.
type Options struct {
	// Kinds are the kinds that are observed; zero means event.KindsDefault.
	Kinds event.Kinds

	// MinBlock is not zero when only waits of that length are observed: see loupe.Options.MinBlock.
	MinBlock time.Duration

	// History is how many of the last events are kept for Machine.History, 48 bytes each; 0 means none.
	History int

	// MaxGoroutines bounds the live goroutines that are kept, 128 bytes each; 0 means DefaultMaxGoroutines. Events of
	// others are counted in Totals.Untracked.
	MaxGoroutines int

	// MaxSites and MaxPlaces bound the creation sites and the places that are told apart, less than 1 KiB each; 0 means
	// DefaultMaxSites and DefaultMaxPlaces. What exceeds them is put together, and counted in Totals.Overflow.
	MaxSites, MaxPlaces int
}

// Defaults of Options.
const (
	DefaultMaxGoroutines = 16 << 20
	DefaultMaxSites      = 16 << 10
	DefaultMaxPlaces     = 64 << 10
)

// maxReasons bounds the wait and stop reasons; the runtime has about 50 of each.
const maxReasons = 1024

// Machine follows the goroutines of one process. All methods may be called from any goroutine; the events must come one
// after the other.
type Machine struct {
	opt Options

	mu sync.Mutex // held for each event by the owner of the stream, and by readers while they copy
	world
}

// world is the state of one program.
type world struct {
	conduct
	table gostate.Table[entry]
	interned

	start, now int64  // the first and the latest time of an event
	epoch      uint32 // number of losses
	life       lifeCounts
	kinds      [event.NumKinds]uint64 // events by kind
	strange    uint64                 // events of unknown kinds
	latency    [numCauses]Histogram
	phases     phases
	threads    threads
	cpu        CPU
	spent      time.Duration // Books.CPU of the last Account
	rounds     uint64        // how often Account was called
	collected  int64         // total collection time at the last Account
	history    history
	ancestors  ancestors
	execs      uint64
}

// lifeCounts are the counters of Totals that are not kept by site.
type lifeCounts struct {
	endedUnseen, reconciled, untracked, ignored uint64
	repairs, confirmed, resumed                 uint64
	losses, lost, inferred                      uint64
}

// New returns a machine that has seen nothing.
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

// reset clears all state.
func (m *Machine) reset() {
	m.world = world{
		conduct:  newConduct(m.opt.Kinds, m.opt.MinBlock),
		table:    gostate.NewTable[entry](m.opt.MaxGoroutines),
		interned: newInterned(m.opt),
		history:  newHistory(m.opt.History),
		execs:    m.execs,
		threads:  newThreads(),
	}
}

// Apply takes the next event. It does not keep e, but what e points to.
func (m *Machine) Apply(e *event.Event) {
	m.mu.Lock()
	m.apply(e)
	m.mu.Unlock()
}

// ApplyBatch takes the next events, with less cost for each than Apply.
func (m *Machine) ApplyBatch(events []event.Event) {
	m.mu.Lock()
	for i := range events {
		m.apply(&events[i])
	}
	m.mu.Unlock()
}

// ApplyAll takes events until there are no more, with the least cost for each. Other methods wait until then.
func (m *Machine) ApplyAll(events iter.Seq[*event.Event]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := range events {
		m.apply(e)
	}
}

// Advance tells what time it is when no event comes: times in states go on to grow. It never turns time back.
func (m *Machine) Advance(now int64) {
	m.mu.Lock()
	m.now = max(m.now, now)
	m.mu.Unlock()
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
		m.strange++
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
	case e.Kind == event.Lost:
		m.epoch++
		m.life.losses++
		m.life.lost += uint64(max(e.Missing(), 0))
		m.phases.interrupt()
	default:
		m.phases.apply(e, t)
		if m.history.on() && e.Reason != "" {
			place = m.placeID(placeKey{reason: m.reasonID(e.Reason, ""), role: Points})
		}
	}
	if m.history.on() {
		m.history.add(e, t, place)
	}
}
