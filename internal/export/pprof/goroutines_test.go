package pprof

import (
	"slices"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
)

func TestGoroutines(t *testing.T) {
	stack := []event.StackFrame{
		{Frame: event.Frame{Func: "main.inlined", File: "/src/a.go", Line: 3}, PC: 0x4010, Inlined: true},
		{Frame: event.Frame{Func: "main.outer", File: "/src/a.go", Line: 9}, PC: 0x4010},
		{Frame: event.Frame{Func: "main.main", File: "/src/a.go", Line: 20}, PC: 0x4100},
	}
	list := []event.Goroutine{{ID: 1, Stack: stack, Wait: time.Second, WaitKnown: true}, {ID: 2, Stack: stack}, {ID: 3, Stack: stack}, {ID: 4, Stack: stack}}
	list[2].Labels = map[string]string{"k": "v"}
	list[3].System = true
	locs := Locations(stack)
	if len(locs) != 2 || len(locs[0].Lines) != 2 || locs[0].Addr != 0x4010 || locs[1].Addr != 0x40ff {
		t.Errorf("locations: %+v", locs)
	}
	prof := Goroutines(&event.Snapshot{Time: time.Unix(1, 0), Goroutines: list}, Mapping{Start: 0x4000, End: 0x5000, File: "/bin/app"})
	if n := len(prof.Sample); n != 2 {
		t.Errorf("%d samples, want 2: one for each set of labels", n)
	}
	if got := prof.Sample[0].Value; !slices.Equal(got, []int64{2, int64(time.Second)}) {
		t.Errorf("values %d, want 2 goroutines and one second", got)
	}
}
