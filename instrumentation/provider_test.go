package instrumentation_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/instrumentation"
	"github.com/loupe-go/loupe/spans"
)

// parent is the context in the headers of requests.
var parent = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3, 4}, TraceFlags: trace.FlagsSampled, Remote: true})

// TestTracerProvider compares the spans of a provider with those of the handler.
func TestTracerProvider(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	defer provider.Shutdown(t.Context())
	p := startWeb(t, webPath(t))
	w := newWatch(t, instrumentation.WithPID(p.PID()), instrumentation.WithTracerProvider(provider)).run()
	p.get("/hello")
	p.get("/status/503")
	p.client.CloseIdleConnections() // a request that fails on a connection that was used before is repeated
	p.get("/panic")
	p.get("/fan?n=3", "traceparent", fmt.Sprintf("00-%v-%v-01", parent.TraceID(), parent.SpanID()))
	p.get("/many?n=2")
	p.get("/later") // two requests that are sent after the response
	handled := w.take(1 + 1 + 1 + 7 + 5 + 5)
	if s := w.end(); int(s.Provided) != len(handled) || s.Orphans != 0 {
		t.Errorf("%+v", s)
	}
	ended := recorder.Ended()
	if len(ended) != len(handled) {
		t.Fatalf("%d spans, want %d", len(ended), len(handled))
	}
	made := map[trace.SpanID]sdktrace.ReadOnlySpan{} // by the ID of the span that the handler has received
	for _, s := range handled {
		i := slices.IndexFunc(ended, func(e sdktrace.ReadOnlySpan) bool { return same(s, e) })
		if i < 0 {
			t.Errorf("the provider has no span like %+v", s)
			continue
		}
		made[s.Context.SpanID()] = ended[i]
	}
	for _, s := range handled {
		got := made[s.Context.SpanID()]
		if got == nil {
			continue
		}
		switch s.Rule {
		case spans.RuleRoot:
			if got.Parent().IsValid() {
				t.Errorf("%s has parent %v, want none", s.Name, got.Parent())
			}
		case spans.RuleHeader:
			if !got.Parent().Equal(parent) || got.SpanContext().TraceID() != parent.TraceID() {
				t.Errorf("%s has parent %v, want %v", s.Name, got.Parent(), parent)
			}
		default:
			want := made[s.Parent.SpanID()].SpanContext()
			if got.Parent().SpanID() != want.SpanID() || got.SpanContext().TraceID() != want.TraceID() || got.Parent().IsRemote() {
				t.Errorf("%s has parent %v, want %v", s.Name, got.Parent(), want)
			}
		}
	}
}

// same reports whether a span of a provider has the data of a span.
func same(s *spans.Span, e sdktrace.ReadOnlySpan) bool {
	return e.Name() == s.Name && e.SpanKind() == s.Kind && e.StartTime().Equal(time.Unix(0, s.Start)) && e.EndTime().Equal(time.Unix(0, s.End)) &&
		e.Status().Code == s.Status && slices.Equal(e.Attributes(), s.AllAttributes()) && e.InstrumentationScope().Name == "github.com/loupe-go/loupe/spans/"+s.Library
}

// TestKilled kills a process while it serves a request. The provider receives the spans in this request.
func TestKilled(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	defer provider.Shutdown(t.Context())
	p := startWeb(t, webPath(t))
	w := newWatch(t, instrumentation.WithPID(p.PID()), instrumentation.WithTracerProvider(provider)).run()
	go p.client.Get("http://" + p.plain + "/many?n=100000") // has no answer
	until(t, "some requests are sent", func() bool { return w.count() >= 20 })
	p.Kill()
	if err := <-w.done; err != nil {
		t.Error(err)
	}
	w.done <- nil
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	s := w.Stats()
	if s.Spans.Ended != s.Provided || s.Orphans == 0 || s.Waiting != 0 || int(s.Provided) != len(exporter.GetSpans()) || s.Spans.Ended+s.Spans.Open != s.Spans.Begun || s.Spans.Open == 0 {
		t.Errorf("%+v", s)
	}
	ids := map[trace.TraceID]bool{}
	for _, e := range exporter.GetSpans() {
		if e.SpanKind == trace.SpanKindClient {
			ids[e.SpanContext.TraceID()] = true
		}
	}
	if len(ids) != 1 {
		t.Errorf("the spans in one request are in %d traces", len(ids))
	}
}
