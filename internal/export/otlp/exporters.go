package otlp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
)

// TraceExporters returns the exporters of spans, in the order of OTEL_TRACES_EXPORTER. The console exporter writes one
// line to console for each span, a JSON object, with one call of Write. The String method of an exporter returns its name.
//
// An exporter is created even if its endpoint is not reachable. Errors are about files with certificates and keys.
func (c *Config) TraceExporters(ctx context.Context, console io.Writer) ([]sdktrace.SpanExporter, error) {
	var list []sdktrace.SpanExporter
	for _, name := range c.traces.exporters {
		e, err := c.traceExporter(ctx, name, console)
		if err != nil {
			for _, created := range list {
				err = errors.Join(err, created.Shutdown(ctx))
			}
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

func (c *Config) traceExporter(ctx context.Context, name string, console io.Writer) (sdktrace.SpanExporter, error) {
	if name == consoleExporter {
		e, err := stdouttrace.New(stdouttrace.WithWriter(console))
		return &spanExporter{SpanExporter: e, name: name, timeout: noLimit, close: func() {}}, err
	}
	to := c.traces.endpoint
	secure, err := to.tls()
	if err != nil {
		return nil, err
	}
	e := &spanExporter{name: to.String(), timeout: to.timeout, close: func() {}}
	if to.protocol == protocolGRPC {
		e.SpanExporter, err = otlptracegrpc.New(ctx,
			otlptracegrpc.WithEndpoint(to.target),
			otlptracegrpc.WithTLSCredentials(transportCredentials(secure)),
			otlptracegrpc.WithDialOption(to.compressor(), c.Retry.connect()),
			otlptracegrpc.WithHeaders(to.headers),
			otlptracegrpc.WithTimeout(to.timeout),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig(c.Retry)))
	} else {
		t := newTransport(secure)
		compression := otlptracehttp.NoCompression
		if to.gzip {
			compression = otlptracehttp.GzipCompression
		}
		e.close = t.CloseIdleConnections
		e.SpanExporter, err = otlptracehttp.New(ctx,
			otlptracehttp.WithEndpointURL(to.url),
			otlptracehttp.WithTLSClientConfig(secure),
			otlptracehttp.WithHTTPClient(&http.Client{Transport: t}),
			otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
			otlptracehttp.WithCompression(compression),
			otlptracehttp.WithHeaders(to.headers),
			otlptracehttp.WithTimeout(to.timeout),
			otlptracehttp.WithRetry(otlptracehttp.RetryConfig(c.Retry)))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot export spans to %v: %w", to, err)
	}
	return e, nil
}

// transportCredentials returns the credentials of a gRPC connection. Without TLS secure is nil.
func transportCredentials(secure *tls.Config) credentials.TransportCredentials {
	if secure == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(secure)
}

// compressor is the option of gRPC to compress requests or not.
func (e *endpoint) compressor() grpc.DialOption {
	name := encoding.Identity
	if e.gzip {
		name = gzip.Name
	}
	return grpc.WithDefaultCallOptions(grpc.UseCompressor(name))
}

// A spanExporter is an exporter with a name and a timeout.
type spanExporter struct {
	sdktrace.SpanExporter
	name    string
	timeout time.Duration
	close   func()
}

func (e *spanExporter) String() string { return e.name }

func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := Within(ctx, e.timeout)
	defer cancel()
	return e.SpanExporter.ExportSpans(ctx, spans)
}

func (e *spanExporter) Shutdown(ctx context.Context) error {
	defer e.close()
	return e.SpanExporter.Shutdown(ctx)
}
