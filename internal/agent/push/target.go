package push

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/spans/control"
	"github.com/loupe-go/loupe/spans"
)

// A Target exports the spans, log records and profiles of one process, or of the agent. It is created by [Pusher.Target].
type Target struct {
	pusher  *Pusher
	spans   *control.Process
	current atomic.Pointer[described]
}

// described is a target as it was described last.
type described struct {
	id  metric.Identity
	res *resource.Resource
	log logger
}

// Target returns a target. A zero identity is that of the agent. The caller closes the target when the process has ended.
func (p *Pusher) Target(id metric.Identity) (*Target, error) {
	t := &Target{pusher: p}
	res := p.resources.of(&id)
	process, err := p.controller.Resource(context.Background(), res)
	if err != nil {
		return nil, err
	}
	t.spans = process
	t.describe(id, res)
	return t, nil
}

// Describe changes the identity of a target, for example when its pod becomes known.
func (t *Target) Describe(id metric.Identity) { t.describe(id, t.pusher.resources.of(&id)) }

func (t *Target) describe(id metric.Identity, res *resource.Resource) {
	d := &described{id: id, res: res}
	if t.pusher.logs != nil {
		d.log = t.pusher.logs.logger(res, t.pusher.scope)
	}
	t.current.Store(d)
	t.spans.Describe(res)
}

// Sample decides whether a request span is sampled: loupe.SpanOptions.Sample.
func (t *Target) Sample(s *spans.Span) bool { return t.spans.Sample(s) }

// Handle exports a request span that has ended, and records its duration: loupe.SpanOptions.Handle.
func (t *Target) Handle(s *spans.Span) { t.spans.Handle(s) }

// Close ends a target whose process has ended. last has its metrics, which are exported once more.
func (t *Target) Close(last metric.Group) {
	if m := t.pusher.metrics; m != nil && len(last.Points) > 0 {
		m.keep(t.pusher.requestsOf([]metric.Group{last}))
	}
	_ = t.spans.Close(context.Background()) // it has no exporter that could fail
}

// A GoroutineSpan is a part of the life of a goroutine: a long wait, or all of it. The caller samples.
type GoroutineSpan struct {
	Goroutine  uint64 // its ID
	Name       string // "chan receive" or "goroutine worker.run"
	Start, End int64  // nanoseconds since the Unix epoch
	Attributes []attribute.KeyValue
	Parent     trace.SpanContext // the request that the goroutine worked for; zero if unknown. One that is not sampled becomes a link.
	Links      []trace.SpanContext
}

// Goroutine exports a span of a goroutine, and returns its context.
func (t *Target) Goroutine(s GoroutineSpan) trace.SpanContext {
	if !t.pusher.traces {
		return trace.SpanContext{}
	}
	stub := tracetest.SpanStub{
		Name: clean(s.Name, maxText), SpanKind: trace.SpanKindInternal, StartTime: time.Unix(0, s.Start), EndTime: time.Unix(0, s.End),
		Attributes: append(cleanAll(s.Attributes), attribute.Int64("go.goroutine.id", int64(s.Goroutine))),
		Resource:   t.current.Load().res, InstrumentationScope: t.pusher.scope,
	}
	id := trace.SpanContextConfig{TraceFlags: trace.FlagsSampled}
	switch {
	case s.Parent.IsSampled():
		stub.Parent, id.TraceID = s.Parent, s.Parent.TraceID()
	case s.Parent.IsValid():
		stub.Links = append(stub.Links, sdktrace.Link{SpanContext: s.Parent})
	}
	for _, l := range s.Links {
		stub.Links = append(stub.Links, sdktrace.Link{SpanContext: l})
	}
	if !id.TraceID.IsValid() {
		binary.NativeEndian.PutUint64(id.TraceID[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(id.TraceID[8:], rand.Uint64()|1)
	}
	binary.NativeEndian.PutUint64(id.SpanID[:], rand.Uint64()|1)
	stub.SpanContext = trace.NewSpanContext(id)
	t.pusher.controller.Add(stub)
	return stub.SpanContext
}

// Alert exports an alert as a log record.
func (t *Target) Alert(a Alert) {
	if t.pusher.logs != nil {
		t.current.Load().log.emit(a)
	}
}

// Profile exports a profile. kind is what it measures: cpu, heap, block or mutex. The profile can change after the call.
func (t *Target) Profile(kind string, p *profile.Profile) {
	if t.pusher.profiles != nil {
		d := t.current.Load()
		t.pusher.profiles.add(&d.id, d.res, kind, p)
	}
}
