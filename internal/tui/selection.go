package tui

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/place"
	"github.com/loupe-go/loupe/sched"
)

// places finds the lines where goroutines wait. Stacks, which goroutines share, are looked through once.
type places struct {
	module string
	lines  map[*event.Stack]event.Frame
}

func newPlaces(module string) *places { return &places{module, map[*event.Stack]event.Frame{}} }

func (p *places) line(s *event.Stack) event.Frame {
	f, known := p.lines[s]
	if !known {
		f = place.OfEvent(s, p.module)
		p.lines[s] = f
	}
	return f
}

// has reports whether a goroutine belongs to the scope.
func (s *Scope) has(g *sched.Goroutine, places *places) bool {
	waits := g.State == event.StateWaiting || g.State == event.StateLeaked
	switch s.Kind {
	case OfSite:
		return g.Site == s.Site
	case OfPlace:
		return waits && g.Reason == s.At.Reason && places.line(g.Stack) == s.At.Frame
	case OfGroup:
		return g.State == s.State && (s.State != event.StateWaiting || g.Reason == s.Reason)
	}
	return true
}

// matcher looks for a text in what belongs to a goroutine, letter case ignored. Stacks, origins and reasons, which
// goroutines share, are looked through once.
type matcher struct {
	text    string // in lower case
	stacks  map[*event.Stack]bool
	origins map[*event.Origin]bool
	reasons map[string]bool
}

func newMatcher(text string) *matcher {
	return &matcher{strings.ToLower(text), map[*event.Stack]bool{}, map[*event.Origin]bool{}, map[string]bool{}}
}

func (m *matcher) words(texts ...string) bool {
	for _, t := range texts {
		if strings.Contains(strings.ToLower(t), m.text) {
			return true
		}
	}
	return m.text == ""
}

func (m *matcher) frame(f event.Frame) bool {
	return !f.IsZero() && m.words(f.Func, f.File+":"+strconv.Itoa(f.Line))
}

func (m *matcher) stack(s *event.Stack) bool {
	if s == nil {
		return false
	}
	found, known := m.stacks[s]
	if !known {
		found = slices.ContainsFunc(s.Frames, m.frame)
		m.stacks[s] = found
	}
	return found
}

func (m *matcher) origin(o *event.Origin) bool {
	if o == nil {
		return false
	}
	found, known := m.origins[o]
	if !known {
		found = m.frame(o.Start) || m.frame(o.CreatedBy)
		m.origins[o] = found
	}
	return found
}

func (m *matcher) reason(text string) bool {
	found, known := m.reasons[text]
	if !known {
		found = text != "" && m.words(text)
		m.reasons[text] = found
	}
	return found
}

func (m *matcher) goroutine(g *sched.Goroutine) bool {
	if m.text == "" {
		return true
	}
	return m.reason(string(g.State)) || m.reason(g.Reason) || m.origin(g.Origin) || m.stack(g.Stack) ||
		strings.Contains(strconv.FormatUint(g.ID, 10), m.text)
}

// goroutineOrder is an order of goroutines.
type goroutineOrder struct {
	column  string // that it sorts by
	compare func(a, b *sched.Goroutine) int
}

// goroutineOrders are the orders of lists of goroutines. The first is the usual one.
var goroutineOrders = []goroutineOrder{
	{"SINCE", func(a, b *sched.Goroutine) int { return cmp.Compare(a.Since, b.Since) }},
	{"RUN TIME", func(a, b *sched.Goroutine) int { return cmp.Compare(b.Running, a.Running) }},
	{"READY", func(a, b *sched.Goroutine) int { return cmp.Compare(b.Runnable, a.Runnable) }},
	{"BLOCKED", func(a, b *sched.Goroutine) int { return cmp.Compare(b.Blocked, a.Blocked) }},
	{"BLOCKS", func(a, b *sched.Goroutine) int { return cmp.Compare(b.Blocks, a.Blocks) }},
	{"ID", func(a, b *sched.Goroutine) int { return 0 }},
}

// compare orders two goroutines as a query wants them.
func (q *Query) compare(a, b *sched.Goroutine) int {
	order := goroutineOrders[0].compare
	if q.Order >= 0 && q.Order < len(goroutineOrders) {
		order = goroutineOrders[q.Order].compare
	}
	c := cmp.Or(order(a, b), cmp.Compare(a.ID, b.ID))
	if q.Reverse {
		return -c
	}
	return c
}

// selection keeps the first goroutines in the order of a query, of any number of them.
type selection struct {
	query   *Query
	list    []sched.Goroutine
	matched int
	last    *sched.Goroutine // no later one can be among the first
}

func (s *selection) add(g *sched.Goroutine) {
	s.matched++
	if s.last != nil && s.query.compare(g, s.last) >= 0 {
		return
	}
	s.list = append(s.list, *g)
	if limit := s.query.Limit; limit > 0 && len(s.list) >= 2*limit {
		s.shorten()
	}
}

// shorten sorts what there is and leaves out what is too much.
func (s *selection) shorten() {
	slices.SortFunc(s.list, func(a, b sched.Goroutine) int { return s.query.compare(&a, &b) })
	if limit := s.query.Limit; limit > 0 && len(s.list) >= limit {
		s.list = s.list[:limit]
		last := s.list[limit-1]
		s.last = &last
	}
}
