package testcmd

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain is also the command that tests start.
func TestMain(m *testing.M) {
	switch os.Getenv("LOUPE_TESTCMD") {
	case "hang":
		fmt.Fprintln(os.Stderr, "it hangs")
		hang()
	case "world":
		fmt.Println(describeWorld())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

//go:noinline
func hang() { time.Sleep(time.Hour) }

// record is a test that notes what is reported.
type record struct {
	testing.TB
	mu       sync.Mutex
	errors   []string
	logs     []string
	cleanups []func()
}

// Helper takes a while, so that other goroutines run between two steps of what the test calls.
func (r *record) Helper()          { time.Sleep(time.Millisecond) }
func (r *record) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *record) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}
func (r *record) Logf(format string, args ...any) {
	r.logs = append(r.logs, fmt.Sprintf(format, args...))
}

func (r *record) end() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

// late runs a command with longer and longer deadlines, until it hung at its deadline: it may start slowly.
func late(run func(deadline time.Duration) (hung bool, err error)) error {
	for d := time.Second; ; d *= 2 {
		if hung, err := run(d); hung || d > 30*time.Second {
			return err
		}
	}
}

// TestDeadline lets a Go program hang: the test that started it fails and shows where it hangs.
func TestDeadline(t *testing.T) {
	for name, set := range map[string]func(*exec.Cmd){
		"stderr kept": func(*exec.Cmd) {},
		"stderr set":  func(cmd *exec.Cmd) { cmd.Stderr = &strings.Builder{} },
	} {
		var r *record
		err := late(func(d time.Duration) (bool, error) {
			r = &record{TB: t}
			cmd := Within(r, d, os.Args[0])
			cmd.Env = append(os.Environ(), "LOUPE_TESTCMD=hang")
			set(cmd)
			err := cmd.Run()
			r.end()
			return strings.Contains(strings.Join(r.logs, ""), "it hangs"), err
		})
		if err == nil || len(r.errors) != 1 || !strings.Contains(r.errors[0], "has not ended in time") || !strings.Contains(r.errors[0], "\n  thread ") {
			t.Errorf("%s: %v, reported %q", name, err, r.errors)
		}
		if log := strings.Join(r.logs, ""); !strings.Contains(log, "it hangs") || !strings.Contains(log, "testcmd.hang(") {
			t.Errorf("%s: the stacks are not shown: %q", name, log)
		}
	}
}

// TestStubbornCommand lets a command hang that ignores SIGQUIT.
func TestStubbornCommand(t *testing.T) {
	var r *record
	var cmd *exec.Cmd
	err := late(func(d time.Duration) (bool, error) {
		r = &record{TB: t}
		cmd = Within(r, d, "sh", "-c", "trap '' QUIT; while :; do sleep 7; done")
		cmd.WaitDelay = time.Second
		err := cmd.Run()
		r.end()
		return strings.Contains(strings.Join(r.errors, ""), ": sleep 7\n"), err
	})
	if len(r.errors) == 1 && !strings.Contains(r.errors[0], ": sleep 7\n") {
		t.Errorf("what the command has started is not shown: %s", r.errors[0])
	}
	if err == nil || len(r.errors) != 1 || cmd.ProcessState.Sys().(interface{ Signal() unix.Signal }).Signal() != unix.SIGKILL {
		t.Errorf("%v, reported %q", err, r.errors)
	}
}

// TestCommandEndsWithTest leaves a command running: it is not reported as late, even if os/exec ends it before the test
// has ended.
func TestCommandEndsWithTest(t *testing.T) {
	r := &record{TB: t}
	cmd := Within(r, 0, "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.end()
	if err := cmd.Wait(); err == nil || len(r.errors) != 0 || len(r.logs) != 0 {
		t.Errorf("%v, reported %q %q", err, r.errors, r.logs)
	}
}

func TestRun(t *testing.T) {
	status, out, errOut := Run(t, Command(t, "sh", "-c", "echo out; echo err >&2; exit 3"))
	if status != 3 || out != "out\n" || errOut != "err\n" {
		t.Errorf("%d %q %q", status, out, errOut)
	}
	if both, err := Combined(Command(t, "sh", "-c", "echo out; echo err >&2")); err != nil || string(both) != "out\nerr\n" {
		t.Errorf("%q, %v", both, err)
	}
}
