package memtrace

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// inProcess names the test that runs in a process of its own.
const inProcess = "MEMTRACE_TEST"

// ownProcess runs a test in a process of its own, which is killed after five minutes. It returns true in that process, else
// false and the output.
func ownProcess(t *testing.T) (own bool, out string, err error) {
	if os.Getenv(inProcess) == t.Name() {
		return true, "", nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inProcess+"="+t.Name())
	text, err := cmd.CombinedOutput()
	return false, string(text), err
}
