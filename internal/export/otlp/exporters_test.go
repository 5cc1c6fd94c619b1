package otlp

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/loupe-go/loupe/internal/testcollector"
)

// patient and impatient are defaultRetry with intervals for tests. One retries until a back end is up, the other gives up early.
var (
	patient   = Retry{Enabled: true, InitialInterval: time.Millisecond, MaxInterval: 5 * time.Millisecond, MaxElapsedTime: soon}
	impatient = Retry{Enabled: true, InitialInterval: time.Millisecond, MaxInterval: 5 * time.Millisecond, MaxElapsedTime: 10 * time.Millisecond}
)

// protocols are the protocols of OTLP, each with the endpoint of a receiver.
var protocols = map[string]func(scheme string, r *testcollector.Receiver) string{
	protocolHTTP: func(scheme string, r *testcollector.Receiver) string { return scheme + "://" + r.HTTP },
	protocolGRPC: func(scheme string, r *testcollector.Receiver) string { return scheme + "://" + r.GRPC },
}

// queueFor returns a queue for the exporters of a configuration. Exports have enough time on a machine that is busy.
func queueFor(t *testing.T, e env, retries Retry, opt QueueOptions) *Queue {
	t.Helper()
	e = maps.Clone(e)
	e["OTEL_EXPORTER_OTLP_TIMEOUT"] = "60000"
	c := read(t, e)
	c.Retry = retries
	exporters, err := c.TraceExporters(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return NewQueue(exporters, opt)
}

// fullSpan has everything that a span can have.
func fullSpan(c *Config) sdktrace.ReadOnlySpan {
	start := time.Unix(1_700_000_000, 5).UTC()
	id := func(n byte) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{0: 0xab, 15: 1}, SpanID: trace.SpanID{0: 0xcd, 7: n}, TraceFlags: trace.FlagsSampled})
	}
	return tracetest.SpanStub{
		Name: "GET /cart", SpanContext: id(2), Parent: id(1), SpanKind: trace.SpanKindServer, StartTime: start, EndTime: start.Add(3 * time.Millisecond),
		Attributes: []attribute.KeyValue{attribute.String("http.request.method", "GET"), attribute.Int("http.response.status_code", 500)},
		Events:     []sdktrace.Event{{Name: "exception", Time: start}},
		Links:      []sdktrace.Link{{SpanContext: id(3)}},
		Status:     sdktrace.Status{Code: codes.Error, Description: "no stock"},
		Resource:   c.Resource(Process{PID: 7, Name: "shop"}),
	}.Snapshot()
}

// checkFullSpan checks what a back end has received of it.
func checkFullSpan(t *testing.T, s testcollector.Span) {
	t.Helper()
	const traceID = "ab000000000000000000000000000001"
	start := time.Unix(1_700_000_000, 5).UTC()
	if s.TraceID != traceID || s.ID != "cd00000000000002" || s.ParentID != "cd00000000000001" || s.Name != "GET /cart" || s.Kind != "Server" ||
		!s.Start.Equal(start) || !s.End.Equal(start.Add(3*time.Millisecond)) || s.Status != "Error" || s.Message != "no stock" ||
		s.Attributes["http.request.method"] != "GET" || s.Attributes["http.response.status_code"] != "500" || len(s.Attributes) != 2 ||
		len(s.Events) != 1 || s.Events[0] != "exception" || len(s.Links) != 1 || s.Links[0] != "cd00000000000003" ||
		s.Resource["service.name"] != "shop" || s.Resource["process.pid"] != "7" || s.Resource["telemetry.distro.name"] != "loupe" {
		t.Errorf("received %+v", s)
	}
}

// TestExport sends a span with headers, with and without compression. The variables of this process must not count.
func TestExport(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "https://192.0.2.1:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://192.0.2.1:1/x", "OTEL_EXPORTER_OTLP_HEADERS": "foreign=1",
		"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
		"OTEL_EXPORTER_OTLP_CERTIFICATE": writeCertificate(t, httptest.NewUnstartedServer(nil)), "OTEL_EXPORTER_OTLP_INSECURE": "false",
	} {
		t.Setenv(name, value)
	}
	for protocol, endpoint := range protocols {
		for _, compression := range []string{"", "gzip"} {
			t.Run(protocol+compression, func(t *testing.T) {
				r := testcollector.Receive(t, nil)
				e := env{
					"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint("http", r), "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b",
					"OTEL_EXPORTER_OTLP_COMPRESSION": compression,
				}
				q := queueFor(t, e, patient, QueueOptions{Delay: time.Hour})
				q.Add(fullSpan(read(t, e)))
				closeQueue(t, q)
				spans := r.Spans()
				if len(spans) != 1 || q.Stats() != (Stats{Exported: 1}) {
					t.Fatalf("received %d spans, %+v", len(spans), q.Stats())
				}
				checkFullSpan(t, spans[0])
				checkHeader(t, r.Headers()[0], compression)
			})
		}
	}
}

// checkHeader checks the header of a request by HTTP or gRPC. A server of gRPC does not see how a request was compressed.
func checkHeader(t *testing.T, h http.Header, compression string) {
	t.Helper()
	get := func(name string) string {
		return strings.Join(append(h[name], h[http.CanonicalHeaderKey(name)]...), "")
	}
	if get("api-key") != "a b" || get("foreign") != "" {
		t.Errorf("header %v", h)
	}
	if get("content-type") == "application/x-protobuf" && get("content-encoding") != compression {
		t.Errorf("content-encoding %q, want %q", get("content-encoding"), compression)
	}
}

// writeCertificate starts a server with TLS and returns a file with its certificate.
func writeCertificate(t *testing.T, s *httptest.Server) string {
	t.Helper()
	s.StartTLS()
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExportTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(nil) // for its certificate
	file := writeCertificate(t, s)
	for protocol, endpoint := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := testcollector.Receive(t, &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}})
			e := env{
				"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint("https", r) + "/v1/traces", "OTEL_EXPORTER_OTLP_CERTIFICATE": file,
			}
			q := queueFor(t, e, patient, QueueOptions{Delay: time.Hour})
			q.Add(span(1))
			closeQueue(t, q)
			if len(r.Spans()) != 1 {
				t.Errorf("received %d spans", len(r.Spans()))
			}
			delete(e, "OTEL_EXPORTER_OTLP_CERTIFICATE")
			var log logBook
			q = queueFor(t, e, impatient, QueueOptions{Delay: time.Hour, Log: log.log()})
			q.Add(span(1))
			if err := q.Close(context.Background()); err == nil || log.count("unknown authority") != 1 || q.Stats() != (Stats{Failed: 1}) {
				t.Errorf("a certificate of an unknown authority: %v, %s", err, log.text.String())
			}
		})
	}
}

// TestRestart stops a back end for a time that is shorter than the timeout, and then for a longer time.
func TestRestart(t *testing.T) {
	for protocol, endpoint := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := testcollector.Receive(t, nil)
			const batch = 4
			e := env{"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint("http", r)}
			q := queueFor(t, e, patient, QueueOptions{Batch: batch, Size: 4 * batch})
			add := func() {
				for n := range batch {
					q.Add(span(n))
				}
			}
			add()
			until(t, "the first batch", func() bool { return q.Stats().Exported == batch })
			r.Stop()
			add()
			time.Sleep(20 * time.Millisecond) // some retries
			if got, want := q.Stats(), (Stats{Exported: batch, Queued: batch}); got != want {
				t.Errorf("while it is down: %+v, want %+v", got, want)
			}
			for range 4 {
				add()
			}
			if got, want := q.Stats(), (Stats{Exported: batch, Queued: 4 * batch, Dropped: batch}); got != want {
				t.Errorf("while it is down: %+v, want %+v", got, want)
			}
			r.Start()
			until(t, "the other batches", func() bool { return q.Stats() == Stats{Exported: 5 * batch, Dropped: batch} })
			if n := len(r.Spans()); n != 5*batch {
				t.Errorf("received %d spans", n)
			}
			closeQueue(t, q)
		})
	}
}

// TestDown stops a back end for longer than an export is retried.
func TestDown(t *testing.T) {
	for protocol, endpoint := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := testcollector.Receive(t, nil)
			r.Stop()
			var log logBook
			e := env{"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint("http", r)}
			q := queueFor(t, e, impatient, QueueOptions{Log: log.log()})
			for n := range 3 {
				q.Add(span(n))
				until(t, "a failure", func() bool { return q.Stats().Failed == uint64(n)+1 })
			}
			r.Start()
			added := uint64(3)
			until(t, "the back end", func() bool {
				q.Add(span(1))
				added++
				_ = q.ForceFlush(context.Background())
				return q.Stats().Exported > 0
			})
			s := q.Stats()
			if s.Added() != added || len(r.Spans()) != int(s.Exported) || log.count("cannot export spans") != 1 || log.count("connection refused") != 1 ||
				log.count("exporting spans again") != 1 {
				t.Errorf("%+v of %d, received %d spans\n%s", s, added, len(r.Spans()), log.text.String())
			}
			closeQueue(t, q)
		})
	}
}

// TestPartialSuccess lets the back end reject spans, answer with a message alone, and refuse a request once.
func TestPartialSuccess(t *testing.T) {
	for protocol, endpoint := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := testcollector.Receive(t, nil)
			e := env{"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint("http", r)}
			var log logBook
			q := queueFor(t, e, patient, QueueOptions{Delay: time.Hour, Log: log.log()})
			send := func(want Stats) {
				t.Helper()
				for n := range 5 {
					q.Add(span(n))
				}
				_ = q.ForceFlush(context.Background())
				if got := q.Stats(); got != want {
					t.Errorf("%+v, want %+v", got, want)
				}
			}
			r.Answer(func([]testcollector.Span) (int, string, error) { return 2, "too old", nil })
			send(Stats{Exported: 3, Failed: 2})
			r.Answer(func([]testcollector.Span) (int, string, error) { return 0, "deprecated", nil })
			send(Stats{Exported: 8, Failed: 2})
			send(Stats{Exported: 13, Failed: 2})
			calls := 0
			r.Answer(func([]testcollector.Span) (int, string, error) {
				if calls++; calls == 1 {
					if protocol == protocolHTTP {
						return 0, "", errors.New("busy")
					}
					return 0, "", status.Error(grpccodes.Unavailable, "busy")
				}
				return 0, "", nil
			})
			send(Stats{Exported: 18, Failed: 2})
			if calls != 2 || log.count("too old") != 1 || log.count("deprecated") != 1 {
				t.Errorf("%d calls, %s", calls, log.text.String())
			}
			closeQueue(t, q)
		})
	}
}

// TestConsole requires one line for each span.
func TestConsole(t *testing.T) {
	var console bytes.Buffer
	c := read(t, env{"OTEL_TRACES_EXPORTER": "console"})
	exporters, err := c.TraceExporters(context.Background(), &console)
	if err != nil {
		t.Fatal(err)
	}
	q := NewQueue(exporters, QueueOptions{})
	for range 2 {
		q.Add(fullSpan(c))
	}
	closeQueue(t, q)
	lines := strings.Split(strings.TrimSuffix(console.String(), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines:\n%s", len(lines), console.String())
	}
	for _, line := range lines {
		var s struct{ Name string }
		if err := json.Unmarshal([]byte(line), &s); err != nil || s.Name != "GET /cart" {
			t.Errorf("%v: %s", err, line)
		}
	}
}

func TestNoExporters(t *testing.T) {
	c := read(t, env{"OTEL_SDK_DISABLED": "true"})
	if exporters, err := c.TraceExporters(context.Background(), nil); err != nil || len(exporters) != 0 {
		t.Error(exporters, err)
	}
}

// TestFiles requires that errors about files name them.
func TestFiles(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_CERTIFICATE": "absent.pem", "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": "config_test.go",
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "absent.pem",
	} {
		c := read(t, env{name: value, "OTEL_EXPORTER_OTLP_ENDPOINT": "https://localhost:1"})
		_, err := c.TraceExporters(context.Background(), nil)
		if err == nil || !strings.Contains(err.Error(), value) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
