package join

import (
	"slices"

	"github.com/loupe-go/loupe/spans"
)

// passed are the spans that the program passes on in a context.Context, by the addresses of these.
type passed struct {
	spans     map[uint64]*spans.Span
	addresses map[*spans.Span][]uint64

	// waiting are requests whose addresses are not in spans yet: none was looked for since they began. In a program that sends nothing
	// while it serves requests, none ever is.
	waiting []*Served
}

// wait adds a request to those that are waiting.
func (p *passed) wait(r *Served) {
	p.waiting = append(p.waiting, r)
	r.place = len(p.waiting)
}

// remove removes the addresses of a request.
func (p *passed) remove(r *Served) {
	if r.place == 0 {
		for _, addr := range r.passed {
			if p.spans[addr] == &r.Span {
				delete(p.spans, addr)
			}
		}
		return
	}
	last := p.waiting[len(p.waiting)-1]
	p.waiting[r.place-1], last.place = last, r.place
	p.waiting = p.waiting[:len(p.waiting)-1]
	r.place = 0
}

// add makes the addresses of the requests that are waiting known.
func (p *passed) add() {
	for _, r := range p.waiting {
		for _, addr := range r.passed {
			if addr != 0 && !p.full(addr) {
				p.spans[addr] = &r.Span
			}
		}
		r.place = 0
	}
	p.waiting = p.waiting[:0]
}

// full reports whether there is no room for another address.
func (p *passed) full(addr uint64) bool { return len(p.spans) >= maxPassed && p.spans[addr] == nil }

// maxPassed bounds the number of addresses. Spans that the program makes itself need not end.
const maxPassed = 1 << 16

// Pass notes that the program passes an open span on: by values with these addresses, which are unique as long as the span is open. An
// address of 0 is ignored.
func (t *Tracker) Pass(s *spans.Span, addresses ...uint64) {
	for _, addr := range addresses {
		if addr == 0 || t.passed.full(addr) {
			continue
		}
		t.passed.spans[addr] = s // the end of an older one was not observed
		t.passed.addresses[s] = append(t.passed.addresses[s], addr)
	}
}

// forget removes what is kept of an open span.
func (t *Tracker) forget(s *spans.Span) {
	delete(t.above, s)
	list, ok := t.passed.addresses[s]
	if !ok {
		return
	}
	delete(t.passed.addresses, s)
	for _, addr := range list {
		if t.passed.spans[addr] == s {
			delete(t.passed.spans, addr)
		}
	}
}

// Passed returns the open span that the program passes on by the first of these addresses that is known, or nil. After a loss of
// events, the end of the span may be lost, and the address that of another value.
func (t *Tracker) Passed(addresses ...uint64) *spans.Span {
	if len(addresses) == 0 {
		return nil
	}
	t.passed.add()
	for _, addr := range addresses {
		if s := t.passed.spans[addr]; s != nil {
			if t.LostSince(s) {
				return nil
			}
			return s
		}
	}
	return nil
}

// parent returns the parent of a new operation of a goroutine, to which the program passes the span named by addresses. The goroutine may
// be in an operation that is part of that span, and that is then the parent. If it is in another span, what the program says counts.
func (t *Tracker) parent(g *goroutine, addresses []uint64) (*spans.Span, spans.Rule) {
	scope, rule := t.scope(g)
	named := t.Passed(addresses...)
	if named == nil || named == scope {
		return scope, rule
	}
	return t.within(g, named)
}

// within returns the operation in which a goroutine is, if that is part of a span; else the span.
func (t *Tracker) within(g *goroutine, named *spans.Span) (*spans.Span, spans.Rule) {
	for _, s := range slices.Backward(g.open) {
		if t.partOf(s, named) {
			return s, spans.RuleGoroutine
		}
	}
	if t.partOf(g.inherited, named) {
		return g.inherited, spans.RuleCreator
	}
	return named, spans.RuleContext
}

// partOf reports whether a span is an outer one, or an operation of a library that descends from it. The program would have named another
// span that it has made itself.
func (t *Tracker) partOf(s, outer *spans.Span) bool {
	if s == outer {
		return true
	}
	if s == nil || t.entered[s] && !t.unnamed(s) {
		return false
	}
	for above := t.above[s]; above != nil; above = t.above[above] {
		if above == outer {
			return true
		}
	}
	return false
}

// unnamed reports whether no context names a span that Begin has not begun: a call of a function, or a span that the program makes by an
// SDK. What the goroutine does then is part of it, if it is part of what a context names.
func (t *Tracker) unnamed(s *spans.Span) bool {
	m := t.made[s.Context.SpanID()]
	return t.calls[s] || m != nil && m.Span == s && m.Recorded
}
