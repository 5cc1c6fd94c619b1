package realtarget_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/realtarget"
)

// TestPrograms runs each program: it answers, gives an account of its goroutines, works under load, and is gone when it
// was stopped.
func TestPrograms(t *testing.T) {
	const requests = 50
	for _, spec := range realtarget.Chosen(t) {
		t.Run(spec.Name, func(t *testing.T) {
			p := spec.Start(t)
			load := p.StartLoad()
			load.Await(t, requests)
			answered, err := load.Stop()
			if err != nil {
				t.Errorf("after %d answers: %v", answered, err)
			}
			p.CollectGarbage()
			gs := p.Goroutines()
			running := 0
			for _, g := range gs {
				if g.State == "running" {
					running++
				}
			}
			if running != 1 || len(gs) < 10 {
				t.Errorf("%d goroutines, %d running: want at least 10 and the one that answers", len(gs), running)
			}
			if n := p.NumGoroutine(); n < 10 {
				t.Errorf("the program counts %d goroutines, and lists %d", n, len(gs))
			}
			p.Stop()
			// Processes that were killed are there until init has waited for them.
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				err := unix.Kill(-p.PID(), 0)
				if errors.Is(err, unix.ESRCH) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("a process of the group is left: %v", err)
				}
			}
		})
	}
}
