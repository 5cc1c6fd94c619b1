package target

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/agent/metric"
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
	Alerts     Thresholds
}

// Options configure a target.
type Options struct {
	PID      int
	Identity metric.Identity
	Settings Settings
	Attach   chan struct{} // a slot for each process that is being attached to at the same time
	Alert    func(Alert)   // receives anomalies
	Log      *slog.Logger
}

// A Target is one process that is observed until it ends or [Target.Close] is called.
type Target struct {
	opt   Options
	log   *slog.Logger
	ctx   context.Context
	stop  context.CancelFunc
	ended chan struct{} // closed when run has returned

	proc *loupe.Process
	sums sums

	mu        sync.Mutex // guards what follows
	settings  Settings
	identity  metric.Identity
	census    *census
	leaks     leakFinder
	policy    policy
	last      counts // as of the last step
	rate      activity
	watch     *watch
	paused    string    // why events are not observed although they are wanted; empty if they are
	attachErr error     // the reason why the last attempt to observe events failed
	retryAt   time.Time // when the next attempt is due
	again     bool      // attach again, because settings have changed
	anomalies anomalies
	alerts    []Alert // not passed on yet
	err       error   // why the observation ended
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
		select {
		case <-tick.C:
			continue
		case <-t.ctx.Done():
		}
		break
	}
	t.detach()
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
	now := counts{at: s.Time, created: s.Created, ended: s.Ended(), starts: 8 * countOf(s.TimeToRun), startsKnown: s.TimeToRun != nil, cpu: user + system}
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
	t.policy.want, t.policy.overhead, t.policy.hitCost = w, t.settings.Overhead, hitCost(t.settings.Engine)
	next := t.policy.next(level, &t.rate)
	t.paused = ""
	if next < w {
		t.paused = PausedOverhead
	}
	return next, nil
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
	a := activity{created: float64(c.created-last.created) / d, ended: float64(c.ended-min(c.ended, last.ended)) / d, starts: -1,
		cpu: (c.cpu - last.cpu).Seconds() / d, over: c.at.Sub(last.at)}
	if c.startsKnown {
		a.starts = float64(c.starts-last.starts) / d
	}
	return a
}

// gone returns err if it says that the process has ended or has executed another program. Other errors are reported, and the next step tries
// again.
func (t *Target) gone(err error) error {
	if errors.Is(err, loupe.ErrExited) || errors.Is(err, loupe.ErrNoProcess) || errors.Is(err, loupe.ErrExec) {
		return err
	}
	t.log.Debug("cannot read the process", "pid", t.opt.PID, "err", err)
	return nil
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
	PausedOverhead = "overhead"
	PausedAttach   = "attach"
)

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
	w, err := newWatch(t.ctx, t.opt.PID, level, watchOptions{engine: s.Engine, stackDepth: s.StackDepth, system: s.System, buffer: s.Buffer, log: t.log})
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

// detach ends the observation of events, if there is one.
func (t *Target) detach() {
	t.mu.Lock()
	w := t.watch
	t.watch = nil
	t.mu.Unlock()
	if w == nil {
		return
	}
	if err := w.close(&t.sums); err != nil {
		t.log.Warn("cannot detach", "pid", t.opt.PID, "err", err)
	}
}

// AttachError returns why events cannot be observed, or nil.
func (t *Target) AttachError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.attachErr
}

// hitCost is what one hit of a probe costs.
func hitCost(e loupe.Engine) time.Duration {
	if e == loupe.EngineInline {
		return 100 * time.Nanosecond
	}
	return 2 * time.Microsecond
}

// Set changes what is wanted.
func (t *Target) Set(s Settings, identity metric.Identity) {
	t.mu.Lock()
	defer t.mu.Unlock()
	identity.GoVersion, identity.Version = t.identity.GoVersion, t.identity.Version
	if s.Engine != t.settings.Engine || s.StackDepth != t.settings.StackDepth || s.System != t.settings.System || s.Buffer != t.settings.Buffer {
		t.again = true
	}
	t.settings, t.identity = s, identity
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
		g.Points = append(g.Points, schedulerPoints(s)...)
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
	return g, true
}

// observationPoints are about the observation itself.
func (t *Target) observationPoints() []metric.Point {
	i := &t.identity
	level, engine := Memory, "none"
	if t.watch != nil {
		t.watch.add(&t.sums)
		level, engine = t.watch.level, string(t.settings.Engine)
	}
	list := append(t.sums.points(), metric.Info.Of(1, i.GoVersion, i.Version, i.Service, i.Workload, i.Kind, i.Node), metric.Level.Of(float64(level), engine))
	if t.paused != "" {
		list = append(list, metric.Paused.Of(1, t.paused))
	}
	return list
}

// Tracked is the number of goroutines that the events of the process are about.
func (t *Target) Tracked() (live, ended uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watch == nil {
		return 0, 0
	}
	totals := t.watch.state.Machine().Totals()
	return totals.Live, totals.Ended
}
