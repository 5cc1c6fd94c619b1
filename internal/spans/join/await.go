package join

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/spans"
)

// Limits of the operations that have ended and wait for the end of a span of the program.
const (
	maxHeld   = 1 << 12
	holdsLast = int64(5 * time.Second)
)

// await notes that a span of the program can be that of an operation of a library, of which one is directly in the other: the program may
// give it attributes later. Which it is will be decided when the span ends. If another operation is directly in it, it is neither's. A
// recording cannot wait: see Options.Begun.
func (t *Tracker) await(m *Made, s *spans.Span) {
	if m.Family != Unknown || !outgoing(m.Span.Kind) || m.several || t.opt.Begun != nil {
		return
	}
	same := *m
	same.Family = familyOf(s)
	if !t.sameOperation(&same, s) {
		return
	}
	if m.awaits != nil {
		m.several = true
		t.giveUp(m)
		return
	}
	m.awaits, t.awaited[s] = s, m
}

// awaitAround does the same for a new span of the program and the operation in which its goroutine is.
func (t *Tracker) awaitAround(g *goroutine, m *Made) {
	around := t.latest[g.id]
	if n := len(g.open); n > 0 {
		around = g.open[n-1]
	}
	if around != nil && !t.entered[around] && t.awaited[around] == nil {
		t.await(m, around)
	}
}

// giveUp decides that a span of the program is not that of the operation for which this was possible.
func (t *Tracker) giveUp(m *Made) {
	s := m.awaits
	m.awaits = nil
	delete(t.awaited, s)
	if s.End != 0 {
		t.pass(s)
	}
}

// keepIdentity gives up for an operation that has the identity for good, because another one refers to it.
func (t *Tracker) keepIdentity(s *spans.Span) {
	if m := t.awaited[s]; m != nil {
		m.several = true
		t.giveUp(m)
	}
}

// decide decides whether a span of the program that ends is that of an operation, given the family of its attributes.
func (t *Tracker) decide(m *Made, family Family) {
	s := m.awaits
	if s == nil {
		return
	}
	if m.Family = family; t.sameOperation(m, s) {
		t.replace(s, m)
		if s.End != 0 {
			delete(t.replaced, s)
		}
	}
	t.giveUp(m)
}

// hold keeps an operation that has ended until the span of the program ends.
func (t *Tracker) hold(s *spans.Span) { t.held = append(t.held, s) }

// passHeld passes on what has waited for too long, and what is beyond the last n operations.
func (t *Tracker) passHeld(n int) {
	for len(t.held) > 0 {
		s := t.held[0]
		m := t.awaited[s]
		if m != nil && len(t.held) <= n && t.now-s.End <= holdsLast {
			return
		}
		t.held = t.held[1:]
		if m != nil {
			m.several = true
			t.giveUp(m)
		}
	}
}

func outgoing(kind trace.SpanKind) bool {
	return kind == trace.SpanKindClient || kind == trace.SpanKindProducer
}
