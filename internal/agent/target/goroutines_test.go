package target

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// spansOf returns goroutines of which all have spans, and the spans that they have passed on.
func spansOf(part float64) (*goroutines, *[]GoroutineSpan) {
	var list []GoroutineSpan
	g := &goroutines{emit: func(s GoroutineSpan) { list = append(list, s) }}
	g.settings(10*time.Millisecond, part)
	return g, &list
}

const ms = int64(time.Millisecond)

// TestGoroutineSpans makes spans of lives and waits that are long enough.
func TestGoroutineSpans(t *testing.T) {
	origin := &event.Origin{Start: event.Frame{Func: "main.work"}, CreatedBy: event.Frame{Func: "main.run", File: "/src/main.go", Line: 7}}
	stack := &event.Stack{Frames: []event.Frame{{Func: "main.take"}}}
	g, list := spansOf(1)
	for _, e := range []event.Event{
		{Kind: event.GoStatus, G: 1, Time: 1},
		{Kind: event.GoCreate, G: 2, Time: 1 * ms, Origin: origin},
		{Kind: event.GoCreate, G: 3, Time: 1 * ms, Origin: origin},
		{Kind: event.GoDestroy, G: 3, Time: 2 * ms}, // too short
		{Kind: event.GoBlock, G: 2, Time: 10 * ms, Reason: "chan receive", Stack: stack},
		{Kind: event.GoUnblock, G: 2, Time: 109 * ms}, // too short
		{Kind: event.GoBlock, G: 2, Time: 110 * ms, Reason: "select"},
		{Kind: event.GoUnblock, G: 2, Time: 300 * ms},
		{Kind: event.GoUnblock, G: 2, Time: 900 * ms}, // does not wait
		{Kind: event.GoBlock, G: 9, Time: 1 * ms, Reason: "select"},
		{Kind: event.GoUnblock, G: 9, Time: 900 * ms}, // unknown
		{Kind: event.GoDestroy, G: 1, Time: 900 * ms}, // nobody knows how long it lived
		{Kind: event.GoBlock, G: 2, Time: 400 * ms, Reason: "chan send", Stack: stack},
		{Kind: event.GoUnblock, G: 2, Time: 501 * ms},
		{Kind: event.GoDestroy, G: 2, Time: 502 * ms},
	} {
		g.add(&e)
	}
	if len(*list) != 0 || len(g.begun) != 0 {
		t.Errorf("spans are not held: %v, and %d goroutines are kept", *list, len(g.begun))
	}
	g.tick(time.Now())
	if len(*list) != 0 {
		t.Errorf("%d spans are not held", len(*list))
	}
	g.tick(time.Now().Add(holdFor))
	site := "main.run main.go:7"
	want := []GoroutineSpan{{G: 2, Name: "select", Start: 110 * ms, End: 300 * ms, Site: site},
		{G: 2, Name: "chan send", Start: 400 * ms, End: 501 * ms, Site: site, At: "main.take"},
		{G: 2, Name: "goroutine main.work", Start: 1 * ms, End: 502 * ms, Site: site}}
	if len(*list) != len(want) {
		t.Fatalf("%+v", *list)
	}
	for i, s := range *list {
		if s.G != want[i].G || s.Name != want[i].Name || s.Start != want[i].Start || s.End != want[i].End || s.Site != want[i].Site || s.At != want[i].At {
			t.Errorf("%+v, want %+v", s, want[i])
		}
	}
}

// TestGoroutineSpanParents makes waits during a request children of it.
func TestGoroutineSpanParents(t *testing.T) {
	g, list := spansOf(1)
	context := func(n byte) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{n}, SpanID: trace.SpanID{n}})
	}
	for id := range uint64(2) {
		g.add(&event.Event{Kind: event.GoCreate, G: id + 1, Time: 1})
		for _, begin := range []int64{100 * ms, 1000 * ms} {
			g.add(&event.Event{Kind: event.GoBlock, G: id + 1, Time: begin, Reason: "IO wait"})
			g.add(&event.Event{Kind: event.GoUnblock, G: id + 1, Time: begin + 200*ms})
		}
	}
	inner := &spans.Span{G: 1, Start: 90 * ms, End: 310 * ms, Context: context(1)}
	g.served(inner)
	g.served(&spans.Span{G: 1, Start: 50 * ms, End: 500 * ms, Context: context(2)}) // the wait has a parent already
	g.served(&spans.Span{G: 2, Start: 150 * ms, End: 500 * ms, Context: context(3)})
	g.flush()
	for _, s := range *list {
		want := trace.SpanContext{}
		if s.G == 1 && s.Start == 100*ms {
			want = inner.Context
		}
		if !s.Parent.Equal(want) {
			t.Errorf("goroutine %d at %v: parent %v, want %v", s.G, time.Duration(s.Start), s.Parent, want)
		}
	}
	if len(*list) != 4 {
		t.Errorf("%d spans, want 4", len(*list))
	}
}

// TestGoroutineSpanBounds creates more goroutines than there is room for: those without room are counted, and no span is lost.
func TestGoroutineSpanBounds(t *testing.T) {
	g, list := spansOf(1)
	const more = 100
	for id := range uint64(maxLives + more) {
		g.add(&event.Event{Kind: event.GoCreate, G: id + 1, Time: 1})
	}
	if len(g.begun) != maxLives || g.untracked() != more {
		t.Errorf("%d goroutines are kept and %d dropped, want %d and %d", len(g.begun), g.untracked(), maxLives, more)
	}
	for id := range uint64(maxLives + more) {
		g.add(&event.Event{Kind: event.GoDestroy, G: id + 1, Time: 50 * ms})
	}
	for range more {
		g.add(&event.Event{Kind: event.GoCreate, G: 1, Time: 1})
		g.add(&event.Event{Kind: event.GoDestroy, G: 1, Time: 50 * ms})
	}
	if len(g.held) != maxHeld || len(*list) != more {
		t.Errorf("%d spans are held and %d passed on, want %d and %d", len(g.held), len(*list), maxHeld, more)
	}
	g.flush()
	if len(*list) != maxLives+more {
		t.Errorf("%d spans, want %d", len(*list), maxLives+more)
	}
}

// TestGoroutineSpanPart makes spans of a part of the goroutines, the same ones each time.
func TestGoroutineSpanPart(t *testing.T) {
	g, _ := spansOf(0.1)
	first := 0
	for id := range uint64(10_000) {
		if g.rule.Selects(id) {
			first++
		}
	}
	if first < 900 || first > 1100 {
		t.Errorf("%d of 10000 goroutines have spans, want about 1000", first)
	}
	for id := range uint64(100) {
		g.add(&event.Event{Kind: event.GoCreate, G: id + 1, Time: 1})
	}
	for id := range g.begun {
		if !g.rule.Selects(id) {
			t.Errorf("goroutine %d is kept", id)
		}
	}
	g.settings(time.Millisecond, 0)
	g.add(&event.Event{Kind: event.GoCreate, G: 7, Time: 1})
	if len(g.begun) != 0 {
		t.Errorf("%d goroutines are kept although none has spans", len(g.begun))
	}
}
