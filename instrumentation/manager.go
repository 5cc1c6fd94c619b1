package instrumentation

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/spans/control"
	"github.com/loupe-go/loupe/spans"
)

// attaching is the number of processes that a manager attaches to at the same time.
const attaching = 4

// A manager observes processes, each in a goroutine of its own.
type manager struct {
	config     *config
	log        *slog.Logger
	analyzer   *analyzer
	controller *control.Controller // nil: spans are not exported
	version    string

	ctx   context.Context // done when the observation of all processes ends
	stop  context.CancelFunc
	run   chan struct{} // closed when spans are to be read
	slots chan struct{} // one for each process that is being attached to
	ended chan struct{} // receives a value after a process has ended

	unsampled atomic.Uint64
	relayed   relayCounts

	mu         sync.Mutex // guards what follows
	processes  map[int]*process
	open       []*loupe.Session // those that could not be closed
	closed     bool             // no process is added
	idle       chan struct{}    // closed when closed is set and there are no processes
	counts     Processes        // without Observed
	spans      loupe.SpanCounts // of processes that have ended
	lostEvents uint64           // of these
}

func newManager(c *config, a *analyzer, controller *control.Controller) *manager {
	m := &manager{config: c, log: c.log, analyzer: a, controller: controller, version: version(),
		run: make(chan struct{}), slots: make(chan struct{}, attaching), ended: make(chan struct{}, 1), idle: make(chan struct{}), processes: map[int]*process{}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	return m
}

// start begins to observe a process, and attaches to it unless ctx is done before. It returns nil if the process with this ID is
// observed already, or if the manager is closed. exe is empty for a process that was selected by its ID.
func (m *manager) start(ctx context.Context, pid int, exe string) *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.processes[pid] != nil {
		return nil
	}
	p := &process{manager: m, pid: pid, exe: exe, attached: make(chan struct{})}
	m.processes[pid] = p
	go func() {
		defer m.end(p)
		p.observe(ctx)
	}()
	return p
}

// startFound begins to observe the processes of the executables that are not observed yet.
func (m *manager) startFound(ctx context.Context) []*process {
	var list []*process
	for _, f := range m.analyzer.find() {
		if p := m.start(ctx, f.id.PID, f.exe); p != nil {
			m.analyzer.take(f)
			list = append(list, p)
		}
	}
	return list
}

// end accounts a process that is no longer observed.
func (m *manager) end(p *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.processes, p.pid)
	if m.closed && len(m.processes) == 0 {
		close(m.idle)
	}
	select {
	case m.ended <- struct{}{}:
	default:
	}
}

// account adds the numbers of a session that has ended.
func (m *manager) account(p *process, s *loupe.Session) {
	counts, err := s.SpanCounts()
	stats := s.Stats()
	m.mu.Lock()
	defer m.mu.Unlock()
	p.session = nil
	m.counts.Ended++
	addSpans(&m.spans, counts)
	m.lostEvents += stats.Lost
	if err = errors.Join(err, stats.Err); err != nil {
		m.log.Warn("the counts of the process are incomplete", "pid", p.pid, "err", err)
	}
	if counts.Notes.Lost+counts.Unobserved+counts.Open+counts.Strays+counts.Mismatched+counts.Uncertain+counts.Unlisted+counts.NoHeader+counts.NoState+counts.Unsearched+stats.Lost > 0 {
		m.log.Warn("the spans of the process are incomplete", "pid", p.pid, "reports_lost", counts.Notes.Lost, "ends_unknown", counts.Unobserved,
			"not_ended", counts.Open, "begins_unknown", counts.Strays, "unexpected_layout", counts.Mismatched, "uncertain_breakdowns", counts.Uncertain,
			"goroutines_not_observed", counts.Unlisted, "requests_without_header", counts.NoHeader, "requests_without_state", counts.NoState,
			"headers_not_searched", counts.Unsearched, "events_lost", stats.Lost)
	}
}

// failed notes that a process cannot be observed.
func (m *manager) failed(p *process, err error) {
	m.mu.Lock()
	m.counts.Failed++
	m.mu.Unlock()
	m.log.Warn("the process cannot be observed", "pid", p.pid, "err", err)
}

// handle passes a span of a process to its destinations.
func (m *manager) handle(p *process, s *spans.Span) {
	if !s.Context.IsSampled() {
		m.unsampled.Add(1)
	}
	if p.export != nil {
		p.export.Handle(s)
	}
	if m.config.handler != nil {
		m.config.handler(s)
	}
	if p.relay != nil {
		p.relay.add(s)
	}
}

// active returns the number of processes that are observed, or are being attached to.
func (m *manager) active() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.processes)
}

// close ends the observation of all processes. It does not wait for that: idle is closed then.
func (m *manager) close() {
	m.stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.closed = true
	if len(m.processes) == 0 {
		close(m.idle)
	}
}

// release closes the sessions that could not be closed when their process was no longer observed.
func (m *manager) release() error {
	m.mu.Lock()
	list := m.open
	m.open = nil
	m.mu.Unlock()
	var errs []error
	for _, s := range list {
		if err := s.Close(); err != nil {
			errs = append(errs, err)
			m.keep(s)
		}
	}
	return errors.Join(errs...)
}

// keep notes a session that could not be closed.
func (m *manager) keep(s *loupe.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = append(m.open, s)
}

// stats returns the numbers of all processes.
func (m *manager) stats() Stats {
	m.mu.Lock()
	s := Stats{Processes: m.counts, Spans: m.spans, LostEvents: m.lostEvents}
	var live []*loupe.Session
	for _, p := range m.processes {
		if p.session != nil {
			live = append(live, p.session)
		}
	}
	for _, session := range live {
		counts, _ := session.SpanCounts() // the error is reported when the session ends
		addSpans(&s.Spans, counts)
		s.LostEvents += session.Stats().Lost
	}
	m.mu.Unlock()
	s.Processes.Observed = len(live)
	s.Unsampled = m.unsampled.Load()
	s.Provided, s.Orphans, s.Waiting = m.relayed.provided.Load(), m.relayed.orphans.Load(), int(m.relayed.waiting.Load())
	return s
}
