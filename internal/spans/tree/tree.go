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

	// over are the spans whose children come too late: roots of trees that were returned, and spans that came too late themselves.
	// It has the last ones, which are in overOrder as well, a ring.
	over      map[trace.SpanID]bool
	overOrder []trace.SpanID
	overNext  int
}

// pending is the spans of a trace whose root has not ended.
type pending struct {
	spans   []*spans.Span
	omitted int

	// through has the parents of the omitted spans that have descendants in spans. parents are the parents of the spans in both.
	through map[trace.SpanID]trace.SpanID
	parents map[trace.SpanID]bool
}

// add adds a span, unless there are limit spans.
func (p *pending) add(s *spans.Span, limit int) {
	id, parent := s.Context.SpanID(), s.Parent.SpanID()
	switch {
	case len(p.spans) < limit:
		p.spans = append(p.spans, s)
	case p.parents[id]:
		p.omitted++
		p.through[id] = parent
	default:
		p.omitted++
		return
	}
	p.parents[parent] = true
}

// parent returns the nearest ancestor of a span that is not omitted.
func (p *pending) parent(s *spans.Span) trace.SpanID {
	id := s.Parent.SpanID()
	for {
		above, ok := p.through[id]
		if !ok {
			return id
		}
		id = above
	}
}

// NewCollector returns a collector that keeps spans for a number of requests, and a number of spans for each.
func NewCollector(requests, each int) *Collector {
	return &Collector{requests: requests, each: each, waiting: map[trace.TraceID]*pending{}, over: map[trace.SpanID]bool{}}
}

// Dropped returns the number of spans that were dropped because too many requests were waiting.
func (c *Collector) Dropped() uint64 { return c.dropped }

// Add takes a span that has ended. If it is the root of a request in this program, Add returns the tree. Spans that end after the
// root, such as those of a goroutine that outlives the request, are not in the tree.
func (c *Collector) Add(s *spans.Span) *Tree {
	id := s.Context.TraceID()
	p := c.waiting[id]
	root := s.Rule == spans.RuleRoot || s.Rule == spans.RuleHeader
	if late := !root && c.over[s.Parent.SpanID()]; root || late {
		c.end(s.Context.SpanID())
		if late {
			return nil
		}
	}
	if !root {
		if p == nil {
			p = c.begin(id)
		}
		p.add(s, c.each)
		return nil
	}
	t := &Tree{Root: s}
	if p == nil {
		return t
	}
	rest := t.take(p)
	t.Omitted = p.omitted
	if len(rest) == 0 {
		delete(c.waiting, id)
	} else {
		p.spans, p.omitted = rest, 0 // of another request with the same trace
	}
	return t
}

// end notes that children of a span come too late from now on.
func (c *Collector) end(id trace.SpanID) {
	if len(c.overOrder) < c.requests {
		c.overOrder = append(c.overOrder, id)
	} else {
		delete(c.over, c.overOrder[c.overNext])
		c.overOrder[c.overNext] = id
		c.overNext = (c.overNext + 1) % c.requests
	}
	c.over[id] = true
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
	p := &pending{through: map[trace.SpanID]trace.SpanID{}, parents: map[trace.SpanID]bool{}}
	c.waiting[id] = p
	c.order = append(c.order, id)
	return p
}

// take adds the spans that descend from the root, and returns the others.
func (t *Tree) take(p *pending) (rest []*spans.Span) {
	children := map[trace.SpanID][]*spans.Span{}
	for _, s := range p.spans {
		parent := p.parent(s)
		children[parent] = append(children[parent], s)
	}
	taken := map[*spans.Span]bool{}
	var visit func(id trace.SpanID, depth int)
	visit = func(id trace.SpanID, depth int) {
		below := children[id]
		slices.SortStableFunc(below, func(a, b *spans.Span) int { return cmp.Compare(a.Start, b.Start) })
		for _, s := range below {
			if taken[s] { // attempts to send one request can have one identity: that of the program's own span
				continue
			}
			taken[s] = true
			t.Spans = append(t.Spans, Node{s, depth})
			visit(s.Context.SpanID(), depth+1)
		}
	}
	visit(t.Root.Context.SpanID(), 1)
	for _, s := range p.spans {
		if !taken[s] {
			rest = append(rest, s)
		}
	}
	return rest
}
