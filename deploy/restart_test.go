package deploy

import (
	"fmt"
	"testing"

	"github.com/loupe-go/loupe/internal/ptrace"
)

// patched reports whether engine inline has memory in a process.
func patched(t *testing.T, pid int) bool {
	t.Helper()
	_, found, err := ptrace.OccupiedBy(pid)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestRestart kills the agent while it observes a process with engine inline. The next agent removes what it has left, also if it
// observes with another engine, and the process goes on.
func TestRestart(t *testing.T) {
	t.Parallel()
	target := colony(t)
	config := only("tracing: {engine: %s}\nsampling: {max_target_overhead: 100%%}\n", target)
	b := startBinary(t, fmt.Sprintf(config, "inline"))
	observed := func() {
		t.Helper()
		b.await(atLeast(3), "loupe_target_level", pidLabel(target), `engine="inline"`)
	}
	observed()
	b.kill()
	if !patched(t, target.PID()) {
		t.Fatal("the process has nothing of the agent that was killed")
	}
	b.start()
	observed()
	target.Command("hold 100")
	target.Command("free")
	b.await(atLeast(1), "loupe_goroutine_waits_total", pidLabel(target), `reason="chan receive"`)
	b.kill()
	write(t, b.config, fmt.Sprintf(config, "uprobe"))
	b.start()
	b.awaitLog("removed what an earlier observation had left")
	if patched(t, target.PID()) {
		t.Error("the process still has something of the agent that was killed")
	}
	if target.Command("num") == "" {
		t.Error("the process does not work any more")
	}
}
