package loupe_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestTwoEnginesAtOnce attaches both engines at the same time: one is refused, however their steps follow each other. The
// instruction that the kernel carries out for a uprobe is not the one that engine inline has put there.
func TestTwoEnginesAtOnce(t *testing.T) {
	p := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mixer"}), "1")
	code := textOf(t, p.PID())
	attached := map[loupe.Engine]int{}
	for round := range 12 {
		engines := []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline}
		var sessions [2]*loupe.Session
		var errs [2]error
		var wg sync.WaitGroup
		for i, engine := range engines {
			wg.Go(func() {
				if engine == loupe.EngineInline {
					time.Sleep(time.Duration(round) * 10 * time.Millisecond)
				}
				sessions[i], errs[i] = loupe.Attach(context.Background(), loupe.PID(p.PID()), loupe.Options{Engine: engine})
			})
		}
		wg.Wait()
		if errors.Is(errs[0], loupe.ErrPermission) {
			t.Skip(errs[0])
		}
		if sessions[0] != nil && sessions[1] != nil {
			t.Errorf("round %d: both engines attached", round)
		}
		for i, s := range sessions {
			if s == nil {
				if !errors.Is(errs[i], loupe.ErrUnsupported) && !errors.Is(errs[i], loupe.ErrPermission) {
					t.Errorf("round %d: engine %s: %v", round, engines[i], errs[i])
				}
				continue
			}
			attached[engines[i]]++
			if err := s.Close(); err != nil {
				t.Errorf("round %d: engine %s: %v", round, engines[i], err)
			}
		}
		if now := textOf(t, p.PID()); now != code {
			t.Fatalf("round %d: the code has changed", round)
		}
	}
	t.Logf("attached: %v", attached)
	expectWork(t, p)
}
