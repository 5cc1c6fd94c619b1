package control

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/export/otlp"
	"github.com/loupe-go/loupe/internal/testcollector"
)

// TestCollect has the caller export the metrics of two processes.
func TestCollect(t *testing.T) {
	r := testcollector.Receive(t, nil)
	config, _, err := otlp.Read(func(name string) (string, bool) {
		value, ok := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + r.HTTP, "OTEL_METRIC_EXPORT_INTERVAL": "1"}[name]
		return value, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	var ended []*metricdata.ResourceMetrics
	c, err := New(t.Context(), Options{Config: config, Ended: func(rm *metricdata.ResourceMetrics) { ended = append(ended, rm) }})
	if err != nil {
		t.Fatal(err)
	}
	var processes []*Process
	for _, name := range []string{"a", "b", "idle"} {
		p, err := c.Resource(t.Context(), resource.NewSchemaless(attribute.String("service.name", name)))
		if err != nil {
			t.Fatal(err)
		}
		processes = append(processes, p)
	}
	for i, p := range processes[:2] {
		for n := range i + 1 {
			p.Handle(span(byte(n+1), 0, trace.SpanKindServer, true, attribute.String("http.request.method", "GET")))
		}
	}
	check := func(what string, got *metricdata.ResourceMetrics, name string, count uint64) {
		t.Helper()
		m := got.ScopeMetrics[0].Metrics[0]
		point := m.Data.(metricdata.Histogram[float64]).DataPoints[0]
		if e := point.Exemplars; len(e) != 1 || trace.TraceID(e[0].TraceID) != (trace.TraceID{1, 15: 2}) || e[0].SpanID[0] != 3 || e[0].Value != 0.02 {
			t.Errorf("%s: exemplars %+v", what, e)
		}
		if got.Resource.String() != "service.name="+name || m.Name != "http.server.request.duration" || point.Count != count || point.Sum != float64(count)*0.02 {
			t.Errorf("%s: %v, %s of %d", what, got.Resource, m.Name, point.Count)
		}
	}
	for range 2 { // sums are cumulative
		list := c.Collect(t.Context())
		if len(list) != 2 {
			t.Fatalf("collected %d", len(list))
		}
		check("collected", list[0], "a", 1)
		check("collected", list[1], "b", 2)
	}
	processes[1].Describe(resource.NewSchemaless(attribute.String("service.name", "b2")))
	processes[1].Handle(span(9, 0, trace.SpanKindServer, true, attribute.String("http.request.method", "GET")))
	for range 2 { // closing again does nothing
		if err := processes[1].Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := processes[2].Close(t.Context()); err != nil {
		t.Error(err)
	}
	if list := c.Collect(t.Context()); len(list) != 1 || len(ended) != 1 {
		t.Errorf("after closing: %d and %d", len(list), len(ended))
	} else {
		check("open", list[0], "a", 1)
		check("ended", ended[0], "b2", 3)
	}
	if err := closeIn(t, c, time.Minute); err != nil {
		t.Error(err)
	}
	if n := len(r.Metrics()); n != 0 || len(r.Spans()) != 4 {
		t.Errorf("received %d metrics and %d spans", n, len(r.Spans()))
	}
}
