package goproc_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestTruth compares snapshots with what the targets' own runtime.Stack prints, on every Go release and in every shape of
// executable, with and without stopping the process.
func TestTruth(t *testing.T) {
	for _, spec := range testtarget.Matrix(t, "zoo") {
		t.Run(spec.String(), func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, spec))
			target.Command("gc") // the runtime notes who waits
			compareWithRuntime(t, target, goproc.SnapshotOptions{})
			compareWithRuntime(t, target, goproc.SnapshotOptions{Pause: true})
			compareTallies(t, target)
			if after := target.Goroutines(); len(after) == 0 {
				t.Error("the target has no goroutines after it was looked at")
			}
		})
	}
}

// compareWithRuntime takes a snapshot and compares it with the runtime's own picture.
func compareWithRuntime(t *testing.T, target *testtarget.Process, opt goproc.SnapshotOptions) {
	t.Helper()
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	truth := target.Goroutines()
	snap, err := p.Snapshot(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]event.Goroutine{}
	for _, g := range snap.Goroutines {
		if !g.System {
			seen[g.ID] = g
		}
	}
	for _, want := range truth {
		got, ok := seen[want.ID]
		if !ok {
			t.Errorf("goroutine %d [%s] is missing", want.ID, want.State)
			continue
		}
		delete(seen, want.ID)
		for _, diff := range differences(got, want, p.Binary().Version().Minor) {
			t.Errorf("pause=%v: goroutine %d [%s]: %s", opt.Pause, want.ID, want.State, diff)
		}
	}
	for id, g := range seen {
		t.Errorf("goroutine %d [%s %s] in %v is not in the runtime's list", id, g.State, g.Reason, g.Start)
	}
	if snap.Unsettled != 0 || len(snap.Warnings) != 0 {
		t.Errorf("unsettled %d, warnings %q: want none of a quiescent target", snap.Unsettled, snap.Warnings)
	}
}

// differences lists in what a goroutine differs from the runtime's picture of it.
func differences(got event.Goroutine, want testtarget.Goroutine, minor int) []string {
	if want.State == "running" {
		// The target's dumper, which waits again by now: only that it is there can be compared.
		return nil
	}
	var diffs []string
	check := func(what string, got, want any) {
		if got != want {
			diffs = append(diffs, fmt.Sprintf("%s: got %v, want %v", what, got, want))
		}
	}
	state := string(got.State)
	if got.State == event.StateWaiting && got.Reason != "" {
		state = got.Reason
	}
	check("state", state, want.State)
	check("locked", got.Locked, want.Locked)
	check("minutes waiting", int(got.Wait/time.Minute), want.Minutes)
	check("best effort", got.BestEffort, false)
	check("truncated", got.Truncated, false)
	if !got.WaitKnown && got.ID != 1 { // the main goroutine has read a command since
		diffs = append(diffs, "no waiting time after a garbage collection")
	}
	if want.CreatedBy.Func != "" {
		check("creator", runtimeName(got.CreatedBy.Func, minor), want.CreatedBy.Func)
		check("creator's file", got.CreatedBy.File, want.CreatedBy.File)
		check("creator's line", got.CreatedBy.Line, want.CreatedBy.Line)
	}
	if want.CreatedIn != 0 {
		check("parent", got.Parent, want.CreatedIn)
	}
	if want.Labels != nil && !maps.Equal(got.Labels, want.Labels) {
		check("labels", fmt.Sprint(got.Labels), fmt.Sprint(want.Labels))
	}
	return append(diffs, frameDifferences(got.Stack, want, minor)...)
}

// frameDifferences compares the frames that a traceback shows.
func frameDifferences(stack []event.StackFrame, want testtarget.Goroutine, minor int) []string {
	var got []testtarget.Frame
	physical := 0
	for _, f := range stack {
		if minor < 21 && physical == 100 {
			break // the runtime stopped here, counting the frames that it does not show
		}
		if !f.Inlined {
			physical++
		}
		if !f.Hidden {
			got = append(got, testtarget.Frame{Func: runtimeName(f.Func, minor), File: f.File, Line: f.Line, Inlined: f.Inlined})
		}
	}
	expected := want.Frames
	if want.Elided && len(got) > len(expected) {
		// The runtime prints the ends of a deep stack.
		tail := len(expected) - want.ElidedAfter
		got = slices.Concat(got[:want.ElidedAfter], got[len(got)-tail:])
	}
	if slices.Equal(got, expected) {
		return nil
	}
	at := 0
	for at < min(len(got), len(expected)) && got[at] == expected[at] {
		at++
	}
	return []string{fmt.Sprintf("stack differs from frame %d of %d on:\n got\n%s\n want\n%s",
		at, len(expected), render(got[at:]), render(expected[at:]))}
}

// runtimeName spells a function's name as a traceback of the release does.
func runtimeName(name string, minor int) string {
	if name == "runtime.gopanic" {
		return "panic"
	}
	return name
}

func render(frames []testtarget.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "    %s %s:%d inlined=%v\n", f.Func, f.File, f.Line, f.Inlined)
	}
	return b.String()
}
