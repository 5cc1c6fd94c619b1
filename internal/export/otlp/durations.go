package otlp

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/dbconv"
	"go.opentelemetry.io/otel/semconv/v1.43.0/httpconv"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
	"go.opentelemetry.io/otel/semconv/v1.43.0/rpcconv"
)

// An Operation is a kind of operation whose durations are a metric.
type Operation int

// The operations, each with its metric.
const (
	HTTPServer       Operation = iota // http.server.request.duration
	HTTPClient                        // http.client.request.duration
	RPCServer                         // rpc.server.call.duration
	RPCClient                         // rpc.client.call.duration
	DBClient                          // db.client.operation.duration
	MessagingClient                   // messaging.client.operation.duration
	MessagingProcess                  // messaging.process.duration
	Function                          // loupe.go.function.duration
	operations
)

// buckets are the boundaries of buckets that the semantic conventions advise, in seconds, and dbBuckets are those for databases.
var (
	buckets   = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	dbBuckets = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10}

	// functionBuckets are those of the durations of calls, for which there is no convention.
	functionBuckets = []float64{0.000001, 0.00001, 0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10}
)

// Durations records durations of operations as histograms, whose counts are the rates of operations and, by the
// attribute error.type, of errors. The caller records each operation, whether its span is sampled or not, so the counts
// are exact. The methods are safe for concurrent use.
type Durations struct {
	histograms [operations]metric.Float64Histogram
}

// An instrument is a metric of the semantic conventions, which has its name, unit and description.
type instrument interface {
	Inst() metric.Float64Histogram
}

// NewDurations returns a recorder for a provider of metrics. version is that of Loupe.
func NewDurations(provider metric.MeterProvider, version string) (*Durations, error) {
	m := provider.Meter("github.com/loupe-go/loupe", metric.WithInstrumentationVersion(version), metric.WithSchemaURL(semconv.SchemaURL))
	usual, db := metric.WithExplicitBucketBoundaries(buckets...), metric.WithExplicitBucketBoundaries(dbBuckets...)
	d := &Durations{}
	var failed error
	keep := func(op Operation) func(instrument, error) {
		return func(i instrument, err error) {
			d.histograms[op] = i.Inst()
			failed = errors.Join(failed, err)
		}
	}
	keep(HTTPServer)(httpconv.NewServerRequestDuration(m, usual))
	keep(HTTPClient)(httpconv.NewClientRequestDuration(m, usual))
	keep(RPCServer)(rpcconv.NewServerCallDuration(m, usual))
	keep(RPCClient)(rpcconv.NewClientCallDuration(m, usual))
	keep(DBClient)(dbconv.NewClientOperationDuration(m, db))
	keep(MessagingClient)(messagingconv.NewClientOperationDuration(m, usual))
	keep(MessagingProcess)(messagingconv.NewProcessDuration(m, usual))
	calls, err := m.Float64Histogram("loupe.go.function.duration", metric.WithUnit("s"), metric.WithDescription("Duration of calls of selected functions."),
		metric.WithExplicitBucketBoundaries(functionBuckets...))
	d.histograms[Function], failed = calls, errors.Join(failed, err)
	if failed != nil {
		return nil, fmt.Errorf("cannot create the metrics of durations: %w", failed)
	}
	return d, nil
}

// Record records an operation that took a number of seconds. The attributes are those of the metric in the semantic
// conventions. The SDK combines operations whose attributes exceed 2,000 different sets. ctx has the span of the operation if the span
// is exported.
func (d *Durations) Record(ctx context.Context, op Operation, seconds float64, attrs attribute.Set) {
	d.histograms[op].Record(ctx, seconds, metric.WithAttributeSet(attrs))
}
