package allocs

import (
	"cmp"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/event"
)

// A Dimension is what allocations are grouped by.
type Dimension string

// The dimensions.
const (
	ByGoroutine Dimension = "goroutine" // the goroutine that allocates
	ByCreator   Dimension = "creator"   // the go statement that created it
	ByFunction  Dimension = "function"  // the function that allocates, other than those of the runtime
	BySize      Dimension = "size"      // the size of the object
	ByType      Dimension = "type"      // the type of the object or of its elements
)

// Dimensions returns all dimensions.
func Dimensions() []Dimension {
	return []Dimension{ByGoroutine, ByCreator, ByFunction, BySize, ByType}
}

// Needs reports whether grouping requires sums by goroutine; otherwise it requires sums by place.
func (d Dimension) NeedsGoroutines() bool { return d == ByGoroutine || d == ByCreator }

// A Group is the allocations that have one value of a dimension. Sums has their numbers, the other fields the value.
type Group struct {
	Goroutine uint64      // ByGoroutine: its ID
	Frame     event.Frame // ByGoroutine, ByCreator: the go statement; ByFunction: the function without a line. Zero if unknown
	Start     event.Frame // ByGoroutine: the function that it started
	Size      uint64      // BySize: in bytes; 0: of the tiny allocator
	Type      string      // ByType; empty if the objects have no type or an unknown one
	Rest      bool        // the allocations beyond the number that a session sums up; no other field is set
	Sums
}

// By groups the allocations. The groups with the most bytes are first.
func (c *Counts) By(d Dimension) []Group {
	g := grouping{}
	other := c.OtherPlaces
	if d.NeedsGoroutines() {
		other = c.OtherGoroutines
	}
	for i := range c.Goroutines {
		from := &c.Goroutines[i]
		switch d {
		case ByGoroutine:
			g.add(Group{Goroutine: from.ID, Frame: from.Origin.CreatedBy, Start: from.Origin.Start}, from.Sums)
		case ByCreator:
			g.add(Group{Frame: from.Origin.CreatedBy}, from.Sums)
		}
	}
	for i := range c.Creators {
		from := &c.Creators[i]
		switch d {
		case ByGoroutine:
			other.Add(from.Sums)
		case ByCreator:
			g.add(Group{Frame: from.CreatedBy}, from.Sums)
		}
	}
	for i := range c.Places {
		from := &c.Places[i]
		switch d {
		case ByFunction:
			f := Allocator(from.Stack)
			f.Line = 0
			g.add(Group{Frame: f}, from.Sums)
		case BySize:
			g.add(Group{Size: from.Size}, from.Sums)
		case ByType:
			g.add(Group{Type: from.Type}, from.Sums)
		}
	}
	if other != (Sums{}) {
		g.add(Group{Rest: true}, other)
	}
	return g.sorted()
}

// grouping adds up groups by their values: the group without sums.
type grouping map[Group]Sums

func (g grouping) add(value Group, s Sums) {
	sums := g[value]
	sums.Add(s)
	g[value] = sums
}

func (g grouping) sorted() []Group {
	list := make([]Group, 0, len(g))
	for value, sums := range g {
		value.Sums = sums
		list = append(list, value)
	}
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Goroutine, b.Goroutine),
			cmp.Compare(a.Frame.Func, b.Frame.Func), cmp.Compare(a.Frame.File, b.Frame.File), cmp.Compare(a.Frame.Line, b.Frame.Line),
			cmp.Compare(a.Size, b.Size), cmp.Compare(a.Type, b.Type))
	})
	return list
}

// Frames returns the frames of a stack from the function that allocates on, as package runtime/pprof shows them: without those of
// the runtime that come before it.
func Frames(s *event.Stack) []event.Frame {
	if s == nil {
		return nil
	}
	for i := range s.Frames {
		if f := s.Frames[i].Func; !strings.HasPrefix(f, "runtime.") && !strings.HasPrefix(f, "internal/runtime/") {
			return s.Frames[i:]
		}
	}
	return s.Frames
}

// Allocator returns the innermost of [Frames], or the zero Frame if the stack is unknown.
func Allocator(s *event.Stack) event.Frame {
	frames := Frames(s)
	if len(frames) == 0 {
		return event.Frame{}
	}
	return frames[0]
}
