package loupe_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/spans/spanstest"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// TestPermission attaches with some capabilities to a process that has none.
func TestPermission(t *testing.T) {
	if pid := os.Getenv("LOUPE_TEST_ATTACH"); pid != "" {
		attachAsUser(pid)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("leaving out capabilities needs root")
	}
	cmd := testcmd.Within(t, 0, testtarget.Build(t, testtarget.Spec{Program: "mill"}))
	keepCapabilities(t) // the thread ends with the test
	target := testtarget.StartCmd(t, cmd)
	for _, test := range []struct {
		name string
		caps []uintptr
		want string // what the child says
	}{
		{"none", nil, "not permitted: CAP_BPF and CAP_PERFMON missing"},
		{"BPF", []uintptr{unix.CAP_BPF}, "not permitted: CAP_PERFMON missing"},
		{"PERFMON", []uintptr{unix.CAP_PERFMON}, "not permitted: CAP_BPF missing"},
		{"both", []uintptr{unix.CAP_BPF, unix.CAP_PERFMON}, "attached"},
	} {
		t.Run(test.name, func(t *testing.T) {
			keepCapabilities(t, test.caps...)
			child := testcmd.Command(t, os.Args[0], "-test.run=^TestPermission$")
			child.Env = append(os.Environ(), "LOUPE_TEST_ATTACH="+strconv.Itoa(target.PID()))
			out, err := child.Output()
			if err != nil {
				t.Fatal(err)
			}
			line, _, _ := strings.Cut(string(out), "\n")
			if !strings.Contains(line, test.want) {
				t.Errorf("%q, want %q", line, test.want)
			}
		})
	}
	target.Command("spawn 10")
}

// TestProfilerMapPermission pins the map of a profiler in a directory of another user.
func TestProfilerMapPermission(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("leaving out capabilities needs root")
	}
	cmd := testcmd.Within(t, 0, testtarget.Build(t, lastKiln(t)))
	path := spanstest.ProfilerPath(t)
	dir := filepath.Dir(filepath.Dir(path))
	if err := errors.Join(os.Chown(dir, 65534, 65534), os.Chmod(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	keepCapabilities(t, unix.CAP_BPF, unix.CAP_PERFMON) // the thread ends with the test
	target := testtarget.StartCmd(t, cmd)
	child := testcmd.Command(t, os.Args[0], "-test.run=^TestPermission$")
	child.Env = append(os.Environ(), "LOUPE_TEST_ATTACH="+strconv.Itoa(target.PID()), "LOUPE_TEST_MAP="+path)
	out, err := child.Output()
	if err != nil {
		t.Fatal(err)
	}
	line, rest, _ := strings.Cut(string(out), "\n")
	if want := "not permitted: the map of the profiler at " + path + ": "; !strings.Contains(line, want) || !strings.HasSuffix(line, "permission denied") || rest != "" {
		t.Errorf("%q, want one line with %q", out, want)
	}
}

// keepCapabilities lets the programs that the calling goroutine starts from now on have no other capabilities. It binds the
// goroutine to its thread, which ends with it.
func keepCapabilities(t *testing.T, keep ...uintptr) {
	t.Helper()
	runtime.LockOSThread()
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if slices.Contains(keep, c) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// attachAsUser prints what came of attaching, as one line.
func attachAsUser(pid string) {
	n, _ := strconv.Atoi(pid)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var opt loupe.Options
	if opt.Spans.ProfilerMap = os.Getenv("LOUPE_TEST_MAP"); opt.Spans.ProfilerMap != "" {
		opt.Spans.Handle = func(*spans.Span) {}
	}
	s, err := attachTo(ctx, loupe.PID(n), opt)
	switch {
	case err == nil:
		fmt.Println("attached", s.Warnings())
		s.Close()
	case errors.Is(err, loupe.ErrPermission):
		fmt.Println(err)
	default:
		fmt.Println("an error of another kind:", err)
	}
	os.Exit(0)
}
