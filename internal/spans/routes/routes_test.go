package routes

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/spans"
)

func span(library string, kind trace.SpanKind, name string, d time.Duration) *spans.Span {
	return &spans.Span{Library: library, Kind: kind, Name: name, Start: 1000, End: 1000 + int64(d)}
}

// names returns what identifies each operation, and its count.
func names(list []*Route) []string {
	var all []string
	for _, r := range list {
		all = append(all, fmt.Sprintf("%s %v %q %d", r.Library, r.Kind, r.Name, r.Count))
	}
	return all
}

func TestSums(t *testing.T) {
	table := NewTable(10)
	ok, failed := span("net/http", trace.SpanKindServer, "GET /", 10*time.Millisecond), span("net/http", trace.SpanKindServer, "GET /", 30*time.Millisecond)
	ok.Work = &spans.Work{Own: spans.Times{spans.Running: 4, spans.Chan: 6}, Started: spans.Times{spans.Network: 7}, Created: 2}
	failed.Work = &spans.Work{Own: spans.Times{spans.Running: 30}, Started: spans.Times{spans.Network: 1, spans.Sleep: 5}, Created: 1}
	failed.Fail("503")
	table.Add(ok)
	table.Add(failed)
	table.Add(span("net/http", trace.SpanKindServer, "GET /", 0)) // without work
	r := table.Routes()[0]
	if r.Count != 3 || r.Errors != 1 || r.Durations.Count() != 3 || r.Durations.Max() != 30*time.Millisecond || r.Created != 3 ||
		r.Own != (spans.Times{spans.Running: 34, spans.Chan: 6}) || r.Started != (spans.Times{spans.Network: 8, spans.Sleep: 5}) {
		t.Errorf("%+v", r)
	}
}

func TestOrder(t *testing.T) {
	table := NewTable(10)
	for _, s := range []*spans.Span{span("b", trace.SpanKindClient, "x", 1), span("a", trace.SpanKindClient, "x", 1), span("a", trace.SpanKindClient, "y", 1),
		span("a", trace.SpanKindClient, "y", 1), span("a", trace.SpanKindServer, "z", 1), span("a", trace.SpanKindClient, "z", 1)} {
		table.Add(s)
	}
	want := []string{`a server "z" 1`, `a client "y" 2`, `a client "x" 1`, `b client "x" 1`, `a client "z" 1`}
	if got := names(table.Routes()); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLimit adds more operations than the table keeps. The others are combined by library and kind.
func TestLimit(t *testing.T) {
	table := NewTable(3)
	for i := range 10 {
		table.Add(span("a", trace.SpanKindServer, fmt.Sprint(i), 1))
		table.Add(span("a", trace.SpanKindClient, fmt.Sprint(i), 1))
		table.Add(span("b", trace.SpanKindClient, fmt.Sprint(i), 1))
	}
	table.Add(span("a", trace.SpanKindServer, "0", 1)) // is kept
	want := []string{`a server "" 9`, `a server "0" 2`, `a client "" 9`, `b client "" 9`, `a client "0" 1`, `b client "0" 1`}
	if got := names(table.Routes()); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
