package ptrace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/procmap"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// helperEnv makes the test program one of the helpers that tests start, by its name.
const helperEnv = "LOUPE_PTRACE_HELPER"

var helpers = map[string]func(args []string){}

func TestMain(m *testing.M) {
	if f := helpers[os.Getenv(helperEnv)]; f != nil {
		os.Unsetenv(helperEnv)
		f(os.Args[1:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// helper returns the command that runs this program as a helper.
func helper(tb testing.TB, name string, args ...string) *exec.Cmd {
	cmd := testcmd.Within(tb, 0, "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), helperEnv+"="+name)
	return cmd
}

// mustStop stops a process. A test that fails before it calls Release leaves that to the cleanup: a process that is traced
// cannot be waited for.
func mustStop(t testing.TB, pid int, opt Options) *Stopped {
	t.Helper()
	s, err := Stop(context.Background(), pid, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-s.let:
		default:
			s.Release()
		}
	})
	return s
}

// mustStopFit stops a process in which a thread can make calls. Where only one that computes has stopped, there may be no
// room for its vector registers. On a busy machine it may be in the same place again and again, until it has had a processor.
func mustStopFit(t testing.TB, pid int, opt Options) *Stopped {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
		s := mustStop(t, pid, opt)
		_, err := s.Call(unix.SYS_GETPID)
		if !errors.Is(err, ErrBusy) {
			return s
		}
		s.Release()
	}
	t.Fatal("no thread is fit for a call, for a minute")
	return nil
}

// startMixer starts a program whose every thread can be harmed noticeably.
func startMixer(t testing.TB, spec testtarget.Spec, workers int) *testtarget.Process {
	t.Helper()
	spec.Program = "mixer"
	return testtarget.Start(t, testtarget.Build(t, spec), strconv.Itoa(workers))
}

// checkSum fails unless the mixer's results are right, and work goes on.
func checkSum(t testing.TB, target *testtarget.Process) {
	t.Helper()
	before := strings.Fields(target.Command("sum"))
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		answer := target.Command("sum")
		if !strings.HasPrefix(answer, "sum ok") {
			t.Fatal(answer)
		}
		idle := false
		for i, n := range strings.Fields(answer) {
			idle = idle || i > 1 && n == before[i]
		}
		if !idle {
			return
		}
	}
	t.Fatalf("some work is not done any more: %v, then %s", before, target.Command("sum"))
}

// traces of what Loupe may leave in a process.
type leftovers struct {
	maps []string // what is mapped with code, and what is named after Loupe
	text string
	fds  int
	sigs string // signal actions of the process, and the masks of its threads' kinds
}

// textRange returns the executable mapping of a process's program.
func textRange(t testing.TB, pid int) procmap.Mapping {
	t.Helper()
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range readMaps(t, pid) {
		if m.Exec() && m.Path == exe {
			return m
		}
	}
	t.Fatal("the program has no code")
	return procmap.Mapping{}
}

func readMaps(t testing.TB, pid int) []procmap.Mapping {
	t.Helper()
	maps, err := procmap.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	return maps
}

func lookForLeftovers(t testing.TB, pid int) leftovers {
	t.Helper()
	var l leftovers
	for _, m := range readMaps(t, pid) {
		if m.Exec() || strings.Contains(m.Path, Name) && strings.Contains(m.Path, "memfd") {
			l.maps = append(l.maps, fmt.Sprintf("%x-%x %s %s", m.Start, m.End, m.Perms, m.Path))
		}
	}
	text := textRange(t, pid)
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code := make([]byte, text.End-text.Start)
	if _, err := f.ReadAt(code, int64(text.Start)); err != nil {
		t.Fatal(err)
	}
	l.text = string(code)
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if name, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())); strings.Contains(name, "memfd") {
			l.fds++
		}
	}
	dir, err := openProc(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	l.sigs = statusField(dir, "status", "SigIgn") + " " + statusField(dir, "status", "SigCgt")
	return l
}

func (l leftovers) compare(t testing.TB, after leftovers) {
	t.Helper()
	if !slices.Equal(l.maps, after.maps) {
		t.Errorf("mappings were\n%s\nand are\n%s", strings.Join(l.maps, "\n"), strings.Join(after.maps, "\n"))
	}
	if l.text != after.text {
		t.Error("the program's code has changed")
	}
	if l.fds != after.fds {
		t.Errorf("%d files in memory, were %d", after.fds, l.fds)
	}
	if l.sigs != after.sigs {
		t.Errorf("signals ignored and caught: %s, were %s", after.sigs, l.sigs)
	}
}

// window is where code near a program's own can be.
func window(t testing.TB, pid int) Window {
	text := textRange(t, pid)
	return windowAround(text.Start, text.End)
}

// jumpReach is how far relative jumps reach, by architecture, less some room.
var jumpReach = map[string]uint64{"amd64": 1<<31 - 1<<20, "arm64": 1<<27 - 1<<20}[runtime.GOARCH]

// windowAround returns the window that relative jumps reach from all of the code between lo and hi, and that reach it.
func windowAround(lo, hi uint64) Window {
	w := Window{Lo: 0, Hi: lo + jumpReach}
	if hi > jumpReach {
		w.Lo = hi - jumpReach
	}
	return w
}

func wantError(t testing.TB, what string, err error, want error) {
	t.Helper()
	if !errors.Is(err, want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v, want one line with %q", what, err, want)
	}
}

// mapProgram maps a program anywhere in a window.
func mapProgram(s *Stopped, in Window, code, data int) (addr uint64, err error) {
	err = s.Do(func() error {
		page := os.Getpagesize()
		if addr, err = s.Gap(in, int(align(uint64(code), uint64(page)))+data); err != nil {
			return err
		}
		return s.MapProgram(addr, code, data)
	})
	return addr, err
}

// mapShared maps shared memory anywhere in a window.
func mapShared(s *Stopped, in Window, size int) (m *Shared, err error) {
	err = s.Do(func() error {
		addr, err := s.Gap(in, size)
		if err != nil {
			return err
		}
		m, err = s.MapShared(addr, size, func([]byte) error { return nil })
		return err
	})
	return m, err
}
