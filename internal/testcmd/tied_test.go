package testcmd

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// TestStartTied ends many threads of this process: the command does not end with one of them.
func TestStartTied(t *testing.T) {
	cmd := Within(t, 0, "sleep", "1000")
	var err error
	over := make(chan bool)
	ended, startErr := StartTied(cmd, syscall.SIGKILL, func() {
		<-over // in cmd.Wait, the goroutine would keep its thread in any case
		err = cmd.Wait()
	})
	if startErr != nil {
		t.Fatal(startErr)
	}
	for range 20 {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { runtime.LockOSThread() }) // the thread ends with the goroutine
		}
		all.Wait()
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	close(over)
	<-ended
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("%v, %v", err, cmd.ProcessState)
	}
	missing := exec.Command("/nonexistent")
	if _, err := StartTied(missing, syscall.SIGKILL, func() { t.Error("waits for a command that did not start") }); err == nil {
		t.Error("a missing command starts")
	}
}
