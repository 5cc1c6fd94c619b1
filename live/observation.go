package live

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/sched"
)

// Options configures an [Observation]. The zero value is for a source that yields the kinds in event.KindsDefault.
type Options struct {
	// State describes the events of the source, and limits the memory for the state of the program.
	State sched.Options

	// Window is the minimum interval that the differences in pictures cover, as in [SamplerOptions]. Zero means that
	// differences are to the previous picture.
	Window time.Duration

	// Allocs adds allocations to pictures. It requires a source that is an [AllocSource].
	Allocs bool

	// Log receives debug messages. If it is nil, they are discarded.
	Log *slog.Logger
}

// An Observation follows the events of one [Source] and holds the state of the program. It must be closed with
// [Observation.Close]. Its methods may be called concurrently, except Take and Window.
//
// Observations are independent of each other. A process can have many of them, also of the same program.
type Observation struct {
	source  Source
	feed    *Feed
	sampler *Sampler
	log     *slog.Logger
	ended   chan struct{}  // closed when the events have ended
	repairs sync.WaitGroup // the goroutine of repair

	mu       sync.Mutex // guards usageErr
	usageErr error      // the error of the last reading of the usage; nil if it was read completely
}

// Observe returns an Observation of a source, and starts a goroutine that iterates over source.Events. The Observation owns the
// source: [Observation.Close] closes it.
func Observe(source Source, opt Options) *Observation {
	o := &Observation{source: source, feed: NewFeed(sched.New(opt.State)), log: opt.Log, ended: make(chan struct{})}
	if o.log == nil {
		o.log = slog.New(slog.DiscardHandler)
	}
	sampler := SamplerOptions{Clock: o.feed.Now, CatchUp: o.feed.CatchUp, Window: opt.Window, Usage: o.usage, Health: o.health}
	if m, ok := source.(MemorySource); ok {
		sampler.Memory = func() (*event.Memory, error) { return o.memory(m) }
	}
	if a, ok := source.(AllocSource); ok && opt.Allocs {
		sampler.Allocs = a.Allocs
	}
	o.sampler = NewSampler(o.feed, sampler)
	go func() {
		defer close(o.ended)
		for e := range source.Events() {
			o.feed.Add(e)
		}
		o.feed.End()
	}()
	o.repairs.Go(o.repair)
	return o
}

// Take returns a picture of the current state. It reads the resource usage of the process. Before that, it waits for events that
// are late, for at most 2 s: see [SamplerOptions].CatchUp. Take and [Observation.Window] must not be called concurrently.
func (o *Observation) Take(q Query) *Picture { return o.sampler.Take(q) }

// Advance applies the events that were read so far, so that [Observation.Machine] has them. It does not read the process, and costs less than
// [Observation.Take].
func (o *Observation) Advance() { o.feed.Advance(o.feed.Now()) }

// Window changes [Options].Window.
func (o *Observation) Window(d time.Duration) { o.sampler.Window(d) }

// Machine returns the state of the program, for reading. The caller must not apply events to it. It has received at least the
// events that were read before the last call of [Observation.Take] or [Observation.Advance]. After [Observation.Done] is closed, it has received all
// events.
func (o *Observation) Machine() *sched.Machine { return o.feed.Machine }

// Done returns a channel that is closed when the events have ended and the state includes all of them. The state can still be
// read afterwards.
func (o *Observation) Done() <-chan struct{} { return o.ended }

// Err returns the error that ended the events, or nil if the program exited or the source was closed.
func (o *Observation) Err() error { return o.source.Err() }

// Close closes the source, and waits until all events have been processed and the source is no longer used. It returns the error
// of [Source].Close. The state can still be read afterwards. Close may be called more than once.
func (o *Observation) Close() error {
	// Close would discard the events if their iteration has not begun. It returns the error of Detach, too.
	o.source.Detach()
	<-o.ended
	o.repairs.Wait()
	return o.source.Close()
}

const (
	// repairEvery is the interval between two repairs of the state. It exceeds the time that an event takes to arrive.
	repairEvery = 2 * time.Second
	// repairMargin exceeds the error of event times.
	repairMargin = 200 * time.Millisecond
)

// repair ends the goroutines whose end was lost. It returns when the events end.
func (o *Observation) repair() {
	tick := time.NewTicker(repairEvery)
	defer tick.Stop()
	repaired := uint64(0) // Totals.Losses as of the last repair
	for {
		now := o.feed.Now()
		o.feed.Advance(now)
		losses := o.feed.Totals().Losses
		at := now + int64(repairMargin) // all counted losses are before at
		select {
		case <-tick.C: // all events before at have arrived
		case <-o.ended:
			return
		}
		if losses != repaired && o.reconcile(at) {
			repaired = losses
		}
	}
}

// reconcile asks the source which goroutines are alive, and ends those whose end was lost before at. All events before at must
// have arrived. It reports whether the source could read the live goroutines.
func (o *Observation) reconcile(at int64) bool {
	alive, err := o.source.Alive()
	if err != nil {
		o.log.Debug("goroutines whose end was lost stay uncertain", "err", err)
		return false
	}
	o.feed.Advance(o.feed.Now())
	ended, _ := o.feed.Reconcile(slices.Values(alive), at)
	o.log.Debug("compared with the goroutines that are alive", "ended unseen", ended)
	return true
}

// usage returns the usage of the process. The result is false if the events have ended, or if no thread could be read.
func (o *Observation) usage() (event.Usage, bool) {
	u, err := o.source.Usage()
	select {
	case <-o.ended:
		return event.Usage{}, false
	default:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.usageErr = cmp.Or(err, u.Err)
	return u, len(u.Threads) > 0
}

// memory reads the memory statistics. It returns nil if the events have ended.
func (o *Observation) memory(from MemorySource) (*event.Memory, error) {
	m, err := from.Memory(context.Background())
	select {
	case <-o.ended:
		return nil, nil
	default:
		return m, err
	}
}

// health returns the losses and the warnings of the observation.
func (o *Observation) health() Health {
	stats := o.source.Stats()
	h := Health{Lost: stats.Lost, Unreadable: stats.Unreadable, Warnings: slices.Clone(o.source.Warnings())}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.usageErr != nil {
		h.Warnings = append(h.Warnings, event.Warnf(event.WarnTimes, "processor time and running goroutines are less accurate: %v", o.usageErr))
	}
	if stats.Err != nil {
		h.Warnings = append(h.Warnings, event.Warnf(event.WarnMissing, "more events may have been lost: %v", stats.Err))
	}
	return h
}
