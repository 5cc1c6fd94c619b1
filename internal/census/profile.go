package census

import (
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/pprof"
	"github.com/loupe-go/loupe/internal/goproc"
)

// Profile turns a snapshot into a goroutine profile as runtime/pprof would take it from inside: one sample for each
// distinct stack and set of labels, with the number of goroutines there. A second value is the time they have been
// blocked, as far as the runtime has noted it. The runtime's own goroutines are left out, as runtime/pprof does.
func Profile(snap *goproc.Snapshot, mapping pprof.Mapping) *pprof.Builder {
	b := pprof.NewBuilder(snap.Time, mapping, pprof.ValueType{Type: "goroutine", Unit: "count"},
		pprof.ValueType{Type: "wait", Unit: "nanoseconds"})
	for i := range snap.Goroutines {
		g := &snap.Goroutines[i]
		if g.System {
			continue
		}
		var wait time.Duration
		if g.WaitKnown {
			wait = g.Wait
		}
		b.Add(locations(g.Stack), g.Labels, 1, int64(wait))
	}
	return b
}

// locations joins the frames of inlined calls with the frame of the function that they were inlined into: they are one
// place in the machine code.
func locations(stack []goproc.Frame) []pprof.Location {
	list := make([]pprof.Location, 0, len(stack))
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
		list = append(list, pprof.Location{Addr: addr, Lines: lines})
		lines = nil
	}
	return list
}
