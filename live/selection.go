package live

import (
	"slices"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/place"
	"github.com/loupe-go/loupe/sched"
)

// places finds the lines at which goroutines wait. It searches each stack once, because goroutines share stacks.
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

// has reports whether the scope contains a goroutine.
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

// A Matcher searches goroutines for a text, ignoring case. It caches the results for stacks, origins and reasons, because
// goroutines share them. A Matcher must not be used concurrently.
type Matcher struct {
	text    string // in lower case
	stacks  map[*event.Stack]bool
	origins map[*event.Origin]bool
	reasons map[string]bool
}

// NewMatcher returns a Matcher for a text. An empty text matches every goroutine.
func NewMatcher(text string) *Matcher {
	return &Matcher{strings.ToLower(text), map[*event.Stack]bool{}, map[*event.Origin]bool{}, map[string]bool{}}
}

// Words reports whether one of texts contains the text of the Matcher. The result is true if the text of the Matcher is empty.
func (m *Matcher) Words(texts ...string) bool {
	for _, t := range texts {
		if strings.Contains(strings.ToLower(t), m.text) {
			return true
		}
	}
	return m.text == ""
}

func (m *Matcher) frame(f event.Frame) bool {
	return !f.IsZero() && m.Words(f.Func, f.File+":"+strconv.Itoa(f.Line))
}

// Stack reports whether a frame of s contains the text: its function, or its file and line ("server.go:12"). The result is false
// if s is nil.
func (m *Matcher) Stack(s *event.Stack) bool {
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

// Origin reports whether the go statement or the start function of o contains the text, as in [Matcher.Stack]. The result is
// false if o is nil.
func (m *Matcher) Origin(o *event.Origin) bool {
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

func (m *Matcher) reason(text string) bool {
	found, known := m.reasons[text]
	if !known {
		found = text != "" && m.Words(text)
		m.reasons[text] = found
	}
	return found
}

// Goroutine reports whether the state, the reason, the origin, the stack or the decimal ID of g contains the text.
func (m *Matcher) Goroutine(g *sched.Goroutine) bool {
	if m.text == "" {
		return true
	}
	return m.reason(string(g.State)) || m.reason(g.Reason) || m.Origin(g.Origin) || m.Stack(g.Stack) ||
		strings.Contains(strconv.FormatUint(g.ID, 10), m.text)
}

// compare compares two goroutines in the order of the query.
func (q *Query) compare(a, b *sched.Goroutine) int {
	if q.Reverse {
		return -q.Order.Compare(a, b)
	}
	return q.Order.Compare(a, b)
}

// selection collects the first Limit goroutines in the order of a query.
type selection struct {
	query   *Query
	list    []sched.Goroutine
	matched int              // number of goroutines that were added
	last    *sched.Goroutine // goroutines after last are not among the first Limit
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

// shorten sorts the list and truncates it to Limit.
func (s *selection) shorten() {
	slices.SortFunc(s.list, func(a, b sched.Goroutine) int { return s.query.compare(&a, &b) })
	if limit := s.query.Limit; limit > 0 && len(s.list) >= limit {
		s.list = s.list[:limit]
		last := s.list[limit-1]
		s.last = &last
	}
}
