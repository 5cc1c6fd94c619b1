package target

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/sched"
	"github.com/loupe-go/loupe/spans"
)

// Settings are what is wanted of a target. They can change while it is observed.
type Settings struct {
	Want       Level        // the highest level
	Engine     loupe.Engine // of events
	StackDepth int          // of events; negative: no stacks
	System     bool         // include the goroutines of the runtime itself
	Sites      int          // sites with a series of their own
	Buffer     int          // bytes, for events
	Overhead   float64      // the part of the target's processor time that probes may take
	Rates      Rates        // of events, at which fewer goroutines are sampled
	MinRatio   float64      // the least part of the goroutines that is sampled
	Alerts     Thresholds
	Record     time.Duration // before an anomaly that is recorded; 0: nothing is
	Spans      bool          // make spans of requests
	Allocs     bool          // estimate allocations, while events are observed
	Scaled     bool          // Overhead and Events are less than wanted, because of the agent's budget

	// Goroutines that live, or wait, for at least LeastSpan have spans: the part SpanPart of them. 0: none.
	LeastSpan time.Duration
	SpanPart  float64

	Profiles        []string // kinds of profiles that are taken all the time
	ProfileInterval time.Duration
}

// Options configure a target.
type Options struct {
	PID      int
	Identity metric.Identity
	Settings Settings
	Attach   chan struct{} // a slot for each process that is being attached to at the same time
	Log      *slog.Logger

	// Alert receives anomalies, and Record their recordings. Name returns the name of a recording of an alert. The target waits for them, so
	// that they must not call its methods.
	Alert  func(Alert)
	Record func(Recording)
	Name   func(id metric.Identity, alert string) string

	// Span receives the spans of requests, and must not keep them. Sample decides which are sampled, and Goroutine receives the spans of
	// goroutines. See loupe.SpanOptions for Sample and Propagation. They are called by different goroutines.
	Span        func(*spans.Span)
	Sample      func(*spans.Span) bool
	Propagation *loupe.Propagation
	Goroutine   func(GoroutineSpan)

	Profile func(kind string, p *profile.Profile)
}

// A Target is one process that is observed until it ends or [Target.Close] is called.
type Target struct {
	opt   Options
	log   *slog.Logger
	ctx   context.Context
	stop  context.CancelFunc
	ended chan struct{} // closed when run has returned

	proc       *loupe.Process
	sums       sums
	goroutines goroutines
	durations  durations
	allocs     allocations // guarded by mu
	profiling  sync.WaitGroup
	requests   requests // of the goroutine that runs; err is guarded by mu

	mu         sync.Mutex // guards what follows
	settings   Settings
	identity   metric.Identity
	census     *census
	leaks      leakFinder
	policy     policy
	created    uint64 // goroutines; never less than before
	finished   uint64 // goroutines that have ended; the same
	last       counts // as of the last step
	rate       activity
	watch      *watch
	paused     string    // why events are not observed although they are wanted; empty if they are
	attachErr  error     // the reason why the last attempt to observe events failed
	retryAt    time.Time // when the next attempt is due
	again      bool      // attach again, because settings have changed or the clock was set
	againSpans bool      // the same for spans of requests
	anomalies  anomalies
	alerts     []Alert // not passed on yet
	lastGroup  metric.Group
	sampledAt  time.Time // when the rate of events was measured last
	boostUntil time.Time // until when the target may cost more
	pending    *pending  // nil: nothing is to be recorded
	cleaned    uint64    // goroutines that watches that have ended had state for
	err        error     // why the observation ended
}

// counts are the numbers that the policy compares.
type counts struct {
	at                     time.Time
	created, ended, starts uint64
	startsKnown            bool
	cpu                    time.Duration
}

// The intervals of a target.
const (
	stepEvery   = time.Second
	censusEvery = 10 * time.Second // if a census takes at most censusPart of it
	censusPart  = 0.002            // of the time
	attachRetry = time.Minute      // after a failure
	sampleEvery = 2 * time.Second  // between two changes of the sampling ratio

	// A process that starts does not have its runtime's data in place at first.
	openAttempts = 10
	openPause    = 200 * time.Millisecond
)

// Open begins to observe a process. The error wraps one of the errors of package loupe where one applies.
func Open(ctx context.Context, opt Options) (*Target, error) {
	proc, err := open(ctx, opt)
	if err != nil {
		return nil, err
	}
	t := &Target{opt: opt, log: cmp.Or(opt.Log, slog.New(slog.DiscardHandler)), proc: proc, settings: opt.Settings, identity: opt.Identity, ended: make(chan struct{})}
	info := proc.Info()
	t.identity.GoVersion, t.identity.Version = info.GoVersion, info.ModuleVersion
	t.ctx, t.stop = context.WithCancel(context.WithoutCancel(ctx))
	t.policy.calm = upMost // the first level is chosen at once
	t.repair()
	t.goroutines.emit = opt.Goroutine
	t.goroutines.settings(opt.Settings.LeastSpan, opt.Settings.SpanPart)
	if opt.Profile != nil {
		t.profiling.Go(func() { t.profiles(t.ctx) })
	}
	go t.run()
	return t, nil
}

func open(ctx context.Context, opt Options) (*loupe.Process, error) {
	for attempt := 1; ; attempt++ {
		p, err := loupe.OpenProcess(opt.PID, loupe.ProcessOptions{Log: opt.Log})
		if !errors.Is(err, loupe.ErrLayout) || attempt == openAttempts {
			return p, err
		}
		select {
		case <-time.After(openPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// run observes the process until it ends.
func (t *Target) run() {
	defer close(t.ended)
	tick := time.NewTicker(stepEvery)
	defer tick.Stop()
	for {
		want, err := t.step()
		if err != nil {
			t.mu.Lock()
			t.err = err
			t.mu.Unlock()
			break
		}
		t.observe(want)
		t.resample()
		t.goroutines.tick(time.Now())
		t.observeRequests()
		t.writeDue(time.Now(), false)
		select {
		case <-tick.C:
			continue
		case <-t.ctx.Done():
		}
		break
	}
	t.detach()
	t.closeRequests()
	t.goroutines.flush()
}

// step reads what is due, and returns the level of events that is wanted and affordable. The error says that the process is no longer
// observed.
func (t *Target) step() (Level, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	level := t.level()
	s, err := t.proc.Scheduler()
	if err != nil {
		return level, t.gone(err)
	}
	user, system, err := t.proc.ProcessorTime()
	if err != nil {
		return level, t.gone(err)
	}
	t.grow(s)
	now := counts{at: s.Time, created: t.created, ended: t.finished, starts: 8 * countOf(s.TimeToRun), startsKnown: s.TimeToRun != nil, cpu: user + system}
	if !t.last.at.IsZero() {
		t.rate = now.since(&t.last)
	}
	t.last = now
	if err := t.takeCensus(); err != nil {
		return level, t.gone(err)
	}
	t.detect(s)
	for _, a := range t.alerts {
		t.opt.Alert(a)
	}
	t.alerts = t.alerts[:0]
	if t.rate.over == 0 {
		return level, nil
	}
	w := t.settings.Want
	t.policy.want, t.policy.overhead, t.policy.hitCost = w, t.overhead(s.Time), hitCost(t.settings.Engine)
	next := t.policy.next(level, &t.rate)
	t.paused = ""
	switch {
	case next < w && t.settings.Scaled:
		t.paused = PausedBudget
	case next < w:
		t.paused = PausedOverhead
	}
	return next, nil
}

// grow keeps counts from decreasing: their parts are read one after the other while the process runs. The caller holds mu.
func (t *Target) grow(s *event.Scheduler) {
	t.created = max(t.created, s.Created)
	t.finished = max(t.finished, s.Ended())
}

// level returns the level of events that are observed.
func (t *Target) level() Level {
	if t.watch == nil {
		return Memory
	}
	return t.watch.level
}

func (c *counts) since(last *counts) activity {
	d := c.at.Sub(last.at).Seconds()
	a := activity{created: float64(c.created-min(c.created, last.created)) / d, ended: float64(c.ended-min(c.ended, last.ended)) / d, starts: -1,
		cpu: (c.cpu - last.cpu).Seconds() / d, over: c.at.Sub(last.at)}
	if c.startsKnown {
		a.starts = float64(c.starts-min(c.starts, last.starts)) / d
	}
	return a
}

// gone returns err if it says that the process has ended or has executed another program. Other errors are reported, and the next step tries
// again.
func (t *Target) gone(err error) error {
	if err == nil || isGone(err) {
		return err
	}
	t.log.Debug("cannot read the process", "pid", t.opt.PID, "err", err)
	return nil
}

// isGone reports whether an error says that the process has ended or has executed another program.
func isGone(err error) bool {
	return errors.Is(err, loupe.ErrExited) || errors.Is(err, loupe.ErrNoProcess) || errors.Is(err, loupe.ErrExec)
}

// takeCensus counts the goroutines if that is due.
func (t *Target) takeCensus() error {
	if c := t.census; c != nil {
		due := max(censusEvery, time.Duration(float64(c.took)/censusPart))
		if time.Since(c.at) < due {
			return nil
		}
	}
	begin := time.Now()
	all, err := t.proc.Tallies(t.ctx)
	if err != nil {
		return err
	}
	c := &census{at: begin, took: time.Since(begin)}
	for _, g := range all {
		if g.Origin.System && !t.settings.System {
			continue
		}
		c.groups = append(c.groups, g)
		c.live += len(g.Members)
	}
	t.census = c
	t.leaks.add(c)
	return nil
}

// Why events are not observed although they are wanted, as the label why of metric.Paused has it.
const (
	PausedOverhead = "overhead" // of the target
	PausedBudget   = "budget"   // of the agent
	PausedAttach   = "attach"
)

// errNoEvents says why a recording is missing.
var errNoEvents = errors.New("no events were observed at that time")

// observe observes the events of a level.
func (t *Target) observe(level Level) {
	t.mu.Lock()
	w, again := t.watch, t.again
	t.again = false
	t.mu.Unlock()
	if w != nil {
		select {
		case <-w.state.Done():
			again = true // the next step finds out why if the process has ended
		default:
		}
		if w.level == level && !again {
			return
		}
		t.detach()
	}
	if level > Memory {
		t.attach(level)
	}
}

// resample changes the part of the goroutines whose events are observed, so that there are not more than are wanted.
func (t *Target) resample() {
	t.mu.Lock()
	w, s, now := t.watch, &t.settings, time.Now()
	if w == nil || now.Sub(t.sampledAt) < sampleEvery {
		t.mu.Unlock()
		return
	}
	limits, least, live, since := s.Rates, s.MinRatio, 0, t.sampledAt
	if t.census != nil {
		live = t.census.live
	}
	t.sampledAt = now
	t.mu.Unlock()
	made, before := producedOf(w.session.Stats().Kinds), w.produced
	w.produced = made
	if since.IsZero() || w.isFirst() {
		return
	}
	if err := w.resample(limits.room(made.since(before, now.Sub(since))), least, live, &t.sums); err != nil {
		t.log.Debug("the sampling ratio cannot be changed", "pid", t.opt.PID, "err", err)
	}
}

// attach observes the events of a level, unless that has failed not long ago.
func (t *Target) attach(level Level) {
	t.mu.Lock()
	s, due := t.settings, !time.Now().Before(t.retryAt)
	if !due {
		t.paused = PausedAttach
	}
	t.mu.Unlock()
	if !due {
		return
	}
	select {
	case t.opt.Attach <- struct{}{}:
		defer func() { <-t.opt.Attach }()
	case <-t.ctx.Done():
		return
	}
	if s.Engine == loupe.EngineInline && t.requests.session == nil {
		t.repair() // an agent in another PID namespace may have been taken for alive before
	}
	w, err := newWatch(t.ctx, t.opt.PID, level, watchOptions{engine: s.Engine, stackDepth: s.StackDepth, system: s.System, buffer: s.Buffer,
		record: s.Record, allocs: s.Allocs, each: t.each(), log: t.log})
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		if t.ctx.Err() == nil {
			t.attachErr, t.retryAt, t.paused = err, time.Now().Add(attachRetry), PausedAttach
		}
		return
	}
	t.attachErr, t.watch = nil, w
	t.log.Debug("observing events", "pid", t.opt.PID, "level", int(level))
}

// each returns what receives all events, or nil.
func (t *Target) each() func(*event.Event) {
	if t.opt.Goroutine == nil {
		return nil
	}
	return t.goroutines.add
}

// detach ends the observation of events, if there is one.
func (t *Target) detach() {
	t.writeDue(time.Now(), true)
	t.mu.Lock()
	w := t.watch
	t.mu.Unlock()
	if w == nil {
		return
	}
	if err := w.close(&t.sums); err != nil {
		t.log.Warn("cannot detach", "pid", t.opt.PID, "err", err)
	}
	totals := w.state.Machine().Totals()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch = nil
	t.cleaned += totals.Live + totals.Ended // at once, so that the sum does not decrease meanwhile
}

// AttachError returns why events cannot be observed, or nil.
func (t *Target) AttachError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(t.attachErr, t.requests.err)
}

// Set changes what is wanted.
func (t *Target) Set(s Settings, identity metric.Identity) {
	t.mu.Lock()
	defer t.mu.Unlock()
	identity.GoVersion, identity.Version = t.identity.GoVersion, t.identity.Version
	if o := &t.settings; s.Engine != o.Engine || s.StackDepth != o.StackDepth || s.System != o.System || s.Record != o.Record ||
		s.Allocs != o.Allocs || s.Buffer != o.Buffer {
		t.again = true
	}
	t.settings, t.identity = s, identity
	t.goroutines.settings(s.LeastSpan, s.SpanPart)
}

// ReadClock has the sessions end, and begin again: each reads the wall clock when it begins.
func (t *Target) ReadClock() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.again, t.againSpans = true, true
}

// Done returns a channel that is closed when the process is no longer observed.
func (t *Target) Done() <-chan struct{} { return t.ended }

// Err returns why the process is no longer observed, or nil if Close was called.
func (t *Target) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Close ends the observation.
func (t *Target) Close() error {
	t.stop()
	<-t.ended
	t.profiling.Wait()
	return t.proc.Close()
}

// Group reads the points of the target now. The result is false if the process has ended.
func (t *Target) Group(ctx context.Context) (metric.Group, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := metric.Group{Identity: t.identity, At: time.Now().UnixNano()}
	m, err := t.proc.Memory(ctx, loupe.MemoryOptions{})
	if err == nil {
		g.Points = append(g.Points, memoryPoints(m)...)
	}
	s, schedErr := t.proc.Scheduler()
	if schedErr == nil {
		t.grow(s)
		g.Points = append(g.Points, schedulerPoints(s)...)
		g.Points = append(g.Points, metric.Created.Of(float64(t.created)), metric.Ended.Of(float64(t.finished)))
	}
	if t.gone(cmp.Or(err, schedErr)) != nil {
		return g, false
	}
	if user, system, err := t.proc.ProcessorTime(); err == nil {
		g.Points = append(g.Points, metric.ProcessCPU.Of(user.Seconds(), "user"), metric.ProcessCPU.Of(system.Seconds(), "system"))
	}
	if t.census != nil {
		g.Points = append(g.Points, t.census.points(t.settings.Sites)...)
		for _, s := range top(t.leaks.suspects, t.settings.Sites) {
			g.Points = append(g.Points, metric.LeakSuspects.Of(float64(s.n), s.site))
		}
	}
	g.Points = append(g.Points, t.observationPoints()...)
	t.lastGroup = g
	return g, true
}

// Last returns what Group has returned last.
func (t *Target) Last() metric.Group {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lastGroup
}

// observationPoints are about the observation itself.
func (t *Target) observationPoints() []metric.Point {
	i := &t.identity
	level, engine, ratio := Memory, "none", 0.0
	if t.watch != nil {
		t.watch.add(&t.sums)
		t.allocated(t.watch)
		level, engine = t.watch.level, string(t.settings.Engine)
		ratio = t.watch.sampled()
	}
	list := append(t.sums.points(), t.allocs.points()...)
	list = append(list, t.durations.points()...)
	list = append(list, metric.Info.Of(1, i.GoVersion, i.Version, i.Service, i.Workload, i.Kind, i.Node), metric.Level.Of(float64(level), engine))
	if level >= Waits {
		list = append(list, metric.SamplingRatio.Of(ratio, "waits"))
	}
	if level >= Runs {
		list = append(list, metric.SamplingRatio.Of(ratio, "runs"))
	}
	if t.paused != "" {
		list = append(list, metric.Paused.Of(1, t.paused))
	}
	return list
}

// Totals are numbers of all events of a target so far.
type Totals struct {
	Events, Lost uint64
	Tracked      uint64          // goroutines that there is state for
	Cleaned      uint64          // goroutines whose state was removed
	Untracked    uint64          // goroutines that have no spans because there was no room for their state
	Delays       sched.Histogram // from events until they were processed
	BufferUsed   float64         // the largest part of the buffer that was in use in the last half minute, from 0 to 1
}

// Add adds the totals of another target. The fullest buffer counts.
func (t *Totals) Add(o *Totals) {
	t.Events, t.Lost, t.Tracked, t.Cleaned = t.Events+o.Events, t.Lost+o.Lost, t.Tracked+o.Tracked, t.Cleaned+o.Cleaned
	t.Untracked += o.Untracked
	t.Delays.Merge(&o.Delays)
	t.BufferUsed = max(t.BufferUsed, o.BufferUsed)
}

// Totals returns the numbers so far.
func (t *Target) Totals() Totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all Totals
	if t.watch != nil {
		t.watch.add(&t.sums)
		totals := t.watch.state.Machine().Totals()
		all.Tracked, all.Cleaned = totals.Live, totals.Ended
	}
	all.Cleaned += t.cleaned
	all.Untracked = t.goroutines.untracked()
	t.sums.mu.Lock()
	defer t.sums.mu.Unlock()
	all.Events, all.Lost, all.Delays = t.sums.events, t.sums.lost, t.sums.delays
	if t.watch != nil {
		all.BufferUsed = max(t.sums.peaks[0], t.sums.peaks[1])
	}
	return all
}

// Limited reports whether events are wanted, and fewer of them or none are observed.
func (t *Target) Limited() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paused != ""
}
