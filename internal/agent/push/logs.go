package push

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	otellog "go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/export/otlp"
	"github.com/loupe-go/loupe/internal/term"
)

// An Alert is an anomaly of a target.
type Alert struct {
	Name       string // of the event: "loupe.alert.goroutine_growth"
	At         int64  // nanoseconds since the Unix epoch
	Level      slog.Level
	Text       string // one line
	Attributes []attribute.KeyValue
	Span       trace.SpanContext // that the alert is about; zero if unknown
}

// logs exports log records of all targets through one queue.
type logs struct {
	queue *otlp.Batches[sdklog.Record]
}

// newLogs returns nil if logs are not exported.
func newLogs(ctx context.Context, config *otlp.Config, log *slog.Logger) (*logs, error) {
	c, ok, err := config.Connection(otlp.Logs)
	if !ok || err != nil {
		return nil, err
	}
	e, err := newLogExporter(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("cannot export logs to %v: %w", c, err)
	}
	opt := config.LogQueue
	opt.Log = log
	noun := otlp.Noun{One: "log record", Many: "log records", Variable: "OTEL_BLRP_MAX_QUEUE_SIZE"}
	return &logs{otlp.NewBatches(noun, []otlp.Exporter[sdklog.Record]{logExporter{e, c}}, opt)}, nil
}

func newLogExporter(ctx context.Context, c *otlp.Connection) (sdklog.Exporter, error) {
	if c.GRPC {
		return otlploggrpc.New(ctx, otlploggrpc.WithEndpoint(c.Target), otlploggrpc.WithInsecure(), // the options of Dial have precedence
			otlploggrpc.WithDialOption(c.Dial...), otlploggrpc.WithHeaders(c.Headers), otlploggrpc.WithTimeout(c.Timeout),
			otlploggrpc.WithRetry(otlploggrpc.RetryConfig(c.Retry)))
	}
	compression := otlploghttp.NoCompression
	if c.Gzip {
		compression = otlploghttp.GzipCompression
	}
	return otlploghttp.New(ctx, otlploghttp.WithEndpointURL(c.URL), otlploghttp.WithHTTPClient(c.Client), otlploghttp.WithCompression(compression),
		otlploghttp.WithHeaders(c.Headers), otlploghttp.WithTimeout(c.Timeout), otlploghttp.WithRetry(otlploghttp.RetryConfig(c.Retry)))
}

// A logExporter is an exporter of the SDK with the timeout of its connection, which its retries do not exceed.
type logExporter struct {
	sdklog.Exporter
	*otlp.Connection
}

func (e logExporter) Export(ctx context.Context, list []sdklog.Record) error {
	ctx, cancel := otlp.Within(ctx, e.Timeout)
	defer cancel()
	return e.Exporter.Export(ctx, list)
}

func (e logExporter) Shutdown(ctx context.Context) error {
	if e.Client != nil {
		defer e.Client.CloseIdleConnections()
	}
	return e.Exporter.Shutdown(ctx)
}

// A logger makes the log records of one resource.
type logger struct{ to otellog.Logger }

// logger returns a logger of a resource. The SDK has one resource for each provider, and only a provider can make records. A provider is
// small and has no goroutine: all pass their records to the same queue.
func (l *logs) logger(res *resource.Resource, scope instrumentation.Scope) logger {
	provider := sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(toQueue{l.queue}))
	return logger{provider.Logger(scope.Name, otellog.WithInstrumentationVersion(scope.Version), otellog.WithSchemaURL(scope.SchemaURL))}
}

// emit adds an alert to the queue.
func (l logger) emit(a Alert) {
	var r otellog.Record
	r.SetEventName(clean(a.Name, maxKey))
	r.SetTimestamp(time.Unix(0, a.At))
	r.SetSeverity(otellog.Severity(a.Level + 9)) // slog's levels have the distances of OpenTelemetry's, INFO is 9
	r.SetSeverityText(a.Level.String())
	r.SetBody(attribute.StringValue(clean(term.Escape(a.Text), maxText)))
	r.AddAttributes(cleanAll(a.Attributes)...)
	l.to.Emit(trace.ContextWithSpanContext(context.Background(), a.Span), r)
}

// toQueue is a processor of one provider.
type toQueue struct {
	queue *otlp.Batches[sdklog.Record]
}

func (toQueue) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }
func (toQueue) Shutdown(context.Context) error                         { return nil }
func (toQueue) ForceFlush(context.Context) error                       { return nil }

func (q toQueue) OnEmit(_ context.Context, r *sdklog.Record) error {
	q.queue.Add(r.Clone())
	return nil
}
