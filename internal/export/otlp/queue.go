package otlp

import (
	"context"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// DefaultQueueSize is the maximum number of spans in a queue unless OTEL_BSP_MAX_QUEUE_SIZE is set. The specification's
// default, 2048, is for a program that exports its own spans.
const DefaultQueueSize = 65536

// A Queue exports finished spans in batches.
type Queue = Batches[sdktrace.ReadOnlySpan]

// NewQueue returns a queue that exports spans to the exporters until it is closed, and then shuts them down.
func NewQueue(exporters []sdktrace.SpanExporter, opt QueueOptions) *Queue {
	var list []Exporter[sdktrace.ReadOnlySpan]
	for _, e := range exporters {
		list = append(list, spanSink{e})
	}
	return NewBatches(Noun{"span", "spans", "OTEL_BSP_MAX_QUEUE_SIZE"}, list, opt)
}

// A spanSink is an exporter of the SDK as an [Exporter].
type spanSink struct{ sdktrace.SpanExporter }

func (s spanSink) Export(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	return s.ExportSpans(ctx, batch)
}

func (s spanSink) String() string { return nameOf(s.SpanExporter) }
