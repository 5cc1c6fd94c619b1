package push

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/testcollector"
)

// fleet returns the groups of 50 targets with 80 points each, 3 of which are histograms.
func fleet() []metric.Group {
	latencies := durations()
	for i := range 1000 {
		latencies.Add(time.Duration(i*i) * time.Microsecond)
	}
	var groups []metric.Group
	for n := range 50 {
		g := metric.Group{Identity: pod, Start: started.UnixNano(), At: now.UnixNano()}
		g.Identity.PID = n + 1
		for i := range 77 {
			g.Points = append(g.Points, metric.Sites.Of(float64(i), "github.com/example/shop/internal/worker.(*Pool).run pool.go:"+string(rune('0'+i))))
		}
		for _, after := range []string{"created", "woken", "syscall"} {
			g.Points = append(g.Points, metric.SchedulerLatency.Distribution(latencies, after))
		}
		groups = append(groups, g)
	}
	return groups
}

// BenchmarkMetrics exports 50 targets with 80 points each to a back end in the same process, whose cost is included.
func BenchmarkMetrics(b *testing.B) {
	for protocol, endpoint := range protocols {
		b.Run(protocol, func(b *testing.B) {
			r := testcollector.Receive(b, nil)
			groups := fleet()
			p := open(b, Options{Protocol: protocol, Endpoint: "http://" + endpoint(r.HTTP, r.GRPC), Metrics: func(context.Context) []metric.Group { return groups }})
			b.ReportAllocs()
			for b.Loop() {
				p.metrics.round()
			}
			b.StopTimer()
			b.ReportMetric(float64(p.Stats()[Metrics].Exported)/b.Elapsed().Seconds(), "points/s")
			closeAll(b, p)
		})
	}
}

// BenchmarkConvert converts the metrics of 50 targets with 80 points each, without sending them.
func BenchmarkConvert(b *testing.B) {
	r := testcollector.Receive(b, nil)
	groups := fleet()
	p := open(b, Options{Endpoint: "http://" + r.HTTP})
	b.ReportAllocs()
	for b.Loop() {
		p.requestsOf(groups)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4000, "ns/point")
}

// BenchmarkSpans exports spans of goroutines to a back end in the same process, whose cost is included.
func BenchmarkSpans(b *testing.B) {
	r := testcollector.Receive(b, nil)
	p := open(b, Options{Protocol: "grpc", Endpoint: "http://" + r.GRPC})
	to := target(b, p, pod)
	s := GoroutineSpan{Goroutine: 17, Name: "chan receive", Start: started.UnixNano(), End: now.UnixNano(), Attributes: []attribute.KeyValue{
		attribute.String("loupe.goroutine.wait.reason", "chan receive"), attribute.String("loupe.goroutine.created_by", "main.main main.go:12"),
	}}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		to.Goroutine(s)
		if n++; n%(maxSpans/2) == 0 { // the queue does not drop
			_ = p.controller.Flush(context.Background())
		}
	}
	_ = p.controller.Flush(context.Background())
	b.StopTimer()
	if dropped := p.Stats()[Traces].Dropped; dropped > 0 {
		b.Errorf("%d spans dropped", dropped)
	}
	b.ReportMetric(float64(p.Stats()[Traces].Exported)/b.Elapsed().Seconds(), "spans/s")
	closeAll(b, p)
}

// BenchmarkProfiles converts profiles.
func BenchmarkProfiles(b *testing.B) {
	p := heapProfile()
	for i := range 5000 {
		p.Sample = append(p.Sample, p.Sample[i%3])
	}
	res := resource.Empty()
	b.ReportAllocs()
	for b.Loop() {
		otlpProfiles(p, res, newScope(""))
	}
}
