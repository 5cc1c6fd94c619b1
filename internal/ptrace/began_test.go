package ptrace

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestBegan asks for a process while it runs, when it has ended and nobody has taken note, and after that.
func TestBegan(t *testing.T) {
	if Began(os.Getpid()) == 0 {
		t.Error("this process has not begun")
	}
	cmd := testcmd.Within(t, 0, "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	began := Began(pid)
	if began < Began(os.Getpid()) {
		t.Errorf("a child began at %d", began)
	}
	if again := Began(pid); again != began {
		t.Errorf("it began at %d, then at %d", began, again)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); Began(pid) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it was killed, and is still told to be there")
		}
	}
	if _, err := os.Stat(fmt.Sprint("/proc/", pid)); err != nil {
		t.Errorf("nobody has waited for it: %v", err)
	}
	cmd.Wait() // says that it was killed
	if got := Began(pid); got == began {
		t.Error("it is gone, and still told to be there")
	}
}
