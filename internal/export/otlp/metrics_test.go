package otlp

import (
	"bytes"
	"context"
	"math"
	"slices"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/loupe-go/loupe/internal/testcollector"
)

// The names and boundaries of the semantic conventions.
var conventions = map[Operation]struct {
	name    string
	buckets []float64
}{
	HTTPServer:       {"http.server.request.duration", buckets},
	HTTPClient:       {"http.client.request.duration", buckets},
	RPCServer:        {"rpc.server.call.duration", buckets},
	RPCClient:        {"rpc.client.call.duration", buckets},
	DBClient:         {"db.client.operation.duration", dbBuckets},
	MessagingClient:  {"messaging.client.operation.duration", buckets},
	MessagingProcess: {"messaging.process.duration", buckets},
	Function:         {"loupe.go.function.duration", functionBuckets},
}

// record records each operation in several goroutines: its number plus 1, times each goroutine.
func record(t *testing.T, provider *sdkmetric.MeterProvider, goroutines int) {
	t.Helper()
	d, err := NewDurations(provider, "0.9")
	if err != nil {
		t.Fatal(err)
	}
	attrs := attribute.NewSet(attribute.String("error.type", "500"))
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for op := range operations {
				for range op + 1 {
					d.Record(context.Background(), op, 0.02, attrs)
				}
			}
		})
	}
	all.Wait()
}

func TestDurations(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "foreign=1")
	const goroutines = 8
	for protocol, endpoint := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := testcollector.Receive(t, nil)
			c := read(t, env{"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint("http", r), "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b"})
			provider, err := c.MeterProvider(context.Background(), c.Resource(Process{Name: "shop"}), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			record(t, provider, goroutines)
			if err := provider.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			received := r.Metrics()
			if len(received) != 1 {
				t.Fatalf("%d exports", len(received))
			}
			checkHeader(t, r.Headers()[0], "")
			for _, a := range received[0].GetResource().GetAttributes() {
				if a.GetKey() == "foreign" {
					t.Error("an attribute of this process")
				}
			}
			checkDurations(t, metricsOf(received), goroutines)
		})
	}
}

// metricsOf returns the metrics of requests by name.
func metricsOf(list []*metricspb.ResourceMetrics) map[string]*metricspb.Metric {
	metrics := map[string]*metricspb.Metric{}
	for _, rm := range list {
		for _, sm := range rm.GetScopeMetrics() {
			for _, m := range sm.GetMetrics() {
				metrics[m.GetName()] = m
			}
		}
	}
	return metrics
}

func checkDurations(t *testing.T, metrics map[string]*metricspb.Metric, goroutines int) {
	t.Helper()
	for op, want := range conventions {
		h := metrics[want.name].GetHistogram()
		if len(h.GetDataPoints()) != 1 {
			t.Errorf("%s: %v", want.name, metrics[want.name])
			continue
		}
		p := h.GetDataPoints()[0]
		n := goroutines * (int(op) + 1)
		if p.GetCount() != uint64(n) || math.Abs(p.GetSum()-0.02*float64(n)) > 1e-9 || !slices.Equal(p.GetExplicitBounds(), want.buckets) ||
			metrics[want.name].GetUnit() != "s" || h.GetAggregationTemporality() != metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE ||
			p.GetAttributes()[0].GetKey() != "error.type" {
			t.Errorf("%s: %v", want.name, metrics[want.name])
		}
	}
}

// TestMetricPreferences requests deltas and exponential histograms.
func TestMetricPreferences(t *testing.T) {
	r := testcollector.Receive(t, nil)
	c := read(t, env{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + r.HTTP, "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta",
		"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": exponential, "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_METRIC_EXPORT_INTERVAL": "5",
	})
	provider, err := c.MeterProvider(context.Background(), c.Resource(Process{}), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	record(t, provider, 1)
	until(t, "an export", func() bool { return len(r.Metrics()) > 0 })
	if err := provider.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	var count uint64
	for _, rm := range r.Metrics() {
		h := metricsOf([]*metricspb.ResourceMetrics{rm})["rpc.client.call.duration"].GetExponentialHistogram()
		if h != nil && h.GetAggregationTemporality() != metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA {
			t.Errorf("not a delta: %v", h)
		}
		for _, p := range h.GetDataPoints() {
			count += p.GetCount()
		}
	}
	if count != uint64(RPCClient)+1 {
		t.Errorf("%d values", count)
	}
}

// TestMetricsDown requires one message about a back end that is down, and one when it is up again.
func TestMetricsDown(t *testing.T) {
	r := testcollector.Receive(t, nil)
	r.Stop()
	var log logBook
	c := read(t, env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + r.HTTP})
	c.Retry = impatient
	provider, err := c.MeterProvider(context.Background(), c.Resource(Process{}), nil, log.log())
	if err != nil {
		t.Fatal(err)
	}
	record(t, provider, 1)
	for range 3 {
		if err := provider.ForceFlush(context.Background()); err != nil {
			t.Error(err)
		}
	}
	r.Start()
	until(t, "an export", func() bool {
		_ = provider.ForceFlush(context.Background())
		return len(r.Metrics()) > 0
	})
	if log.count("cannot export metrics") != 1 || log.count("exporting metrics again") != 1 {
		t.Error(log.text.String())
	}
	checkDurations(t, metricsOf(r.Metrics()), 1)
	if err := provider.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestMetricsConsole(t *testing.T) {
	var console bytes.Buffer
	c := read(t, env{"OTEL_METRICS_EXPORTER": "console"})
	provider, err := c.MeterProvider(context.Background(), c.Resource(Process{}), &console, nil)
	if err != nil {
		t.Fatal(err)
	}
	record(t, provider, 1)
	if err := provider.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if !bytes.Contains(console.Bytes(), []byte("http.server.request.duration")) || bytes.Count(console.Bytes(), []byte("\n")) != 1 {
		t.Errorf("%s", console.Bytes())
	}
}

// TestNoMetrics records without an exporter.
func TestNoMetrics(t *testing.T) {
	c := read(t, env{"OTEL_METRICS_EXPORTER": "none"})
	provider, err := c.MeterProvider(context.Background(), c.Resource(Process{}), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	record(t, provider, 1)
	if err := provider.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestMetricFiles requires an error about a file.
func TestMetricFiles(t *testing.T) {
	c := read(t, env{"OTEL_EXPORTER_OTLP_CERTIFICATE": "absent.pem", "OTEL_EXPORTER_OTLP_ENDPOINT": "https://localhost:1"})
	if _, err := c.MeterProvider(context.Background(), c.Resource(Process{}), nil, nil); err == nil {
		t.Error("no error")
	}
}
