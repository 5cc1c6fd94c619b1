package child

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestAwaitEnd stops a child as a tracer does while another goroutine waits for its end.
func TestAwaitEnd(t *testing.T) {
	cmd := testcmd.Within(t, 0, "cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		AwaitEnd(cmd.Process.Pid)
		ended <- cmd.Wait()
	}()
	traced := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := unix.PtraceSeize(cmd.Process.Pid)
		if err == nil {
			err = unix.PtraceInterrupt(cmd.Process.Pid)
		}
		if err == nil {
			var status unix.WaitStatus
			_, err = unix.Wait4(cmd.Process.Pid, &status, unix.WALL, nil)
			if !status.Stopped() {
				t.Errorf("the tracer was told %v, want a stop", status)
			}
		}
		if err == nil {
			err = unix.PtraceDetach(cmd.Process.Pid)
		}
		traced <- err
	}()
	if err := <-traced; err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	if err := <-ended; err != nil {
		t.Errorf("the child ended with %v", err)
	}
	AwaitEnd(cmd.Process.Pid) // it is gone
}
