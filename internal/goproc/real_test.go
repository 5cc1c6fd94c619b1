package goproc_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/realtarget"
)

// TestRealPrograms looks at programs that were not written for Loupe: at rest, where what they say of themselves is the
// truth, and under load, which they must not feel.
func TestRealPrograms(t *testing.T) {
	for _, spec := range realtarget.Chosen(t) {
		t.Run(spec.Name, func(t *testing.T) {
			target := spec.Start(t)
			p, err := goproc.Open(target.PID(), goproc.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			t.Run("rest", func(t *testing.T) { compareAtRest(t, target, p) })
			t.Run("load", func(t *testing.T) { lookUnderLoad(t, target, p, 50, goproc.SnapshotOptions{}) })
			t.Run("pause", func(t *testing.T) { lookUnderLoad(t, target, p, 20, goproc.SnapshotOptions{Pause: true}) })
			t.Run("count", func(t *testing.T) { compareCount(t, target, p) })
		})
	}
}

func take(t *testing.T, p *goproc.Process, opt goproc.SnapshotOptions) *event.Snapshot {
	t.Helper()
	snap, err := p.Snapshot(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range snap.Warnings {
		t.Errorf("warning: %s", w)
	}
	return snap
}

// ofProgram returns the goroutines that are not the runtime's own, by ID.
func ofProgram(snap *event.Snapshot) map[uint64]event.Goroutine {
	gs := map[uint64]event.Goroutine{}
	for _, g := range snap.Goroutines {
		if !g.System {
			gs[g.ID] = g
		}
	}
	return gs
}

// compareAtRest compares the goroutines that rest with the program's own traceback. All that rest must agree in every
// round; there are some more rounds until nearly all goroutines do, for a program that still has to do with its start.
func compareAtRest(t *testing.T, target *realtarget.Process, p *goproc.Process) {
	const rounds, mostRounds, fewest, share = 4, 200, 10, 0.9
	for round := range mostRounds {
		compared, all := compareRound(t, target, p, goproc.SnapshotOptions{Pause: round%2 == 1})
		enough := compared > fewest && float64(compared) >= share*float64(all)
		if enough && round >= rounds-1 {
			t.Logf("%d of %d goroutines compared", compared, all)
			return
		}
		if !enough {
			time.Sleep(50 * time.Millisecond)
		}
	}
	t.Errorf("the program never rests: no round compared more than %d goroutines and %.0f %%", fewest, 100*share)
}

// compareRound holds two snapshots against a traceback that the program makes between them. It returns how many
// goroutines it compared, of how many.
func compareRound(t *testing.T, target *realtarget.Process, p *goproc.Process, opt goproc.SnapshotOptions) (compared, all int) {
	t.Helper()
	target.CollectGarbage() // the runtime notes who waits, and since when
	before := ofProgram(take(t, p, opt))
	truth := target.Goroutines()
	after := ofProgram(take(t, p, opt))
	all = len(before)
	for _, want := range truth {
		got, ok := before[want.ID]
		delete(before, want.ID)
		if !ok || !rested(got, after[want.ID]) {
			continue
		}
		compared++
		if now := after[want.ID]; int(now.Wait/time.Minute) == want.Minutes {
			got.Wait = now.Wait // the minute was over after the first snapshot
		}
		for _, diff := range differences(got, want, p.Binary().Version().Minor) {
			t.Errorf("pause=%v: goroutine %d [%s]: %s", opt.Pause, want.ID, want.State, diff)
		}
	}
	for id, g := range before {
		if rested(g, after[id]) {
			t.Errorf("pause=%v: goroutine %d [%s %s] in %v is not in the runtime's list", opt.Pause, id, g.State, g.Reason, g.Start)
		}
	}
	return compared, all
}

// rested reports whether a goroutine has not run from one snapshot to a later one. The time since when it waits, which
// the runtime noted in the collection before the first, tells it from one that has come back to the same place.
func rested(a, b event.Goroutine) bool {
	return a.ID == b.ID && a.WaitKnown && b.WaitKnown && b.Wait >= a.Wait &&
		a.State == b.State && a.Reason == b.Reason && slices.Equal(a.Stack, b.Stack)
}

// lookUnderLoad takes snapshots of a program that works. All its stacks must make sense, and all its requests be answered.
func lookUnderLoad(t *testing.T, target *realtarget.Process, p *goproc.Process, snapshots int, opt goproc.SnapshotOptions) {
	load := target.StartLoad()
	goroutines, bestEffort, calls := 0, 0, 0
	for range snapshots {
		load.Await(t, 1)
		snap := take(t, p, opt)
		if snap.Paused != opt.Pause {
			t.Errorf("paused %v, want %v", snap.Paused, opt.Pause)
		}
		for _, g := range snap.Goroutines {
			goroutines++
			if g.BestEffort {
				bestEffort++
				continue
			}
			checkWhole(t, g)
			if g.State != event.StateRunning {
				calls += checkCalls(t, p, g)
			}
		}
	}
	load.Await(t, 1) // it goes on after the last look
	answered, err := load.Stop()
	if err != nil {
		t.Errorf("a request failed: %v", err)
	}
	if calls < goroutines {
		t.Errorf("only %d calls of %d goroutines checked: the test shows nothing", calls, goroutines)
	}
	if 4*bestEffort > goroutines {
		t.Errorf("%d of %d stacks are best effort", bestEffort, goroutines)
	}
	t.Logf("%d requests answered; %d goroutines, %d best effort, %d calls checked", answered, goroutines, bestEffort, calls)
}

// checkWhole checks that a stack is known from end to end.
func checkWhole(t *testing.T, g event.Goroutine) {
	t.Helper()
	if g.Truncated || len(g.Stack) == 0 {
		t.Errorf("goroutine %d [%s %s] started in %s: stack is cut off: %v", g.ID, g.State, g.Reason, g.Start.Func, g.Stack)
		return
	}
	if outermost := g.Stack[len(g.Stack)-1].Func; outermost != "runtime.goexit" {
		t.Errorf("goroutine %d [%s %s]: the outermost frame is %s", g.ID, g.State, g.Reason, outermost)
	}
	for i, f := range g.Stack {
		if f.Func == "" || f.File == "" || f.Line <= 0 {
			t.Errorf("goroutine %d [%s %s]: frame %d at %#x is %+v", g.ID, g.State, g.Reason, i, f.PC, f.Frame)
		}
	}
}

// checkCalls checks that each function on a stack is the one that the instruction before its return address calls. A
// stack put together from two moments would rarely pass. It returns the number of calls that could be checked: those
// through pointers cannot.
func checkCalls(t *testing.T, p *goproc.Process, g event.Goroutine) (checked int) {
	t.Helper()
	stack := slices.DeleteFunc(slices.Clone(g.Stack), func(f event.StackFrame) bool { return f.Inlined })
	for i := 1; i < len(stack); i++ {
		callee, caller := stack[i-1].Func, stack[i]
		if callee == "runtime.asyncPreempt" || callee == "runtime.sigpanic" {
			continue // put there by a signal, between any two instructions
		}
		target, ok := p.Binary().CallTarget(caller.PC - p.LoadBias())
		if !ok {
			continue
		}
		checked++
		called, _ := p.Binary().FuncForPC(target)
		if !enters(called.Name, callee) {
			t.Errorf("goroutine %d [%s %s]: %s calls %s, and not %s which is below it", g.ID, g.State, g.Reason, caller.Func, called.Name, callee)
		}
	}
	return checked
}

// enters reports whether a call of one function can lead straight into another: the same one, or one that it jumps to.
func enters(called, callee string) bool {
	if called == callee {
		return true
	}
	switch called {
	case "runtime.systemstack":
		return callee == "runtime.systemstack_switch"
	case "runtime.reflectcall":
		return strings.HasPrefix(callee, "runtime.call")
	case "runtime.deferreturn": // jumps to the deferred function until Go 1.16
		return true
	}
	// Assembly that makes a function known in a second package, as unix.Syscall.
	return called[strings.LastIndexByte(called, '.')+1:] == callee[strings.LastIndexByte(callee, '.')+1:]
}

// compareCount compares the number of goroutines with the program's own, at a moment when that does not change.
func compareCount(t *testing.T, target *realtarget.Process, p *goproc.Process) {
	const asking = 6 // goroutines that the program starts to gather its metrics and answer
	seen, first, second := 0, 0, 0
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		first = target.NumGoroutine()
		seen = len(ofProgram(take(t, p, goproc.SnapshotOptions{})))
		second = target.NumGoroutine()
		if first == second && seen <= first && seen >= first-asking {
			return
		}
		time.Sleep(50 * time.Millisecond) // what the load left behind ends
	}
	t.Errorf("%d goroutines seen, and the program counts %d before and %d after", seen, first, second)
}
