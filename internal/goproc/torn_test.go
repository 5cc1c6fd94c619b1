package goproc_test

import (
	"context"
	"slices"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestNoTornStacks looks at a program whose workers spell code words by their call chains, thousands of words a second.
// A stack put together from two moments would be no word.
func TestNoTornStacks(t *testing.T) {
	const snapshots, enoughWords = 60, 30
	for _, version := range testtarget.Versions() {
		t.Run(version, func(t *testing.T) {
			spec := testtarget.Spec{Program: "coder", Go: version, Stripped: true}
			target := testtarget.Start(t, testtarget.Build(t, spec))
			p, err := goproc.Open(target.PID(), goproc.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			words := map[uint]bool{}
			bestEffort := 0
			for n := 0; n < snapshots || len(words) < enoughWords && n < 100*snapshots; n++ {
				snap, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, g := range snap.Goroutines {
					checkWord(t, g, words)
					if g.BestEffort {
						bestEffort++
					}
				}
			}
			if len(words) < enoughWords {
				t.Errorf("only %d different words seen: the test shows nothing", len(words))
			}
			t.Logf("%d words, %d stacks of running goroutines", len(words), bestEffort)
		})
	}
}

// checkWord judges one goroutine's stack and notes its word.
func checkWord(t *testing.T, g event.Goroutine, words map[uint]bool) {
	t.Helper()
	var funcs []string
	for _, f := range g.Stack {
		funcs = append(funcs, f.Func)
	}
	value, ok, applies := testtarget.CheckCodeWord(funcs)
	if !applies {
		return
	}
	if !ok {
		t.Errorf("goroutine %d [%s %s], best effort %v: torn stack %q", g.ID, g.State, g.Reason, g.BestEffort, funcs)
		return
	}
	words[value] = true
	if slices.Contains(funcs, "runtime.mallocgc") {
		return // on the way to its park it allocates, and may wait for the garbage collector
	}
	if reason := testtarget.CodeWordReason(funcs); g.State == event.StateWaiting && reason != "" && g.Reason != reason {
		t.Errorf("goroutine %d waits for %q in a stack that waits for %q: %q", g.ID, g.Reason, reason, funcs)
	}
}
