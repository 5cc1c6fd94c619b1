package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/agent/config"
	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/agent/push"
	"github.com/loupe-go/loupe/internal/agent/target"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/spans"
)

// The states of a process, as the label status of metric.Targets has them.
const (
	statusObserved = "observed"
	statusLimited  = "limited"
	statusFailed   = "failed"
	statusExcluded = "excluded"
)

// attaching is the number of processes that are attached to at the same time.
const attaching = 4

// hooks receive what a manager learns of targets.
type hooks struct {
	alert  func(target.Alert)
	record func(target.Recording)
	name   func(id metric.Identity, alert string) string
}

// A manager observes the processes that it is told about, as the configuration says.
type manager struct {
	log    *slog.Logger
	hooks  hooks
	attach chan struct{}

	mu      sync.Mutex
	config  *config.Config
	scale   float64 // of what targets may cost, to keep the agent's budget; from 0 to 1
	entries map[goproc.Identity]*entry
	opened  map[*target.Target]bool // targets whose numbers are not in gone
	pusher  *push.Pusher            // nil: nothing is exported
	gone    gone
	unread  func() map[string]uint64 // programs that could not be read, by cause; nil: unknown
	running sync.WaitGroup
	closed  bool
}

// An entry is a Go process on this machine.
type entry struct {
	key      goproc.Identity
	subject  config.Subject
	identity metric.Identity
	decision config.Decision
	cancel   context.CancelFunc // ends the observation
	ended    chan struct{}      // closed when it has ended
	target   *target.Target     // nil until the process is open, and if it is not observed
	err      error              // why the process cannot be observed
	reported string             // the reason that events cannot be observed, as it was counted
	vanished bool               // the process has ended
	out      atomic.Pointer[push.Target]
}

// gone is what targets have counted that have ended.
type gone struct {
	target.Totals
	failures map[string]uint64 // by cause
}

func newManager(c *config.Config, log *slog.Logger, h hooks) *manager {
	return &manager{log: log, hooks: h, attach: make(chan struct{}, attaching), config: c, scale: 1, entries: map[goproc.Identity]*entry{},
		opened: map[*target.Target]bool{}, gone: gone{failures: map[string]uint64{}}}
}

// appeared observes a process if the configuration wants that.
func (m *manager) appeared(key goproc.Identity, s config.Subject, id metric.Identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.entries[key] != nil {
		return
	}
	e := &entry{key: key, subject: s, identity: id}
	m.entries[key] = e
	m.decide(e)
}

// described changes what is known about a process.
func (m *manager) described(key goproc.Identity, s config.Subject, id metric.Identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[key]; e != nil && !m.closed {
		e.subject, e.identity = s, id
		m.decide(e)
	}
}

// vanished forgets a process that has ended.
func (m *manager) vanished(key goproc.Identity) {
	m.mu.Lock()
	e := m.entries[key]
	delete(m.entries, key)
	if e != nil {
		e.vanished = true
	}
	m.mu.Unlock()
	if e != nil && e.cancel != nil {
		e.cancel()
	}
}

// configure applies another configuration.
func (m *manager) configure(c *config.Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.config = c
	for _, e := range m.entries {
		m.decide(e)
	}
}

// rescale changes what targets may cost.
func (m *manager) rescale(scale float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scale = scale
	for _, e := range m.entries {
		m.apply(e)
	}
}

// readClock has all sessions read the wall clock again.
func (m *manager) readClock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if e.target != nil {
			e.target.ReadClock()
		}
	}
}

// decide begins or ends the observation of a process, or changes its settings. The caller holds mu.
func (m *manager) decide(e *entry) {
	before := e.decision
	e.decision = m.config.Decide(e.subject)
	for _, w := range e.decision.Warnings {
		if !slices.Contains(before.Warnings, w) {
			m.log.Warn(w, "pid", e.key.PID, "pod", e.subject.Pod)
		}
	}
	switch {
	case !e.decision.Observe && e.cancel != nil:
		m.log.Info("the process is no longer observed", "pid", e.key.PID, "exe", e.subject.Exe, "reason", e.decision.Reason)
		e.cancel()
		e.cancel, e.target, e.err = nil, nil, nil
	case e.decision.Observe && e.cancel == nil:
		ctx, cancel := context.WithCancel(context.Background())
		before, ended := e.ended, make(chan struct{})
		e.cancel, e.ended = cancel, ended
		m.running.Go(func() {
			defer close(ended)
			if before != nil {
				<-before // what it exports is the entry's
			}
			for m.observe(ctx, e) {
				if !wait(ctx, retryAfter) {
					break
				}
			}
		})
	default:
		m.apply(e)
	}
}

// apply passes on the settings of a target. The caller holds mu.
func (m *manager) apply(e *entry) {
	if e.target != nil {
		e.target.Set(m.settings(e), e.identity)
	}
	if out := e.out.Load(); out != nil {
		out.Describe(e.identity)
	}
}

// options returns what a target is opened with. The caller holds mu.
func (m *manager) options(e *entry) target.Options {
	opt := target.Options{PID: e.key.PID, Identity: e.identity, Settings: m.settings(e), Attach: m.attach, Log: m.log, Record: m.hooks.record, Name: m.hooks.name}
	opt.Alert = func(a target.Alert) {
		m.hooks.alert(a)
		if out := e.out.Load(); out != nil {
			out.Alert(alertOf(a))
		}
	}
	opt.Span = func(s *spans.Span) {
		if out := e.out.Load(); out != nil {
			out.Handle(s)
		}
	}
	opt.Sample = func(s *spans.Span) bool {
		out := e.out.Load()
		return out != nil && out.Sample(s)
	}
	if _, set := m.config.OTEL("OTEL_TRACES_SAMPLER"); !set {
		opt.Propagation = &loupe.Propagation{} // samples as the default sampler does
	}
	opt.Goroutine = func(s target.GoroutineSpan) {
		if out := e.out.Load(); out != nil {
			out.Goroutine(goroutineSpanOf(s))
		}
	}
	opt.Profile = func(kind string, p *profile.Profile) {
		if out := e.out.Load(); out != nil {
			out.Profile(kind, p)
		}
	}
	return opt
}

// output changes where what targets send goes.
func (m *manager) output(p *push.Pusher) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pusher = p
	for _, e := range m.entries {
		if e.out.Load() != nil {
			m.disconnect(e, metric.Group{})
			m.connect(e)
		}
	}
}

// connect begins to export what a target sends. The caller holds mu.
func (m *manager) connect(e *entry) {
	if m.pusher == nil {
		return
	}
	out, err := m.pusher.Target(e.identity)
	if err != nil {
		m.log.Error("what is learned of a process is not exported", "pid", e.key.PID, "err", err)
		return
	}
	e.out.Store(out)
}

// disconnect ends to export what a target sends, with its last points.
func (m *manager) disconnect(e *entry, last metric.Group) {
	if out := e.out.Swap(nil); out != nil {
		out.Close(last)
	}
}

// retryAfter is when a process is tried again that could not be opened, for example because a debugger traced it.
const retryAfter = time.Minute

// wait waits, and reports whether the context is still valid.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// observe observes a process until the context or the process ends. It reports whether it makes sense to try again later.
func (m *manager) observe(ctx context.Context, e *entry) (again bool) {
	select {
	case m.attach <- struct{}{}:
	case <-ctx.Done():
		m.failed(ctx, e, loupe.ErrExited)
		return false
	}
	m.mu.Lock()
	opt := m.options(e)
	m.connect(e)
	m.mu.Unlock()
	t, err := target.Open(ctx, opt)
	<-m.attach
	if err != nil {
		m.failed(ctx, e, err)
		m.disconnect(e, metric.Group{})
		cause := causeOf(err)
		return cause == "traced" || cause == "permission" || cause == causeOther
	}
	m.mu.Lock()
	m.opened[t] = true
	e.err = nil
	if ctx.Err() == nil {
		e.target = t
	}
	m.mu.Unlock()
	m.log.Info("observing process", "pid", e.key.PID, "exe", e.subject.Exe, "pod", e.subject.Pod)
	select {
	case <-t.Done():
	case <-ctx.Done():
	}
	m.mu.Lock()
	if e.target == t {
		e.target = nil
	}
	m.mu.Unlock()
	if err := t.Close(); err != nil {
		m.log.Warn("cannot detach from the process", "pid", e.key.PID, "err", err)
	}
	m.disconnect(e, t.Last())
	totals := t.Totals()
	m.mu.Lock()
	defer m.mu.Unlock()
	totals.Cleaned, totals.Tracked, totals.BufferUsed = totals.Cleaned+totals.Tracked, 0, 0
	delete(m.opened, t) // at once, so that sums do not decrease meanwhile
	m.gone.Add(&totals)
	return false
}

// failed notes that a process cannot be observed, unless that is no longer wanted.
func (m *manager) failed(ctx context.Context, e *entry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case e.vanished:
		err = loupe.ErrExited
	case ctx.Err() != nil:
		return
	}
	cause, repeated := causeOf(err), e.err != nil && e.err.Error() == err.Error()
	if e.err = err; repeated {
		return
	}
	m.gone.failures[cause]++
	if cause == causeExited {
		m.log.Debug("the process has ended meanwhile", "pid", e.key.PID, "err", err)
		return
	}
	_, remedy := loupe.Advise(err, e.key.PID, "")
	m.log.Warn("a process cannot be observed", "pid", e.key.PID, "exe", e.subject.Exe, "err", err, "remedy", remedy)
}

// Causes of failures: the process has ended meanwhile, and all that have no name.
const (
	causeExited = "exited"
	causeOther  = "other"
)

// causes are the causes of failures, as the label cause of metric.AttachFailures has them.
var causes = []struct {
	err   error
	cause string
}{
	{loupe.ErrExited, causeExited}, {loupe.ErrNoProcess, causeExited}, {loupe.ErrExec, causeExited}, {loupe.ErrTraced, "traced"},
	{loupe.ErrPermission, "permission"}, {loupe.ErrUnsupported, "unsupported"}, {loupe.ErrLayout, "layout"},
}

func causeOf(err error) string {
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.cause
		}
	}
	return causeOther
}

// lostPart is the part of the events of a target whose loss is an anomaly.
const lostPart = 0.01

// rates returns the rates of events that are wanted of a target. The caller holds mu.
func (m *manager) rates(s *config.Sampling) target.Rates {
	return target.Rates{All: float64(s.EventsPerSecond) * m.scale, Waits: float64(s.WaitsPerSecond) * m.scale, Runs: float64(s.RunsPerSecond) * m.scale}
}

// settings returns the settings of a target. The caller holds mu.
func (m *manager) settings(e *entry) target.Settings {
	c, tr, sampling := m.config, &e.decision.Tracing, &e.decision.Sampling
	s := target.Settings{Engine: loupe.Engine(tr.Engine), StackDepth: -1, System: !c.Filters.IgnoreRuntimeGoroutines, Sites: c.Output.Prometheus.Sites,
		Buffer: int(c.Budget.BufferBytes), Overhead: float64(sampling.MaxTargetOverhead) * m.scale,
		Scaled: m.scale < 1, Allocs: tr.Allocations, Rates: m.rates(sampling), MinRatio: float64(sampling.MinRatio),
		Alerts: target.Thresholds{Growth: c.Alerts.GoroutineGrowth, Latency: c.Alerts.Latency, Stalled: c.Alerts.Stalled, Lost: lostPart, For: c.Alerts.For}}
	if c.Recordings.Directory != "" {
		s.Record = time.Duration(c.Recordings.Seconds) * time.Second
	}
	if c.Sends(string(push.Traces)) {
		s.Spans = tr.Spans
		s.LeastSpan, s.SpanPart = time.Duration(c.Filters.MinGoroutineLifetimeMS)*time.Millisecond, float64(c.Filters.SampleLongRunning)
	}
	if c.Sends(string(push.Profiles)) || c.Output.Profiles.Directory != "" {
		s.Profiles, s.ProfileInterval = tr.Profiles, tr.ProfileInterval
	}
	if tr.StackTraces {
		s.StackDepth = tr.MaxStackDepth
	}
	waits := tr.ChannelOperations || tr.MutexContention
	switch {
	case tr.GoroutineEvents && waits:
		s.Want = target.Runs
	case tr.GoroutineEvents:
		s.Want = target.Lifecycle
	case waits:
		s.Want = target.Waits
	}
	return s
}

// close ends the observation of all processes.
func (m *manager) close() {
	m.mu.Lock()
	m.closed = true
	for _, e := range m.entries {
		if e.cancel != nil {
			e.cancel()
		}
	}
	m.mu.Unlock()
	m.running.Wait()
}
