package instrumentation

import (
	"cmp"
	"context"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/spans/control"
	"github.com/loupe-go/loupe/spans"
)

// Limits of a relay.
const (
	maxWaiting    = 65536 // spans that wait for their parents
	maxRemembered = 4096  // spans that have ended, and can still be the parents of others
)

// A relay makes the spans of one process once more, with a TracerProvider. Children end before their parents, but must be started after
// them: so a span waits until its parent has ended. It is not safe for concurrent use.
//
// Package tree collects the spans of a request for the same reason. It does not keep those that end after the request.
type relay struct {
	provider trace.TracerProvider
	version  string
	counts   *relayCounts
	most     int // maxWaiting

	waiting map[trace.SpanID][]*spans.Span // by parent
	parents map[trace.SpanID]trace.SpanID  // of the spans in waiting
	order   []trace.SpanID                 // keys of waiting, oldest first; may contain others

	ended map[trace.SpanID]trace.SpanContext // of the provider
	ring  []trace.SpanID                     // keys of ended
	next  int                                // the oldest in ring, if it is full
}

// relayCounts are the numbers of all relays of an Instrumentation.
type relayCounts struct {
	provided, orphans atomic.Uint64
	waiting           atomic.Int64
}

func newRelay(provider trace.TracerProvider, version string, counts *relayCounts) *relay {
	return &relay{provider: provider, version: version, counts: counts, most: maxWaiting,
		waiting: map[trace.SpanID][]*spans.Span{}, parents: map[trace.SpanID]trace.SpanID{}, ended: map[trace.SpanID]trace.SpanContext{}}
}

// add takes a span that has ended.
func (r *relay) add(s *spans.Span) {
	ctx := context.Background()
	switch {
	case s.Exported || s.Rule == spans.RuleRoot:
		r.pass(ctx, s)
		return
	case s.Rule == spans.RuleHeader:
		r.pass(trace.ContextWithRemoteSpanContext(ctx, s.Parent), s)
		return
	}
	parent := s.Parent.SpanID()
	if c, ok := r.ended[parent]; ok {
		r.pass(trace.ContextWithSpanContext(ctx, c), s)
		return
	}
	for len(r.parents) >= r.most {
		r.abandonOldest()
	}
	if r.waiting[parent] == nil {
		r.order = append(r.order, parent)
	}
	r.waiting[parent] = append(r.waiting[parent], s)
	r.parents[s.Context.SpanID()] = parent
	r.counts.waiting.Add(1)
	if len(r.order) > 2*len(r.waiting)+1024 {
		r.order = slices.DeleteFunc(r.order, func(id trace.SpanID) bool { return r.waiting[id] == nil })
	}
}

// close passes on the spans that wait. Their parents do not end any more.
func (r *relay) close() {
	for len(r.waiting) > 0 {
		r.abandonOldest()
	}
}

// abandonOldest passes on the spans that wait for the same span as the oldest, or for one above it.
func (r *relay) abandonOldest() {
	parent := r.order[0]
	if r.waiting[parent] == nil {
		r.order = r.order[1:]
		return
	}
	for above, ok := r.parents[parent]; ok; above, ok = r.parents[parent] {
		parent = above
	}
	list := r.take(parent)
	r.counts.orphans.Add(uint64(len(list)))
	for _, s := range list {
		r.pass(trace.ContextWithRemoteSpanContext(context.Background(), s.Parent), s)
	}
}

// take returns the spans that wait for a parent, in the order of their starts. They do not wait any more.
func (r *relay) take(parent trace.SpanID) []*spans.Span {
	list := r.waiting[parent]
	delete(r.waiting, parent)
	for _, s := range list {
		delete(r.parents, s.Context.SpanID())
	}
	r.counts.waiting.Add(-int64(len(list)))
	slices.SortStableFunc(list, func(a, b *spans.Span) int { return cmp.Compare(a.Start, b.Start) })
	return list
}

// pass passes on a span, and those that wait for it. If the span is not sampled, its parent is the parent of these. One that the program
// exports itself is their parent, but is not made once more.
func (r *relay) pass(ctx context.Context, s *spans.Span) {
	var span trace.Span
	switch {
	case s.Exported:
		ctx = trace.ContextWithRemoteSpanContext(ctx, s.Context)
	case s.Context.IsSampled():
		ctx, span = r.tracer(s).Start(ctx, s.Name, trace.WithSpanKind(s.Kind), trace.WithTimestamp(time.Unix(0, s.Start)), trace.WithAttributes(s.AllAttributes()...))
		for _, c := range s.Links {
			span.AddLink(trace.Link{SpanContext: c})
		}
		for _, e := range s.Events {
			span.AddEvent(e.Name, trace.WithTimestamp(time.Unix(0, e.Time)), trace.WithAttributes(e.Attributes...))
		}
		if s.Status != codes.Unset {
			span.SetStatus(s.Status, s.Message)
		}
		r.counts.provided.Add(1)
	}
	r.remember(s.Context.SpanID(), trace.SpanContextFromContext(ctx))
	for _, child := range r.take(s.Context.SpanID()) {
		r.pass(ctx, child)
	}
	if span != nil {
		span.End(trace.WithTimestamp(time.Unix(0, s.End)))
	}
}

// tracer returns the tracer for a span. Loupe does not know the version of the program's own tracers.
func (r *relay) tracer(s *spans.Span) trace.Tracer {
	if s.Own {
		return r.provider.Tracer(control.ScopeName(s))
	}
	return r.provider.Tracer(control.ScopeName(s), trace.WithInstrumentationVersion(r.version), trace.WithSchemaURL(semconv.SchemaURL))
}

// remember keeps the context of a span for children that end later.
func (r *relay) remember(id trace.SpanID, c trace.SpanContext) {
	if len(r.ring) < maxRemembered {
		r.ring = append(r.ring, id)
	} else {
		delete(r.ended, r.ring[r.next])
		r.ring[r.next] = id
		r.next = (r.next + 1) % maxRemembered
	}
	r.ended[id] = c
}

// version returns the version of Loupe in this program.
func version() string {
	const module = "github.com/loupe-go/loupe"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" {
			return m.Version
		}
	}
	return "(devel)"
}
