package join

import (
	"slices"

	"github.com/loupe-go/loupe/spans"
)

// Presume notes that an operation has probably ended at a time, which nothing confirms. Its span ends at that time when its goroutine
// begins or creates something else, or ends, or when the span around it ends, unless the library calls Continue or End before. If the
// time is 0, the operation goes on, but nothing need report its end: its span ends with its goroutine, or with the span around it.
func (t *Tracker) Presume(s *spans.Span, at int64) {
	if s.End == 0 {
		t.presumed[s] = at
	}
}

// Continue notes that an operation goes on, contrary to Presume.
func (t *Tracker) Continue(s *spans.Span) { delete(t.presumed, s) }

// confirm ends the innermost spans of a goroutine that have probably ended: the goroutine does something else.
func (t *Tracker) confirm(g *goroutine) {
	for n := len(g.open); n > 0 && len(t.presumed) > 0; n-- {
		s := g.open[n-1]
		at := t.presumed[s]
		if at == 0 {
			return
		}
		t.end(g, s, at)
		g.open[n-1] = nil
		g.open = g.open[:n-1]
	}
}

// abandon ends a span because its goroutine or the span around it has ended.
func (t *Tracker) abandon(g *goroutine, s *spans.Span, at int64, ending spans.Ending) {
	presumed, ok := t.presumed[s]
	switch {
	case !ok:
		s.Ending = ending
	case presumed != 0:
		at = presumed
	}
	t.end(g, s, at)
}

// confirmAll ends all spans that have probably ended.
func (t *Tracker) confirmAll() {
	var list []*spans.Span
	for s, at := range t.presumed {
		if at != 0 {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *spans.Span) int { return int(t.presumed[a] - t.presumed[b]) })
	for _, s := range list {
		t.finish(s, t.presumed[s])
	}
	clear(t.presumed)
}
