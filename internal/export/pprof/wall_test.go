package pprof

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
)

func TestWall(t *testing.T) {
	stack := []event.StackFrame{{Frame: event.Frame{Func: "runtime.gopark"}, PC: 0x4010}, {Frame: event.Frame{Func: "main.main"}, PC: 0x4100}}
	equal := slices.Clone(stack) // as after the symbolizer has cleared its cache
	var w Wall
	w.Add(&event.Snapshot{Goroutines: []event.Goroutine{
		{ID: 1, State: event.StateRunning, Stack: stack, BestEffort: true},
		{ID: 2, State: event.StateWaiting, Reason: "sleep", Stack: stack, Labels: map[string]string{"k": "v", "state": "theirs"}},
		{ID: 3, State: event.StateWaiting, Reason: "GC worker (idle)", System: true, Stack: stack},
		{ID: 4, State: event.StateWaiting, Reason: "GC assist wait", SystemStack: true, Start: event.Frame{Func: "main.start"}},
		{ID: 5, State: event.StateSyscall, Truncated: true},
		{ID: 6, State: event.StateLeaked, Reason: "chan receive", Stack: stack},
	}}, 30*time.Millisecond)
	w.Add(&event.Snapshot{Goroutines: []event.Goroutine{
		{ID: 1, State: event.StateRunning, Stack: equal},
		{ID: 2, State: event.StateWaiting, Reason: "sleep", Stack: equal, Labels: map[string]string{"k": "v", "state": "theirs"}},
		{ID: 7, State: event.StateRunnable, Stack: stack},
	}}, 50*time.Millisecond)
	began := time.Unix(7, 0)
	p := w.Build(began, 80*time.Millisecond, 20, Mapping{}).Profile()
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range p.Sample {
		got = append(got, fmt.Sprintf("%s %d %v", s.Location[0].Line[0].Function.Name, s.Value, s.Label))
	}
	slices.Sort(got)
	want := []string{
		"(stack not recorded) [1 30000000] map[state:[syscall]]",
		"main.start [1 30000000] map[state:[running]]",
		"runtime.gopark [1 30000000] map[state:[waiting: chan receive]]",
		"runtime.gopark [1 50000000] map[state:[runnable]]",
		"runtime.gopark [2 80000000] map[k:[v] program.state:[theirs] state:[waiting: sleep]]",
		"runtime.gopark [2 80000000] map[state:[running]]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if p.DefaultSampleType != "time" || p.PeriodType.Type != "wall" || p.Period != 50e6 || p.TimeNanos != 7e9 || p.DurationNanos != 80e6 {
		t.Errorf("header: %v", p)
	}
	comments := strings.Join(p.Comments, "\n")
	for _, c := range []string{"8 samples in 2 snapshots", "innermost frames may be missing (exact with --pause): 1", "outermost frames are missing: 1"} {
		if !strings.Contains(comments, c) {
			t.Errorf("no %q in\n%s", c, comments)
		}
	}
}

// TestWallLimit adds more distinct places than a Wall keeps: all are counted.
func TestWallLimit(t *testing.T) {
	const limit, n = 500, 1500
	w := Wall{limit: limit}
	stack := []event.StackFrame{{Frame: event.Frame{Func: "main.main"}, PC: 1}}
	gs := make([]event.Goroutine, n)
	for i := range gs {
		gs[i] = event.Goroutine{State: event.StateRunnable, Stack: stack, Labels: map[string]string{"id": fmt.Sprint(i)}}
	}
	w.Add(&event.Snapshot{Goroutines: gs}, 2)
	p := w.Build(time.Unix(1, 0), 1, 20, Mapping{}).Profile()
	count, total := int64(0), int64(0)
	for _, s := range p.Sample {
		count, total = count+s.Value[0], total+s.Value[1]
	}
	if count != n || total != 2*n || len(p.Sample) != limit+1 || !strings.Contains(strings.Join(p.Comments, "\n"), "distinct stacks and labels: 1000") {
		t.Errorf("%d samples, %d ns, %d places, %q", count, total, len(p.Sample), p.Comments)
	}
}
