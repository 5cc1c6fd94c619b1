package join

import (
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/spans"
)

// A Family is the kind of operation that the attributes of a span describe.
type Family uint8

// The families, in the order in which the keys of attributes tell them: an RPC can have attributes of HTTP, too.
const (
	Unknown Family = iota
	RPC
	Database
	Messaging
	HTTP
)

// familyKeys are the beginnings of the keys of attributes of each family.
var familyKeys = []struct {
	prefix string
	family Family
}{{"rpc.", RPC}, {"db.", Database}, {"messaging.", Messaging}, {"http.", HTTP}, {"url.", HTTP}}

// With returns the family of a span that has attributes of a family and one with a key, of which the first 8 bytes are sufficient.
func (f Family) With(key string) Family {
	for _, k := range familyKeys {
		if strings.HasPrefix(key, k.prefix[:min(len(k.prefix), 8)]) && (f == Unknown || k.family < f) {
			return k.family
		}
	}
	return f
}

// tracers are parts of the names of tracers whose spans may have no attributes at first.
var tracers = []struct {
	part   string
	family Family
}{{"otelhttp", HTTP}, {"otelgrpc", RPC}, {"otelsql", Database}, {"otelpgx", Database}, {"otelmongo", Database}, {"redisotel", Database},
	{"otelgorm", Database}, {"otelsarama", Messaging}, {"kotel", Messaging}}

// familyOf returns the family of a span, by its attributes, or else by the tracer of a span of the program.
func familyOf(s *spans.Span) Family {
	f := Unknown
	for _, kv := range s.Attributes {
		f = f.With(string(kv.Key))
	}
	for _, t := range tracers {
		if f == Unknown && s.Own && strings.Contains(s.Library, t.part) {
			f = t.family
		}
	}
	return f
}

// Made is a span that the program itself has begun, by an SDK.
type Made struct {
	// Span has its goroutine, tracer, name, kind, start, context and parent.
	Span     *spans.Span
	Family   Family // of the attributes with which it begins
	Recorded bool   // by the SDK: MadeEnded will be called
	Exported bool   // the SDK exports it, if it is sampled

	replaces bool // spans of libraries have its identity

	// awaits is the operation of which it may turn out to be the span, when it ends: see await. several is set if it cannot be.
	awaits  *spans.Span
	several bool
}

// maxMade bounds the number of spans of the program that have not ended. Older ones may never end.
const maxMade = 1 << 14

// Made takes a span that the program has begun. If it describes an operation that a library has reported, the span of the library gets its
// identity, and need not be exported:
//
//   - A server span describes the innermost request that its goroutine serves, or for which the goroutine was created if both have the same
//     parent; but only the first such span of a request does.
//   - A client or producer span describes the operation in which it begins or which begins in it, directly and on the same goroutine, if
//     the attributes of both are of one family. A request whose traceparent header has the context of a client span is described by it.
//     If the family is unknown at first, the attributes that the span has at its end decide, if there is only one such operation.
//   - A consumer span describes the message that its goroutine processes, if both have the same parent.
//
// Otherwise it is a span like those of Enter, with the context that it has.
func (t *Tracker) Made(m Made) {
	s := m.Span
	g := t.add(s.G, s.Start)
	s.PID = t.opt.PID
	if !s.Context.IsValid() {
		t.settle(g, true)
		return
	}
	if m.Family == Unknown {
		m.Family = familyOf(s)
	}
	s.Exported = m.Exported
	s.Rule = ruleOf(s.Parent)
	same := t.described(g, &m)
	if same != nil {
		t.replace(same, &m)
	}
	if m.Recorded {
		t.keepMade(&m, s.Start)
	}
	if same != nil || !m.Recorded {
		t.settle(g, true)
		return
	}
	if len(g.open) == 0 {
		g.losses = t.loss.count
	}
	t.awaitAround(g, t.made[s.Context.SpanID()])
	if parent := t.openParent(g, s.Parent.SpanID()); parent != nil {
		t.keep(parent)
		t.above[s] = parent
	}
	g.open = append(g.open, s)
	g.listed = true
	t.entered[s] = true
}

// openParent returns the open span with an ID that a goroutine is in, or in which it was created; or else the program's own one; or nil.
func (t *Tracker) openParent(g *goroutine, id trace.SpanID) *spans.Span {
	for _, s := range slices.Backward(g.open) {
		if s.Context.SpanID() == id {
			return s
		}
	}
	if s := g.inherited; s != nil && s.End == 0 && s.Context.SpanID() == id {
		return s
	}
	if m := t.made[id]; m != nil && !m.replaces {
		return m.Span
	}
	return nil
}

// ruleOf returns why a context that the program has given to its own span is the parent.
func ruleOf(parent trace.SpanContext) spans.Rule {
	switch {
	case !parent.IsValid():
		return spans.RuleRoot
	case parent.IsRemote():
		return spans.RuleHeader
	}
	return spans.RuleContext
}

// described returns the open span of a library whose operation a new span of the program describes, or nil.
func (t *Tracker) described(g *goroutine, m *Made) *spans.Span {
	parent := m.Span.Parent.SpanID()
	switch m.Span.Kind {
	case trace.SpanKindServer:
		if s := t.innermostOf(g, trace.SpanKindServer); s != nil {
			if t.replaced[s] {
				return nil
			}
			return s
		}
		if r := g.request; r != nil && g.child && r.span.Kind == trace.SpanKindServer && !t.replaced[r.span] && r.span.Parent.SpanID() == parent {
			return r.span
		}
	case trace.SpanKindConsumer:
		if s := t.innermostOf(g, trace.SpanKindConsumer); s != nil && !t.replaced[s] && parent.IsValid() && s.Parent.SpanID() == parent {
			return s
		}
	case trace.SpanKindClient, trace.SpanKindProducer:
		if n := len(g.open); n > 0 && !t.entered[g.open[n-1]] && t.sameOperation(m, g.open[n-1]) {
			return g.open[n-1]
		}
		if s := t.latest[g.id]; s != nil && t.sameOperation(m, s) {
			return s
		}
	}
	return nil
}

// innermostOf returns the innermost open span of a kind that a library has begun, or nil.
func (t *Tracker) innermostOf(g *goroutine, kind trace.SpanKind) *spans.Span {
	for _, s := range slices.Backward(g.open) {
		if s.Kind == kind && !t.entered[s] {
			return s
		}
	}
	return nil
}

// sameOperation reports whether a span of the program and one of a library, of which one is directly in the other, describe one operation
// that is sent. What the program does not export has one span only.
func (t *Tracker) sameOperation(m *Made, s *spans.Span) bool {
	kind := m.Span.Kind == s.Kind || m.Family == Messaging && outgoing(m.Span.Kind) && outgoing(s.Kind)
	return kind && outgoing(s.Kind) && m.Family != Unknown && m.Family == familyOf(s) && !t.replaced[s] && (m.Exported || !m.replaces)
}

// replace gives the span of a library the identity of a span of the program. That is not passed on then.
func (t *Tracker) replace(s *spans.Span, m *Made) {
	m.replaces = true
	t.replaced[s] = true
	s.Exported = m.Exported
	s.Parent, s.Rule = m.Span.Parent, m.Span.Rule
	s.Context = m.Span.Context.WithTraceState(s.Context.TraceState())
}

// describe gives a span of a library that has begun the identity of the span of the program in which it begins, if that describes the same
// operation. chosen is whether the probes have chosen the context of the span, which is sent: if they know the span of the program, they
// have chosen its context.
func (t *Tracker) describe(g *goroutine, s *spans.Span, chosen bool) {
	if len(t.made) == 0 {
		return
	}
	if m := t.made[s.Context.SpanID()]; chosen && m != nil {
		t.replace(s, m)
		return
	}
	var around *spans.Span
	switch n := len(g.open); {
	case n > 0:
		around = g.open[n-1]
	case s.Kind == trace.SpanKindServer: // before v1.60.0 gRPC calls the program before it creates the goroutine of the request
		around = g.inherited
	}
	if around == nil || !t.entered[around] {
		return
	}
	m := t.made[around.Context.SpanID()]
	if m == nil || m.Span != around {
		return
	}
	served := s.Kind == trace.SpanKindServer && around.Kind == s.Kind && len(g.open) == 0 && m.Family == familyOf(s) && !m.replaces &&
		s.Parent.SpanID() == around.Parent.SpanID()
	switch {
	case served || !chosen && t.sameOperation(m, s):
		t.replace(s, m)
	case !chosen:
		t.await(m, s)
	}
}

// Carries takes the traceparent header that the program itself has set for a request that has begun. The program has made a span of the
// request, whose context this is, unless it only passes on the context of a request that it serves, or of another span.
func (t *Tracker) Carries(s *spans.Span, header trace.SpanContext) {
	if !header.IsValid() || t.replaced[s] {
		return
	}
	id := header.SpanID()
	if m := t.made[id]; m != nil {
		switch {
		case outgoing(m.Span.Kind):
			t.replace(s, m)
		case s.Parent.SpanID() != id:
			s.Parent, s.Rule = m.Span.Context, spans.RuleContext
			t.identify(s)
		}
		return
	}
	g := t.goroutine(s.G)
	if g == nil || g.passesOn(s, id) {
		return
	}
	t.replaced[s] = true
	s.Exported = true
	s.Context = header.WithRemote(false)
}

// passesOn reports whether the ID in the header of a request that a goroutine sends is that of a span around it, or of its parent.
func (g *goroutine) passesOn(sent *spans.Span, id trace.SpanID) bool {
	of := func(s *spans.Span) bool {
		return s != nil && s != sent && (s.Context.SpanID() == id || s.Parent.SpanID() == id)
	}
	return slices.ContainsFunc(g.open, of) || of(g.inherited) || g.request != nil && of(g.request.span)
}

// MadeEnded takes the end of a span of Made, by its ID, and the family of the attributes that it has then.
func (t *Tracker) MadeEnded(id trace.SpanID, at int64, family Family) {
	m := t.made[id]
	if m == nil { // it was not recorded, began before the session, or has ended before
		return
	}
	delete(t.made, id)
	t.decide(m, family)
	t.endMade(m, at)
}

func (t *Tracker) endMade(m *Made, at int64) {
	s := m.Span
	s.End = max(at, s.Start) // also if it is not passed on
	if !t.entered[s] {
		return // it replaces a span, and never was one by itself
	}
	delete(t.entered, s)
	if m.replaces {
		t.forget(s)
	} else {
		t.counts.begun.Add(1)
		t.finish(s, at)
	}
	if g := t.goroutine(s.G); g != nil {
		if i := slices.Index(g.open, s); i >= 0 {
			g.open = slices.Delete(g.open, i, i+1)
			t.settle(g, true)
		}
	}
}

// keepMade keeps a span of the program until it ends. It ends the oldest ones if there are too many: the program has probably dropped them.
func (t *Tracker) keepMade(m *Made, at int64) {
	t.made[m.Span.Context.SpanID()] = m
	t.madeOrder = append(t.madeOrder, m)
	if len(t.madeOrder) <= 2*maxMade {
		return
	}
	t.madeOrder = slices.DeleteFunc(t.madeOrder, func(m *Made) bool { return m.Span.End != 0 })
	for len(t.madeOrder) > maxMade {
		m := t.madeOrder[0]
		t.madeOrder = t.madeOrder[1:]
		delete(t.made, m.Span.Context.SpanID())
		m.Span.Ending = spans.Unobserved
		t.decide(m, Unknown)
		t.endMade(m, at)
	}
}
