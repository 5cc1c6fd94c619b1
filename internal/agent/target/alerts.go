package target

import (
	"fmt"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/sched"
)

// The names of anomalies, as the label alert of metric.Alerts has them.
const (
	AlertGrowth  = "goroutine_growth"
	AlertLeak    = "leak"
	AlertLatency = "latency"
	AlertStall   = "stall"
	AlertLoss    = "loss"
)

// Alerts are all names.
var Alerts = []string{AlertGrowth, AlertLeak, AlertLatency, AlertStall, AlertLoss}

// An Alert is an anomaly of a target that has begun.
type Alert struct {
	Name     string
	Identity metric.Identity
	At       time.Time
	Text     string // one sentence without a period
	Site     string // the go statement that created the goroutines of a leak; empty for other anomalies
	Value    float64

	// Recording is the name of the file with the seconds before. It is empty if there is none.
	Recording string
}

// Thresholds say what an anomaly is. A zero field is no condition.
type Thresholds struct {
	Growth  float64       // goroutines per minute
	Latency time.Duration // the 99th percentile of the time that goroutines were runnable, by the runtime's histogram
	Stalled time.Duration // for which a goroutine was runnable before it ran, by the same histogram
	Lost    float64       // the part of the events
	For     time.Duration // for how long growth or latency must last
}

// An alarm is the state of one condition.
type alarm struct {
	since  time.Time // when the condition began to hold; zero if it does not
	firing bool
}

// update notes whether the condition holds, and reports whether the alarm begins.
func (a *alarm) update(holds bool, now time.Time, after time.Duration) bool {
	if !holds {
		*a = alarm{}
		return false
	}
	if a.since.IsZero() {
		a.since = now
	}
	if a.firing || now.Sub(a.since) < after {
		return false
	}
	a.firing = true
	return true
}

// anomalies are the state of all conditions of a target.
type anomalies struct {
	growth, leak, latency, stall, loss alarm

	sizes   []size          // of the last minute
	ran     sched.Histogram // scheduler latencies as of the last window
	ranAt   time.Time
	p99     time.Duration // of the last window
	longest time.Duration // of the last window
	lost    uint64
	events  uint64
	lostAt  time.Time
}

type size struct {
	at time.Time
	n  int
}

const (
	growthOver = time.Minute      // over which growth is measured
	growthMin  = 10 * time.Second // the least time that it takes to measure it
	windowOf   = 10 * time.Second // of latencies and losses
)

// perMinute notes the number of goroutines, and returns by how many it has grown per minute.
func (a *anomalies) perMinute(now time.Time, n int) float64 {
	a.sizes = append(a.sizes, size{now, n})
	for len(a.sizes) > 1 && now.Sub(a.sizes[0].at) > growthOver {
		a.sizes = a.sizes[1:]
	}
	first := a.sizes[0]
	over := now.Sub(first.at)
	if over < growthMin {
		return 0
	}
	return float64(n-first.n) / over.Minutes()
}

// detect finds anomalies in what was read.
func (t *Target) detect(s *event.Scheduler) {
	a, limits, now := &t.anomalies, &t.settings.Alerts, s.Time
	growth := a.perMinute(now, s.Goroutines)
	if a.growth.update(limits.Growth > 0 && growth > limits.Growth, now, limits.For) {
		t.raise(Alert{Name: AlertGrowth, Value: growth, Text: fmt.Sprintf("%s, %+.0f per minute", english.Count(s.Goroutines, "goroutine"), growth)})
	}
	site, suspects := t.leaks.worst()
	if a.leak.update(suspects > 0, now, 0) {
		t.raise(Alert{Name: AlertLeak, Site: site, Value: float64(suspects), Text: fmt.Sprintf("%s created at %s look leaked: they wait for a goroutine that does not come, and more join them", english.Count(suspects, "goroutine"), site)})
	}
	t.detectLatency(s)
	t.detectLoss(now)
}

// detectLatency looks at the scheduler latencies of the last window.
func (t *Target) detectLatency(s *event.Scheduler) {
	a, limits := &t.anomalies, &t.settings.Alerts
	if s.TimeToRun == nil || s.Time.Sub(a.ranAt) < windowOf {
		return
	}
	h := histogramOf(s.TimeToRun)
	if !a.ranAt.IsZero() {
		d := h.Sub(&a.ran)
		a.p99, a.longest = d.Quantile(0.99), d.Max()
	}
	a.ran, a.ranAt = *h, s.Time
	if a.stall.update(limits.Stalled > 0 && a.longest > limits.Stalled, s.Time, 0) {
		t.raise(Alert{Name: AlertStall, Value: a.longest.Seconds(), Text: fmt.Sprintf("a goroutine has waited %v for a processor", a.longest.Round(time.Millisecond))})
	}
	if a.latency.update(limits.Latency > 0 && a.p99 > limits.Latency, s.Time, limits.For) {
		t.raise(Alert{Name: AlertLatency, Value: a.p99.Seconds(), Text: fmt.Sprintf("goroutines wait %v for a processor (99th percentile of %v)", a.p99.Round(time.Microsecond), windowOf)})
	}
}

// detectLoss looks at the events that were lost in the last window.
func (t *Target) detectLoss(now time.Time) {
	a, limits := &t.anomalies, &t.settings.Alerts
	if now.Sub(a.lostAt) < windowOf {
		return
	}
	events, lost := t.sums.counts()
	newEvents, newLost := float64(events-a.events), float64(lost-a.lost)
	a.events, a.lost, a.lostAt = events, lost, now
	part := 0.0
	if newLost > 0 {
		part = newLost / (newLost + newEvents)
	}
	if a.loss.update(limits.Lost > 0 && part > limits.Lost, now, 0) {
		t.raise(Alert{Name: AlertLoss, Value: part, Text: fmt.Sprintf("%.1f %% of the events are lost: the agent cannot keep up", 100*part)})
	}
}

// raise passes on an anomaly.
func (t *Target) raise(a Alert) {
	a.Identity, a.At = t.identity, time.Now()
	a.Recording = t.boost(a.At, a.Name)
	if t.opt.Alert != nil {
		t.alerts = append(t.alerts, a)
	}
}

// worst returns the site with the most goroutines that look leaked.
func (f *leakFinder) worst() (site string, n int) {
	if list := top(f.suspects, 1); len(list) > 0 {
		return list[0].site, list[0].n
	}
	return "", 0
}
