package discover

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// helperEnv makes the test executable a program that tests start. Its arguments are the words of the value.
const helperEnv = "LOUPE_TEST_DISCOVER"

func TestMain(m *testing.M) {
	if words := strings.Fields(os.Getenv(helperEnv)); len(words) > 0 {
		helper(words)
	}
	goleak.VerifyTestMain(m)
}

// helper does what a test wants, after a line on its standard input.
func helper(words []string) {
	os.Unsetenv(helperEnv)
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	switch words[0] {
	case "exec": // PATH ARGS...
		fmt.Fprintln(os.Stderr, syscall.Exec(words[1], words[1:], os.Environ()))
	case "fork": // the child does not execute a program
		child, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 && child == 0 {
			for {
				syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
		fmt.Println(int(child), int(errno))
		bufio.NewReader(os.Stdin).ReadString('\n')
		syscall.Kill(int(child), syscall.SIGKILL)
		os.Exit(0)
	}
	os.Exit(1)
}

// A follower collects the events of a Watcher that runs.
type follower struct {
	*Watcher
	tb     testing.TB
	events chan Event
	seen   []Event
}

// follow runs a Watcher until the test ends.
func follow(tb testing.TB, w *Watcher) *follower {
	f := &follower{Watcher: w, tb: tb, events: make(chan Event, 10000)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, func(e Event) { f.events <- e }) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	for w.Stats().Scans == 0 {
		time.Sleep(time.Millisecond)
	}
	return f
}

// wait returns the next event of a process.
func (f *follower) wait(pid int, kind Kind) Event {
	f.tb.Helper()
	patience := time.After(testcmd.Patience)
	for {
		select {
		case e := <-f.events:
			f.check(e)
			if e.Process.PID != pid {
				continue
			}
			if e.Kind != kind {
				f.tb.Fatalf("process %d: %v %+v, want %v", pid, e.Kind, e.Process, kind)
			}
			return e
		case <-patience:
			f.tb.Fatalf("process %d has not %v: %+v", pid, kind, f.Stats())
		}
	}
}

// check checks that events are in order.
func (f *follower) check(e Event) {
	f.seen = append(f.seen, e)
	if e.Process.PID == os.Getpid() {
		f.tb.Errorf("the watcher itself %v", e.Kind)
	}
	running := false
	for _, old := range f.seen[:len(f.seen)-1] {
		if old.Process.PID == e.Process.PID {
			running = old.Kind != Vanished
		}
	}
	if running == (e.Kind == Appeared) {
		f.tb.Errorf("%v %+v, running: %t", e.Kind, e.Process, running)
	}
}

// sources runs a test with each source of processes.
func sources(t *testing.T, test func(t *testing.T, w *Watcher)) {
	t.Run("connector", func(t *testing.T) { test(t, withConnector(t)) })
	t.Run("tracepoints", func(t *testing.T) { test(t, withTracepoints(t)) })
	t.Run("polling", func(t *testing.T) { test(t, New(polling(50*time.Millisecond))) })
}

// polling returns the options of a Watcher that only scans.
func polling(interval time.Duration) Options {
	return Options{NoConnector: true, NoTracepoints: true, Interval: interval}
}

// withTracepoints is withConnector for tracepoints.
func withTracepoints(t *testing.T) *Watcher {
	p, err := openTracepoints(ringBytes)
	if err != nil {
		t.Skip(err)
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
	return New(Options{NoConnector: true, Rescan: time.Hour})
}

// withConnector returns a Watcher that finds nothing by scans.
func withConnector(t *testing.T) *Watcher {
	c, err := openConnector(connectorBuffer)
	if err != nil {
		t.Skip(err)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	return New(Options{NoTracepoints: true, Rescan: time.Hour})
}

func tiny(tb testing.TB) string {
	return testtarget.Build(tb, testtarget.Spec{Program: "tiny"})
}
