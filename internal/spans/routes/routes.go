package routes

import (
	"cmp"
	"slices"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/sched"
	"github.com/loupe-go/loupe/spans"
)

// A Route is the sum of the spans of one operation.
type Route struct {
	Library string
	Kind    trace.SpanKind
	Name    string // empty: operations beyond the limit of the Table

	Count, Errors uint64
	Durations     sched.Histogram

	// Own, Started and Created are the sums of spans.Work.
	Own, Started spans.Times
	Created      uint64

	// Allocated is the sum of Work.Allocated; nil if that is not counted.
	Allocated *spans.Allocations
}

type key struct {
	library string
	kind    trace.SpanKind
	name    string
}

// A Table is the sums of all operations.
type Table struct {
	limit  int
	routes map[key]*Route
	last   *Route // to which a span was added
}

// NewTable returns a table for limit operations. Those beyond are combined by library and kind.
func NewTable(limit int) *Table { return &Table{limit: limit, routes: map[key]*Route{}} }

// Add adds a span.
func (t *Table) Add(s *spans.Span) {
	r := t.last
	if r == nil || r.Name != s.Name || r.Kind != s.Kind || r.Library != s.Library {
		r = t.route(key{s.Library, s.Kind, s.Name})
		t.last = r
	}
	r.add(s)
}

// route returns the sum of the spans of an operation.
func (t *Table) route(k key) *Route {
	r := t.routes[k]
	if r == nil && len(t.routes) >= t.limit {
		k.name = ""
		r = t.routes[k]
	}
	if r == nil {
		r = &Route{Library: k.library, Kind: k.kind, Name: k.name}
		t.routes[k] = r
	}
	return r
}

// add adds a span.
func (r *Route) add(s *spans.Span) {
	r.Count++
	if s.Status == codes.Error {
		r.Errors++
	}
	r.Durations.Add(time.Duration(s.End - s.Start))
	if w := s.Work; w != nil {
		for c := range w.Own {
			r.Own[c] += w.Own[c]
			r.Started[c] += w.Started[c]
		}
		r.Created += uint64(w.Created)
		r.allocate(w.Allocated)
	}
}

// allocate adds what a span has allocated, if that is known.
func (r *Route) allocate(a *spans.Allocations) {
	if a == nil {
		return
	}
	if r.Allocated == nil {
		r.Allocated = &spans.Allocations{}
	}
	r.Allocated.Bytes += a.Bytes
	r.Allocated.Objects += a.Objects
}

// Routes returns the operations: servers first, and the most frequent ones of a kind first.
func (t *Table) Routes() []*Route {
	all := make([]*Route, 0, len(t.routes))
	for _, r := range t.routes {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *Route) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Library, b.Library))
	})
	return all
}
