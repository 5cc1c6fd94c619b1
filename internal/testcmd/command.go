package testcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Patience is the deadline of a command of which nothing else is known. Nothing is concluded from how long a
	// command takes: a slow machine must not fail a test.
	Patience = 5 * time.Minute
	// dumpTime is how long a command may take to print its stacks and end.
	dumpTime = 15 * time.Second
	// reserve is what is left of the test's own deadline for showing what the command printed.
	reserve = dumpTime + 5*time.Second
)

// Command returns a command that has Patience to end.
func Command(tb testing.TB, name string, args ...string) *exec.Cmd {
	return Within(tb, Patience, name, args...)
}

// Within returns a command that must end within a time from now. It ends at the latest when the test does, and shortly
// before the test's own deadline. 0 means that there is no other deadline, as for a target that lives as long as its test.
//
// Stdin is empty unless it is set. What the command prints to stderr is kept, and is shown when the deadline passes,
// unless Stderr is set to a writer without a String method. For StderrPipe and CombinedOutput set Stderr to nil first.
//
// Without a test, for a TestMain, tb is nil: the command is then killed at the deadline, with its stacks on stderr.
func Within(tb testing.TB, d time.Duration, name string, args ...string) *exec.Cmd {
	if tb != nil {
		tb.Helper()
	}
	w := &watch{tb: tb, within: d}
	ctx, cancel := w.context()
	cmd := exec.CommandContext(ctx, name, args...)
	w.cmd = cmd
	cmd.Cancel = w.end
	cmd.WaitDelay = dumpTime
	if tb == nil {
		cmd.Stderr = os.Stderr
		return cmd
	}
	var err error
	if w.kept, err = newKept(); err != nil {
		tb.Fatal(err)
	}
	cmd.Stderr = w.kept
	tb.Cleanup(func() {
		tb.Helper()
		w.finish() // before cancel, so that the command is not reported as late
		cancel()
	})
	return cmd
}

// Run runs a command to its end and returns its exit status and what it printed. It fails the test when the command
// cannot be started or does not end in time; a status other than 0 is for the caller to judge.
func Run(tb testing.TB, cmd *exec.Cmd) (status int, stdout, stderr string) {
	tb.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		tb.Fatalf("%s: %v\n%s", cmd, err, errOut.String())
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

// watch is the deadline of one command.
type watch struct {
	tb     testing.TB
	cmd    *exec.Cmd
	within time.Duration
	kept   *os.File // what the command prints to stderr, unless the test sets another one

	mu      sync.Mutex
	over    bool // the test ends, nothing is reported any more
	expired bool
}

// context returns a context that is done when the command must end.
func (w *watch) context() (context.Context, context.CancelFunc) {
	ctx := context.Background()
	stop := func() {}
	if test, ok := w.tb.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := test.Deadline(); ok {
			ctx, stop = context.WithDeadline(ctx, deadline.Add(-reserve))
		}
	}
	if w.within == 0 {
		ctx, cancel := context.WithCancel(ctx)
		return ctx, func() { cancel(); stop() }
	}
	ctx, cancel := context.WithTimeout(ctx, w.within)
	return ctx, func() { cancel(); stop() }
}

// end ends the command, with its stacks when the deadline has passed. os/exec kills it when that is not enough.
func (w *watch) end() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return w.cmd.Process.Kill()
	}
	w.expired = true
	where := Where(w.cmd.Process.Pid)
	if w.tb == nil {
		fmt.Fprintf(os.Stderr, "testcmd: %s (pid %d) has not ended after %v\n%s", w.cmd, w.cmd.Process.Pid, w.within, where)
	} else {
		w.tb.Errorf("%s (pid %d) has not ended in time; it gets SIGQUIT\n%s", w.cmd, w.cmd.Process.Pid, where)
	}
	return w.cmd.Process.Signal(unix.SIGQUIT)
}

// finish is called when the test ends, before a command that still runs is killed. It shows what a command printed
// that was ended by its deadline.
func (w *watch) finish() {
	w.tb.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.expired {
		w.tb.Logf("stderr of %s:\n%s", w.cmd, w.printed())
	}
	w.kept.Close()
}

// printed returns what the command has printed to stderr.
func (w *watch) printed() string {
	if w.cmd.Stderr == w.kept {
		info, err := w.kept.Stat()
		if err != nil {
			return err.Error()
		}
		text := make([]byte, info.Size())
		n, err := w.kept.ReadAt(text, 0)
		if err != nil {
			return err.Error()
		}
		return string(text[:n])
	}
	text, ok := w.cmd.Stderr.(fmt.Stringer)
	if !ok || w.cmd.ProcessState == nil { // without a Wait it may still be written to
		return "(kept by the test)"
	}
	return text.String()
}

// newKept returns a file in memory.
func newKept() (*os.File, error) {
	fd, err := unix.MemfdCreate("stderr", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	return os.NewFile(uintptr(fd), "stderr"), nil
}

// Combined runs a command to its end and returns what it printed to stdout and stderr.
func Combined(cmd *exec.Cmd) ([]byte, error) {
	cmd.Stderr = nil // which CombinedOutput wants to set
	return cmd.CombinedOutput()
}

// Quit ends a program that does not do what it should, with SIGQUIT, of which a Go program prints the stacks of its
// goroutines, or with SIGKILL. ended is closed when the program was waited for.
func Quit(p *os.Process, ended <-chan struct{}) {
	_ = p.Signal(unix.SIGQUIT) // it fails if the program has ended
	select {
	case <-ended:
		return
	case <-time.After(dumpTime):
	}
	_ = p.Kill()
	<-ended
}
