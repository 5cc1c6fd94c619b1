package tree

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/spans"
)

// span returns a span of a trace. Its parent is another span of the trace, or 0.
func span(traceID, id, parent, start int, rule spans.Rule) *spans.Span {
	context := func(id int) trace.SpanContext {
		var c trace.SpanContextConfig
		binary.BigEndian.PutUint64(c.TraceID[:], uint64(traceID))
		binary.BigEndian.PutUint64(c.SpanID[:], uint64(id))
		return trace.NewSpanContext(c)
	}
	s := &spans.Span{Context: context(id), Rule: rule, Name: fmt.Sprint(id), Start: int64(start), End: int64(start) + 10}
	if parent != 0 {
		s.Parent = context(parent)
	}
	return s
}

// text returns a tree as the names of its spans, with a dot for each level of depth, and the number of those omitted.
func text(t *Tree) string {
	if t == nil {
		return ""
	}
	list := []string{t.Root.Name}
	for _, n := range t.Spans {
		list = append(list, strings.Repeat(".", n.Depth)+n.Span.Name)
	}
	if t.Omitted > 0 {
		list = append(list, fmt.Sprintf("+%d", t.Omitted))
	}
	return strings.Join(list, " ")
}

func TestCollector(t *testing.T) {
	const (
		root, header, child, created = spans.RuleRoot, spans.RuleHeader, spans.RuleGoroutine, spans.RuleCreator
	)
	for _, test := range []struct {
		name string
		list []*spans.Span // in the order of their ends
		want []string      // trees
	}{
		{"a root alone", []*spans.Span{span(1, 1, 0, 0, root)}, []string{"1"}},
		{"order and depth", []*spans.Span{span(1, 5, 3, 30, child), span(1, 4, 2, 25, child), span(1, 3, 2, 20, child), span(1, 6, 1, 15, created),
			span(1, 2, 1, 10, child), span(1, 1, 0, 0, root)}, []string{"1 .2 ..3 ...5 ..4 .6"}},
		{"omitted parents", []*spans.Span{span(1, 5, 4, 30, child), span(1, 7, 6, 31, child), span(1, 8, 6, 32, child), span(1, 9, 6, 33, child), span(1, 10, 6, 34, child), span(1, 6, 4, 30, child),
			span(1, 11, 3, 35, child), span(1, 4, 3, 20, child), span(1, 3, 1, 10, child), span(1, 1, 0, 0, root)}, []string{"1 .5 .7 .8 .9 .10 +4"}},
		{"equal starts, in the order of the ends", []*spans.Span{span(1, 3, 1, 5, child), span(1, 2, 1, 5, child), span(1, 1, 0, 5, root)}, []string{"1 .3 .2"}},
		{"a request with a parent elsewhere", []*spans.Span{span(1, 2, 1, 5, child), span(1, 1, 99, 0, header)}, []string{"1 .2"}},
		{"two requests of one trace", []*spans.Span{span(1, 12, 11, 5, child), span(1, 22, 21, 6, child), span(1, 11, 99, 0, header), span(1, 23, 21, 7, child),
			span(1, 21, 99, 1, header)}, []string{"11 .12", "21 .22 .23"}},
		{"a request that another one of the program sends", []*spans.Span{span(1, 4, 3, 7, child), span(1, 3, 2, 6, header), span(1, 2, 1, 5, child), span(1, 1, 0, 0, root)},
			[]string{"3 .4", "1 .2"}},
		{"too many spans", []*spans.Span{span(1, 2, 1, 1, child), span(1, 3, 1, 2, child), span(1, 4, 1, 3, child), span(1, 5, 1, 4, child), span(1, 6, 1, 5, child), span(1, 7, 1, 6, child), span(1, 8, 1, 7, child),
			span(1, 1, 0, 0, root)}, []string{"1 .2 .3 .4 .5 .6 +2"}},
		{"spans that end after the root", []*spans.Span{span(1, 2, 1, 1, child), span(1, 1, 0, 0, root), span(1, 4, 3, 9, child), span(1, 3, 1, 8, created), span(1, 5, 3, 9, created)},
			[]string{"1 .2"}},
		{"two traces", []*spans.Span{span(1, 2, 1, 1, child), span(2, 4, 3, 1, child), span(2, 3, 0, 0, root), span(1, 1, 0, 0, root)}, []string{"3 .4", "1 .2"}},
	} {
		c := NewCollector(10, 5)
		var got []string
		for _, s := range test.list {
			if tree := c.Add(s); tree != nil {
				got = append(got, text(tree))
			}
		}
		if !slices.Equal(got, test.want) || c.Dropped() != 0 {
			t.Errorf("%s: %q, want %q; %d dropped", test.name, got, test.want, c.Dropped())
		}
	}
}

// TestTooMany has more requests wait than the collector keeps: those that began first are dropped.
func TestTooMany(t *testing.T) {
	const limit, n = 5, 1000
	c := NewCollector(limit, 2)
	for i := 1; i <= n; i++ {
		for j := range 3 {
			c.Add(span(i, 10*i+1+j, 10*i, j, spans.RuleGoroutine))
		}
	}
	if want := uint64(3 * (n - limit)); c.Dropped() != want {
		t.Errorf("%d spans dropped, want %d", c.Dropped(), want)
	}
	for i, want := range map[int]string{1: "10", n - limit: fmt.Sprint(10 * (n - limit)), n: fmt.Sprintf("%d .%d .%d +1", 10*n, 10*n+1, 10*n+2)} {
		if got := text(c.Add(span(i, 10*i, 0, 0, spans.RuleRoot))); got != want {
			t.Errorf("request %d: %q, want %q", i, got, want)
		}
	}
	if len(c.order) > 3*limit {
		t.Errorf("%d traces are kept", len(c.order))
	}
}

// TestLate has many spans end after their requests: they take no memory, and are not dropped for want of space.
func TestLate(t *testing.T) {
	const limit, n = 5, 1000
	c := NewCollector(limit, 2)
	for i := 1; i <= n; i++ {
		c.Add(span(i, 10*i, 0, 0, spans.RuleRoot))
		c.Add(span(i, 10*i+1, 10*i, 1, spans.RuleCreator))
	}
	if c.Dropped() != 0 || len(c.waiting) != 0 || len(c.over) > limit {
		t.Errorf("%d dropped, %d wait, %d ended spans are kept", c.Dropped(), len(c.waiting), len(c.over))
	}
}
