package serve

import (
	"context"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/loupe-go/loupe/internal/agent/metric"
)

// A Source returns the current points of all targets and of the agent. What it has returned must not change later. It returns when the
// context ends at the latest, with what it has.
type Source func(ctx context.Context) []metric.Group

// CollectorOptions are the settings of a [Collector].
type CollectorOptions struct {
	Source Source

	// MinAge is how long the points of one call of Source answer further scrapes. 0 means a second.
	MinAge time.Duration
	// Timeout ends the context of a call of Source. 0 means five seconds.
	Timeout time.Duration
	// SeriesPerTarget is the maximum number of series of a target, as Prometheus counts them. 0 means 1,000.
	SeriesPerTarget int
}

// A Collector serves the points of a [Source] as metrics of Prometheus. It implements [prometheus.Collector]. Concurrent scrapes
// share one call of the source.
type Collector struct {
	opts  CollectorOptions
	descs map[*metric.Desc]*desc
	seed  maphash.Seed
	start *timestamppb.Timestamp

	mu      sync.Mutex // held during a call of Source
	at      time.Time  // when metrics were made
	metrics []prometheus.Metric
	seen    map[uint64]struct{} // hashes of the series of one scrape
	dropped [len(causes)]float64
}

// The causes for which series are dropped, as values of the label of [metric.SeriesDropped].
const (
	causeLimit = iota
	causeDuplicate
	causeInvalid
)

var causes = [...]string{causeLimit: "limit", causeDuplicate: "duplicate", causeInvalid: "invalid"}

// NewCollector returns a collector. It calls the source only when it is scraped.
func NewCollector(o CollectorOptions) *Collector {
	if o.MinAge <= 0 {
		o.MinAge = time.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if o.SeriesPerTarget <= 0 {
		o.SeriesPerTarget = 1000
	}
	c := &Collector{
		opts: o, descs: map[*metric.Desc]*desc{}, seed: maphash.MakeSeed(), start: timestamppb.Now(), seen: map[uint64]struct{}{},
	}
	for _, d := range metric.Table {
		c.descs[d] = newDesc(d)
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range metric.Table {
		ch <- c.descs[d].prom
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.current() {
		ch <- m
	}
}

// current returns the metrics of a call of the source that is recent enough, or of a new one.
func (c *Collector) current() []prometheus.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.metrics != nil && time.Since(c.at) < c.opts.MinAge {
		return c.metrics
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.opts.Timeout)
	defer cancel()
	groups := c.opts.Source(ctx)

	clear(c.seen)
	// Slices that were returned before may still be in use, so there is a new one.
	list := make([]prometheus.Metric, 0, len(c.metrics)+len(c.metrics)/8)
	for i := range groups {
		list = c.appendGroup(list, &groups[i])
	}
	for i, cause := range causes {
		d := c.descs[metric.SeriesDropped]
		list = append(list, &sample{desc: d.prom, metric: dto.Metric{
			Label: d.pairs(nil, []string{cause}), Counter: &dto.Counter{Value: new(c.dropped[i]), CreatedTimestamp: c.start},
		}})
	}
	c.metrics, c.at = list, time.Now()
	return list
}

// appendGroup appends the metrics of a group.
func (c *Collector) appendGroup(list []prometheus.Metric, g *metric.Group) []prometheus.Metric {
	own := g.Identity.PID == 0
	var target []*dto.LabelPair
	left := math.MaxInt
	if !own {
		target = pairs(metric.TargetLabels, g.Identity.Values())
		left = c.opts.SeriesPerTarget
	}
	var created *timestamppb.Timestamp
	if g.Start > 0 {
		created = timestamppb.New(time.Unix(0, g.Start))
	}
	for i := range g.Points {
		p := &g.Points[i]
		d := c.descs[p.Desc]
		if !valid(p, d, own) {
			c.dropped[causeInvalid]++
			continue
		}
		if d.series > left {
			c.dropped[causeLimit] += float64(d.series)
			continue
		}
		m := &sample{desc: d.prom, metric: dto.Metric{Label: d.pairs(target, p.Labels)}}
		if hash := c.hash(p.Desc, m.metric.Label); c.has(hash) {
			c.dropped[causeDuplicate] += float64(d.series)
			continue
		}
		left -= d.series
		m.set(p, created)
		list = append(list, m)
	}
	return list
}

// valid reports whether a point, whose Desc has become d, can be served in a group of the agent's own points or of a target's.
func valid(p *metric.Point, d *desc, own bool) bool {
	switch {
	case d == nil || p.Desc == metric.SeriesDropped || len(p.Labels) != len(p.Desc.Labels) || own != (p.Scope == metric.Agent):
		return false
	case p.Kind == metric.Histogram:
		return p.Durations != nil && p.Durations.Histogram != nil
	case p.Kind == metric.Counter:
		return p.Value >= 0 && !math.IsInf(p.Value, 0) // false for NaN
	}
	return true
}

// hash returns the hash of a series. Its seed is random, so a program cannot choose labels that collide.
func (c *Collector) hash(d *metric.Desc, labels []*dto.LabelPair) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	h.WriteString(d.Name)
	for _, l := range labels {
		h.WriteByte(0xff) // is in no value, because values are valid UTF-8
		h.WriteString(l.GetValue())
	}
	return h.Sum64()
}

// has reports whether this scrape has a series already, and adds it.
func (c *Collector) has(hash uint64) bool {
	if _, ok := c.seen[hash]; ok {
		return true
	}
	c.seen[hash] = struct{}{}
	return false
}

// A desc is a row of the table for Prometheus.
type desc struct {
	prom   *prometheus.Desc
	labels []metric.Label // own labels
	order  []int          // of all labels, those of targets first, in the order of their names
	series int            // of Prometheus, for one point
}

func newDesc(d *metric.Desc) *desc {
	var all []metric.Label
	if d.Scope == metric.Target {
		all = append(all, metric.TargetLabels...)
	}
	all = append(all, d.Labels...)
	names := make([]string, len(all))
	order := make([]int, len(all))
	for i, l := range all {
		names[i], order[i] = l.Name, i
	}
	slices.SortFunc(order, func(a, b int) int {
		if names[a] < names[b] {
			return -1
		}
		return 1
	})
	series := 1
	if d.Kind == metric.Histogram {
		series = len(bounds) + 3 // the bucket of all, the sum and the count
	}
	prom := prometheus.V2.NewDesc(d.Name, d.Help, prometheus.UnconstrainedLabels(names), nil, prometheus.WithUnit(unitOf(d)))
	return &desc{prom: prom, labels: d.Labels, order: order, series: series}
}

// unitOf returns the unit as Prometheus has it, if the name has it, too.
func unitOf(d *metric.Desc) string {
	return map[string]string{"s": "seconds", "By": "bytes", "%": "percent"}[d.Unit]
}

// pairs returns the labels of a series in the order of their names, so that the registry need not sort them at each scrape.
func (d *desc) pairs(target []*dto.LabelPair, values []string) []*dto.LabelPair {
	all := slices.Concat(target, pairs(d.labels, values))
	sorted := make([]*dto.LabelPair, len(all))
	for i, from := range d.order {
		sorted[i] = all[from]
	}
	return sorted
}

// pairs returns labels with their values, bounded and escaped.
func pairs(labels []metric.Label, values []string) []*dto.LabelPair {
	list, all := make([]*dto.LabelPair, len(labels)), make([]dto.LabelPair, len(labels))
	for i := range labels {
		all[i].Name, all[i].Value = &labels[i].Name, new(labelValue(values[i]))
		list[i] = &all[i]
	}
	return list
}

// A sample is a series, or the series of a histogram. It implements [prometheus.Metric].
type sample struct {
	desc   *prometheus.Desc
	metric dto.Metric
}

// Desc implements [prometheus.Metric].
func (s *sample) Desc() *prometheus.Desc { return s.desc }

// Write implements [prometheus.Metric].
func (s *sample) Write(m *dto.Metric) error {
	m.Label, m.Gauge, m.Counter, m.Histogram = s.metric.Label, s.metric.Gauge, s.metric.Counter, s.metric.Histogram
	return nil
}

// set sets the value. It is copied, because a pointer to it would keep the points of the group with their histograms in memory.
func (s *sample) set(p *metric.Point, created *timestamppb.Timestamp) {
	switch p.Kind {
	case metric.Gauge:
		s.metric.Gauge = &dto.Gauge{Value: new(p.Value)}
	case metric.Counter:
		s.metric.Counter = &dto.Counter{Value: new(p.Value), CreatedTimestamp: created}
	case metric.Histogram:
		s.metric.Histogram = convert(p.Durations)
		s.metric.Histogram.CreatedTimestamp = created
	}
}
