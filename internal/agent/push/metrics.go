package push

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/export/otlp"
)

// maxLast is the maximum number of data points of targets that have vanished and whose metrics were not exported yet.
const maxLast = 1 << 15

// metrics exports metrics at an interval. Nothing waits for it: what is due when an export ends is collected then. Sums are cumulative, so
// an export that failed costs resolution only.
type metrics struct {
	collect           func(context.Context) []request
	exporters         []metricExporter
	interval, timeout time.Duration
	ctx               context.Context // of exports
	abort             context.CancelFunc
	closing           chan struct{}
	done              chan struct{}

	mu       sync.Mutex
	last     []request // of targets that have vanished
	lastSize int       // their data points
	queued   int       // data points of the current round that were not exported yet
	stats    otlp.Stats
	closed   bool
}

type metricExporter struct {
	*otlp.MetricExporter
	health *otlp.Health
}

// newMetrics begins to export what collect returns.
func newMetrics(config *otlp.Config, exporters []*otlp.MetricExporter, log *slog.Logger, collect func(context.Context) []request) *metrics {
	m := &metrics{collect: collect, closing: make(chan struct{}), done: make(chan struct{})}
	m.interval, m.timeout = config.MetricTimes()
	m.ctx, m.abort = context.WithCancel(context.Background())
	for _, e := range exporters {
		m.exporters = append(m.exporters, metricExporter{e, otlp.NewHealth("metrics", log.With("exporter", e.String()))})
	}
	go m.run()
	return m
}

// run exports until the pusher is closed, and then once more.
func (m *metrics) run() {
	defer close(m.done)
	ticker := time.NewTicker(m.interval)
	defer ticker.Stop()
	for closing := false; !closing; {
		select {
		case <-ticker.C:
		case <-m.closing:
		}
		select {
		case <-m.closing: // even if a tick came first
			closing = true
		default:
		}
		if m.ctx.Err() == nil {
			m.round()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop()
}

// keep exports requests with the next round, or drops them if there are too many.
func (m *metrics) keep(list []request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range list {
		if m.closed || m.lastSize+r.points > maxLast {
			m.stats.Dropped += uint64(r.points)
			continue
		}
		m.last = append(m.last, r)
		m.lastSize += r.points
	}
}

// drop drops what is kept, and everything from now on.
func (m *metrics) drop() {
	m.stats.Dropped += uint64(m.lastSize)
	m.last, m.lastSize, m.closed = nil, 0, true
}

// round exports the metrics once. What is not exported within the timeout has failed: the next round has newer values.
func (m *metrics) round() {
	ctx, cancel := otlp.Within(m.ctx, m.timeout)
	defer cancel()
	current := m.collect(ctx)
	m.mu.Lock()
	list := append(m.last, current...)
	m.last, m.lastSize = nil, 0
	for _, r := range list {
		m.queued += r.points
	}
	m.mu.Unlock()
	for _, r := range list {
		failed := 0
		for _, e := range m.exporters {
			err := e.Export(ctx, r.rm)
			n := otlp.Rejected(err, r.points)
			if n > 0 {
				e.health.Failed(err, n)
			} else {
				e.health.Succeeded()
			}
			failed = max(failed, n)
		}
		m.mu.Lock()
		m.queued -= r.points
		m.stats.Exported += uint64(r.points - failed)
		m.stats.Failed += uint64(failed)
		m.mu.Unlock()
	}
}

// read returns the counts of data points and the state of the exporters.
func (m *metrics) read() Stats {
	m.mu.Lock()
	s := Stats{Stats: m.stats}
	s.Queued = m.lastSize + m.queued
	m.mu.Unlock()
	for _, e := range m.exporters {
		if since, err, ok := e.health.Failing(); ok {
			s.Since, s.Err = since, err
		}
	}
	return s
}

// close exports once more until ctx ends, and closes the exporters.
func (m *metrics) close(ctx context.Context) error {
	close(m.closing)
	err := wait(ctx, m.done, m.abort)
	m.abort()
	for _, e := range m.exporters {
		_ = e.Shutdown(ctx) // it closes the connection, and fails if ctx has ended
	}
	return err
}

// grace is how long an exporter may take to return after its context has ended.
const grace = time.Second

// wait waits for done until ctx ends, and then a little longer after a call of abort.
func wait(ctx context.Context, done <-chan struct{}, abort func()) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	abort()
	select {
	case <-done:
	case <-time.After(grace):
	}
	return ctx.Err()
}

// requestsOf returns the requests for groups.
func (p *Pusher) requestsOf(groups []metric.Group) []request {
	var list []request
	for i := range groups {
		g := &groups[i]
		list = append(list, convert(g, p.resources.of(&g.Identity), p.scope, p.batch)...)
	}
	return list
}
