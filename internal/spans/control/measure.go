package control

import (
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/export/otlp"
	"github.com/loupe-go/loupe/spans"
)

// measures are the operations that have a metric of their durations, found by an attribute and the kind of the span, and the
// attributes of the metric.
var measures = []struct {
	key  attribute.Key
	kind trace.SpanKind // unspecified: any
	op   otlp.Operation
	set  map[attribute.Key]bool
}{
	{semconv.HTTPRequestMethodKey, trace.SpanKindServer, otlp.HTTPServer, keys(semconv.HTTPRequestMethodKey, semconv.URLSchemeKey, semconv.ErrorTypeKey,
		semconv.HTTPResponseStatusCodeKey, semconv.HTTPRouteKey, semconv.NetworkProtocolVersionKey)},
	{semconv.HTTPRequestMethodKey, trace.SpanKindClient, otlp.HTTPClient, keys(semconv.HTTPRequestMethodKey, semconv.ServerAddressKey, semconv.ServerPortKey,
		semconv.ErrorTypeKey, semconv.HTTPResponseStatusCodeKey, semconv.NetworkProtocolVersionKey)},
	{semconv.RPCSystemNameKey, trace.SpanKindServer, otlp.RPCServer, rpcKeys},
	{semconv.RPCSystemNameKey, trace.SpanKindClient, otlp.RPCClient, rpcKeys},
	{semconv.DBSystemNameKey, trace.SpanKindClient, otlp.DBClient, keys(semconv.DBSystemNameKey, semconv.DBOperationNameKey, semconv.DBCollectionNameKey, semconv.DBNamespaceKey,
		semconv.DBQuerySummaryKey, semconv.DBResponseStatusCodeKey, semconv.ErrorTypeKey, semconv.ServerAddressKey, semconv.ServerPortKey)},
	{semconv.MessagingSystemKey, trace.SpanKindConsumer, otlp.MessagingProcess, messagingKeys},
	{semconv.MessagingSystemKey, trace.SpanKindUnspecified, otlp.MessagingClient, messagingKeys},
	{semconv.CodeFunctionNameKey, trace.SpanKindInternal, otlp.Function, keys(semconv.CodeFunctionNameKey, semconv.ErrorTypeKey)},
}

var (
	rpcKeys = keys(semconv.RPCSystemNameKey, semconv.RPCMethodKey, semconv.RPCResponseStatusCodeKey, semconv.ErrorTypeKey, semconv.ServerAddressKey, semconv.ServerPortKey)

	messagingKeys = keys(semconv.MessagingSystemKey, semconv.MessagingOperationNameKey, semconv.MessagingDestinationNameKey, semconv.MessagingConsumerGroupNameKey,
		semconv.ErrorTypeKey, semconv.ServerAddressKey, semconv.ServerPortKey)
)

func keys(list ...attribute.Key) map[attribute.Key]bool {
	set := map[attribute.Key]bool{}
	for _, k := range list {
		set[k] = true
	}
	return set
}

// measured returns the operation of a span and the attributes of its metric. ok is false if it has none. A span that the program makes
// itself has none: it can describe the same operation as the span of a library. Nor has a span that says that a message was received, but
// not how long that took.
func measured(s *spans.Span) (op otlp.Operation, set attribute.Set, ok bool) {
	if s.Own {
		return 0, attribute.Set{}, false
	}
	for i := range measures {
		m := &measures[i]
		if m.kind != trace.SpanKindUnspecified && m.kind != s.Kind || !has(s, m.key) {
			continue
		}
		if m.op == otlp.MessagingClient && s.Kind == trace.SpanKindClient && s.Start == s.End {
			break
		}
		var list []attribute.KeyValue
		for _, kv := range s.Attributes {
			if m.set[kv.Key] {
				list = append(list, kv)
			}
		}
		return m.op, attribute.NewSet(otlp.ValidAttributes(list)...), true
	}
	return 0, attribute.Set{}, false
}

func has(s *spans.Span, key attribute.Key) bool {
	for _, kv := range s.Attributes {
		if kv.Key == key {
			return true
		}
	}
	return false
}
