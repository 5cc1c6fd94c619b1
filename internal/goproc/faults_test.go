package goproc_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gobin/layout"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// startZoo starts the quiescent target built by a release.
func startZoo(t *testing.T, version string) *testtarget.Process {
	t.Helper()
	return testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "zoo", Go: version, Stripped: true}))
}

// oneLine fails the test unless err wraps want and is one line.
func oneLine(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want one that wraps %q", err, want)
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("error has several lines: %q", err)
	}
}

// TestWrongLayout offers each release's process the layout of another one. Where the two differ in a field that matters
// the layout must be refused; where they do not it may be used. What must not happen is a picture that differs.
func TestWrongLayout(t *testing.T) {
	for _, version := range testtarget.Among(t, "1.12.17", "1.18.10", "1.22.12", "1.25.14", testtarget.Latest()) {
		t.Run(version, func(t *testing.T) {
			target := startZoo(t, version)
			refused := 0
			for _, other := range testtarget.AllVersions() {
				l, err := layout.ForVersion("go"+other, "amd64")
				if err != nil {
					t.Fatal(err)
				}
				p, err := goproc.Open(target.PID(), goproc.Options{Layout: l})
				if err != nil {
					oneLine(t, err, goproc.ErrLayout)
					refused++
					continue
				}
				p.Close()
				compareWithLayout(t, target, l)
			}
			if refused == 0 {
				t.Error("no layout was refused")
			}
			t.Logf("%d of %d layouts refused", refused, len(testtarget.AllVersions()))
		})
	}
}

// compareWithLayout compares a snapshot taken with a foreign layout with the runtime's picture.
func compareWithLayout(t *testing.T, target *testtarget.Process, l *layout.Layout) {
	t.Helper()
	p, err := goproc.Open(target.PID(), goproc.Options{Layout: l})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	snap, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]event.Goroutine{}
	for _, g := range snap.Goroutines {
		seen[g.ID] = g
	}
	for _, want := range target.Goroutines() {
		got, ok := seen[want.ID]
		if !ok {
			t.Errorf("layout of %s: goroutine %d is missing", l.GoVersion, want.ID)
			continue
		}
		for _, diff := range frameDifferences(got.Stack, want, p.Binary().Version().Minor) {
			if want.State != "running" {
				t.Errorf("layout of %s accepted, but goroutine %d: %s", l.GoVersion, want.ID, diff)
			}
		}
	}
}

// TestNewerRelease looks at a process of the newest release with the newest layout of the release before, as happens
// when a Loupe meets a Go that is younger than itself.
func TestNewerRelease(t *testing.T) {
	versions := testtarget.AllVersions()
	before := versions[len(versions)-2]
	target := startZoo(t, testtarget.Latest())
	l, err := layout.ForVersion("go"+before, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	l.Source = layout.SourceNearest
	p, err := goproc.Open(target.PID(), goproc.Options{Layout: l})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	warnings := strings.Join(event.WarningTexts(p.Warnings()), "\n")
	if !strings.Contains(warnings, "go"+testtarget.Latest()) || !strings.Contains(warnings, "go"+before) {
		t.Errorf("warnings %q name neither release", warnings)
	}
}

// TestNoProcess asks for processes that are not there.
func TestNoProcess(t *testing.T) {
	cmd := testcmd.Command(t, "true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	_, err := goproc.Open(cmd.Process.Pid, goproc.Options{})
	oneLine(t, err, goproc.ErrNoProcess)
	_, err = goproc.Resolve("no-such-program-anywhere")
	oneLine(t, err, goproc.ErrNoProcess)
	_, err = goproc.Resolve("/no/such/path")
	oneLine(t, err, goproc.ErrNoProcess)
}

// TestNotGo looks at processes of other languages.
func TestNotGo(t *testing.T) {
	cmd := testcmd.Command(t, "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	_, err := goproc.Open(cmd.Process.Pid, goproc.Options{})
	oneLine(t, err, goproc.ErrNotGo)
	_, err = goproc.Open(2, goproc.Options{}) // a kernel thread, or nothing
	if !errors.Is(err, goproc.ErrNotGo) && !errors.Is(err, goproc.ErrNoProcess) && !errors.Is(err, goproc.ErrPermission) {
		t.Errorf("process 2: %v", err)
	}
}

// TestDeadProcess lets the target die after it was opened, and while it is read.
func TestDeadProcess(t *testing.T) {
	target := startZoo(t, testtarget.Latest())
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	target.Kill()
	_, err = p.Snapshot(context.Background(), goproc.SnapshotOptions{})
	oneLine(t, err, goproc.ErrExited)
	_, err = p.Snapshot(context.Background(), goproc.SnapshotOptions{Pause: true})
	if !errors.Is(err, goproc.ErrExited) && !errors.Is(err, goproc.ErrNoProcess) {
		t.Errorf("pausing a dead process: %v", err)
	}
	for delay := time.Duration(0); delay < 3*time.Millisecond; delay += 150 * time.Microsecond {
		dieWhileRead(t, delay)
	}
}

// dieWhileRead kills a target some time after the reading has begun. Either is right: a whole picture, or the news that
// it has exited.
func dieWhileRead(t *testing.T, delay time.Duration) {
	t.Helper()
	target := startZoo(t, testtarget.Latest())
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	go func() {
		time.Sleep(delay)
		syscall.Kill(target.PID(), syscall.SIGKILL)
	}()
	for range 50 {
		if _, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{}); err != nil {
			oneLine(t, err, goproc.ErrExited)
			break
		}
	}
	target.Kill()
}

// TestReplacedExecutable looks at a process whose executable has been deleted, and at one whose executable has been
// replaced by another program.
func TestReplacedExecutable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "target")
	original, err := os.ReadFile(testtarget.Build(t, testtarget.Spec{Program: "zoo", Stripped: true}))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, original, 0o755); err != nil {
		t.Fatal(err)
	}
	target := testtarget.Start(t, path)
	target.Command("gc")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	compareWithRuntime(t, target, goproc.SnapshotOptions{})
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	compareWithRuntime(t, target, goproc.SnapshotOptions{})
	info, err := goproc.Describe(target.PID())
	if err != nil {
		t.Fatal(err)
	}
	if !info.Deleted || info.Exe != path {
		t.Errorf("executable %q, deleted %v, want %q, true", info.Exe, info.Deleted, path)
	}
}

// TestForeignUser looks at another user's process without the right to.
func TestForeignUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become another user")
	}
	target := startZoo(t, testtarget.Latest())
	result := make(chan error)
	go func() {
		// The thread gives up its rights for good, and ends with the goroutine.
		runtime.LockOSThread()
		const nobody = 65534
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			result <- errno
			return
		}
		_, err := goproc.Open(target.PID(), goproc.Options{})
		result <- err
	}()
	oneLine(t, <-result, goproc.ErrPermission)
	if got := target.Command("num"); got == "" {
		t.Error("the target does not answer")
	}
}

// TestTraced asks for a pause of a process that another tracer holds.
func TestTraced(t *testing.T) {
	target := startZoo(t, testtarget.Latest())
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ready, done, detached := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(detached)
		err := syscall.PtraceAttach(target.PID())
		if err == nil {
			_, err = syscall.Wait4(target.PID(), nil, syscall.WALL, nil)
		}
		ready <- err
		<-done
		syscall.PtraceDetach(target.PID())
	}()
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	defer func() {
		close(done)
		<-detached
	}()
	_, err = p.Snapshot(context.Background(), goproc.SnapshotOptions{Pause: true})
	oneLine(t, err, goproc.ErrPermission)
	if err == nil || !strings.Contains(err.Error(), "traces it") {
		t.Errorf("error %v does not say that the process is traced", err)
	}
	// Reading it while it runs, or stands, needs no tracing.
	if _, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{}); err != nil {
		t.Error(err)
	}
}

// TestCancelled cancels a snapshot.
func TestCancelled(t *testing.T) {
	target := startZoo(t, testtarget.Latest())
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, pause := range []bool{false, true} {
		if _, err := p.Snapshot(ctx, goproc.SnapshotOptions{Pause: pause}); !errors.Is(err, context.Canceled) {
			t.Errorf("pause %v: error %v, want context.Canceled", pause, err)
		}
	}
	if got := target.Command("num"); got == "" {
		t.Error("the target does not answer")
	}
}
