package goproc_test

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestProgress waits for threads that run, that sleep, and that are stopped.
func TestProgress(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "churn"}))
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 5 {
		progress, err := p.Progress()
		if err != nil {
			t.Fatal(err)
		}
		if behind := progress.Await(context.Background(), time.Microsecond, time.Minute); behind != 0 {
			t.Errorf("%d threads do not come on", behind)
		}
	}
	self, err := os.FindProcess(target.PID())
	if err != nil {
		t.Fatal(err)
	}
	self.Signal(syscall.SIGSTOP)
	defer self.Signal(syscall.SIGCONT)
	progress, err := p.Progress()
	if err != nil {
		t.Fatal(err)
	}
	if behind := progress.Await(context.Background(), time.Hour, time.Minute); behind != 0 {
		t.Errorf("%d stopped threads are waited for", behind)
	}
}
