package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// recordFor is how long each release's program is recorded. `make truth` takes 10 seconds.
var recordFor = flag.Duration("record.for", 200*time.Millisecond, "how long TestRecordUnderLoad records each program")

// TestRecordUnderLoad records programs of many releases that make goroutines as fast as they can, with and without system
// calls. The Go project's reader and its go tool trace read each recording to its end, loupe tracefile validate finds
// nothing wrong in it, and the program's results stay right.
func TestRecordUnderLoad(t *testing.T) {
	recorded := slices.DeleteFunc(testtarget.Versions(), func(release string) bool {
		var minor int
		_, err := fmt.Sscanf(release, "1.%d", &minor)
		return err != nil || minor < 18
	})
	for i, release := range testtarget.Ends(t, recorded) {
		t.Run("go"+release, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "churn", Go: release}))
			file := filepath.Join(t.TempDir(), "app.trace")
			var events int
			testcmd.UntilSeen(t, *recordFor, func(d time.Duration) error {
				args := []string{"record", fmt.Sprint(target.PID()), "-o", file, "--duration", d.String()}
				if i%2 == 1 {
					args = append(args, "--kinds", "default,syscall")
				}
				if status, out, errOut := run(t, args...); status != 0 {
					t.Fatalf("%q: status %d, %s%s", args, status, out, errOut)
				}
				if sum := target.Command("sum"); !strings.HasPrefix(sum, "sum ok") {
					t.Errorf("the program says %q", sum)
				}
				var starts int
				events, starts = readWhole(t, file)
				t.Logf("%d events, %d starts of goroutines", events, starts)
				if starts < 1000 {
					return fmt.Errorf("%d starts of goroutines in a recording of %v", starts, d)
				}
				return nil
			})
			if status, out, errOut := run(t, "tracefile", "validate", file); status != 0 || !strings.Contains(out+errOut, ": 0 errors, 0 warnings") {
				t.Errorf("validate: status %d, %s%s", status, out, errOut)
			}
			if !testtarget.RunsToolTrace(t, strings.TrimPrefix(runtime.Version(), "go")) {
				return
			}
			// What the reader makes up at the ends of generations is shown too.
			if shown := parsedEvents(t, file); shown < events {
				t.Errorf("go tool trace -d=parsed shows %d of %d events", shown, events)
			}
		})
	}
}

// readWhole reads a trace with the Go project's reader, and counts its events and the goroutines that began to run.
func readWhole(t *testing.T, file string) (events, starts int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := xtrace.NewReader(bufio.NewReader(f))
	if err != nil {
		t.Fatal(err)
	}
	for {
		ev, err := r.ReadEvent()
		if errors.Is(err, io.EOF) {
			return events, starts
		}
		if err != nil {
			t.Fatalf("after %d events: %v", events, err)
		}
		events++
		if ev.Kind() != xtrace.EventStateTransition || ev.StateTransition().Resource.Kind != xtrace.ResourceGoroutine {
			continue
		}
		if from, to := ev.StateTransition().Goroutine(); from == xtrace.GoRunnable && to == xtrace.GoRunning {
			starts++
		}
	}
}

// parsedEvents counts the events that go tool trace shows of a trace.
func parsedEvents(t *testing.T, file string) (n int) {
	t.Helper()
	cmd := testcmd.Command(t, "go", "tool", "trace", "-d=parsed", file)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "M=") {
			n++
		}
	}
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
		t.Fatalf("go tool trace: %v: %s", err, errOut.String())
	}
	return n
}

// TestRecordOwner has sudo's user be one that no file can belong to: the file belongs to root, and a note says so.
func TestRecordOwner(t *testing.T) {
	alone := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, // only its root exists
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	cmd := testcmd.Command(t, loupe, "--version")
	cmd.SysProcAttr = alone
	if _, err := testcmd.Combined(cmd); errors.Is(err, syscall.EPERM) {
		t.Skip("no user namespace may be made here, as in a chroot:", err)
	}
	file := filepath.Join(t.TempDir(), "orders.trace")
	cmd = testcmd.Command(t, loupe, "record", "-o", file, "--duration", "300ms", "--", loupe, "demo-program")
	cmd.Env, cmd.SysProcAttr = append(cmd.Environ(), "SUDO_UID=12345", "SUDO_GID=12345"), alone
	status, _, stderr := finish(t, cmd)
	if want := "loupe: note: cannot change the owner of " + file + " to user 12345: invalid argument\n"; status != 0 || !strings.Contains(stderr, want) {
		t.Errorf("status %d, %q, want %q", status, stderr, want)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
