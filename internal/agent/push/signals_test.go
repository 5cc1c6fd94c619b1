package push

import (
	"encoding/hex"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/testcollector"
)

// contextOf returns the context of a span.
func contextOf(id byte, sampled bool) trace.SpanContext {
	c := trace.SpanContextConfig{TraceID: trace.TraceID{1, 15: id}, SpanID: trace.SpanID{2, 7: id}}
	if sampled {
		c.TraceFlags = trace.FlagsSampled
	}
	return trace.NewSpanContext(c)
}

// TestGoroutineSpans compares spans of goroutines with what a back end has received: with a parent, without one, and with one that is not
// sampled.
func TestGoroutineSpans(t *testing.T) {
	backEnds(t, func(t *testing.T, o Options, r *testcollector.Receiver) {
		p := open(t, o)
		to := target(t, p, host)
		to.Describe(pod) // the pod is known later than the process
		attrs := []attribute.KeyValue{attribute.String("loupe.goroutine.wait.reason", "chan receive\xff"), attribute.Bool("truncated", true)}
		given := map[string]trace.SpanContext{}
		for _, s := range []GoroutineSpan{
			{Name: "chan receive", Parent: contextOf(1, true), Links: []trace.SpanContext{contextOf(3, true)}},
			{Name: "goroutine worker.run"},
			{Name: "select", Parent: contextOf(2, false)},
		} {
			s.Goroutine, s.Start, s.End, s.Attributes = 1<<40, started.UnixNano(), now.UnixNano(), attrs
			given[s.Name] = to.Goroutine(s)
		}
		closeAll(t, p)
		checkStats(t, p, Traces, exported(3))
		got := r.Spans()
		if len(got) != 3 {
			t.Fatalf("%d spans", len(got))
		}
		for _, s := range got {
			checkResource(t, s.Resource, podResource)
			want := map[string]string{"loupe.goroutine.wait.reason": "chan receive\uFFFD", "truncated": "true", "go.goroutine.id": "1099511627776"}
			context := given[s.Name]
			if !maps.Equal(s.Attributes, want) || s.Scope != scopeName || s.Kind != "Internal" || !s.Start.Equal(started) || !s.End.Equal(now) || s.Status != "Unset" ||
				s.TraceID != context.TraceID().String() || s.ID != context.SpanID().String() || !context.IsSampled() {
				t.Errorf("%+v, context %v", s, context)
			}
			parent, links := "", ""
			switch s.Name {
			case "chan receive":
				parent, links = contextOf(1, true).SpanID().String(), contextOf(3, true).SpanID().String()
				if context.TraceID() != contextOf(1, true).TraceID() {
					t.Errorf("the trace of a parent is %v", context.TraceID())
				}
			case "select":
				links = contextOf(2, true).SpanID().String()
			}
			if s.ParentID != parent || strings.Join(s.Links, " ") != links {
				t.Errorf("%s: parent %s, links %s", s.Name, s.ParentID, s.Links)
			}
		}
		if attrs[0].Value.AsString() != "chan receive\xff" {
			t.Error("the caller's attributes were changed")
		}
	})
}

// TestNoTraces requires that nothing is sampled or counted if spans are not exported.
func TestNoTraces(t *testing.T) {
	r := testcollector.Receive(t, nil)
	p := open(t, Options{Endpoint: "http://" + r.HTTP, Signals: []Signal{Logs}})
	to := target(t, p, host)
	if c := to.Goroutine(GoroutineSpan{Name: "x"}); c.IsValid() {
		t.Error("a span has a context")
	}
	to.Profile("cpu", heapProfile())
	to.Alert(Alert{Name: "x"})
	closeAll(t, p)
	if stats := p.Stats(); len(stats) != 1 || stats[Logs].Exported != 1 || len(r.Spans()) != 0 {
		t.Errorf("%+v, %d spans", stats, len(r.Spans()))
	}
}

// TestAlerts compares alerts of two targets and of the agent with the log records that a back end has received. The attributes that the
// SDK reads from the environment of this process are those of OTEL_RESOURCE_ATTRIBUTES.
func TestAlerts(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "our-agent")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=c1")
	backEnds(t, func(t *testing.T, o Options, r *testcollector.Receiver) {
		o.Lookup = func(name string) (string, bool) {
			value, ok := map[string]string{"OTEL_SERVICE_NAME": "our-agent", "OTEL_RESOURCE_ATTRIBUTES": "k8s.cluster.name=c1"}[name]
			return value, ok
		}
		p := open(t, o)
		for _, id := range []metric.Identity{pod, host, {}} {
			target(t, p, id).Alert(Alert{
				Name: "loupe.alert.goroutine_growth", At: now.UnixNano(), Level: slog.LevelWarn, Text: "500 goroutines a minute\nforged line \xff",
				Attributes: []attribute.KeyValue{attribute.Float64("loupe.alert.value", 500.5), attribute.String("loupe.goroutine.created_by", "main.go:3")}, Span: contextOf(7, true),
			})
		}
		closeAll(t, p)
		checkStats(t, p, Logs, exported(3))
		services := map[string]bool{}
		for _, rl := range r.Logs() {
			attrs := texts(rl.GetResource().GetAttributes())
			if attrs["k8s.cluster.name"] != "c1" {
				t.Errorf("%v", attrs)
			}
			services[attrs["service.name"]] = true
			if delete(attrs, "k8s.cluster.name"); attrs["process.pid"] == "4711" {
				checkResource(t, attrs, podResource)
			}
			for _, sl := range rl.GetScopeLogs() {
				if sl.GetScope().GetName() != scopeName || sl.GetScope().GetVersion() != "v1.2.3" || len(sl.GetLogRecords()) != 1 {
					t.Errorf("%v", sl)
				}
				checkRecord(t, sl.GetLogRecords()[0])
			}
		}
		if !maps.Equal(services, map[string]bool{"checkout": true, "batch": true, "our-agent": true}) {
			t.Errorf("services %v", services)
		}
	})
}

func checkRecord(t *testing.T, r *logspb.LogRecord) {
	t.Helper()
	attrs := texts(r.GetAttributes())
	if r.GetEventName() != "loupe.alert.goroutine_growth" || r.GetTimeUnixNano() != uint64(now.UnixNano()) || r.GetObservedTimeUnixNano() == 0 ||
		r.GetSeverityNumber() != logspb.SeverityNumber_SEVERITY_NUMBER_WARN || r.GetSeverityText() != "WARN" ||
		r.GetBody().GetStringValue() != `500 goroutines a minute\x0aforged line \xff` || attrs["loupe.goroutine.created_by"] != "main.go:3" || len(attrs) != 2 ||
		hex.EncodeToString(r.GetTraceId()) != "01000000000000000000000000000007" || hex.EncodeToString(r.GetSpanId()) != "0200000000000007" || r.GetFlags() != 1 {
		t.Errorf("%v", r)
	}
	for _, kv := range r.GetAttributes() {
		if kv.GetKey() == "loupe.alert.value" && kv.GetValue().GetDoubleValue() != 500.5 {
			t.Errorf("%v", kv)
		}
	}
}

// TestProfiles compares profiles with those that a back end has received, also compressed.
func TestProfiles(t *testing.T) {
	for _, compression := range []string{"none", "gzip"} {
		backEnds(t, func(t *testing.T, o Options, r *testcollector.Receiver) {
			o.Lookup = func(name string) (string, bool) { return compression, name == "OTEL_EXPORTER_OTLP_COMPRESSION" }
			o.Headers = map[string]string{"api-key": "k"}
			o.Directory = t.TempDir()
			p := open(t, o)
			to := target(t, p, pod)
			prof := heapProfile()
			to.Profile("heap", prof)
			prof.Sample = nil // the pusher has its own
			to.Profile("cpu", heapProfile())
			closeAll(t, p)
			checkStats(t, p, Profiles, exported(2))
			got := r.Profiles()
			if len(got) != 2 {
				t.Fatalf("%d profiles", len(got))
			}
			for _, g := range got {
				checkProfiles(t, g, heapProfile(), podResource)
			}
			if list, err := filepath.Glob(filepath.Join(o.Directory, "*")); err != nil || len(list) != 0 {
				t.Errorf("files %q", list)
			}
		})
	}
}

// TestClocks gives times in disorder, before the epoch and far in the future, as after jumps of the clock.
func TestClocks(t *testing.T) {
	r := testcollector.Receive(t, nil)
	p := open(t, Options{Protocol: "grpc", Endpoint: "http://" + r.GRPC, FlushInterval: time.Millisecond})
	to := target(t, p, host)
	times := []int64{now.UnixNano(), now.UnixNano() - int64(time.Hour), -5, 1<<63 - 1, 0}
	for _, at := range times {
		to.Goroutine(GoroutineSpan{Name: "x", Start: at, End: at - 10})
		to.Alert(Alert{Name: "x", At: at})
		prof := heapProfile()
		prof.TimeNanos, prof.DurationNanos = at, -1
		to.Profile("cpu", prof)
	}
	closeAll(t, p)
	for _, s := range []Signal{Traces, Logs, Profiles} {
		checkStats(t, p, s, exported(len(times)))
	}
}
