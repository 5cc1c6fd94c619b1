package join

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// TestMadeLate has the program make client spans whose attributes are known at their ends.
func TestMadeLate(t *testing.T) {
	for _, c := range []struct {
		name   string
		family Family
		same   bool
		during func(w *world, own *spans.Span) // between the begin and the end of the operation
		before bool                            // the program's span ends before the operation does
	}{
		{"of the same family", HTTP, true, nil, false},
		{"of the same family, ends first", HTTP, true, nil, true},
		{"of another family", Database, false, nil, false},
		{"without attributes", Unknown, false, nil, false},
		{"without attributes, ends first", Unknown, false, nil, true},
		{"with an operation in the operation", HTTP, false, func(w *world, _ *spans.Span) { w.end(w.request(1, dbQuery)) }, false},
		{"with an operation of a goroutine that was created", HTTP, false, func(w *world, _ *spans.Span) {
			w.create(2, 1)
			w.end(w.request(2, dbQuery))
			w.event(event.GoDestroy, 2, nil)
		}, true},
		{"with a span of the program in the operation", HTTP, true, func(w *world, own *spans.Span) {
			w.makes(1, 9, 7, trace.SpanKindInternal, Unknown, own.Context)
			w.tracker.MadeEnded(contextOf(9, 7).SpanID(), w.tick(), Unknown)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			parent := contextOf(9, 90)
			own := w.makes(1, 9, 1, client, Unknown, parent)
			sent := w.request(1, httpRequest)
			if c.during != nil {
				c.during(w, own)
			}
			ends := []func(){func() { w.end(sent) }, func() { w.tracker.MadeEnded(own.Context.SpanID(), w.tick(), c.family) }}
			if c.before {
				ends[0], ends[1] = ends[1], ends[0]
			}
			for _, end := range ends {
				end()
			}
			if c.same && !is(sent, own) || !c.same && (sent.Exported || !isChild(sent, own, spans.RuleGoroutine)) {
				t.Errorf("sent %+v in %+v", sent, own)
			}
			passed := map[*spans.Span]bool{}
			for _, s := range w.ended {
				passed[s] = true
			}
			if !passed[sent] || passed[own] == c.same {
				t.Errorf("ended: %+v", w.ended)
			}
			w.empty()
		})
	}
}

// TestMadeLateIn has the program begin such a span in the operation, and after it was detached.
func TestMadeLateIn(t *testing.T) {
	for _, detached := range []bool{false, true} {
		w := newWorld(t, nil)
		call := w.request(1, rpcCall)
		if detached {
			w.tracker.Detach(call, 100)
		}
		own := w.makes(1, 9, 1, client, Unknown, none)
		other := w.makes(1, 9, 2, client, Unknown, own.Context)
		w.end(call)
		if len(w.ended) != 0 {
			t.Error("the operation was passed on before the end of the span of the program")
		}
		w.tracker.MadeEnded(other.Context.SpanID(), w.tick(), RPC)
		w.tracker.MadeEnded(own.Context.SpanID(), w.tick(), RPC)
		if !is(call, own) || len(w.ended) != 2 || w.ended[0] != other || w.ended[1] != call {
			t.Errorf("%+v does not have the identity of the span in it, ended: %+v", call, w.ended)
		}
		w.empty()
	}
}

// TestMadeLateMany has two operations in one span of the program, and a span that does not end.
func TestMadeLateMany(t *testing.T) {
	w := newWorld(t, nil)
	own := w.makes(1, 9, 1, client, Unknown, none)
	for range 2 {
		w.end(w.request(1, httpRequest))
	}
	if len(w.ended) != 2 {
		t.Errorf("ended: %+v", w.ended)
	}
	w.tracker.MadeEnded(own.Context.SpanID(), w.tick(), HTTP)
	for _, s := range w.ended[:2] {
		if !isChild(s, own, spans.RuleGoroutine) {
			t.Errorf("%+v is not in the span of the program", s)
		}
	}
	w.empty()
	open := w.makes(1, 9, 2, client, Unknown, none)
	late := w.request(1, httpRequest)
	w.end(late)
	w.now += holdsLast + 1
	other := w.request(2, dbQuery)
	if len(w.ended) != 4 || w.ended[3] != late || !isChild(late, open, spans.RuleGoroutine) {
		t.Errorf("ended: %+v", w.ended)
	}
	w.tracker.MadeEnded(open.Context.SpanID(), w.tick(), HTTP)
	w.end(other)
	w.empty()
	var many []*spans.Span
	for id := range uint64(maxHeld + 2) {
		w.makes(100+id, 9, 100+id, client, Unknown, none)
		many = append(many, w.request(100+id, httpRequest))
	}
	n := len(w.ended)
	for _, s := range many {
		w.tracker.End(s, w.tracker.now)
	}
	w.event(event.GoDestroy, 5, nil)
	if len(w.ended) != n+2 {
		t.Errorf("%d passed on, want the 2 oldest", len(w.ended)-n)
	}
	w.tracker.Close()
	if len(w.ended) != n+len(many) {
		t.Errorf("%d passed on, want all", len(w.ended)-n)
	}
}
