package join

import (
	"reflect"
	"testing"

	"go.opentelemetry.io/otel/attribute"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// visit begins a request that the program passes on by an address.
func (w *world) visit(g, address uint64) *spans.Span {
	r := w.tracker.NewServed()
	r.Span.G, r.Span.Library, r.Span.Kind, r.Span.Name, r.Span.Start = g, "lib", server, "serve", w.tick()
	r.Span.Set(attribute.Int("g", int(g)))
	w.tracker.Serve(r, [2]uint64{address})
	return &r.Span
}

// TestReuse serves requests one after the other: each has the memory of the last one, unless something refers to that.
func TestReuse(t *testing.T) {
	for name, refer := range map[string]func(w *world, s *spans.Span){
		"nothing": nil,
		"an operation that goes on": func(w *world, s *spans.Span) {
			w.create(2, s.G)
			w.begin(2, client, "send")
		},
		"a goroutine": func(w *world, s *spans.Span) { w.create(2, s.G) },
		"an operation that is not made yet": func(w *world, s *spans.Span) {
			sent := w.tracker.Begin(&spans.Span{G: 3, Library: "lib", Kind: client, Name: "send", Start: w.tick()}, 0xc0)
			if !isChild(sent, s, spans.RuleContext) {
				w.t.Errorf("%+v is not passed on to %+v", s, sent)
			}
		},
		"what a goroutine has received": func(w *world, s *spans.Span) {
			w.event(event.GoUnblock, 4, func(e *event.Event) {
				e.By, e.Stack = s.G, &event.Stack{Frames: []event.Frame{{Func: "main.send"}}}
			})
		},
		"a span of the program": func(w *world, s *spans.Span) {
			made := &spans.Span{G: s.G, Library: "tracer", Own: true, Kind: server, Start: w.tick(), Attributes: []attribute.KeyValue{attribute.String("http.route", "/")}}
			s.Set(attribute.String("http.request.method", "GET"))
			if w.tracker.Describes(made) != s {
				w.t.Error("it does not describe the request")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Reuse = true })
			first := w.visit(1, 0xc0)
			if refer != nil {
				refer(w, first)
			}
			w.end(first)
			was := first.Clone()
			second := w.visit(1, 0xc1)
			if reused := first == second; reused != (refer == nil) {
				t.Errorf("the memory is reused: %v", reused)
			}
			if refer != nil && !reflect.DeepEqual(first, was) {
				t.Errorf("%+v, was %+v", first, was)
			}
			if second.End != 0 || second.Context.SpanID() == was.Context.SpanID() || len(second.Attributes) != 1 || second.Work.Own != (spans.Times{}) || second.Rule != spans.RuleRoot {
				t.Errorf("the second request begins with %+v", second)
			}
			if found := w.tracker.Passed(0xc1); found != second {
				t.Errorf("%+v is passed on by the address of the second request", found)
			}
			if found := w.tracker.Passed(0xc0); found != nil {
				t.Errorf("%+v is passed on by the address of the first request", found)
			}
			w.end(second)
			if n := len(w.tracker.kept) + len(w.tracker.passed.waiting); n > 0 {
				t.Errorf("%d requests are kept after their ends", n)
			}
			if found := w.tracker.Passed(0xc1, 0xc0); found != nil {
				t.Errorf("%+v is passed on after its end", found)
			}
		})
	}
}

// TestKept does not reuse memory without the option.
func TestKept(t *testing.T) {
	w := newWorld(t, nil)
	first := w.visit(1, 0xc0)
	w.end(first)
	if w.visit(1, 0xc0) == first {
		t.Error("the memory is reused")
	}
}

// TestKeptLate has a goroutine that sends something after the end of the request in which it was created.
func TestKeptLate(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Reuse = true })
	first := w.visit(1, 0xc0)
	w.create(2, 1)
	w.end(first)
	late := w.begin(2, client, "send")
	if !isChild(late, first, spans.RuleCreator) {
		t.Errorf("%+v is not part of %+v", late, first)
	}
	w.end(late)
	w.event(event.GoDestroy, 2, nil)
	if len(w.tracker.kept) > 0 {
		t.Errorf("%d requests are kept after their ends", len(w.tracker.kept))
	}
}

// TestServedWithin has a request in another one of the same goroutine, as those that a handler passes to another server.
func TestServedWithin(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Reuse = true })
	outer := w.visit(1, 0xc0)
	inner := w.visit(1, 0xc1)
	if inner.Work != nil || w.tracker.Passed(0xc1) != inner || w.tracker.Passed(0xc0) != outer {
		t.Errorf("%+v in %+v", inner, outer)
	}
	w.end(inner)
	w.end(outer)
	if len(w.ended) != 2 || w.tracker.Passed(0xc1, 0xc0) != nil {
		t.Errorf("%d spans have ended", len(w.ended))
	}
	if again := w.visit(1, 0xc0); again == inner || again != outer {
		t.Error("the memory of the outer request is not reused, or that of the inner one is")
	}
}
