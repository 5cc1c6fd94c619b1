package realtarget_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testtarget"
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
			// A goroutine that returns from a system call can be running, without a P, while the world is stopped.
			gs := p.Goroutines()
			for begun := time.Now(); running(gs) != 1 && time.Since(begun) < time.Minute; gs = p.Goroutines() {
				time.Sleep(10 * time.Millisecond)
			}
			if n := running(gs); n != 1 || len(gs) < 10 {
				t.Errorf("%d goroutines, %d running: want at least 10 and the one that answers", len(gs), n)
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

// running returns the number of goroutines that run.
func running(gs []testtarget.Goroutine) (n int) {
	for _, g := range gs {
		if g.State == "running" {
			n++
		}
	}
	return n
}
