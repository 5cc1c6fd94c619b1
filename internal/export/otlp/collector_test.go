package otlp

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcollector"
)

// TestCollector exports to the OpenTelemetry Collector by both protocols.
func TestCollector(t *testing.T) {
	collector := testcollector.Start(t)
	const spans = 2000
	received := 0
	for protocol, addr := range map[string]string{protocolHTTP: collector.HTTP, protocolGRPC: collector.GRPC} {
		e := env{"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + addr, "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}
		c := read(t, e)
		q := queueFor(t, e, patient, QueueOptions{Delay: time.Hour})
		q.Add(fullSpan(c))
		for n := range spans {
			q.Add(span(n))
		}
		closeQueue(t, q)
		if got, want := q.Stats(), (Stats{Exported: spans + 1}); got != want {
			t.Errorf("%s: %+v, want %+v", protocol, got, want)
		}
		list := testcollector.WaitFor(t, received+spans+1, collector.Spans)[received:]
		received += len(list)
		seen := map[string]bool{}
		for _, s := range list {
			if seen[s.Name] = true; s.Name == "GET /cart" {
				checkFullSpan(t, s)
			}
		}
		if len(list) != spans+1 || len(seen) != spans+1 || !seen["GET /cart"] {
			t.Errorf("%s: received %d spans with %d names", protocol, len(list), len(seen))
		}
		provider, err := c.MeterProvider(context.Background(), c.Resource(Process{Name: "shop"}), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		record(t, provider, 1)
		if err := provider.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}
	for _, want := range conventions {
		until(t, want.name, func() bool { return strings.Count(collector.Output(), "-> Name: "+want.name+"\n") == 2 })
	}
}
