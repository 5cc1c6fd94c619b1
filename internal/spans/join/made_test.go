package join

import (
	"encoding/binary"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// contextOf returns a sampled context.
func contextOf(traceID, id uint64) trace.SpanContext {
	c := trace.SpanContextConfig{TraceFlags: trace.FlagsSampled}
	binary.BigEndian.PutUint64(c.TraceID[:8], traceID)
	binary.BigEndian.PutUint64(c.SpanID[:], id)
	return trace.NewSpanContext(c)
}

// makes has a goroutine begin a span of the program, with an ID in a trace.
func (w *world) makes(g, traceID, id uint64, kind trace.SpanKind, family Family, parent trace.SpanContext) *spans.Span {
	s := &spans.Span{G: g, Own: true, Library: "own", Kind: kind, Start: w.tick(), Context: contextOf(traceID, id), Parent: parent}
	w.tracker.Made(Made{Span: s, Family: family, Recorded: true, Exported: true})
	return s
}

// request begins a request of a library that is sent.
func (w *world) request(g uint64, attributes ...attribute.KeyValue) *spans.Span {
	return w.tracker.Begin(&spans.Span{G: g, Library: "lib", Kind: client, Start: w.tick(), Attributes: attributes})
}

var (
	httpRequest = attribute.String("http.request.method", "GET")
	dbQuery     = attribute.String("db.system.name", "postgresql")
	rpcCall     = attribute.String("rpc.system.name", "grpc")
)

// is reports whether a span has the identity of one of the program.
func is(s, own *spans.Span) bool {
	return s.Exported == own.Exported && s.Context.Equal(own.Context) && s.Parent.Equal(own.Parent)
}

// empty checks that nothing remains of what has ended.
func (w *world) empty() {
	w.t.Helper()
	k := w.tracker
	if n := len(k.goroutines) + len(k.entered) + len(k.replaced) + len(k.made) + len(k.detached) + len(k.latest) + len(k.above) + len(k.passed.spans) + len(k.awaited); n != 0 {
		w.t.Errorf("%d entries remain: %+v", n, k)
	}
	if c := k.Counts(); c.Open != 0 || int(c.Ended) != len(w.ended) {
		w.t.Errorf("%+v, %d ended", c, len(w.ended))
	}
}

// TestMadeServer serves a request for which the program makes spans.
func TestMadeServer(t *testing.T) {
	w := newWorld(t, nil)
	remote := contextOf(9, 90).WithRemote(true)
	request := w.begin(1, server, "request")
	own := w.makes(1, 9, 1, server, Unknown, remote)
	if !is(request, own) || request.Rule != spans.RuleHeader || request.Own {
		t.Errorf("%+v is not that of the program", request)
	}
	second := w.makes(1, 9, 2, server, Unknown, own.Context)
	inner := w.makes(1, 9, 3, trace.SpanKindInternal, Unknown, second.Context)
	query := w.request(1, dbQuery)
	if !isChild(query, inner, spans.RuleGoroutine) || query.Exported {
		t.Errorf("%+v is not in the span of the program", query)
	}
	w.end(query)
	w.tracker.MadeEnded(inner.Context.SpanID(), w.tick(), Unknown)
	w.tracker.MadeEnded(inner.Context.SpanID(), w.tick(), Unknown)
	w.create(2, 1)
	if query := w.request(2, dbQuery); !isChild(query, second, spans.RuleCreator) {
		t.Errorf("%+v is not in the span of the creator", query)
	} else {
		w.end(query)
	}
	w.event(event.GoDestroy, 2, nil)
	w.tracker.MadeEnded(own.Context.SpanID(), w.tick(), Unknown)
	w.end(request)
	w.tracker.MadeEnded(second.Context.SpanID(), w.tick(), Unknown)
	if len(w.ended) != 5 || w.ended[1] != inner || w.ended[3] != request || w.ended[4] != second || !second.Exported || second.Rule != spans.RuleContext {
		t.Errorf("ended: %+v", w.ended)
	}
	if c := w.tracker.Counts(); c.Own != 3 {
		t.Errorf("%+v", c)
	}
	w.empty()
}

// TestMadeChild has a goroutine that was created for a request begin the span of it, and another one that of another request.
func TestMadeChild(t *testing.T) {
	w := newWorld(t, nil)
	remote := contextOf(9, 90).WithRemote(true)
	request := w.tracker.Begin(&spans.Span{G: 1, Library: "lib", Kind: server, Start: w.tick(), Parent: remote})
	w.create(2, 1)
	if other := w.makes(2, 8, 5, server, Unknown, contextOf(8, 80).WithRemote(true)); is(request, other) {
		t.Error("a span with another parent describes the request")
	}
	w.tracker.MadeEnded(contextOf(8, 5).SpanID(), w.tick(), Unknown)
	if own := w.makes(2, 9, 6, server, Unknown, remote); !is(request, own) {
		t.Error("a span with the same parent does not describe the request")
	}
	w.event(event.GoDestroy, 2, nil)
	w.tracker.MadeEnded(contextOf(9, 6).SpanID(), w.tick(), Unknown)
	w.end(request)
	w.empty()
}

// TestMadeClient sends requests for which the program makes spans: around them, in them, and after they were detached.
func TestMadeClient(t *testing.T) {
	w := newWorld(t, nil)
	around := w.makes(1, 9, 1, client, HTTP, none)
	for range 2 { // attempts
		sent := w.request(1, httpRequest)
		if !is(sent, around) {
			t.Errorf("%+v is not that of the program", sent)
		}
		w.end(sent)
	}
	query := w.request(1, dbQuery)
	if !isChild(query, around, spans.RuleGoroutine) || query.Exported {
		t.Errorf("%+v of another family is not in the span of the program", query)
	}
	if own := w.makes(1, 9, 2, client, Database, around.Context); !is(query, own) {
		t.Errorf("%+v does not have the identity of the span in it", query)
	}
	other := w.makes(1, 9, 3, client, HTTP, contextOf(9, 2))
	if is(query, other) {
		t.Errorf("%+v has the identity of the second span in it", query)
	}
	for id := range uint64(4) {
		w.tracker.MadeEnded(contextOf(9, id).SpanID(), w.tick(), Unknown)
	}
	w.end(query)
	call := w.request(2, rpcCall)
	w.tracker.Detach(call, 100)
	if own := w.makes(2, 9, 5, client, RPC, none); !is(call, own) {
		t.Errorf("%+v was detached, and does not have the identity of the span in it", call)
	}
	w.tracker.MadeEnded(contextOf(9, 5).SpanID(), w.tick(), Unknown)
	w.end(call)
	w.empty()
	if len(w.ended) != 5 { // two attempts, the query, the other span, the call
		t.Errorf("ended: %+v", w.ended)
	}
}

// TestMadeBefore has the program begin the span of an RPC before the goroutine of the RPC is created.
func TestMadeBefore(t *testing.T) {
	w := newWorld(t, nil)
	remote := contextOf(9, 90).WithRemote(true)
	own := w.makes(1, 9, 1, server, RPC, remote)
	w.create(2, 1)
	call := w.tracker.Begin(&spans.Span{G: 2, Library: "lib", Kind: server, Start: w.tick(), Parent: remote, Attributes: []attribute.KeyValue{rpcCall}})
	if !is(call, own) {
		t.Errorf("%+v is not that of the program", call)
	}
	w.create(3, 1)
	other := w.tracker.Begin(&spans.Span{G: 3, Library: "lib", Kind: server, Start: w.tick(), Parent: remote, Attributes: []attribute.KeyValue{rpcCall}})
	if is(other, own) {
		t.Errorf("%+v has the identity of the span of another call", other)
	}
	w.tracker.MadeEnded(own.Context.SpanID(), w.tick(), Unknown)
	w.end(call)
	w.end(other)
	w.event(event.GoDestroy, 2, nil)
	w.event(event.GoDestroy, 3, nil)
	w.empty()
	if len(w.ended) != 2 {
		t.Errorf("ended: %+v", w.ended)
	}
}

// TestCarries sends requests with headers that the program has set.
func TestCarries(t *testing.T) {
	w := newWorld(t, nil)
	remote := contextOf(9, 90).WithRemote(true)
	request := w.tracker.Begin(&spans.Span{G: 1, Library: "lib", Kind: server, Start: w.tick(), Parent: remote})
	inner := w.makes(1, 9, 1, trace.SpanKindInternal, Unknown, none)
	carrying := func(header trace.SpanContext) *spans.Span {
		s := w.request(1, httpRequest)
		w.tracker.Carries(s, header.WithRemote(true))
		w.end(s)
		return s
	}
	if s := carrying(contextOf(7, 70)); !s.Exported || s.Context.SpanID() != contextOf(7, 70).SpanID() || s.Context.IsRemote() {
		t.Errorf("%+v has the header of an unknown span, which is not that of the program", s)
	}
	for what, header := range map[string]trace.SpanContext{"no header": none, "a header that is passed on": remote, "the header of the request": request.Context,
		"the header of a span that is not sent": inner.Context} {
		if s := carrying(header); s.Exported || !isChild(s, inner, spans.RuleGoroutine) {
			t.Errorf("%s: %+v", what, s)
		}
	}
	outer := w.makes(2, 6, 2, trace.SpanKindInternal, Unknown, none)
	if s := carrying(outer.Context); s.Exported || !isChild(s, outer, spans.RuleContext) {
		t.Errorf("%+v has the header of a span on another goroutine", s)
	}
	call := w.makes(2, 6, 3, client, Unknown, outer.Context)
	if s := carrying(call.Context); !is(s, call) {
		t.Errorf("%+v has the header of a span that is sent", s)
	}
	for _, own := range []*spans.Span{inner, outer, call} {
		w.tracker.MadeEnded(own.Context.SpanID(), w.tick(), Unknown)
	}
	w.end(request)
	w.empty()
}

// TestMadeUnsampled has the program make spans that it does not record.
func TestMadeUnsampled(t *testing.T) {
	w := newWorld(t, nil)
	request := w.begin(1, server, "request")
	own := &spans.Span{G: 1, Own: true, Kind: server, Start: w.tick(), Context: contextOf(9, 1).WithTraceFlags(0)}
	w.tracker.Made(Made{Span: own, Exported: true})
	query := w.request(1, dbQuery)
	if request.Context.IsSampled() || query.Context.IsSampled() || !isChild(query, request, spans.RuleGoroutine) {
		t.Errorf("%+v in %+v is sampled", query, request)
	}
	w.tracker.Made(Made{Span: &spans.Span{G: 3, Own: true, Kind: client, Start: w.tick(), Context: contextOf(8, 1).WithTraceFlags(0)}, Exported: true})
	w.pass(2 * releaseAfter)
	if len(w.released) != 1 || w.released[0] != 3 {
		t.Errorf("released: %v", w.released)
	}
	w.end(query)
	w.end(request)
	w.empty()
}

// TestMadeNeverEnded has the program drop spans that it does not end.
func TestMadeNeverEnded(t *testing.T) {
	w := newWorld(t, nil)
	for i := range uint64(5 * maxMade) {
		w.makes(i, 9, i+1, trace.SpanKindInternal, Unknown, none)
		w.event(event.GoDestroy, i, nil)
	}
	if n := len(w.tracker.made); n > 2*maxMade || len(w.tracker.entered) != n || len(w.tracker.madeOrder) > 2*maxMade || len(w.tracker.goroutines) != 0 {
		t.Errorf("%d spans remain", n)
	}
	if c := w.tracker.Counts(); int(c.Unobserved) != len(w.ended) || len(w.ended) == 0 {
		t.Errorf("%+v, %d ended", c, len(w.ended))
	}
}

// TestDescribes begins spans by an API without an SDK.
func TestDescribes(t *testing.T) {
	w := newWorld(t, nil)
	begun := map[*spans.Span]bool{}
	w.tracker.opt.Begun = func(s *spans.Span) { begun[s] = true }
	w.tracker.opt.Dropped = func(s *spans.Span) { delete(begun, s) }
	own := func(kind trace.SpanKind, attributes ...attribute.KeyValue) *spans.Span {
		return &spans.Span{G: 1, Own: true, Library: "own", Kind: kind, Start: w.tick(), Attributes: attributes}
	}
	request := w.tracker.Begin(&spans.Span{G: 1, Library: "lib", Kind: server, Start: w.tick(), Attributes: []attribute.KeyValue{httpRequest}})
	if w.tracker.Describes(own(server)) != nil || w.tracker.Describes(own(server, rpcCall)) != nil || w.tracker.Describes(own(client, httpRequest)) != nil {
		t.Error("another span describes the request")
	}
	if s := w.tracker.Describes(own(server, httpRequest)); s != request {
		t.Errorf("%+v is not the request", s)
	}
	if w.tracker.Describes(own(server, httpRequest)) != nil {
		t.Error("two spans describe the request")
	}
	call := w.tracker.Enter(&spans.Span{G: 1, Own: true, Library: "x/otelhttp", Kind: client, Start: w.tick()}, nil, false, nil)
	first, second := w.request(1, httpRequest), w.request(1, httpRequest)
	if !isChild(first, request, spans.RuleGoroutine) || first.Context.SpanID() != call.Context.SpanID() || first.Exported || !isChild(second, first, spans.RuleGoroutine) {
		t.Errorf("%+v does not stand for the span around it", first)
	}
	w.end(second)
	w.end(first)
	w.tracker.Exit(call, w.tick())
	w.end(request)
	w.empty()
	if len(w.ended) != 3 {
		t.Errorf("ended: %+v", w.ended)
	}
	for _, s := range w.ended {
		delete(begun, s)
	}
	if len(begun) != 0 {
		t.Errorf("%d spans have begun and neither ended nor been dropped", len(begun))
	}
}
