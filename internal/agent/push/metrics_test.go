package push

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/testcollector"
	"github.com/loupe-go/loupe/spans"
)

// texts returns attributes as text.
func texts(list []*commonpb.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range list {
		switch v := kv.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			m[kv.GetKey()] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			m[kv.GetKey()] = fmt.Sprint(v.IntValue)
		default:
			m[kv.GetKey()] = kv.GetValue().String()
		}
	}
	return m
}

// key returns a text for attributes.
func key(attrs map[string]string) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(attrs)) {
		list = append(list, k+"="+attrs[k])
	}
	return strings.Join(list, ",")
}

// numbers returns the points of sums and gauges as text: kind, value and times.
func numbers(list []*metricspb.ResourceMetrics) map[string]string {
	out := map[string]string{}
	for _, rm := range list {
		resource := texts(rm.GetResource().GetAttributes())["service.instance.id"]
		for _, sm := range rm.GetScopeMetrics() {
			for _, m := range sm.GetMetrics() {
				kind, points := "gauge", m.GetGauge().GetDataPoints()
				if s := m.GetSum(); s != nil {
					kind, points = fmt.Sprint("sum ", s.GetIsMonotonic(), " ", s.GetAggregationTemporality()), s.GetDataPoints()
				}
				for _, p := range points {
					name := strings.Join([]string{resource, sm.GetScope().GetName(), sm.GetScope().GetVersion(), m.GetName(), m.GetUnit(), key(texts(p.GetAttributes()))}, "|")
					out[name] = fmt.Sprintf("%s %v %d %d", kind, p.GetAsDouble(), p.GetStartTimeUnixNano(), p.GetTimeUnixNano())
				}
			}
		}
	}
	return out
}

const scopeText = "|github.com/loupe-go/loupe/agent|v1.2.3|"

// wantNumbers is what numbers returns for groupOf of a target.
func wantNumbers(instance string) map[string]string {
	const monotonic, upDown = "sum true AGGREGATION_TEMPORALITY_CUMULATIVE", "sum false AGGREGATION_TEMPORALITY_CUMULATIVE"
	times := fmt.Sprintf(" %d %d", started.UnixNano(), now.UnixNano())
	prefix := instance + scopeText
	return map[string]string{
		prefix + "go.goroutine.count|{goroutine}|": upDown + " 42" + times,
		prefix + "loupe.goroutines|{goroutine}|loupe.goroutine.state=waiting,loupe.goroutine.wait.reason=chan receive":                                                                                   upDown + " 40" + times,
		prefix + "loupe.goroutines|{goroutine}|loupe.goroutine.state=running":                                                                                                                            upDown + " 2" + times,
		prefix + "loupe.goroutine.waits|{wait}|loupe.goroutine.wait.class=channel,loupe.goroutine.wait.reason=chan receive":                                                                              monotonic + " 1.000000000000001e+15" + times,
		prefix + "loupe.goroutine.wait|s|loupe.goroutine.wait.class=channel,loupe.goroutine.wait.reason=chan receive":                                                                                    monotonic + " 0.25" + times,
		prefix + "loupe.goroutine.oldest_wait|s|loupe.goroutine.wait.class=io":                                                                                                                           "gauge 3600.5" + times,
		prefix + "loupe.goroutines_by_site|{goroutine}|loupe.goroutine.created_by=main.serve /src/\"x\".go:3\n{} \uFFFD":                                                                                 upDown + " 7" + times,
		prefix + "loupe.target.info|{target}|k8s.node.name=node-1,loupe.workload.kind=Deployment,loupe.workload.name=shop,process.runtime.version=go1.27.1,service.name=checkout,service.version=v0.9.0": "gauge 1" + times,
	}
}

func histogramsOf(list []*metricspb.ResourceMetrics, name string) (points []*metricspb.ExponentialHistogramDataPoint) {
	for _, rm := range list {
		for _, sm := range rm.GetScopeMetrics() {
			for _, m := range sm.GetMetrics() {
				if m.GetName() == name {
					points = append(points, m.GetExponentialHistogram().GetDataPoints()...)
				}
			}
		}
	}
	return points
}

// TestMetrics compares the metrics that a back end has received with those that were given: two targets, in requests of 4 points, and one
// of them once more after it has vanished.
func TestMetrics(t *testing.T) {
	backEnds(t, func(t *testing.T, o Options, r *testcollector.Receiver) {
		o.BatchSize = 4
		groups := []metric.Group{groupOf(pod), groupOf(host)}
		o.Metrics = func(context.Context) []metric.Group { return groups }
		p := open(t, o)
		vanished := groupOf(metric.Identity{PID: 99, Process: "gone"})
		target(t, p, vanished.Identity).Close(vanished)
		closeAll(t, p)
		checkStats(t, p, Metrics, exported(27))
		got := r.Metrics()
		if len(got) != 9 { // 4+4+1 points, three times
			t.Errorf("%d requests", len(got))
		}
		want := wantNumbers("prod.shop-7f-x2.main.4711")
		maps.Copy(want, wantNumbers("node-1.12"))
		maps.Copy(want, wantNumbers("node-1.99"))
		points := numbers(got)
		for name, value := range want {
			if points[name] != value {
				t.Errorf("%s: %q, want %q", name, points[name], value)
			}
		}
		if len(points) != len(want) {
			t.Errorf("%d points, want %d", len(points), len(want))
		}
		for _, rm := range got {
			switch attrs := texts(rm.GetResource().GetAttributes()); attrs["process.pid"] {
			case "4711":
				checkResource(t, attrs, podResource)
			case "12":
				checkResource(t, attrs, hostResource)
			}
		}
		histograms := histogramsOf(got, "loupe.scheduler.latency")
		if len(histograms) != 3 {
			t.Fatalf("%d histograms", len(histograms))
		}
		checkHistogram(t, histograms[0])
	})
}

// checkHistogram checks the histogram of groupOf.
func checkHistogram(t *testing.T, h *metricspb.ExponentialHistogramDataPoint) {
	t.Helper()
	if key(texts(h.GetAttributes())) != "loupe.scheduler.after=woken" || h.GetCount() != 5 || h.GetZeroCount() != 1 || h.GetMax() != 3 || h.GetSum() != 3.001001005 ||
		h.GetStartTimeUnixNano() != uint64(started.UnixNano()) || h.GetTimeUnixNano() != uint64(now.UnixNano()) {
		t.Errorf("%v", h)
	}
	sum := uint64(0)
	for _, n := range h.GetPositive().GetBucketCounts() {
		sum += n
	}
	if sum != 4 {
		t.Errorf("%d values in buckets", sum)
	}
	if e := h.GetExemplars(); len(e) != 1 || e[0].GetAsDouble() != 0.001 || e[0].GetTimeUnixNano() != uint64(now.UnixNano()-3) ||
		hex.EncodeToString(e[0].GetTraceId()) != "01000000000000000000000000000002" || hex.EncodeToString(e[0].GetSpanId()) != "0300000000000004" {
		t.Errorf("exemplars %v", e)
	}
}

// TestInterval requires that metrics are exported at the interval, and that the source is asked each time.
func TestInterval(t *testing.T) {
	r := testcollector.Receive(t, nil)
	calls := 0
	p := open(t, Options{Endpoint: "http://" + r.HTTP, FlushInterval: time.Millisecond, Metrics: func(context.Context) []metric.Group {
		calls++
		return []metric.Group{{Identity: host, Points: []metric.Point{metric.Goroutines.Of(float64(calls))}}}
	}})
	until(t, "three exports", func() bool { return len(r.Metrics()) >= 3 })
	closeAll(t, p)
	checkStats(t, p, Metrics, exported(calls))
	got := r.Metrics()
	for i, rm := range got {
		if v := rm.GetScopeMetrics()[0].GetMetrics()[0].GetSum().GetDataPoints()[0].GetAsDouble(); v != float64(i+1) {
			t.Errorf("export %d has the value %v", i, v)
		}
	}
	if len(got) != calls {
		t.Errorf("%d exports after %d calls", len(got), calls)
	}
}

// TestRequestDurations requires that the durations of requests are exported with the metrics of targets, over the same connection.
func TestRequestDurations(t *testing.T) {
	r := testcollector.Receive(t, nil)
	p := open(t, Options{Protocol: "grpc", Endpoint: "http://" + r.GRPC})
	for i, id := range []metric.Identity{host, pod} {
		to := target(t, p, host)
		to.Describe(id)
		s := &spans.Span{Library: "net/http", Kind: trace.SpanKindServer, Name: "GET", Start: started.UnixNano(), End: started.UnixNano() + 5e6, PID: int32(id.PID)}
		s.Context = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
		s.Set(attribute.String("http.request.method", "GET\xff")) // the program is hostile
		if !to.Sample(s) {
			t.Error("the span is not sampled")
		}
		to.Handle(s)
		if i == 0 {
			to.Close(metric.Group{})
		}
	}
	closeAll(t, p)
	checkStats(t, p, Metrics, exported(2))
	checkStats(t, p, Traces, exported(2))
	for i, want := range []map[string]string{hostResource, podResource} {
		checkResource(t, texts(r.Metrics()[i].GetResource().GetAttributes()), want)
		if s := r.Spans()[0]; s.Resource["process.pid"] == want["process.pid"] {
			checkResource(t, s.Resource, want)
		} else {
			checkResource(t, r.Spans()[1].Resource, want)
		}
		if m := r.Metrics()[i].GetScopeMetrics()[0].GetMetrics()[0]; m.GetName() != "http.server.request.duration" || m.GetHistogram().GetDataPoints()[0].GetSum() != 0.005 {
			t.Errorf("%v", m)
		}
	}
}

// TestPartial requires that data points which the back end rejects count as failed.
func TestPartial(t *testing.T) {
	for protocol, endpoint := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := testcollector.Receive(t, nil)
			r.Respond(func(testcollector.Signal) (int64, error) { return 2, nil })
			p := open(t, Options{Protocol: protocol, Endpoint: "http://" + endpoint(r.HTTP, r.GRPC), Metrics: func(context.Context) []metric.Group {
				return []metric.Group{groupOf(host)}
			}})
			to := target(t, p, host)
			for range 5 {
				to.Alert(Alert{Name: "x"})
			}
			closeQuietly(p)
			for s, want := range map[Signal]uint64{Metrics: 9, Logs: 5} {
				if got := p.Stats()[s]; got.Exported != want-2 || got.Failed != 2 || got.Err == "" {
					t.Errorf("%s: %+v", s, got)
				}
			}
		})
	}
}

// closeQuietly closes a pusher that cannot export everything.
func closeQuietly(p *Pusher) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = p.Close(ctx)
}
