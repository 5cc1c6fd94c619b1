package target

import (
	"context"
	"iter"
	"log/slog"
	"sync"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/live"
	"github.com/loupe-go/loupe/sched"
)

// A watch is a session that observes the events of a process at one level.
type watch struct {
	level   Level
	session *loupe.Session
	state   *live.Observation

	mu     sync.Mutex // guards what follows
	before struct {   // as of the last add
		waits   map[string]sched.Wait
		latency sched.Latency
		stats   event.Stats
	}
	ratio float64 // of the goroutines that are observed
}

// source is what an observation reads of a session: its events, without the memory statistics, which the target reads itself. each also
// receives the events.
type source struct {
	live.Source
	each func(*event.Event)
}

func (s source) Events() iter.Seq[*event.Event] {
	if s.each == nil {
		return s.Source.Events()
	}
	return func(yield func(*event.Event) bool) {
		for e := range s.Source.Events() {
			s.each(e)
			if !yield(e) {
				return
			}
		}
	}
}

// watchOptions are what a watch needs of the options of a target.
type watchOptions struct {
	engine     loupe.Engine
	stackDepth int
	system     bool
	buffer     int
	each       func(*event.Event)
	log        *slog.Logger
}

// newWatch attaches to a process.
func newWatch(ctx context.Context, pid int, level Level, o watchOptions) (*watch, error) {
	s, err := loupe.Attach(ctx, loupe.PID(pid), loupe.Options{Kinds: kinds[level], Engine: o.engine, StackDepth: o.stackDepth, System: o.system,
		BufferBytes: o.buffer, Log: o.log})
	if err != nil {
		return nil, err
	}
	w := &watch{level: level, session: s, ratio: 1}
	w.state = live.Observe(source{s, o.each}, live.Options{State: sched.Options{Kinds: kinds[level]}, Log: o.log})
	return w, nil
}

// sums are what all watches of a process have counted so far.
type sums struct {
	mu      sync.Mutex
	waits   map[string]*waitSum
	latency [4]sched.Histogram // in the order of latencyLabels
	events  uint64
	lost    uint64
}

// A waitSum is the waits for one reason, scaled by the sampling ratio.
type waitSum struct{ count, seconds float64 }

var latencyLabels = [...]string{"created", "woken", "stopped", "syscall"}

// add adds what the watch has counted since the last call.
func (w *watch) add(to *sums) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.state.Take(live.Query{})
	waits := w.state.Machine().Waits()
	stats := w.session.Stats()
	to.mu.Lock()
	defer to.mu.Unlock()
	if to.waits == nil {
		to.waits = map[string]*waitSum{}
	}
	now := make(map[string]sched.Wait, len(waits))
	for _, v := range waits {
		sum := now[v.Reason] // the execution tracer may have several reasons for one
		sum.Count += v.Count
		sum.Time = sum.Time.Add(v.Time)
		now[v.Reason] = sum
	}
	for reason, v := range now {
		before := w.before.waits[reason]
		s := to.waits[reason]
		if s == nil {
			s = &waitSum{}
			to.waits[reason] = s
		}
		s.count += float64(v.Count-before.Count) / w.ratio
		s.seconds += v.Time.Sub(before.Time).Seconds() / w.ratio
	}
	d := p.Latency.Sub(&w.before.latency)
	for i, h := range []*sched.Histogram{&d.Created, &d.Woken, &d.Stopped, &d.Returned} {
		to.latency[i].Merge(h)
	}
	to.events += stats.Events - w.before.stats.Events
	to.lost += stats.Lost - w.before.stats.Lost
	w.before.waits, w.before.latency, w.before.stats = now, p.Latency, stats
}

// close detaches from the process, and adds what is left.
func (w *watch) close(to *sums) error {
	err := w.state.Close()
	w.add(to)
	return err
}

// counts returns the numbers of events that were received and lost.
func (s *sums) counts() (events, lost uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events, s.lost
}

// points are the points of all watches.
func (s *sums) points() []metric.Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []metric.Point{metric.TargetEvents.Of(float64(s.events)), metric.TargetLost.Of(float64(s.lost))}
	for reason, v := range s.waits {
		class := classOf(reason)
		list = append(list, metric.Waits.Of(v.count, class, reason), metric.WaitTime.Of(v.seconds, class, reason))
	}
	for i := range s.latency {
		if s.latency[i].Count() > 0 {
			h := s.latency[i]
			list = append(list, metric.SchedulerLatency.Distribution(&h, latencyLabels[i]))
		}
	}
	return list
}
