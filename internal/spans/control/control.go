package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
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

	ended func(*metricdata.ResourceMetrics)

	mu        sync.Mutex
	processes []*Process
}

// Options configures a Controller.
type Options struct {
	Config  *otlp.Config
	Sampler sdktrace.Sampler // nil: that of Config
	Console io.Writer        // of exporter console
	Log     *slog.Logger
	Version string // of Loupe

	// Ended receives the metrics of a process when it is closed. Those of the others are returned by [Controller.Collect]. Nil: the
	// Controller exports metrics itself, each process over an own connection.
	Ended func(*metricdata.ResourceMetrics)
}

// New returns a Controller. Its exporters run until Close.
func New(ctx context.Context, o Options) (*Controller, error) {
	exporters, err := o.Config.TraceExporters(ctx, o.Console)
	if err != nil {
		return nil, err
	}
	c := &Controller{config: o.Config, console: o.Console, log: o.Log, version: o.Version, sampler: o.Sampler, ended: o.Ended}
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
	resource   atomic.Pointer[resource.Resource]
	durations  *otlp.Durations
	metrics    *sdkmetric.MeterProvider
	collect    func(context.Context) (*metricdata.ResourceMetrics, error) // nil: metrics are exported periodically
	version    string
}

// Process begins to export the spans of a process.
func (c *Controller) Process(ctx context.Context, about otlp.Process) (*Process, error) {
	about.Loupe = c.version
	return c.Resource(ctx, c.config.Resource(about))
}

// Resource is Process for a process that is described by a resource.
func (c *Controller) Resource(ctx context.Context, res *resource.Resource) (p *Process, err error) {
	p = &Process{controller: c, version: c.version}
	p.resource.Store(res)
	if c.ended != nil {
		p.metrics, p.collect = c.config.CollectedMetrics(&p.resource)
	} else if p.metrics, err = c.config.MeterProvider(ctx, res, c.console, c.log); err != nil {
		return nil, err
	}
	if p.durations, err = otlp.NewDurations(p.metrics, c.version); err != nil {
		return nil, errors.Join(err, p.metrics.Shutdown(ctx))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
	return p, nil
}

// Describe changes the resource of the spans from now on, and of the metrics that Collect returns.
func (p *Process) Describe(res *resource.Resource) { p.resource.Store(res) }

// Collect returns the metrics of all processes. It requires [Options.Ended].
func (c *Controller) Collect(ctx context.Context) []*metricdata.ResourceMetrics {
	c.mu.Lock()
	processes := slices.Clone(c.processes)
	c.mu.Unlock()
	var list []*metricdata.ResourceMetrics
	for _, p := range processes {
		// A process that was closed meanwhile has an error: Ended has its metrics.
		if rm, err := p.collect(ctx); err == nil && len(rm.ScopeMetrics) > 0 {
			list = append(list, rm)
		}
	}
	return list
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
	exported := s.Context.IsSampled() && !s.Exported
	if op, set, ok := measured(s); ok {
		ctx := context.Background()
		if exported {
			ctx = trace.ContextWithSpanContext(ctx, s.Context)
		}
		p.durations.Record(ctx, op, time.Duration(s.End-s.Start).Seconds(), set)
	}
	if !exported {
		return
	}
	stub := tracetest.SpanStub{
		Name: s.Name, SpanContext: s.Context, Parent: s.Parent, SpanKind: s.Kind,
		StartTime: time.Unix(0, s.Start), EndTime: time.Unix(0, s.End), Attributes: s.AllAttributes(),
		Status: sdktrace.Status{Code: s.Status, Description: s.Message}, Resource: p.resource.Load(),
		InstrumentationScope: p.scope(s),
	}
	for _, c := range s.Links {
		stub.Links = append(stub.Links, sdktrace.Link{SpanContext: c})
	}
	for _, e := range s.Events {
		stub.Events = append(stub.Events, sdktrace.Event{Name: e.Name, Time: time.Unix(0, e.Time), Attributes: e.Attributes})
	}
	p.controller.Add(stub)
}

// Add exports a span, with valid texts, and attributes within the configured limits. It does not block.
func (c *Controller) Add(stub tracetest.SpanStub) {
	limits := c.config.SpanLimits
	stub.Name, stub.Status.Description = otlp.Valid(stub.Name), otlp.Valid(stub.Status.Description)
	stub.Attributes, stub.DroppedAttributes = limits.Apply(otlp.ValidAttributes(stub.Attributes))
	for i := range stub.Events {
		e := &stub.Events[i]
		e.Name = otlp.Valid(e.Name)
		e.Attributes, e.DroppedAttributeCount = limits.Apply(otlp.ValidAttributes(e.Attributes))
	}
	c.queue.Add(stub.Snapshot())
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
	i := slices.Index(c.processes, p)
	if i >= 0 {
		c.processes = slices.Delete(c.processes, i, i+1)
	}
	c.mu.Unlock()
	if i < 0 {
		return nil
	}
	if p.collect != nil {
		if rm, err := p.collect(ctx); err == nil && len(rm.ScopeMetrics) > 0 {
			c.ended(rm)
		}
	}
	if err := p.metrics.Shutdown(ctx); err != nil {
		return fmt.Errorf("exporting metrics: %w", err)
	}
	return nil
}

// Stats returns how many spans were exported, and how many were not.
func (c *Controller) Stats() otlp.Stats { return c.queue.Stats() }

// Failing returns since when an exporter of spans fails, and its last error in one line. ok is false if no exporter fails.
func (c *Controller) Failing() (since time.Time, err string, ok bool) { return c.queue.Failing() }

// Flush exports the spans that were added before the call, until ctx ends.
func (c *Controller) Flush(ctx context.Context) error { return c.queue.ForceFlush(ctx) }

// Close exports what is left until ctx ends. Of processes that are not closed, metrics that the Controller does not export itself are lost.
func (c *Controller) Close(ctx context.Context) error {
	errs := []error{c.queue.Close(ctx)}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		if err := p.metrics.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("exporting metrics: %w", err))
		}
	}
	c.processes = nil
	return errors.Join(errs...)
}
