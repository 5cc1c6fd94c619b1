package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/spans/routes"
	"github.com/loupe-go/loupe/internal/spans/tree"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/spans"
)

// sampleSpan returns a span of a trace that begins some microseconds after the request, and takes others.
func sampleSpan(id, parent byte, kind trace.SpanKind, name string, begin, micros int64, list ...attribute.KeyValue) *spans.Span {
	context := func(id byte) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{10, 15: 1}, SpanID: trace.SpanID{11, 7: id}, TraceFlags: trace.FlagsSampled})
	}
	start := time.Date(2026, 3, 1, 14, 3, 22, 123456789, time.UTC).UnixNano() + begin*1000
	s := &spans.Span{Context: context(id), Library: "net/http", Kind: kind, Name: name, Start: start, End: start + micros*1000, PID: 4711, G: 34, Attributes: list}
	if parent != 0 {
		s.Parent, s.Rule = context(parent), spans.RuleGoroutine
	}
	return s
}

// sampleTree is a request with something of everything, hostile names included.
func sampleTree() *tree.Tree {
	const client = trace.SpanKindClient
	status := func(n int) attribute.KeyValue { return attribute.Int("http.response.status_code", n) }
	url := func(text string) attribute.KeyValue { return attribute.String("url.full", text) }
	root := sampleSpan(1, 0, trace.SpanKindServer, "POST /orders", 0, 20000, attribute.String("url.path", "/orders"), status(503))
	root.Fail("")
	root.Work = &spans.Work{
		Own:     spans.Times{spans.Running: 1500 * time.Microsecond, spans.Runnable: 20 * time.Microsecond, spans.Mutex: 2480 * time.Microsecond, spans.Network: 16 * time.Millisecond},
		Started: spans.Times{spans.Running: time.Millisecond, spans.Select: 9 * time.Millisecond}, Created: 2,
		Holder: spans.Holder{Wait: 2400 * time.Microsecond, G: 77, Func: "example.com/orders.(*ledger).audit\x1b[2J"},
	}
	late := sampleSpan(7, 1, client, "GET", 18000, 2500, url("http://audit.internal/log"))
	late.Links = []trace.SpanContext{sampleSpan(8, 0, trace.SpanKindProducer, "send orders", 0, 0).Context}
	late.Events = []spans.Event{{Name: "retry\x1b[2J", Time: late.Start + 1, Attributes: []attribute.KeyValue{attribute.Int("attempt", 2)}}}
	late.Rule, late.Ending = spans.RuleCreator, spans.Unobserved
	failed := sampleSpan(3, 2, client, "GET", 2000, 3000, url("http://10.0.0.1:8080/stock/\x1b]0;owned\x07?sku=1"), attribute.String("error.type", "*net.OpError"))
	failed.Fail("connection refused")
	return &tree.Tree{Root: root, Omitted: 3, Spans: []tree.Node{
		{Span: sampleSpan(2, 1, client, "POST", 1000, 12000, url("https://payments.example.com/v1/charges/a-long-path-that-does-not-fit-into-a-line-of-the-screen"), status(201)), Depth: 1},
		{Span: failed, Depth: 2},
		{Span: sampleSpan(4, 2, client, "\u202eevil\n\xff", 6000, 0), Depth: 2},
		{Span: sampleSpan(5, 1, client, "GET", 20000, 0, url("http://cache/"), status(200)), Depth: 1},
		{Span: late, Depth: 1},
	}}
}

func TestWaterfall(t *testing.T) {
	for _, width := range []int{0, 80, 120} {
		var b bytes.Buffer
		if err := (Waterfall{Tree: sampleTree(), zone: time.UTC}).Text(&b, term.Style{}, width); err != nil {
			t.Fatal(err)
		}
		golden(t, fmt.Sprintf("waterfall_%d.txt", width), b.Bytes())
		harmless(t, b.String(), width)
	}
}

// harmless fails if a text has lines that are too wide, or something that a terminal would understand.
func harmless(t *testing.T, text string, width int) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); width > 0 && n > width {
			t.Errorf("%d columns, want %d: %s", n, width, line)
		}
		if term.Escape(line) != line {
			t.Errorf("a terminal would understand some of %q", line)
		}
	}
}

// TestWaterfallWithoutTimes has no line about how the time was spent, but says that events were lost.
func TestWaterfallWithoutTimes(t *testing.T) {
	s := sampleSpan(1, 0, trace.SpanKindServer, "GET", 0, 1000)
	for _, c := range []struct {
		uncertain bool
		lines     []string
	}{{false, nil}, {true, []string{"  uncertain: events were lost"}}} {
		s.Work = &spans.Work{Uncertain: c.uncertain}
		var b bytes.Buffer
		if err := (Waterfall{Tree: &tree.Tree{Root: s}}).Text(&b, term.Style{}, 80); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")[1:]; !slices.Equal(lines, c.lines) {
			t.Errorf("uncertain %v: lines %q, want %q", c.uncertain, lines, c.lines)
		}
	}
}

// TestWaterfallSizes draws requests of any length and size: the bars have the same width, and each span has one.
func TestWaterfallSizes(t *testing.T) {
	for _, micros := range []int64{0, 1, 59, 60, 61, 1e6, 3600e6} {
		root := sampleSpan(1, 0, trace.SpanKindServer, "GET /", 0, micros)
		f := Waterfall{Tree: &tree.Tree{Root: root}, zone: time.UTC}
		for begin := int64(0); begin <= micros; begin += max(micros/7, 1) {
			f.Tree.Spans = append(f.Tree.Spans, tree.Node{Span: sampleSpan(2, 1, trace.SpanKindClient, "GET", begin, (micros-begin)/2), Depth: 1})
		}
		// Clocks of processors can differ.
		f.Tree.Spans = append(f.Tree.Spans, tree.Node{Span: sampleSpan(3, 1, trace.SpanKindClient, "GET", -5, micros+10), Depth: 1},
			tree.Node{Span: sampleSpan(4, 1, trace.SpanKindClient, "GET", micros+5, 10), Depth: 1})
		for _, width := range []int{1, 40, 80, 200} {
			var b bytes.Buffer
			if err := f.Text(&b, term.Style{}, width); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
			if len(lines) != 2+len(f.Tree.Spans) {
				t.Fatalf("%d lines for %d spans:\n%s", len(lines), len(f.Tree.Spans), b.String())
			}
			for _, line := range lines[1:] {
				if !strings.Contains(line, "█") || width >= 40 && utf8.RuneCountInString(line) > width {
					t.Errorf("width %d: %q", width, line)
				}
			}
		}
	}
}

// TestWaterfallStyle has colors only where they are wanted.
func TestWaterfallStyle(t *testing.T) {
	var plain bytes.Buffer
	if err := (Waterfall{Tree: sampleTree()}).Text(&plain, term.Style{}, 80); err != nil || strings.Contains(plain.String(), "\x1b") {
		t.Errorf("%v: %q", err, plain.String())
	}
}

// sampleRoutes are operations with something of everything.
func sampleRoutes() []*routes.Route {
	table := routes.NewTable(4)
	for i := range int64(1200) {
		s := sampleSpan(1, 0, trace.SpanKindServer, "GET /items/{id}", 0, 100+i%50)
		s.Work = &spans.Work{Own: spans.Times{spans.Running: 60, spans.Network: 30, spans.Runnable: 10}}
		table.Add(s)
	}
	for range 3 {
		table.Add(sampleTree().Root)
	}
	for _, n := range sampleTree().Spans {
		table.Add(n.Span)
	}
	return table.Routes()
}

func TestRoutes(t *testing.T) {
	for _, test := range []struct {
		name             string
		width, top, rows int
	}{{"0", 0, 0, 0}, {"80", 80, 0, 0}, {"120", 120, 2, 0}, {"screen", 80, 3, 4}} {
		var b bytes.Buffer
		r := Routes{Routes: sampleRoutes(), Elapsed: 2 * time.Second, Top: test.top, Rows: test.rows}
		if err := r.Text(&b, term.Style{}, test.width); err != nil {
			t.Fatal(err)
		}
		golden(t, "routes_"+test.name+".txt", b.Bytes())
		harmless(t, b.String(), test.width)
	}
}

// TestRoutesRows limits the table to the rows of a terminal, whatever its width is.
func TestRoutesRows(t *testing.T) {
	for _, width := range []int{0, 30, 80, 200} {
		for rows := 2; rows < 12; rows++ {
			var b bytes.Buffer
			r := Routes{Routes: sampleRoutes(), Elapsed: time.Second, Rows: rows}
			if err := r.Text(&b, term.Style{}, width); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(b.String(), "\n"); n > rows+2 { // the head, and the number of those that are not shown
				t.Errorf("%d lines in a terminal with %d columns and %d rows:\n%s", n, width, rows+3, b.String())
			}
		}
	}
}

func TestNoRoutes(t *testing.T) {
	var b bytes.Buffer
	if err := (&Routes{}).Text(&b, term.Style{}, 80); err != nil || strings.Count(b.String(), "\n") != 1 {
		t.Errorf("%v: %q", err, b.String())
	}
}

func TestSpanJSON(t *testing.T) {
	var b bytes.Buffer
	sample := sampleTree()
	list := []*spans.Span{sample.Root}
	for _, n := range sample.Spans {
		list = append(list, n.Span)
	}
	for _, s := range list {
		if err := SpanJSON(&b, s); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "spans.json", b.Bytes())
	harmless(t, b.String(), 0)
	for line := range bytes.Lines(b.Bytes()) {
		var doc map[string]any
		if err := json.Unmarshal(line, &doc); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		for _, key := range []string{"traceId", "spanId", "name", "kind", "start", "end", "attributes", "status"} {
			if doc[key] == nil {
				t.Errorf("no %s: %s", key, line)
			}
		}
	}
}

func TestSpanSummary(t *testing.T) {
	for _, test := range []struct {
		sum  SpanSummary
		want string
	}{
		{SpanSummary{Elapsed: 2 * time.Second}, `{"kind":"Summary","seconds":2,"spans":0,"lost":0,"open":0,"unobserved":0,"panicked":0,"events":0,"lostEvents":0}`},
		{SpanSummary{Elapsed: time.Second, Spans: 1, Lost: 2, Open: 3, Unobserved: 4, Panicked: 5, Own: 10, Exported: 6, Dropped: 7, Failed: 8, Events: event.Counts{Received: 9, Lost: 10}},
			`{"kind":"Summary","seconds":1,"spans":1,"lost":2,"open":3,"unobserved":4,"panicked":5,"own":10,"exported":6,"dropped":7,"failed":8,"events":9,"lostEvents":10}`},
	} {
		var b bytes.Buffer
		if err := test.sum.JSON(&b); err != nil || b.String() != test.want+"\n" {
			t.Errorf("%v: %s, want %s", err, b.String(), test.want)
		}
	}
}

// TestAllocated shows what requests allocate, if it is counted.
func TestAllocated(t *testing.T) {
	table := routes.NewTable(4)
	var b bytes.Buffer
	for i := range uint64(2) {
		s := sampleSpan(1, 0, trace.SpanKindServer, "GET /items/{id}", 0, 100)
		s.Work = &spans.Work{Own: spans.Times{spans.Running: 100}, Allocated: &spans.Allocations{Bytes: 2048 + 2048*i, Objects: 1 + 20*i}}
		table.Add(s)
		if err := (Waterfall{Tree: &tree.Tree{Root: s}}).Text(&b, term.Style{}, 80); err != nil {
			t.Fatal(err)
		}
	}
	table.Add(sampleSpan(2, 0, trace.SpanKindClient, "GET", 0, 100))
	if err := (&Routes{Routes: table.Routes(), Elapsed: time.Second}).Text(&b, term.Style{}, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n  allocated 2.0 KiB in 1 object\n", "\n  allocated 4.0 KiB in 21 objects\n", "   MAX  ALLOCATED  KIND    OPERATION", "100µs    3.0 KiB  server  GET /items/{id}", "100µs             client  GET"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %s", want, b.String())
		}
	}
}
