package loupe

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/memory"
	"github.com/loupe-go/loupe/internal/stream"
)

// DefaultMemoryInterval is the default of Options.MemoryInterval.
const DefaultMemoryInterval = 100 * time.Millisecond

const (
	// minMemoryGap is the minimum time between the samples that follow two garbage collections.
	minMemoryGap = 10 * time.Millisecond

	// memoryFailures is the number of failed readings after which a warning is reported. The first readings of a program that
	// has just started can fail.
	memoryFailures = 3
)

// Memory reads the memory statistics of the target, as [Process.Memory] does without MemoryOptions.Parts. It may be called at
// any time and from any goroutine. With [EngineAgent] the statistics are those of package runtime/metrics: there are no objects by size
// class, no large objects and no single pauses.
func (s *Session) Memory(ctx context.Context) (*event.Memory, error) {
	return s.source.Memory(ctx)
}

// memorySampler samples the memory statistics of a session's target as events.
type memorySampler struct {
	read  func(context.Context) (*event.Memory, error)
	kinds event.Kinds // that are observed
	every time.Duration
	pid   int32
	began time.Time

	collected chan struct{} // a garbage collection has ended

	mu       sync.Mutex // guards the fields below
	taken    map[event.Kind]uint64
	failures int
	err      error // the first of the last failures
}

// newMemorySampler returns a sampler for a session, or nil if its options do not request one.
func newMemorySampler(s *Session) *memorySampler {
	if s.opt.Kinds.Intersect(event.KindsMemory).IsEmpty() {
		return nil
	}
	kinds := s.opt.Kinds
	if s.opt.Spans.Tasks {
		kinds = kinds.Union(event.KindsUser)
	}
	every := s.opt.MemoryInterval
	if every == 0 {
		every = DefaultMemoryInterval
	}
	return &memorySampler{read: s.Memory, kinds: kinds, every: every, pid: int32(s.PID()), began: s.began,
		collected: make(chan struct{}, 1), taken: map[event.Kind]uint64{}}
}

// events returns an iterator over events together with samples, in the order of their times. detach ends the events.
func (m *memorySampler) events(events iter.Seq[*event.Event], detach func()) iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		merger := stream.NewMerger()
		ctx, cancel := context.WithCancel(context.Background())
		var work sync.WaitGroup
		work.Go(func() {
			defer merger.End()
			for e := range events {
				if e.Kind == event.GCEnd {
					m.notice()
				}
				if m.wants(e.Kind) && !merger.Add(e) {
					return
				}
			}
		})
		work.Go(func() { m.sample(ctx, merger) })
		ended := false
		defer func() {
			cancel()
			if !ended {
				merger.Stop()
				detach()
			}
			work.Wait()
		}()
		ended = merger.Each(yield)
	}
}

// wants reports whether events of a kind were requested.
func (m *memorySampler) wants(k event.Kind) bool {
	return m.kinds.Has(k) || event.GroupStream.Kinds().Has(k)
}

// notice records that a garbage collection has ended.
func (m *memorySampler) notice() {
	select {
	case m.collected <- struct{}{}:
	default:
	}
}

// sample takes samples until the context is done or the process has exited.
func (m *memorySampler) sample(ctx context.Context, to *stream.Merger) {
	tick := time.NewTicker(m.every)
	defer tick.Stop()
	last := m.began
	for ctx.Err() == nil {
		read, err := m.read(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, ErrExited) || errors.Is(err, ErrExec):
			return
		case err != nil:
			m.fail(err)
		default:
			last = read.Time
			m.add(read, to)
		}
		for again := false; !again; {
			select {
			case <-tick.C:
				again = true
			case <-m.collected:
				again = time.Since(last) >= minMemoryGap
			case <-ctx.Done():
				return
			}
		}
	}
}

// add adds the events of a sample.
func (m *memorySampler) add(read *event.Memory, to *stream.Merger) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures = 0
	goal := read.Heap.Goal
	if memory.Endless(&read.Heap) {
		goal = 0
	}
	at := m.began.UnixNano() + int64(read.Time.Sub(m.began))
	for _, c := range []struct {
		kind  event.Kind
		value uint64
	}{{event.HeapAlloc, read.Heap.Current}, {event.HeapGoal, goal}, {event.AllocBytes, read.Heap.TotalAlloc}, {event.AllocObjects, read.Heap.Mallocs}} {
		if m.kinds.Has(c.kind) {
			m.taken[c.kind]++
			to.AddSample(&event.Event{Time: at, Kind: c.kind, PID: m.pid, Value: int64(c.value)})
		}
	}
}

// fail records a reading that failed.
func (m *memorySampler) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failures++; m.failures == 1 {
		m.err = err
	}
}

// warnings returns a warning if readings fail.
func (m *memorySampler) warnings() []event.Warning {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failures < memoryFailures {
		return nil
	}
	return []event.Warning{event.Warnf(event.WarnMissing, "heap sizes and allocation counters are not reported: %v", m.err)}
}

// count adds the samples to the counts of events.
func (m *memorySampler) count(stats *event.Stats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind, n := range m.taken {
		c := stats.Kinds[kind]
		c.Produced, c.Received = c.Produced+n, c.Received+n
		stats.Kinds[kind] = c
		stats.Events += n
	}
}
