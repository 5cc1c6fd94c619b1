package instrumentation

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/spans"
)

// span returns a span whose parent has another number; 0 for a root. Each span is named by its number.
func span(id, parent uint64, sampled bool) *spans.Span {
	context := func(id uint64) trace.SpanContext {
		c := trace.SpanContextConfig{TraceID: trace.TraceID{1}}
		binary.BigEndian.PutUint64(c.SpanID[:], id)
		if sampled {
			c.TraceFlags = trace.FlagsSampled
		}
		return trace.NewSpanContext(c)
	}
	s := &spans.Span{Context: context(id), Name: fmt.Sprint(id), Start: int64(id), End: 1000, Library: "test"}
	if parent != 0 {
		s.Parent, s.Rule = context(parent), spans.RuleGoroutine
	}
	return s
}

// TestRelay passes spans in the order of their ends, and compares what the provider receives.
func TestRelay(t *testing.T) {
	const unsampled = 100 // added to the number of a span
	for _, c := range []struct {
		name    string
		most    int
		spans   [][2]uint64 // number, parent
		want    []string    // "number parent", in the order of their starts
		waiting int64       // before close
		orphans uint64
	}{
		{"one", 9, [][2]uint64{{1, 0}}, []string{"1 -"}, 0, 0},
		{"nested", 9, [][2]uint64{{3, 2}, {2, 1}, {1, 0}}, []string{"1 -", "2 1", "3 2"}, 0, 0},
		{"siblings", 9, [][2]uint64{{3, 1}, {2, 1}, {1, 0}}, []string{"1 -", "2 1", "3 1"}, 0, 0},
		{"later", 9, [][2]uint64{{1, 0}, {2, 1}, {3, 2}}, []string{"1 -", "2 1", "3 2"}, 0, 0},
		{"later and nested", 9, [][2]uint64{{1, 0}, {3, 2}, {4, 2}, {2, 1}}, []string{"1 -", "2 1", "3 2", "4 2"}, 0, 0},
		{"no parent", 9, [][2]uint64{{4, 3}, {3, 2}, {2, 1}, {5, 1}}, []string{"2 remote", "3 2", "4 3", "5 remote"}, 4, 2},
		{"too many", 2, [][2]uint64{{4, 3}, {3, 2}, {6, 5}, {2, 1}, {5, 0}, {1, 0}}, []string{"3 remote", "4 3", "5 -", "6 5", "1 -", "2 1"}, 0, 1},
		{"unsampled", 9, [][2]uint64{{4, 103}, {103, 102}, {102, 1}, {5, 1}, {1, 0}}, []string{"1 -", "5 1", "4 1"}, 0, 0},
		{"unsampled root", 9, [][2]uint64{{2, 101}, {101, 0}, {3, 101}}, []string{"2 -", "3 -"}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorder := tracetest.NewSpanRecorder()
			var counts relayCounts
			r := newRelay(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)), "v1", &counts)
			r.most = c.most
			for _, s := range c.spans {
				one := span(s[0], s[1], s[0] < unsampled)
				one.Links = []trace.SpanContext{span(50+s[0], 0, true).Context}
				one.Events = []spans.Event{{Name: "retry", Time: one.Start + 1, Attributes: []attribute.KeyValue{attribute.Int("attempt", 2)}}}
				r.add(one)
			}
			if n := counts.waiting.Load(); n != c.waiting {
				t.Errorf("%d spans wait, want %d", n, c.waiting)
			}
			r.close()
			names := map[trace.SpanID]string{}
			var got []string
			for _, s := range recorder.Started() {
				names[s.SpanContext().SpanID()] = s.Name()
				parent := "-"
				switch {
				case s.Parent().IsRemote():
					parent = "remote"
				case s.Parent().IsValid():
					parent = names[s.Parent().SpanID()]
				}
				got = append(got, s.Name()+" "+parent)
				if l := s.Links(); len(l) != 1 || l[0].SpanContext.SpanID() == s.SpanContext().SpanID() || !l[0].SpanContext.IsValid() {
					t.Errorf("%s has links %+v", s.Name(), l)
				}
			}
			for _, s := range recorder.Ended() {
				if e := s.Events(); len(e) != 1 || e[0].Name != "retry" || e[0].Time.Sub(s.StartTime()) != 1 || len(e[0].Attributes) != 1 {
					t.Errorf("%s has events %+v", s.Name(), e)
				}
			}
			if !slices.Equal(got, c.want) || len(recorder.Ended()) != len(c.want) || int(counts.provided.Load()) != len(c.want) || counts.orphans.Load() != c.orphans ||
				counts.waiting.Load() != 0 || len(r.waiting)+len(r.parents) != 0 {
				t.Errorf("%q, %d orphans; want %q, %d", got, counts.orphans.Load(), c.want, c.orphans)
			}
		})
	}
}

// TestRelayOwn has spans that the program exports itself: they are the parents of others, but are not made once more.
func TestRelayOwn(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	r := newRelay(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)), "v1", new(relayCounts))
	own, inner := span(1, 0, true), span(2, 1, true)
	own.Exported, inner.Exported = true, true
	for _, s := range []*spans.Span{span(3, 2, true), inner, span(4, 1, true), own, span(5, 1, true)} {
		r.add(s)
	}
	r.close()
	parents := map[string]trace.SpanContext{}
	for _, s := range recorder.Ended() {
		if parents[s.Name()] = s.Parent(); s.SpanContext().TraceID() != own.Context.TraceID() {
			t.Errorf("%s is in another trace", s.Name())
		}
	}
	if len(parents) != 3 || parents["3"].SpanID() != inner.Context.SpanID() || parents["4"].SpanID() != own.Context.SpanID() || parents["5"].SpanID() != own.Context.SpanID() {
		t.Errorf("parents: %v", parents)
	}
}

// TestRelayBounded passes many spans. The memory of a relay does not grow.
func TestRelayBounded(t *testing.T) {
	var counts relayCounts
	r := newRelay(sdktrace.NewTracerProvider(), "v1", &counts)
	r.most = 100
	const requests = 20000
	for i := uint64(1); i <= requests; i++ {
		r.add(span(1<<32+i, i, true))
		if i%2 == 0 {
			r.add(span(i, 0, true))
		}
	}
	if len(r.ended) > maxRemembered || len(r.ring) > maxRemembered || len(r.waiting) > 100 || len(r.parents) > 100 || len(r.order) > 2*100+1025 {
		t.Errorf("%d ended, %d waiting, %d ordered", len(r.ended), len(r.waiting), len(r.order))
	}
	r.close()
	if n := counts.provided.Load(); n != requests+requests/2 || counts.orphans.Load() != requests/2 {
		t.Errorf("%d spans, %d orphans", n, counts.orphans.Load())
	}
}
