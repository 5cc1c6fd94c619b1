package pprof

import (
	"fmt"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
)

// Allocs returns a profile of allocations by stack.
func Allocs(c *allocs.Counts, mapping Mapping) *profile.Profile {
	b := NewBuilder(c.Began, mapping, ValueType{"objects", "count"}, ValueType{"bytes", "bytes"})
	b.Prefer("bytes")
	b.Lasted(c.Ended.Sub(c.Began))
	truncated, unknown := 0, uint64(0)
	for i := range c.Places {
		p := &c.Places[i]
		frames := allocs.Frames(p.Stack)
		if len(frames) == 0 {
			frames = []event.Frame{{Func: "(stack not recorded)"}}
			unknown += p.Objects
		} else if p.Stack.Truncated {
			truncated++
		}
		add(b, frames, p.Sums)
	}
	if c.OtherPlaces != (allocs.Sums{}) {
		add(b, []event.Frame{{Func: "(other stacks)"}}, c.OtherPlaces)
	}
	if truncated > 0 {
		b.Comment(fmt.Sprintf("%d of %s truncated (increase --stack)", truncated, english.Count(len(c.Places), "place")))
	}
	if unknown > 0 {
		b.Comment(fmt.Sprintf("objects without a stack: %d", unknown))
	}
	if c.Lost > 0 {
		b.Comment(fmt.Sprintf("objects that were not counted: at most %d", c.Lost))
	}
	return b.Profile()
}

func add(b *Builder, frames []event.Frame, s allocs.Sums) {
	stack := make([]Location, len(frames))
	for i := range frames {
		stack[i].Lines = frames[i : i+1]
	}
	b.Add(stack, nil, int64(s.Objects), int64(s.Bytes))
}
