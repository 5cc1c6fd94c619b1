package inline

import (
	"errors"
	"os"
	"testing"

	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/testcmd"
)

func TestOwnPID(t *testing.T) {
	if pid, err := ownPID(os.Getpid()); err != nil || pid == 0 {
		t.Errorf("of this process: %d, %v", pid, err)
	}
	cmd := testcmd.Command(t, "true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if pid, err := ownPID(cmd.Process.Pid); !errors.Is(err, ptrace.ErrExited) {
		t.Errorf("of a process that has exited: %d, %v", pid, err)
	}
}
