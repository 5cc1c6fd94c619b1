package target

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/live"
	"github.com/loupe-go/loupe/sched"
)

// A watch is a session that observes the events of a process at one level.
type watch struct {
	level   Level
	session *loupe.Session
	state   *live.Observation
	flight  *flight // nil: events are not kept
	allocs  bool    // allocations are estimated

	mu     sync.Mutex // guards what follows
	before struct {   // as of the last add
		waits   map[string]sched.Wait
		latency sched.Latency
		stats   event.Stats
		events  uint64
		execs   uint64
	}
	ratio float64 // of the goroutines that are observed

	// Of the goroutine that runs the target: the events as of its last measurement, and whether there was one.
	produced produced
	measured bool

	cost loupe.HitCost
}

// source is what an observation reads of a session: its events, without the memory statistics, which the target reads itself. each also
// receives the events.
type source struct {
	live.Source
	each []func(*event.Event)
}

func (s source) Events() iter.Seq[*event.Event] {
	if len(s.each) == 0 {
		return s.Source.Events()
	}
	return func(yield func(*event.Event) bool) {
		for e := range s.Source.Events() {
			for _, f := range s.each {
				f(e)
			}
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
	allocs     bool
	record     time.Duration      // for which events are kept; 0: not at all
	each       func(*event.Event) // receives all events; nil: nothing does
	log        *slog.Logger
}

// The waits of few goroutines would be scaled by a large factor: the ratio changes in steps, and only if it matters.
const (
	sampleStep = 1.5 // by which the rate of events must differ from what is wanted
	sampleMin  = 200 // goroutines that are sampled at least, as far as there are so many
)

// resample changes the part of the goroutines that are observed by a factor, for which there is room: to one that is neither below least nor
// so small that few goroutines are left. Events of all kinds are of the same goroutines, so that what is known of each of them is complete.
func (w *watch) resample(factor, least float64, live int, to *sums) error {
	least = max(least, min(1, sampleMin/float64(max(live, 1))))
	next := min(1, max(least, w.ratio*factor))
	if next == w.ratio || next < 1 && next > w.ratio/sampleStep && next < w.ratio*sampleStep {
		return nil
	}
	w.add(to) // what was counted at the old ratio
	if err := w.session.Sample(next); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ratio = next
	return nil
}

// isFirst reports whether this is the first measurement of the rate: it includes what was there when the watch began.
func (w *watch) isFirst() bool {
	first := !w.measured
	w.measured = true
	return first
}

// sampled returns the part of the goroutines that are observed.
func (w *watch) sampled() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ratio
}

// newWatch attaches to a process.
func newWatch(ctx context.Context, pid int, level Level, o watchOptions) (*watch, error) {
	opt := loupe.Options{Kinds: kinds[level], Engine: o.engine, StackDepth: o.stackDepth, System: o.system, BufferBytes: o.buffer, Log: o.log,
		Allocs: loupe.AllocOptions{Sample: o.allocs}}
	s, err := loupe.Attach(ctx, loupe.PID(pid), opt)
	if o.allocs && errors.Is(err, loupe.ErrProfileOff) {
		o.log.Warn("allocations are not estimated", "pid", pid, "err", err)
		opt.Allocs.Sample = false
		s, err = loupe.Attach(ctx, loupe.PID(pid), opt)
	}
	if err != nil {
		return nil, err
	}
	w := &watch{level: level, session: s, ratio: 1, allocs: opt.Allocs.Sample, cost: costOf(s, o.engine)}
	each := []func(*event.Event){}
	if o.each != nil {
		each = append(each, o.each)
	}
	if o.record > 0 {
		w.flight, err = newFlight(o.record, export.Options{Kinds: kinds[level], Version: export.VersionFor(s.Info().GoVersion)})
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		each = append(each, w.flight.add)
	}
	w.state = live.Observe(source{s, each}, live.Options{State: sched.Options{Kinds: kinds[level]}, Log: o.log})
	return w, nil
}

// costs are what hits cost by engine, as far as they were measured.
var costs struct {
	sync.Mutex
	of map[loupe.Engine]loupe.HitCost
}

// costOf returns what hits cost with the engine of a session. It is measured once.
func costOf(s *loupe.Session, engine loupe.Engine) loupe.HitCost {
	costs.Lock()
	defer costs.Unlock()
	if c, ok := costs.of[engine]; ok {
		return c
	}
	c, err := s.HitCost()
	if err != nil {
		return assumedCost[engine]
	}
	if costs.of == nil {
		costs.of = map[loupe.Engine]loupe.HitCost{}
	}
	costs.of[engine] = c
	return c
}

// assumedCost is what hits cost before it was measured.
var assumedCost = map[loupe.Engine]loupe.HitCost{
	loupe.EngineUprobe: {Hit: time.Microsecond, Event: time.Microsecond},
	loupe.EngineInline: {Hit: 50 * time.Nanosecond, Event: 50 * time.Nanosecond},
}

// beyondEstimate is how many times as much as the estimate a program can lose: see loupe.HitCost. A limit of the overhead takes the worst.
const beyondEstimate = 1.6

// hitCost returns what a hit costs at most that reports an event.
func hitCost(engine loupe.Engine) time.Duration {
	costs.Lock()
	defer costs.Unlock()
	c, ok := costs.of[engine]
	if !ok {
		c = assumedCost[engine]
	}
	return time.Duration(beyondEstimate * float64(c.Hit+c.Event))
}

// sums are what all watches of a process have counted so far.
type sums struct {
	mu      sync.Mutex
	waits   map[string]*waitSum
	latency [4]sched.Histogram // in the order of latencyLabels
	events  uint64
	lost    uint64
	hits    uint64
	probes  time.Duration   // that the process has spent in probes, estimated
	delays  sched.Histogram // from events until they were processed
	peaks   [2]float64      // the largest part of the buffer that was in use in this and in the last window
	peaksAt time.Time       // when this window began

	requests   bool                          // spans of requests are made, or were
	incomplete [len(incompleteLabels)]uint64 // spans of requests, by what they lack
}

// A waitSum is the waits for one reason, scaled by the sampling ratio.
type waitSum struct{ count, seconds float64 }

var latencyLabels = [...]string{"created", "woken", "stopped", "syscall"}

// add adds what the watch has counted since the last call.
func (w *watch) add(to *sums) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Advance()
	m, stats := w.state.Machine(), w.session.Stats()
	waits, latency, totals := m.Waits(), m.Latency(), m.Totals()
	to.mu.Lock()
	defer to.mu.Unlock()
	if to.waits == nil {
		to.waits = map[string]*waitSum{}
	}
	if totals.Execs != w.before.execs { // the numbers of the machine are those of another program
		w.before.waits, w.before.events, w.before.execs = nil, 0, totals.Execs
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
	d := latency.Sub(&w.before.latency)
	for i, h := range []*sched.Histogram{&d.Created, &d.Woken, &d.Stopped, &d.Returned} {
		to.latency[i].Merge(h)
	}
	to.events += totals.Events - w.before.events
	to.lost += stats.Lost - w.before.stats.Lost
	hits := stats.Hits - w.before.stats.Hits
	to.hits += hits
	to.probes += w.cost.Of(&stats) - w.cost.Of(&w.before.stats)
	to.addDelays(&stats.Delays, &w.before.stats.Delays)
	to.addPeak(w.session.BufferPeak(), time.Now())
	w.before.waits, w.before.latency, w.before.stats, w.before.events = now, latency, stats, totals.Events
}

// addDelays adds the delays that were counted since before. Each counts as the middle of its bucket.
func (s *sums) addDelays(now, before *event.Delays) {
	for i, n := range now.Buckets {
		low, high := event.DelayBounds(i)
		s.delays.AddN((low+high)/2, n-before.Buckets[i])
	}
}

// peakWindow is longer than the usual time between two scrapes: everyone who reads the peak sees it.
const peakWindow = 30 * time.Second

// addPeak notes the part of the buffer that was in use.
func (s *sums) addPeak(used float64, now time.Time) {
	if now.Sub(s.peaksAt) >= peakWindow {
		s.peaks, s.peaksAt = [2]float64{0, s.peaks[0]}, now
	}
	s.peaks[0] = max(s.peaks[0], used)
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
	list := []metric.Point{metric.TargetEvents.Of(float64(s.events)), metric.TargetLost.Of(float64(s.lost)),
		metric.ProbeHits.Of(float64(s.hits)), metric.ProbeTime.Of(s.probes.Seconds())}
	for reason, v := range s.waits {
		class := classOf(reason)
		list = append(list, metric.Waits.Of(v.count, class, reason), metric.WaitTime.Of(v.seconds, class, reason))
	}
	for i, n := range s.incomplete {
		if s.requests {
			list = append(list, metric.RequestsIncomplete.Of(float64(n), incompleteLabels[i]))
		}
	}
	for i := range s.latency {
		if s.latency[i].Count() > 0 {
			h := s.latency[i]
			list = append(list, metric.SchedulerLatency.Distribution(&h, latencyLabels[i]))
		}
	}
	return list
}
