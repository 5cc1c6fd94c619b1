// Package tree collects the spans of a request until the request has ended.
//
// The central type is [Collector].
package tree

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/spans"
)

// A Tree is a request and the spans in it.
type Tree struct {
	Root    *spans.Span
	Spans   []Node // in the order of their starts, parents before children; the root is not among them
	Omitted int    // spans beyond the limit of the collector
}

// A Node is a span and its depth: 1 for children of the root.
type Node struct {
	Span  *spans.Span
	Depth int
}

// A Collector keeps spans that have ended, until the span ends that they belong to. It is not safe for concurrent use.
type Collector struct {
	requests, each int
	waiting        map[trace.TraceID]*pending
	order          []trace.TraceID // of waiting, oldest first; may contain traces that are complete
	dropped        uint64
}

// pending is the spans of a trace whose root has not ended.
type pending struct {
	spans   []*spans.Span
	omitted int
}

// NewCollector returns a collector that keeps spans for a number of requests, and a number of spans for each.
func NewCollector(requests, each int) *Collector {
	return &Collector{requests: requests, each: each, waiting: map[trace.TraceID]*pending{}}
}

// Dropped returns the number of spans that were dropped because too many requests were waiting.
func (c *Collector) Dropped() uint64 { return c.dropped }

// Add takes a span that has ended. If it is the root of a request in this program, Add returns the tree.
func (c *Collector) Add(s *spans.Span) *Tree {
	id := s.Context.TraceID()
	p := c.waiting[id]
	if s.Rule != spans.RuleRoot && s.Rule != spans.RuleHeader {
		if p == nil {
			p = c.begin(id)
		}
		if len(p.spans) < c.each {
			p.spans = append(p.spans, s)
		} else {
			p.omitted++
		}
		return nil
	}
	t := &Tree{Root: s}
	if p == nil {
		return t
	}
	rest := t.take(p.spans)
	t.Omitted = p.omitted
	if len(rest) == 0 {
		delete(c.waiting, id)
	} else {
		p.spans, p.omitted = rest, 0 // of another request with the same trace
	}
	return t
}

func (c *Collector) begin(id trace.TraceID) *pending {
	for len(c.waiting) >= c.requests {
		oldest := c.order[0]
		c.order = c.order[1:]
		if p := c.waiting[oldest]; p != nil {
			c.dropped += uint64(len(p.spans) + p.omitted)
			delete(c.waiting, oldest)
		}
	}
	if len(c.order) > 2*c.requests {
		c.order = slices.DeleteFunc(c.order, func(id trace.TraceID) bool { return c.waiting[id] == nil })
	}
	p := &pending{}
	c.waiting[id] = p
	c.order = append(c.order, id)
	return p
}

// take adds the spans that descend from the root, and returns the others.
func (t *Tree) take(list []*spans.Span) (rest []*spans.Span) {
	children := map[trace.SpanID][]*spans.Span{}
	for _, s := range list {
		children[s.Parent.SpanID()] = append(children[s.Parent.SpanID()], s)
	}
	taken := map[*spans.Span]bool{}
	var visit func(id trace.SpanID, depth int)
	visit = func(id trace.SpanID, depth int) {
		below := children[id]
		slices.SortStableFunc(below, func(a, b *spans.Span) int { return cmp.Compare(a.Start, b.Start) })
		for _, s := range below {
			taken[s] = true
			t.Spans = append(t.Spans, Node{s, depth})
			visit(s.Context.SpanID(), depth+1)
		}
	}
	visit(t.Root.Context.SpanID(), 1)
	for _, s := range list {
		if !taken[s] {
			rest = append(rest, s)
		}
	}
	return rest
}
