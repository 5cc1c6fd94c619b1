package serve

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/agent/metric/metrictest"
)

// BenchmarkScrape scrapes the metrics of 50 programs. "cold" converts points each time, as at the first scrape of an interval; "warm"
// answers with what was converted, as for a second Prometheus.
func BenchmarkScrape(b *testing.B) {
	fleet := metrictest.Fleet{Targets: 50}
	groups := fleet.Groups(time.Now())
	for _, format := range []struct{ name, accept string }{{"text", acceptText}, {"OpenMetrics", acceptOpenMetrics}, {"protobuf", acceptProto}} {
		for name, age := range map[string]time.Duration{"cold": time.Nanosecond, "warm": time.Hour} {
			b.Run(format.name+"/"+name, func(b *testing.B) {
				c := NewCollector(CollectorOptions{Source: constant(groups...), MinAge: age})
				h, err := metricsHandler(&Options{Collector: c}, discard)
				if err != nil {
					b.Fatal(err)
				}
				r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
				r.Header.Set("Accept", format.accept)
				r.Header.Set("Accept-Encoding", "gzip")
				b.ReportAllocs()
				size := 0
				for b.Loop() {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					size = w.Body.Len()
				}
				b.ReportMetric(float64(size), "response-bytes")
				b.ReportMetric(float64(len(c.metrics)), "points")
			})
		}
	}
}
