package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/agent/metric/metrictest"
	"github.com/loupe-go/loupe/sched"
)

// Formats that Prometheus can ask for.
const (
	acceptText        = "text/plain;version=0.0.4"
	acceptOpenMetrics = "application/openmetrics-text;version=1.0.0"
	acceptProto       = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
)

// constant is a source that always returns the same groups.
func constant(groups ...metric.Group) Source {
	return func(context.Context) []metric.Group { return groups }
}

// scrape returns what the handler of metrics answers.
func scrape(t testing.TB, c *Collector, accept string) (body []byte, contentType string) {
	t.Helper()
	h, err := metricsHandler(&Options{Collector: c}, discard)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.Bytes(), w.Header().Get("Content-Type")
}

// parse parses the text or protobuf format.
func parse(t testing.TB, body []byte, contentType string) map[string]*dto.MetricFamily {
	t.Helper()
	format := expfmt.ResponseFormat(http.Header{"Content-Type": {contentType}})
	all := map[string]*dto.MetricFamily{}
	for dec := expfmt.NewDecoder(bytes.NewReader(body), format); ; {
		f := new(dto.MetricFamily)
		err := dec.Decode(f)
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("the %s answer is invalid: %v", contentType, err)
		}
		all[f.GetName()] = f
	}
}

// families scrapes in the protobuf format, which has everything.
func families(t testing.TB, c *Collector) map[string]*dto.MetricFamily {
	t.Helper()
	body, contentType := scrape(t, c, acceptProto)
	if !strings.Contains(contentType, "protobuf") {
		t.Fatal(contentType)
	}
	return parse(t, body, contentType)
}

// dropped returns the values of the metric of series that were omitted, by cause.
func dropped(all map[string]*dto.MetricFamily) map[string]float64 {
	counts := map[string]float64{}
	for _, m := range all[metric.SeriesDropped.Name].GetMetric() {
		if v := m.Counter.GetValue(); v != 0 {
			counts[m.Label[0].GetValue()] = v
		}
	}
	return counts
}

// TestServed compares names, types, help, units and labels of what is served with the table, and nothing else is served besides the
// agent's own metrics.
func TestServed(t *testing.T) {
	fleet := metrictest.Fleet{Targets: 2}
	c := NewCollector(CollectorOptions{Source: constant(fleet.Groups(time.Now())...)})
	all := families(t, c)
	types := map[metric.Kind]dto.MetricType{
		metric.Gauge: dto.MetricType_GAUGE, metric.Counter: dto.MetricType_COUNTER, metric.Histogram: dto.MetricType_HISTOGRAM,
	}
	for _, d := range metric.Table {
		f := all[d.Name]
		if f == nil {
			t.Errorf("%s is not served", d.Name)
			continue
		}
		if f.GetType() != types[d.Kind] || f.GetHelp() != d.Help {
			t.Errorf("%s: %s, %q", d.Name, f.GetType(), f.GetHelp())
		}
		if u := f.GetUnit(); u != "" && !strings.HasSuffix(strings.TrimSuffix(d.Name, "_total"), "_"+u) {
			t.Errorf("%s has unit %s", d.Name, u)
		}
		var want []string
		if d.Scope == metric.Target {
			for _, l := range metric.TargetLabels {
				want = append(want, l.Name)
			}
		}
		for _, l := range d.Labels {
			want = append(want, l.Name)
		}
		slices.Sort(want)
		for _, m := range f.Metric {
			var have []string
			for _, l := range m.Label {
				have = append(have, l.GetName())
			}
			if !slices.Equal(have, want) {
				t.Errorf("%s has labels %q, want %q", d.Name, have, want)
			}
			if d.Kind == metric.Counter && m.Counter.CreatedTimestamp == nil || d.Kind == metric.Histogram && m.Histogram.CreatedTimestamp == nil {
				t.Errorf("%s has no start time", d.Name)
			}
		}
		delete(all, d.Name)
	}
	for name := range all {
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") && !strings.HasPrefix(name, "promhttp_") {
			t.Errorf("%s is not in the table", name)
		}
	}
	for _, name := range []string{"go_goroutines", "process_resident_memory_bytes", "go_info", "promhttp_metric_handler_errors_total"} {
		if all[name] == nil {
			t.Errorf("the agent's own metric %s is not served", name)
		}
	}
	if n := dropped(families(t, c)); len(n) != 0 {
		t.Errorf("dropped %v", n)
	}
}

// TestPrometheusGuide checks names against the rules of Prometheus' linter.
func TestPrometheusGuide(t *testing.T) {
	fleet := metrictest.Fleet{Targets: 1}
	problems, err := testutil.CollectAndLint(NewCollector(CollectorOptions{Source: constant(fleet.Groups(time.Now())...)}))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		// OpenTelemetry's conventions define this name.
		if p.Metric == metric.Goroutines.Name && strings.Contains(p.Text, "_count") {
			continue
		}
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestPedantic collects with a registry that checks that metrics are consistent with their descriptions.
func TestPedantic(t *testing.T) {
	fleet := metrictest.Fleet{Targets: 2}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(NewCollector(CollectorOptions{Source: constant(fleet.Groups(time.Now())...)}))
	if _, err := r.Gather(); err != nil {
		t.Error(err)
	}
}

// hostile returns text that a program could choose to break what is served.
func hostile(rng *rand.Rand) string {
	parts := []string{"\n", "\r\n", "\"", "\\", "}", "{", " ", "# EOF\n", "\x00", "\xff", "\xc3", "\u2028", "\u202e", "é", "…", "世界", "\x1b[2J", "x"}
	var b strings.Builder
	for range rng.IntN(12) {
		b.WriteString(parts[rng.IntN(len(parts))])
	}
	switch rng.IntN(8) {
	case 0:
		random := make([]byte, rng.IntN(600))
		for i := range random {
			random[i] = byte(rng.Uint32())
		}
		b.Write(random)
	case 1:
		b.WriteString(strings.Repeat(b.String()+"y", 100<<10/(b.Len()+1)))
	}
	return b.String()
}

// TestHostileLabels serves labels that nobody would choose in good faith. What is served is valid in each format, and no series is
// lost without being counted.
func TestHostileLabels(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	var h sched.Histogram
	h.Add(time.Millisecond)
	var g metric.Group
	g.Identity = metric.Identity{PID: 1, Process: hostile(rng), Namespace: hostile(rng), Pod: hostile(rng), ContainerID: hostile(rng)}
	for range 300 {
		g.Points = append(g.Points, metric.Sites.Of(1, hostile(rng)), metric.Waits.Of(1, hostile(rng), hostile(rng)),
			metric.SchedulerLatency.Distribution(&h, hostile(rng)))
	}
	const limit = 100_000
	c := NewCollector(CollectorOptions{Source: constant(g), SeriesPerTarget: limit, MinAge: time.Hour})
	for _, accept := range []string{acceptText, acceptProto} {
		body, contentType := scrape(t, c, accept)
		all := parse(t, body, contentType)
		served := 0
		for _, d := range []*metric.Desc{metric.Sites, metric.Waits, metric.SchedulerLatency} {
			for _, m := range all[d.Name].GetMetric() {
				served += c.descs[d].series
				for _, l := range m.Label {
					if v := l.GetValue(); len(v) > maxLabel || !utf8.ValidString(v) || strings.ContainsAny(v, "\n\r\x00\x1b\u202e") {
						t.Errorf("%s: label %s is %q", d.Name, l.GetName(), v)
					}
				}
			}
		}
		want := 300 * (2 + c.descs[metric.SchedulerLatency].series)
		if lost := dropped(all); served+int(lost["duplicate"]) != want || len(lost) > 1 || served < want/2 {
			t.Errorf("%s: %d of %d series, dropped %v", contentType, served, want, lost)
		}
	}
	body, _ := scrape(t, c, acceptOpenMetrics)
	if n := bytes.Count(body, []byte("# EOF\n")); n != 1 || !bytes.HasSuffix(body, []byte("# EOF\n")) {
		t.Errorf("%d ends of the OpenMetrics answer", n)
	}
}

func FuzzLabelValue(f *testing.F) {
	rng := rand.New(rand.NewPCG(8, 8))
	for range 20 {
		f.Add(hostile(rng))
	}
	f.Fuzz(func(t *testing.T, s string) {
		v := labelValue(s)
		if len(v) > maxLabel || !utf8.ValidString(v) || !model.LabelValue(v).IsValid() {
			t.Errorf("%q became %q", s, v)
		}
		if labelValue(v) != v {
			t.Errorf("%q became %q, and then %q", s, v, labelValue(v))
		}
	})
}

func TestLabelValue(t *testing.T) {
	long := strings.Repeat("世", 200) + " pool.go:41"
	for in, want := range map[string]string{
		"main.(*pool).start pool.go:41": "main.(*pool).start pool.go:41",
		"a\nb\xff":                      `a\x0ab\xff`,
		"":                              "",
	} {
		if got := labelValue(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if got := labelValue(long); !strings.HasPrefix(got, "世世") || !strings.HasSuffix(got, "世 pool.go:41") || !strings.Contains(got, "…") {
		t.Errorf("%q became %q", long, got)
	}
}

// TestDropped checks that what is not served is counted, by cause, and that everything else is served.
func TestDropped(t *testing.T) {
	id := metric.Identity{PID: 5, Process: "p"}
	var h sched.Histogram
	unknown := *metric.Goroutines
	group := func(points ...metric.Point) metric.Group { return metric.Group{Identity: id, Points: points} }
	histogram := float64(len(bounds) + 3)
	var sites []metric.Point
	for i := range 13 {
		sites = append(sites, metric.Sites.Of(1, fmt.Sprint(i)))
	}
	for _, c := range []struct {
		name   string
		groups []metric.Group
		served int // points
		want   map[string]float64
	}{
		{"duplicate", []metric.Group{group(metric.Goroutines.Of(1), metric.Goroutines.Of(2))}, 1, map[string]float64{"duplicate": 1}},
		{"two groups", []metric.Group{group(metric.Goroutines.Of(1)), group(metric.Goroutines.Of(2))}, 1, map[string]float64{"duplicate": 1}},
		{"histogram twice", []metric.Group{group(metric.GCPauses.Distribution(&h), metric.GCPauses.Distribution(&h))}, 1,
			map[string]float64{"duplicate": histogram}},
		{"labels", []metric.Group{group(metric.Goroutines.Of(1, "x"), metric.Sites.Of(1))}, 0, map[string]float64{"invalid": 2}},
		{"not in the table", []metric.Group{group(unknown.Of(1), metric.Point{})}, 0, map[string]float64{"invalid": 2}},
		{"no durations", []metric.Group{group(metric.GCPauses.Of(1), metric.Point{Desc: metric.GCPauses, Durations: new(metric.Durations)})}, 0,
			map[string]float64{"invalid": 2}},
		{"counter", []metric.Group{group(metric.Created.Of(math.NaN()), metric.Ended.Of(-1))}, 0, map[string]float64{"invalid": 2}},
		{"scope", []metric.Group{group(metric.EventsLost.Of(1)), {Points: []metric.Point{metric.Goroutines.Of(1)}}}, 0,
			map[string]float64{"invalid": 2}},
		{"its own", []metric.Group{{Points: []metric.Point{metric.SeriesDropped.Of(9, "limit")}}}, 0, map[string]float64{"invalid": 1}},
		{"limit", []metric.Group{group(metric.Goroutines.Of(1), metric.GCPauses.Distribution(&h), metric.GCPauses.Distribution(&h), metric.Created.Of(1)),
			{Points: []metric.Point{metric.EventsLost.Of(1)}}}, 3, map[string]float64{"limit": 2 * histogram}},
		{"limit of gauges", []metric.Group{group(sites...), {Identity: metric.Identity{PID: 6}, Points: sites[:10]}}, 20,
			map[string]float64{"limit": 3}},
	} {
		collector := NewCollector(CollectorOptions{Source: constant(c.groups...), SeriesPerTarget: 10, MinAge: time.Hour})
		if c.name == "histogram twice" {
			collector.opts.SeriesPerTarget = 100
		}
		all := families(t, collector)
		served := 0
		for _, d := range metric.Table {
			if d != metric.SeriesDropped {
				served += len(all[d.Name].GetMetric())
			}
		}
		if got := dropped(all); served != c.served || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: served %d points, dropped %v; want %d and %v", c.name, served, got, c.served, c.want)
		}
	}
}

// TestDroppedGrows checks that the count of dropped series is a counter.
func TestDroppedGrows(t *testing.T) {
	g := metric.Group{Identity: metric.Identity{PID: 5}, Points: []metric.Point{metric.Goroutines.Of(1), metric.Goroutines.Of(2)}}
	c := NewCollector(CollectorOptions{Source: constant(g), MinAge: time.Nanosecond})
	for i := range 3 {
		if got := dropped(families(t, c))["duplicate"]; got != float64(i+1) {
			t.Errorf("dropped %v after %d scrapes", got, i+1)
		}
	}
}

// TestCreatedSamples checks that start times are series of their own only if that is configured.
func TestCreatedSamples(t *testing.T) {
	g := metric.Group{Identity: metric.Identity{PID: 5}, Start: 1_800_000_000e9, Points: []metric.Point{metric.Created.Of(1)}}
	for _, on := range []bool{false, true} {
		h, err := metricsHandler(&Options{Collector: NewCollector(CollectorOptions{Source: constant(g)}), CreatedSamples: on}, discard)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept", acceptOpenMetrics)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		const created = `loupe_goroutines_created_created{container="",namespace="",pid="5",pod="",process=""} 1.8e+09`
		if strings.Contains(w.Body.String(), created) != on {
			t.Errorf("configured %v:\n%s", on, w.Body)
		}
	}
}

// TestMinAge checks that scrapes at the same time share a call of the source, and that the answer is not too old.
func TestMinAge(t *testing.T) {
	var calls, current, most atomic.Int64
	source := func(ctx context.Context) []metric.Group {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the context has no deadline")
		}
		most.Store(max(most.Load(), current.Add(1)))
		defer current.Add(-1)
		g := metric.Group{Identity: metric.Identity{PID: 1}, Points: []metric.Point{metric.Goroutines.Of(float64(calls.Add(1)))}}
		return []metric.Group{g}
	}
	c := NewCollector(CollectorOptions{Source: source, MinAge: time.Hour})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { families(t, c) })
	}
	wg.Wait()
	if calls.Load() != 1 {
		t.Errorf("%d calls for 8 scrapes", calls.Load())
	}
	c = NewCollector(CollectorOptions{Source: source, MinAge: time.Nanosecond})
	for range 8 {
		wg.Go(func() { families(t, c) })
	}
	wg.Wait()
	if calls.Load() < 2 || most.Load() != 1 {
		t.Errorf("%d calls, at most %d at a time", calls.Load(), most.Load())
	}
	want := float64(calls.Load() + 1)
	if got := families(t, c)[metric.Goroutines.Name].Metric[0].Gauge.GetValue(); got != want {
		t.Errorf("the value is of call %v, want %v", got, want)
	}
}
