package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// privateColony returns an executable that other tests do not run at the same time.
func privateColony(t *testing.T) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "colony")
	program, err := os.ReadFile(testtarget.Build(t, testtarget.Spec{Program: "colony", Stripped: true}))
	if err == nil {
		err = os.WriteFile(exe, program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// pause stops a process for a while.
func pause(t *testing.T, cmd *exec.Cmd, d time.Duration) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(d)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// TestOverload has targets that make events as fast as they can, next to one that does not. What the first ones cost is limited, what is lost is
// counted, and the other one is observed as before.
func TestOverload(t *testing.T) {
	exe := privateColony(t)
	fast, busy, quiet := testtarget.Start(t, exe), testtarget.Start(t, exe), testtarget.Start(t, exe)
	fast.Command("traffic 50")
	busy.Command("hold 20000") // otherwise all goroutines would be sampled
	busy.Command("churn 20000")
	cmd, a := startAgent(t, "targets.binary_patterns="+exe, "tracing.engine=inline", "sampling.max_target_overhead=30%", "budget.buffer_bytes=4KiB")
	first, second, other := fmt.Sprint(fast.PID()), fmt.Sprint(busy.PID()), fmt.Sprint(quiet.PID())
	a.await(equals(3), metric.Level, "pid", other)
	a.await(equals(3), metric.Level, "pid", second)
	a.await(atLeast(1), metric.Paused, "pid", first, "why", "overhead") // no level of events is affordable
	a.await(func(v float64) bool { return v > 0 && v < 0.5 }, metric.SamplingRatio, "pid", second, "events", "runs")
	for deadline := time.Now().Add(testcmd.Patience); a.scrape(metric.TargetLost, "pid", second) == 0; time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatal("no event is lost")
		}
		// Where the processors suffice, the agent reads as fast as the target writes. So it does not get them for a while.
		pause(t, cmd, 2*time.Second)
	}
	// It is zero for the first ten seconds, which the test waits for only if it may take long.
	a.await(func(v float64) bool { return (v > 0 || !testtarget.Requested()) && v < 1 }, metric.BudgetRatio, "resource", "cpu")
	events := a.scrape(metric.TargetEvents, "pid", other)
	quiet.Command("hold 100")
	a.await(atLeast(events+100), metric.TargetEvents, "pid", other)
	t.Logf("sampled: %v of the goroutines, lost: %v of %v events, budget: %v, time in probes: %v s of %v s", a.scrape(metric.SamplingRatio, "pid", second, "events", "runs"),
		a.scrape(metric.TargetLost, "pid", second), a.scrape(metric.TargetEvents, "pid", second), a.scrape(metric.BudgetRatio, "resource", "cpu"),
		a.scrape(metric.ProbeTime, "pid", second), a.scrape(metric.ProcessCPU, "pid", second))
	if got := a.scrape(metric.Level, "pid", other); got != 3 {
		t.Errorf("the quiet target is observed at level %v", got)
	}
	if lost := a.scrape(metric.TargetLost, "pid", other); lost > 0 {
		t.Errorf("%v events of the quiet target are lost", lost)
	}
}
