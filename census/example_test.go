package census_test

import (
	"fmt"
	"time"

	"github.com/loupe-go/loupe/census"
	"github.com/loupe-go/loupe/event"
)

// This example finds goroutines that look leaked. Snapshots of a process are taken by loupe.Process.Snapshot; here they are
// made up.
func ExampleComparison_Suspects() {
	first := snapshot(time.Unix(0, 0), 7, 8)
	second := snapshot(time.Unix(60, 0), 7, 8, 9, 10, 11)
	for _, s := range census.Compare(first, second).Suspects() {
		fmt.Printf("%d goroutines %s in %s\n", s.After, s.Activity().Doing, s.Stack[0].Func)
		fmt.Println("evidence:", s.Evidence)
	}
	// Output:
	// 5 goroutines waiting to send on a channel in main.search
	// evidence: all 2 of the first snapshot are still blocked here 1m0s later, and 3 more have joined
}

func ExampleGroups() {
	snap := snapshot(time.Now(), 7, 8, 9)
	for _, g := range census.Groups(census.Program(snap), false) {
		fmt.Println(len(g.Goroutines), g.State, g.Reason, g.Stack[0].Func)
	}
	// Output:
	// 3 waiting chan send main.search
}

func ExampleFilter_Select() {
	snap := snapshot(time.Now(), 7, 8, 9)
	filter := census.Filter{Reasons: []string{"chan"}, MinWait: time.Minute}
	selection := filter.Select(snap)
	fmt.Println(len(selection.Goroutines), "selected,", selection.UnknownWait, "of unknown wait")
	// Output:
	// 0 selected, 3 of unknown wait
}

// snapshot returns a snapshot with goroutines that are blocked at the same place.
func snapshot(at time.Time, ids ...uint64) *event.Snapshot {
	snap := &event.Snapshot{Time: at}
	stack := []event.StackFrame{{Frame: event.Frame{Func: "main.search", File: "/src/search.go", Line: 17}}}
	for _, id := range ids {
		snap.Goroutines = append(snap.Goroutines, event.Goroutine{ID: id, State: event.StateWaiting, Reason: "chan send", Stack: stack})
	}
	return snap
}
