package agent

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/agent/target"
	"github.com/loupe-go/loupe/internal/version"
)

// readers is the number of targets that are read at the same time.
const readers = 4

// groups returns the points of all targets now.
func (m *manager) groups(ctx context.Context) []metric.Group {
	m.mu.Lock()
	targets := make([]*target.Target, 0, len(m.entries))
	for _, e := range m.entries {
		if e.target != nil {
			targets = append(targets, e.target)
		}
	}
	m.mu.Unlock()
	var (
		mu   sync.Mutex
		list = make([]metric.Group, 0, len(targets)+1)
		wait sync.WaitGroup
		next = make(chan *target.Target)
	)
	for range min(readers, len(targets)) {
		wait.Go(func() {
			for t := range next {
				if g, ok := t.Group(ctx); ok {
					mu.Lock()
					list = append(list, g)
					mu.Unlock()
				}
			}
		})
	}
feed:
	for i, t := range targets {
		select {
		case next <- t:
		case <-ctx.Done():
			m.log.Warn("targets are missing from the metrics that were asked for: reading them takes too long", "missing", len(targets)-i)
			break feed
		}
	}
	close(next)
	wait.Wait()
	return list
}

// totals are numbers of all targets.
type totals struct {
	target.Totals
	states   map[string]int    // processes by status
	failures map[string]uint64 // by cause
}

func (m *manager) totals() totals {
	m.mu.Lock()
	t := totals{Totals: m.gone.Totals,
		states: map[string]int{statusObserved: 0, statusLimited: 0, statusFailed: 0, statusExcluded: 0}, failures: map[string]uint64{}}
	for _, c := range causes {
		t.failures[c.cause] = 0
	}
	t.failures[causeOther] = 0
	for _, e := range m.entries {
		switch {
		case !e.decision.Observe:
			t.states[statusExcluded]++
		case e.err != nil:
			t.states[statusFailed]++
		case e.target == nil: // it is being opened
		default:
			m.countFailure(e)
			if e.target.Limited() {
				t.states[statusLimited]++
			} else {
				t.states[statusObserved]++
			}
		}
	}
	opened := slices.Collect(maps.Keys(m.opened))
	for cause, n := range m.gone.failures {
		t.failures[cause] += n
	}
	unread := m.unread
	m.mu.Unlock()
	if unread != nil {
		for cause, n := range unread() {
			t.failures[cause] += n
		}
	}
	for _, g := range opened {
		n := g.Totals()
		t.Add(&n)
	}
	return t
}

// countFailure counts and reports why events of a target cannot be observed, once for each reason. The caller holds mu.
func (m *manager) countFailure(e *entry) {
	err := e.target.AttachError()
	if err == nil {
		e.reported = ""
		return
	}
	if text := err.Error(); text != e.reported {
		e.reported = text
		m.gone.failures[causeOf(err)]++
		m.log.Warn("events of a process cannot be observed", "pid", e.key.PID, "exe", e.subject.Exe, "err", err)
	}
}

// group returns the points of the agent itself.
func (a *Agent) group() metric.Group {
	t := a.targets.totals()
	g := metric.Group{Start: a.began.UnixNano(), At: time.Now().UnixNano(), Points: []metric.Point{
		metric.EventsReceived.Of(float64(t.Events)), metric.EventsLost.Of(float64(t.Lost)),
		metric.Tracked.Of(float64(t.Tracked)), metric.Cleaned.Of(float64(t.Cleaned)), metric.Untracked.Of(float64(t.Untracked)),
		metric.RingUsed.Of(t.BufferUsed), metric.EventLatency.Distribution(&t.Delays),
		metric.BuildInfo.Of(1, version.Read().Version, runtime.Version()),
	}}
	for status, n := range t.states {
		g.Points = append(g.Points, metric.Targets.Of(float64(n), status))
	}
	for cause, n := range t.failures {
		g.Points = append(g.Points, metric.AttachFailures.Of(float64(n), cause))
	}
	cpu, memory := a.budget.ratios()
	g.Points = append(g.Points, metric.BudgetRatio.Of(cpu, "cpu"), metric.BudgetRatio.Of(memory, "memory"))
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, n := range a.alerts {
		g.Points = append(g.Points, metric.Alerts.Of(float64(n), name))
	}
	for result, n := range a.recorded {
		g.Points = append(g.Points, metric.Recordings.Of(float64(n), result))
	}
	g.Points = append(g.Points, a.pusher.Points()...)
	for result, n := range a.reloads {
		g.Points = append(g.Points, metric.ConfigReloads.Of(float64(n), result))
	}
	return g
}

// groups returns the points of all targets and of the agent.
func (a *Agent) groups(ctx context.Context) []metric.Group {
	return append(a.targets.groups(ctx), a.group())
}
