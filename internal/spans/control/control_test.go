package control

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/loupe-go/loupe/internal/export/otlp"
	_ "github.com/loupe-go/loupe/internal/testcmd" // the environment of tests
	"github.com/loupe-go/loupe/internal/testcollector"
	"github.com/loupe-go/loupe/spans"
)

// about is the process of the tests.
var about = otlp.Process{PID: 42, Name: "orders", Path: "/srv/orders", GoVersion: "go1.27.1", Host: "host"}

// newController returns a controller that is configured by variables.
func newController(t *testing.T, env map[string]string) *Controller {
	t.Helper()
	config, warnings, err := otlp.Read(func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, %q", err, warnings)
	}
	c, err := New(t.Context(), Options{Config: config, Console: io.Discard, Version: "v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newProcess(t *testing.T, c *Controller) *Process {
	t.Helper()
	p, err := c.Process(t.Context(), about)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func closeIn(t *testing.T, c *Controller, d time.Duration) error {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	return c.Close(ctx)
}

// began is when the spans of the tests begin.
var began = time.Date(2026, 3, 1, 14, 3, 22, 123456789, time.UTC)

// span returns a span of 20 ms. Its parent is another span of the trace, or 0.
func span(id, parent byte, kind trace.SpanKind, sampled bool, list ...attribute.KeyValue) *spans.Span {
	context := func(id byte) trace.SpanContext {
		c := trace.SpanContextConfig{TraceID: trace.TraceID{1, 15: 2}, SpanID: trace.SpanID{3, 7: id}}
		if sampled {
			c.TraceFlags = trace.FlagsSampled
		}
		return trace.NewSpanContext(c)
	}
	s := &spans.Span{Context: context(id), Library: "net/http", Kind: kind, Name: fmt.Sprint("GET ", id), Start: began.UnixNano(), End: began.Add(20 * time.Millisecond).UnixNano(), PID: 42, G: 7}
	if parent != 0 {
		s.Parent, s.Rule = context(parent), spans.RuleGoroutine
	}
	s.Set(list...)
	return s
}

// receivers are the variables for each protocol.
func receivers(r *testcollector.Receiver) map[string]map[string]string {
	return map[string]map[string]string{
		"http/protobuf": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + r.HTTP},
		"grpc":          {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + r.GRPC, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
	}
}

// TestSpan compares a span that a back end receives with the span of the session.
func TestSpan(t *testing.T) {
	r := testcollector.Receive(t, nil)
	for protocol, env := range receivers(r) {
		t.Run(protocol, func(t *testing.T) {
			before := len(r.Spans())
			c := newController(t, env)
			p := newProcess(t, c)
			s := span(4, 3, trace.SpanKindServer, true, attribute.String("http.request.method", "GET"), attribute.Int("http.response.status_code", 503))
			state, err := trace.ParseTraceState("rojo=1,congo=2")
			if err != nil {
				t.Fatal(err)
			}
			s.Context = s.Context.WithTraceState(state)
			s.Fail("503 from here")
			s.Links = []trace.SpanContext{span(5, 0, trace.SpanKindProducer, true).Context}
			s.Events = []spans.Event{{Name: "retry", Time: s.Start + 1, Attributes: []attribute.KeyValue{attribute.Int("attempt", 2)}}}
			s.Work = &spans.Work{Own: spans.Times{spans.Running: time.Millisecond, spans.Chan: 19 * time.Millisecond}, Started: spans.Times{spans.Network: 5 * time.Millisecond}, Created: 2,
				Holder: spans.Holder{Wait: 3 * time.Millisecond, G: 9, Func: "main.free"}}
			p.Handle(s)
			if err := closeIn(t, c, time.Minute); err != nil {
				t.Fatal(err)
			}
			got := r.Spans()[before:]
			if len(got) != 1 {
				t.Fatalf("%d spans", len(got))
			}
			check(t, got[0])
			if stats := c.Stats(); stats.Exported != 1 || stats.Added() != 1 {
				t.Errorf("%+v", stats)
			}
		})
	}
}

func check(t *testing.T, got testcollector.Span) {
	t.Helper()
	if got.TraceID != "01000000000000000000000000000002" || got.ID != "0300000000000004" || got.ParentID != "0300000000000003" || got.Name != "GET 4" || got.Kind != "Server" || got.State != "rojo=1,congo=2" ||
		!got.Start.Equal(began) || got.End.Sub(got.Start) != 20*time.Millisecond || got.Status != "Error" || got.Message != "503 from here" ||
		got.Scope != "github.com/loupe-go/loupe/spans/net/http" || len(got.Events) != 1 || got.Events[0] != "retry" || len(got.Links) != 1 || got.Links[0] != "0300000000000005" {
		t.Errorf("%+v", got)
	}
	want := map[string]string{"http.request.method": "GET", "http.response.status_code": "503", "loupe.go.running": "0.001", "loupe.go.blocked.chan": "0.019",
		"loupe.go.goroutines.started": "2", "loupe.go.goroutines.running": "0", "loupe.go.goroutines.blocked.network": "0.005", "loupe.go.lock.longest_wait": "0.003",
		"loupe.go.lock.released_by.goroutine": "9", "loupe.go.lock.released_by.function": "main.free"}
	if !maps.Equal(got.Attributes, want) {
		t.Errorf("attributes %v, want %v", got.Attributes, want)
	}
	for key, want := range map[string]string{"service.name": "orders", "process.pid": "42", "process.executable.path": "/srv/orders", "host.name": "host", "process.runtime.version": "go1.27.1"} {
		if got.Resource[key] != want {
			t.Errorf("%s of the resource is %q, want %q", key, got.Resource[key], want)
		}
	}
}

// metrics returns the points of the last export of each histogram: the count and the attributes of each, by the name of the metric.
func metrics(list []*metricspb.ResourceMetrics) map[string][]string {
	points := map[string][]string{}
	for _, rm := range list {
		for _, sm := range rm.GetScopeMetrics() {
			for _, m := range sm.GetMetrics() {
				var texts []string
				for _, p := range m.GetHistogram().GetDataPoints() {
					text := fmt.Sprintf("%d of %.3g s", p.GetCount(), p.GetSum())
					var attrs []string
					for _, kv := range p.GetAttributes() {
						value := kv.GetValue().GetStringValue()
						if n := kv.GetValue().GetIntValue(); n != 0 {
							value = fmt.Sprint(n)
						}
						attrs = append(attrs, kv.GetKey()+"="+value)
					}
					slices.Sort(attrs)
					texts = append(texts, text+" "+strings.Join(attrs, " "))
				}
				slices.Sort(texts)
				points[m.GetName()] = texts
			}
		}
	}
	return points
}

// TestMetrics has spans with and without a sample: all are in the metrics, and only those that are sampled are exported.
func TestMetrics(t *testing.T) {
	r := testcollector.Receive(t, nil)
	for protocol, env := range receivers(r) {
		t.Run(protocol, func(t *testing.T) {
			spansBefore, metricsBefore := len(r.Spans()), len(r.Metrics())
			c := newController(t, env)
			p := newProcess(t, c)
			method, port := attribute.String("http.request.method", "GET"), attribute.Int("server.port", 80)
			for i := range byte(5) {
				p.Handle(span(i+1, 0, trace.SpanKindServer, i == 0, method, attribute.String("http.route", "/items/{id}"), attribute.String("url.path", fmt.Sprint("/items/", i)), port,
					attribute.Int("http.response.status_code", 200)))
			}
			own := span(6, 0, trace.SpanKindServer, true, method, attribute.String("http.route", "/own"))
			own.Exported = true // by the program
			p.Handle(own)
			p.Handle(span(11, 0, trace.SpanKindServer, false, method, attribute.String("error.type", "503"), attribute.Int("http.response.status_code", 503)))
			p.Handle(span(12, 1, trace.SpanKindClient, true, method, port, attribute.String("url.full", "http://host/")))
			p.Handle(span(13, 1, trace.SpanKindClient, false, method, port, attribute.String("url.full", "http://host/other")))
			p.Handle(span(14, 1, trace.SpanKindClient, true)) // of an unknown kind: no metric
			if err := closeIn(t, c, time.Minute); err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, s := range r.Spans()[spansBefore:] {
				ids = append(ids, s.ID)
			}
			if want := []string{"0300000000000001", "030000000000000c", "030000000000000e"}; !slices.Equal(ids, want) {
				t.Errorf("spans %q, want %q", ids, want)
			}
			got := metrics(r.Metrics()[metricsBefore:])
			want := map[string][]string{
				"http.server.request.duration": {"1 of 0.02 s error.type=503 http.request.method=GET http.response.status_code=503",
					"1 of 0.02 s http.request.method=GET http.route=/own", "5 of 0.1 s http.request.method=GET http.response.status_code=200 http.route=/items/{id}"},
				"http.client.request.duration": {"2 of 0.04 s http.request.method=GET server.port=80"},
			}
			if !maps.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

func TestMeasured(t *testing.T) {
	for key, test := range map[string]struct {
		kind trace.SpanKind
		op   otlp.Operation
		ok   bool
	}{
		"http.request.method": {trace.SpanKindClient, otlp.HTTPClient, true},
		"rpc.system.name":     {trace.SpanKindServer, otlp.RPCServer, true},
		"db.system.name":      {trace.SpanKindClient, otlp.DBClient, true},
		"messaging.system":    {trace.SpanKindConsumer, otlp.MessagingProcess, true},
		"code.function.name":  {trace.SpanKindInternal, otlp.Function, true},
		"other":               {trace.SpanKindServer, 0, false},
	} {
		op, set, ok := measured(span(1, 0, test.kind, true, attribute.String(key, "x"), attribute.String("url.path", "/")))
		if op != test.op || ok != test.ok || ok && set.Len() != 1 {
			t.Errorf("%s: %v, %v, %v", key, op, set, ok)
		}
	}
	if op, _, ok := measured(span(1, 0, trace.SpanKindProducer, true, attribute.String("messaging.system", "kafka"))); op != otlp.MessagingClient || !ok {
		t.Errorf("%v, %v", op, ok)
	}
	received := span(1, 0, trace.SpanKindClient, true, attribute.String("messaging.system", "kafka"))
	if _, _, ok := measured(received); !ok {
		t.Error("messages that took a while to be received are not measured")
	}
	received.End = received.Start
	if op, _, ok := measured(received); ok {
		t.Errorf("a message whose receive has no duration is measured as %v", op)
	}
}

func TestSample(t *testing.T) {
	c := newController(t, map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_TRACES_SAMPLER": "parentbased_always_off"})
	p := newProcess(t, c)
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true})
	root, child := span(1, 0, trace.SpanKindServer, false), span(2, 1, trace.SpanKindServer, false)
	child.Parent = remote
	if p.Sample(root) || !p.Sample(child) {
		t.Errorf("the root is sampled: %v; the child of a sampled parent is not: %v", p.Sample(root), !p.Sample(child))
	}
	if err := closeIn(t, c, time.Minute); err != nil {
		t.Error(err)
	}
}

func TestSpanLimits(t *testing.T) {
	r := testcollector.Receive(t, nil)
	env := receivers(r)["grpc"]
	env["OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"], env["OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT"] = "2", "3"
	c := newController(t, env)
	newProcess(t, c).Handle(span(1, 0, trace.SpanKindServer, true, attribute.String("a", "12345"), attribute.Int("b", 12345), attribute.String("c", "1")))
	if err := closeIn(t, c, time.Minute); err != nil {
		t.Fatal(err)
	}
	if got, want := r.Spans()[0].Attributes, map[string]string{"a": "123", "b": "12345"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestDown has no back end: spans are counted as failed, and Close says so in time.
func TestDown(t *testing.T) {
	r := testcollector.Receive(t, nil)
	r.Stop()
	for protocol, env := range receivers(r) {
		t.Run(protocol, func(t *testing.T) {
			c := newController(t, env)
			p := newProcess(t, c)
			for i := range byte(3) {
				p.Handle(span(i+1, 0, trace.SpanKindServer, true))
			}
			err := closeIn(t, c, 500*time.Millisecond)
			if stats := c.Stats(); err == nil || stats.Failed+stats.Dropped != 3 || stats.Exported != 0 {
				t.Errorf("%v, %+v", err, stats)
			}
		})
	}
}

// TestInvalidText exports texts of a program that are not UTF-8 together with a span of another process, which they must not harm.
func TestInvalidText(t *testing.T) {
	r := testcollector.Receive(t, nil)
	for protocol, env := range receivers(r) {
		spansBefore, metricsBefore := len(r.Spans()), len(r.Metrics())
		c := newController(t, env)
		p := newProcess(t, c)
		bad := span(1, 0, trace.SpanKindServer, true, attribute.String("http.request.method", "G\xff"), attribute.StringSlice("list", []string{"a", "\x80b"}))
		bad.Name = "\xc3\x28"
		bad.Events = []spans.Event{{Name: "e\xff", Attributes: []attribute.KeyValue{attribute.String("k", "\xff")}}}
		bad.Fail("m\xff")
		p.Handle(bad)
		other, err := c.Process(t.Context(), otlp.Process{PID: 1, Path: "/\xff"})
		if err != nil {
			t.Fatal(err)
		}
		other.Handle(span(2, 0, trace.SpanKindServer, true, attribute.String("http.request.method", "GET")))
		if err := closeIn(t, c, time.Minute); err != nil {
			t.Errorf("%s: %v", protocol, err)
		}
		got := r.Spans()[spansBefore:]
		if len(got) != 2 || len(r.Metrics())-metricsBefore != 2 {
			t.Fatalf("%s: %d spans and %d metrics", protocol, len(got), len(r.Metrics())-metricsBefore)
		}
		const x = "\uFFFD"
		slices.SortFunc(got, func(a, b testcollector.Span) int { return strings.Compare(a.ID, b.ID) })
		if s := got[0]; s.Name != x+"(" || s.Message != "m"+x || s.Events[0] != "e"+x || s.Attributes["http.request.method"] != "G"+x || s.Attributes["list"] != `["a","`+x+`b"]` {
			t.Errorf("%s: %+v", protocol, s)
		}
		if s := bad.Attributes[0]; s.Value.AsString() != "G\xff" {
			t.Errorf("the span was changed: %v", s)
		}
	}
}
