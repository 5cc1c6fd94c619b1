package pprof

import (
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/event"
)

// Goroutines makes a goroutine profile of a snapshot, as runtime/pprof makes it inside the program: one sample for each
// distinct stack and set of labels, with the number of goroutines there. A second value is the time they have been
// blocked, as far as the runtime has recorded it. The runtime's own goroutines are left out, as runtime/pprof does.
func Goroutines(snap *event.Snapshot, mapping Mapping) *profile.Profile {
	b := NewBuilder(snap.Time, mapping, ValueType{Type: "goroutine", Unit: "count"},
		ValueType{Type: "wait", Unit: "nanoseconds"})
	for i := range snap.Goroutines {
		g := &snap.Goroutines[i]
		if g.System {
			continue
		}
		var wait time.Duration
		if g.WaitKnown {
			wait = g.Wait
		}
		b.Add(Locations(g.Stack), g.Labels, 1, int64(wait))
	}
	return b.prof
}

// Locations joins the frames of inlined calls with the frame of the function that they were inlined into: they are one
// place in the machine code.
func Locations(stack []event.StackFrame) []Location {
	list := make([]Location, 0, len(stack))
	var lines []event.Frame
	for i := range stack {
		lines = append(lines, stack[i].Frame)
		if stack[i].Inlined && i < len(stack)-1 {
			continue
		}
		addr := stack[i].PC
		if len(list) > 0 && addr > 0 {
			addr-- // from the return address back into the call
		}
		list = append(list, Location{Addr: addr, Lines: lines})
		lines = nil
	}
	return list
}
