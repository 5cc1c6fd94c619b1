package goproc_test

import (
	"context"
	"slices"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/realtarget"
)

// TestRealPrograms looks at programs that were not written for Loupe: at rest, where what they say of themselves is the
// truth, and under load, which they must not feel.
func TestRealPrograms(t *testing.T) {
	for _, spec := range realtarget.Programs() {
		t.Run(spec.Name, func(t *testing.T) {
			target := spec.Start(t)
			p, err := goproc.Open(target.PID(), goproc.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			t.Run("rest", func(t *testing.T) { realAtRest(t, target, p) })
			t.Run("load", func(t *testing.T) { realUnderLoad(t, target, p) })
			t.Run("pause", func(t *testing.T) { realPaused(t, target, p) })
			t.Run("count", func(t *testing.T) { realCount(t, target, p) })
		})
	}
}

func snapshotOf(t *testing.T, p *goproc.Process, opt goproc.SnapshotOptions) *goproc.Snapshot {
	t.Helper()
	snap, err := p.Snapshot(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// byID returns the goroutines that are not the runtime's own.
func byID(snap *goproc.Snapshot) map[uint64]goproc.Goroutine {
	gs := map[uint64]goproc.Goroutine{}
	for _, g := range snap.Goroutines {
		if !g.System {
			gs[g.ID] = g
		}
	}
	return gs
}

// realAtRest compares the goroutines that rest with the program's own traceback, taken between two snapshots: what is
// the same in both was the same at that moment.
func realAtRest(t *testing.T, target *realtarget.Process, p *goproc.Process) {
	const rounds = 3
	target.CollectGarbage() // the runtime notes who waits
	for range rounds {
		before := byID(snapshotOf(t, p, goproc.SnapshotOptions{}))
		truth := target.Goroutines()
		after := byID(snapshotOf(t, p, goproc.SnapshotOptions{}))
		compared := 0
		for _, want := range truth {
			got, ok := before[want.ID]
			delete(before, want.ID)
			if !ok || !rests(got, after[want.ID]) || want.State == "running" {
				continue
			}
			compared++
			if !got.WaitKnown {
				got.WaitKnown = true // it has waited anew since the collection
			}
			for _, diff := range differences(got, want, p.Binary().Version().Minor) {
				t.Errorf("goroutine %d [%s]: %s", want.ID, want.State, diff)
			}
		}
		for id, g := range before {
			if rests(g, after[id]) {
				t.Errorf("goroutine %d [%s %s] in %v is not in the runtime's list", id, g.State, g.Reason, g.Start)
			}
		}
		t.Logf("compared %d of %d, before %d after %d", compared, len(truth), len(before), len(after))
	}
}

// rests reports whether a goroutine is the same in two snapshots.
func rests(a, b goproc.Goroutine) bool {
	return a.ID == b.ID && a.State == b.State && a.Reason == b.Reason && !a.BestEffort && !b.BestEffort &&
		slices.Equal(a.Stack, b.Stack)
}

// checkStacks checks that the stacks of a program that works are whole.
func checkStacks(t *testing.T, snap *goproc.Snapshot) (bestEffort int) {
	t.Helper()
	for _, g := range snap.Goroutines {
		if g.BestEffort {
			bestEffort++
			continue
		}
		if g.Truncated || len(g.Stack) == 0 {
			t.Errorf("goroutine %d [%s %s] started in %s: stack is cut off: %v", g.ID, g.State, g.Reason, g.Start.Func, g.Stack)
			continue
		}
		if outer := g.Stack[len(g.Stack)-1].Func; outer != "runtime.goexit" {
			t.Errorf("goroutine %d [%s %s] ends in %s: %v", g.ID, g.State, g.Reason, outer, g.Stack)
		}
		for i, f := range g.Stack {
			if f.Func == "" {
				t.Errorf("goroutine %d [%s %s]: frame %d at %#x is not known", g.ID, g.State, g.Reason, i, f.PC)
			}
		}
	}
	return bestEffort
}

func realUnderLoad(t *testing.T, target *realtarget.Process, p *goproc.Process) {
	const snapshots = 50
	load := target.StartLoad()
	unsettled, best, total, running := 0, 0, 0, 0
	for range snapshots {
		load.Await(t, 1)
		snap := snapshotOf(t, p, goproc.SnapshotOptions{})
		best += checkStacks(t, snap)
		unsettled += snap.Unsettled
		total += len(snap.Goroutines)
		for _, g := range snap.Goroutines {
			if g.State == event.StateRunning {
				running++
			}
		}
		for _, w := range snap.Warnings {
			t.Errorf("warning: %s", w)
		}
	}
	answered, err := load.Stop()
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d answered, %d goroutines, %d best effort, %d running, %d unsettled", answered, total, best, running, unsettled)
}

func realPaused(t *testing.T, target *realtarget.Process, p *goproc.Process) {
	const snapshots = 20
	load := target.StartLoad()
	best, total, running := 0, 0, 0
	for range snapshots {
		load.Await(t, 1)
		snap := snapshotOf(t, p, goproc.SnapshotOptions{Pause: true})
		n := checkStacks(t, snap)
		best += n
		total += len(snap.Goroutines)
		for _, g := range snap.Goroutines {
			if g.State == event.StateRunning {
				running++
			}
			if g.BestEffort {
				t.Logf("best effort in pause: %d [%s %s] %s %v", g.ID, g.State, g.Reason, g.Start.Func, g.Stack)
			}
		}
	}
	answered, err := load.Stop()
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d answered, %d goroutines, %d best effort, %d running", answered, total, best, running)
}

func realCount(t *testing.T, target *realtarget.Process, p *goproc.Process) {
	for range 5 {
		a := target.NumGoroutine()
		n := len(byID(snapshotOf(t, p, goproc.SnapshotOptions{})))
		b := target.NumGoroutine()
		t.Logf("%d %d %d", a, n, b)
	}
}
