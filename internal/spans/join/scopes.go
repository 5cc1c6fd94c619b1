package join

import (
	"slices"

	"github.com/loupe-go/loupe/spans"
)

// Enter begins a span that the program makes itself, by an API. Unlike the spans of Begin, those can end in any order and on any
// goroutine, and need not end. parent is the open span that the program names as its parent, or nil. Then it is the innermost open span
// of the goroutine that Enter has not begun, if there is one: the program has not named its own spans. named is the operation of a library
// that the program names instead, or nil: the parent is then that, or an operation of the goroutine that is part of it. If root is set,
// the span has no parent. Exit ends the span.
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
	t.entered[s] = true
	t.counts.begun.Add(1)
	return s
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
	if g := t.goroutines[s.G]; g != nil {
		if i := slices.Index(g.open, s); i >= 0 {
			g.open = slices.Delete(g.open, i, i+1)
			t.finish(s, at)
			t.settle(g, true)
			return
		}
	}
	t.finish(s, at)
}
