package goproc_test

import (
	"context"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// compareTallies compares the tallies of a process that does nothing with a snapshot, which [TestTruth] compares with the runtime.
func compareTallies(t *testing.T, target *testtarget.Process) {
	t.Helper()
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	snap, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tallies, err := p.Tallies(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]event.Goroutine{}
	for _, g := range snap.Goroutines {
		seen[g.ID] = g
	}
	for _, y := range tallies {
		for _, m := range y.Members {
			g, ok := seen[m.ID]
			if !ok {
				t.Errorf("goroutine %d is in no snapshot", m.ID)
				continue
			}
			delete(seen, m.ID)
			if g.System { // it may have run in between
				continue
			}
			// Of goroutines that the runtime starts to run functions of the program, the stack says that they do.
			if y.State != g.State || y.Origin.CreatedBy != g.CreatedBy || m.Stops != g.Stops || y.Origin.System && g.Start.Func != "runtime.runFinalizers" && g.Start.Func != "runtime.runfinq" {
				t.Errorf("goroutine %d of %+v stopped %d times, in the snapshot it is %+v", m.ID, y, m.Stops, g)
			}
			if minor := p.Binary().Version().Minor; minor >= 22 && y.Reason != g.Reason {
				t.Errorf("goroutine %d waits for %q, in the snapshot for %q", m.ID, y.Reason, g.Reason)
			}
			if g.WaitKnown && y.Oldest < g.Wait {
				t.Errorf("the oldest wait is %v, that of goroutine %d %v", y.Oldest, m.ID, g.Wait)
			}
		}
	}
	for id, g := range seen {
		t.Errorf("goroutine %d [%s %s] is in no tally", id, g.State, g.Reason)
	}
}

// BenchmarkTallies counts 100,000 goroutines.
func BenchmarkTallies(b *testing.B) {
	target := testtarget.Start(b, testtarget.Build(b, testtarget.Spec{Program: "colony", Go: testtarget.Latest()}))
	target.Command("hold 100000")
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	for b.Loop() {
		if _, err := p.Tallies(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
