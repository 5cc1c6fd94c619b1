package join

import (
	"slices"

	"github.com/loupe-go/loupe/spans"
)

// Enter begins a span that the program makes itself, by an API. Unlike the spans of Begin, those can end in any order and on any
// goroutine, and need not end. parent is the open span that the program names as its parent, or nil. Then it is the innermost open span
// of the goroutine that Enter has not begun, if there is one: the program has not named its own spans. named is the operation of a library
// that the program names instead, or nil: the parent is then that, or an operation of the goroutine that is part of it. If root is set,
// the span has no parent. If a library begins the same operation in it, as Made says, the span of the library has its identity. Exit ends
// the span.
func (t *Tracker) Enter(s, parent *spans.Span, root bool, named *spans.Span) *spans.Span {
	g := t.add(s.G, s.Start)
	s.PID = t.opt.PID
	rule := spans.RuleContext
	if parent == nil {
		parent, rule = t.around(g)
		if named != nil && parent != named {
			parent, rule = t.within(g, named)
		}
	}
	if parent != nil && !root {
		t.attach(s, parent, rule)
	} else if !root {
		t.linkHandOff(s)
	}
	t.identify(s)
	if len(g.open) == 0 {
		g.losses = t.loss.count
	}
	g.open = append(g.open, s)
	g.listed = true
	t.entered[s] = true
	t.begun(s)
	if family := familyOf(s); family != Unknown {
		t.made[s.Context.SpanID()] = &Made{Span: s, Family: family}
	}
	return s
}

// Describes returns the open span of a library, or nil: the operation that a span also describes that the program is about to begin by an
// API, without an SDK. The caller may keep the span that is returned, and does not call Enter for the other one. The rules are those of Made.
// A server span must have attributes of the same family, too.
func (t *Tracker) Describes(s *spans.Span) *spans.Span {
	g, family := t.goroutine(s.G), familyOf(s)
	if g == nil || family == Unknown {
		return nil
	}
	same := t.described(g, &Made{Span: s, Family: family})
	if same == nil || familyOf(same) != family {
		return nil
	}
	t.replaced[same] = true
	t.keep(same)
	return same
}

// around returns the span in which a goroutine is, without those that Enter has begun.
func (t *Tracker) around(g *goroutine) (*spans.Span, spans.Rule) {
	for _, s := range slices.Backward(g.open) {
		if !t.entered[s] {
			return s, spans.RuleGoroutine
		}
	}
	if len(g.open) > 0 {
		return g.inherited, spans.RuleCreator
	}
	return t.scope(g)
}

// Exit ends a span that Enter has begun. Those that were begun in it go on.
func (t *Tracker) Exit(s *spans.Span, at int64) {
	if s.End != 0 {
		return
	}
	delete(t.entered, s)
	if m := t.made[s.Context.SpanID()]; m != nil && m.replaces {
		s.End = max(at, s.Start)
		t.forget(s)
		t.counts.begun.Add(^uint64(0)) // a span of a library stands for it
		if t.opt.Dropped != nil {
			t.opt.Dropped(s)
		}
	} else {
		t.finish(s, at)
	}
	delete(t.made, s.Context.SpanID())
	if g := t.goroutine(s.G); g != nil {
		if i := slices.Index(g.open, s); i >= 0 {
			g.open = slices.Delete(g.open, i, i+1)
			t.settle(g, true)
		}
	}
}
