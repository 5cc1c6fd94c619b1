package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestWarningsAtOnce checks that a warning that comes up during a session is printed while the session goes on, and once.
func TestWarningsAtOnce(t *testing.T) {
	for _, line := range [][]string{{"trace", "app"}, {"top", "app", "--interval", "1h"}, {"record", "app", "-o", filepath.Join(t.TempDir(), "trace")}} {
		sys := newStream()
		sys.stream.goesOn = true
		sys.stream.warnings, sys.stream.late = []string{"a kernel feature is missing"}, "another tracer has a breakpoint at runtime.gopark"
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		var out, errOut lockedBuffer
		a := &app{Env: Env{Args: line, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errOut, Getenv: func(string) string { return "" }}, system: sys}
		status := make(chan int)
		go func() { status <- a.run(ctx) }()
		for ctx.Err() == nil && !strings.Contains(errOut.String(), sys.stream.late) {
			time.Sleep(time.Millisecond)
		}
		if ctx.Err() != nil {
			t.Errorf("%s: no warning while the session goes on", line[0])
		}
		cancel()
		if s := <-status; s != exitDone {
			t.Errorf("%s: status %d", line[0], s)
		}
		for _, w := range append(sys.stream.warnings, sys.stream.late) {
			if n := strings.Count(errOut.String(), "loupe: note: "+w+"\n"); n != 1 {
				t.Errorf("%s: %d times %q in %q", line[0], n, w, errOut.String())
			}
		}
	}
}

// TestSlowRemoval checks what top prints while the probes are being removed, which takes long: no more pictures, and that
// it is under way.
func TestSlowRemoval(t *testing.T) {
	const interval = minTopInterval
	sys := livelier()
	sys.stream.leaving = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errOut lockedBuffer
	a := &app{Env: Env{Args: []string{"top", "42", "--json", "--interval", interval.String()}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errOut,
		Getenv: func(string) string { return "" }}, system: sys}
	status := make(chan int)
	go func() { status <- a.run(ctx) }()
	await := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("%s never came", what)
				return
			}
		}
	}
	await("a picture", func() bool { return out.String() != "" })
	cancel()
	const told = "loupe: still removing the probes from process 42\n"
	asked := strings.Count(out.String(), "\n")
	await("the note", func() bool { return strings.Contains(errOut.String(), told) })
	// One picture may have been under way.
	if n := strings.Count(out.String(), "\n"); n > asked+1 {
		t.Errorf("%d pictures after the user has ended the observation", n-asked)
	}
	close(sys.stream.leaving)
	if s := <-status; s != exitDone || strings.Count(errOut.String(), told) != 1 {
		t.Errorf("status %d, stderr %q", s, errOut.String())
	}
}

// TestWaitStopped stops this process for a second, as a busy host stops a virtual machine. Loupe waits that much longer.
func TestWaitStopped(t *testing.T) {
	testcmd.UntilSeen(t, 2*time.Second, func(d time.Duration) error {
		if took := waitStopped(t, d); took < d+800*time.Millisecond {
			return fmt.Errorf("a wait of %v took %v, in a second of which nothing ran", d, took)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := waiter().wait(ctx, time.Minute, "waiting"); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled wait: %v", err)
	}
}

func waiter() *app {
	return &app{Env: Env{Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }}, system: livelier()}
}

// waitStopped returns how long a wait of d takes if this process is stopped for a second meanwhile.
func waitStopped(t *testing.T, d time.Duration) time.Duration {
	t.Helper()
	cmd := testcmd.Command(t, "sh", "-c", "read x; kill -STOP $PPID; sleep 1; kill -CONT $PPID")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	fmt.Fprintln(stdin, "now")
	if err := waiter().wait(t.Context(), d, "waiting"); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return took
}
