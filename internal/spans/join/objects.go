package join

import (
	"slices"

	"github.com/loupe-go/loupe/spans"
)

// maxDetached bounds the number of detached spans.
const maxDetached = 1 << 16

// An object identifies an operation to its library: by an address, which is unique as long as the operation lasts.
type object struct {
	library string
	address uint64
}

// Detach notes that an operation can go on after its function has returned, and sets its object, by which Find finds it. The operations
// that follow on its goroutine are not part of it, and any goroutine may end it. An older operation with the same object ended
// unobserved.
func (t *Tracker) Detach(s *spans.Span, address uint64) {
	g := t.goroutine(s.G)
	if g == nil {
		return
	}
	i := slices.Index(g.open, s)
	if i < 0 {
		return
	}
	key := object{s.Library, address}
	if old := t.detached[key]; old != nil {
		old.Ending = spans.Unobserved
		t.End(old, s.Start)
	}
	s.Object = address
	if len(t.detached) >= maxDetached {
		s.Ending = spans.Unobserved
		t.End(s, s.Start)
		return
	}
	g.open = slices.Delete(g.open, i, i+1)
	t.detached[key] = s
	t.latest[s.G] = s
	t.left(s)
	t.settle(g, true)
}

// Find returns the detached span of a library with an object, or nil.
func (t *Tracker) Find(library string, address uint64) *spans.Span {
	return t.detached[object{library, address}]
}

// endDetached ends a span that its goroutine has left: by Detach or by Leave.
func (t *Tracker) endDetached(s *spans.Span, at int64) {
	key := object{s.Library, s.Object}
	if t.detached[key] == s {
		delete(t.detached, key)
	}
	if t.latest[s.G] == s {
		delete(t.latest, s.G)
	}
	if s.End == 0 {
		t.finish(s, at)
	}
}
