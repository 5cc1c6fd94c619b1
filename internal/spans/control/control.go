package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/export/otlp"
	"github.com/loupe-go/loupe/spans"
)

// ScopeName returns the name of the instrumentation scope of a span: that of its library, or the program's tracer.
func ScopeName(s *spans.Span) string {
	if s.Own {
		return s.Library
	}
	return "github.com/loupe-go/loupe/spans/" + s.Library
}

// A Controller exports the spans of any number of processes. Its methods are safe for concurrent use.
type Controller struct {
	config  *otlp.Config
	console io.Writer
	log     *slog.Logger
	version string // of Loupe
	queue   *otlp.Queue
	sampler sdktrace.Sampler

	mu        sync.Mutex
	providers []*sdkmetric.MeterProvider
}

// Options configures a Controller.
type Options struct {
	Config  *otlp.Config
	Sampler sdktrace.Sampler // nil: that of Config
	Console io.Writer        // of exporter console
	Log     *slog.Logger
	Version string // of Loupe
}

// New returns a Controller. Its exporters run until Close.
func New(ctx context.Context, o Options) (*Controller, error) {
	exporters, err := o.Config.TraceExporters(ctx, o.Console)
	if err != nil {
		return nil, err
	}
	c := &Controller{config: o.Config, console: o.Console, log: o.Log, version: o.Version, sampler: o.Sampler}
	if c.sampler == nil {
		c.sampler = o.Config.Sampler()
	}
	queue := o.Config.Queue
	queue.Log = o.Log
	c.queue = otlp.NewQueue(exporters, queue)
	return c, nil
}

// A Process exports the spans of one process.
type Process struct {
	controller *Controller
	resource   *resource.Resource
	durations  *otlp.Durations
	metrics    *sdkmetric.MeterProvider
	version    string
}

// Process begins to export the spans of a process.
func (c *Controller) Process(ctx context.Context, about otlp.Process) (*Process, error) {
	about.Loupe = c.version
	p := &Process{controller: c, resource: c.config.Resource(about), version: c.version}
	provider, err := c.config.MeterProvider(ctx, p.resource, c.console, c.log)
	if err != nil {
		return nil, err
	}
	p.metrics = provider
	if p.durations, err = otlp.NewDurations(provider, c.version); err != nil {
		return nil, errors.Join(err, provider.Shutdown(ctx))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.providers = append(c.providers, provider)
	return p, nil
}

// Sample decides whether a new span is sampled: loupe.SpanOptions.Sample.
func (p *Process) Sample(s *spans.Span) bool { return Sample(p.controller.sampler, s) }

// Sample asks a sampler whether a new span is sampled.
func Sample(sampler sdktrace.Sampler, s *spans.Span) bool {
	ctx := context.Background()
	if s.Parent.IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, s.Parent)
	}
	result := sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: ctx, TraceID: s.Context.TraceID(), Name: s.Name, Kind: s.Kind, Attributes: s.Attributes})
	return result.Decision == sdktrace.RecordAndSample
}

// Handle exports a span that has ended: loupe.SpanOptions.Handle. It does not block. Of a span that the program exports itself, only the
// duration is recorded.
func (p *Process) Handle(s *spans.Span) {
	if op, set, ok := measured(s); ok {
		p.durations.Record(op, time.Duration(s.End-s.Start).Seconds(), set)
	}
	if !s.Context.IsSampled() || s.Exported {
		return
	}
	attributes, dropped := p.controller.config.SpanLimits.Apply(s.AllAttributes())
	stub := tracetest.SpanStub{
		Name: s.Name, SpanContext: s.Context, Parent: s.Parent, SpanKind: s.Kind,
		StartTime: time.Unix(0, s.Start), EndTime: time.Unix(0, s.End),
		Attributes: attributes, DroppedAttributes: dropped,
		Status: sdktrace.Status{Code: s.Status, Description: s.Message}, Resource: p.resource,
		InstrumentationScope: p.scope(s),
	}
	for _, c := range s.Links {
		stub.Links = append(stub.Links, sdktrace.Link{SpanContext: c})
	}
	for _, e := range s.Events {
		attributes, dropped := p.controller.config.SpanLimits.Apply(e.Attributes)
		stub.Events = append(stub.Events, sdktrace.Event{Name: e.Name, Time: time.Unix(0, e.Time), Attributes: attributes, DroppedAttributeCount: dropped})
	}
	p.controller.queue.Add(stub.Snapshot())
}

// scope returns the instrumentation scope of a span. Loupe does not know the version of the program's tracers.
func (p *Process) scope(s *spans.Span) instrumentation.Scope {
	if s.Own {
		return instrumentation.Scope{Name: ScopeName(s)}
	}
	return instrumentation.Scope{Name: ScopeName(s), Version: p.version, SchemaURL: semconv.SchemaURL}
}

// Close exports the metrics of a process that has ended once more, until ctx ends. Its spans are exported later.
func (p *Process) Close(ctx context.Context) error {
	c := p.controller
	c.mu.Lock()
	i := slices.Index(c.providers, p.metrics)
	if i >= 0 {
		c.providers = slices.Delete(c.providers, i, i+1)
	}
	c.mu.Unlock()
	if i < 0 {
		return nil
	}
	if err := p.metrics.Shutdown(ctx); err != nil {
		return fmt.Errorf("exporting metrics: %w", err)
	}
	return nil
}

// Stats returns how many spans were exported, and how many were not.
func (c *Controller) Stats() otlp.Stats { return c.queue.Stats() }

// Close exports what is left until ctx ends.
func (c *Controller) Close(ctx context.Context) error {
	errs := []error{c.queue.Close(ctx)}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.providers {
		if err := p.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("exporting metrics: %w", err))
		}
	}
	c.providers = nil
	return errors.Join(errs...)
}
