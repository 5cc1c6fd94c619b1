//go:build sdk

package main

import (
	"context"
	"net/http"
	"os"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

func instrument() func(context.Context) error {
	how := ""
	if len(os.Args) > 1 {
		how = os.Args[1]
	}
	if how == "idle" {
		return func(context.Context) error { return nil }
	}
	var options []sdktrace.TracerProviderOption
	if how != "unexported" {
		exporter, err := otlptracehttp.New(context.Background())
		check(err)
		options = append(options, sdktrace.WithBatcher(exporter))
	}
	if how == "unsampled" {
		options = append(options, sdktrace.WithSampler(sdktrace.NeverSample()))
	}
	provider := sdktrace.NewTracerProvider(options...)
	otel.SetTracerProvider(provider)
	if how != "apart" {
		otel.SetTextMapPropagator(propagation.TraceContext{})
	}
	return provider.ForceFlush
}

// inner begins a span of the program itself.
func inner(ctx context.Context, name string) (context.Context, func()) {
	ctx, span := otel.Tracer("loupe.test/chain").Start(ctx, name)
	return ctx, func() { span.End() }
}

// outgoing sends something in a client span that gets attributes before and after. An empty key means none.
func outgoing(name, before, after string, send func(context.Context)) {
	ctx, span := otel.Tracer("loupe.test/chain").Start(context.Background(), name, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	set := func(key string) {
		if key != "" {
			span.SetAttributes(attribute.String("chain.name", name), attribute.String(key, "any"))
		}
	}
	set(before)
	send(ctx)
	set(after)
}

func wrapTransport(t http.RoundTripper) http.RoundTripper { return otelhttp.NewTransport(t) }

func wrapHandler(h http.Handler) http.Handler { return otelhttp.NewHandler(h, "server") }
