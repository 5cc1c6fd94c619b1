package allocs_test

import (
	"testing"
	"time"

	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/event"
)

func sums(n uint64) allocs.Sums {
	return allocs.Sums{Objects: n, Bytes: 16 * n, Requested: 10 * n, Tiny: n / 2}
}

func stack(funcs ...string) *event.Stack {
	s := &event.Stack{}
	for i, f := range funcs {
		s.Frames = append(s.Frames, event.Frame{Func: f, File: "/src/x.go", Line: 10 + i})
	}
	return s
}

// example has the counts of a program, n times.
func example(n uint64) *allocs.Counts {
	begin := time.Unix(1000, 0)
	work, other := event.Frame{Func: "main.main", File: "/src/x.go", Line: 7}, event.Frame{Func: "main.main", File: "/src/x.go", Line: 9}
	return &allocs.Counts{
		Began: begin, Ended: begin.Add(time.Duration(n) * time.Second), Total: sums(30 * n),
		Goroutines: []allocs.Goroutine{{ID: 1, Sums: sums(5 * n)}, {ID: 20, Origin: event.Origin{CreatedBy: work}, Sums: sums(7 * n)},
			{ID: 21, Origin: event.Origin{CreatedBy: work}, Sums: sums(8 * n)}},
		Creators: []allocs.Creator{{CreatedBy: work, Sums: sums(4 * n)}, {CreatedBy: other, Sums: sums(3 * n)}}, OtherGoroutines: sums(3 * n),
		Places: []allocs.Place{
			{Key: 1, Stack: stack("runtime.newobject", "main.f", "main.main"), Type: "main.T", Size: 16, Sums: sums(10 * n)},
			{Key: 2, Stack: stack("runtime.growslice", "main.f", "main.g"), Type: "main.T", Size: 32, Sums: sums(9 * n)},
			{Key: 3, Stack: stack("internal/runtime/maps.newTable", "main.g"), Type: "int", Sums: sums(6 * n)},
			{Key: 4, Stack: stack("runtime.malg", "runtime.newproc1"), Sums: sums(4 * n)},
		},
		OtherPlaces: sums(n),
	}
}

func TestBy(t *testing.T) {
	for d, want := range map[allocs.Dimension][]uint64{
		allocs.ByGoroutine: {10, 8, 7, 5}, allocs.ByCreator: {19, 5, 3, 3}, allocs.ByFunction: {19, 6, 4, 1}, allocs.BySize: {10, 10, 9, 1},
		allocs.ByType: {19, 6, 4, 1},
	} {
		groups := example(1).By(d)
		if len(groups) != len(want) {
			t.Errorf("by %s: %+v", d, groups)
			continue
		}
		for i, g := range groups {
			if g.Objects != want[i] || g.Bytes != 16*want[i] {
				t.Errorf("by %s: group %d: %+v, want %d objects", d, i, g, want[i])
			}
		}
	}
	if f := allocs.Allocator(example(1).Places[3].Stack).Func; f != "runtime.malg" {
		t.Errorf("a stack of the runtime alone: %s", f)
	}
	if f := allocs.Allocator(nil); !f.IsZero() {
		t.Errorf("no stack: %+v", f)
	}
}

func TestSince(t *testing.T) {
	d := example(3).Since(example(1))
	if d.Total != (allocs.Sums{Objects: 60, Bytes: 960, Requested: 600, Tiny: 30}) || d.Ended.Sub(d.Began) != 2*time.Second {
		t.Errorf("%+v in %v", d.Total, d.Ended.Sub(d.Began))
	}
	for _, dimension := range allocs.Dimensions() {
		var objects uint64
		for _, g := range d.By(dimension) {
			objects += g.Objects
		}
		if objects != 60 {
			t.Errorf("by %s: %d objects, want 60", dimension, objects)
		}
	}
	if same := example(2).Since(example(2)); len(same.Goroutines)+len(same.Creators)+len(same.Places) > 0 || same.Total != (allocs.Sums{}) {
		t.Errorf("nothing was allocated: %+v", same)
	}
	if back := example(1).Since(example(2)); back.Total != (allocs.Sums{}) {
		t.Errorf("earlier counts are larger: %+v", back.Total)
	}
}
