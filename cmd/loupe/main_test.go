package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// loupe is the executable under test: static and stripped, as it is released.
var loupe string

func TestMain(m *testing.M) {
	if os.Getenv(serverEnv) != "" {
		serve()
	}
	if os.Getenv(filterEnv) != "" {
		serveFiltered()
	}
	dir, err := os.MkdirTemp("", "loupe-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Chmod(dir, 0o755)                                             // other users run it, too
	loupe = filepath.Join(dir, fmt.Sprintf("loupe-%d", os.Getpid())) // a name that no other process has
	build := testcmd.Within(nil, 30*time.Minute, "go", "build", "-ldflags=-s -w", "-o", loupe, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := testcmd.Combined(build); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s", err, out)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// patience bounds the tests; nothing is concluded from how long a thing takes.
const patience = 2 * time.Minute

// run runs loupe to its end.
func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return finish(t, testcmd.Command(t, loupe, args...))
}

func finish(t *testing.T, cmd *exec.Cmd) (status int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

// runUntil runs loupe to its end. The stdin of a program that it starts ends when loupe has written a text to stderr.
func runUntil(t *testing.T, text string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := testcmd.Command(t, loupe, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	var errOut strings.Builder
	for buf := make([]byte, 4096); err == nil; {
		var n int
		n, err = r.Read(buf)
		errOut.Write(buf[:n])
		if text != "" && strings.Contains(errOut.String(), text) {
			stdin.Close()
		}
	}
	cmd.Wait()
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

// startSample starts the sample program as a target.
func startSample(t *testing.T) (pid int) {
	t.Helper()
	return startTarget(t, testcmd.Command(t, loupe, "demo-program"))
}

// startTarget starts a program that writes a line when it is ready, and ends with its stdin, which is when the test ends.
func startTarget(t *testing.T, cmd *exec.Cmd) (pid int) {
	t.Helper()
	stdin, stdout := startPiped(t, cmd)
	t.Cleanup(func() {
		stdin.Close()
		cmd.Wait()
	})
	if _, err := fmt.Fscanln(stdout, new(string)); err != nil {
		t.Fatalf("%v does not start: %v", cmd.Args, err)
	}
	return cmd.Process.Pid
}

// startPiped starts a command with pipes to its stdin and from its stdout.
func startPiped(t *testing.T, cmd *exec.Cmd) (stdin io.WriteCloser, stdout io.ReadCloser) {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err = cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return stdin, stdout
}

func TestExitStatus(t *testing.T) {
	sample := strconv.Itoa(startSample(t))
	startSample(t) // a second one, so that the name is ambiguous
	sleeper := testcmd.Command(t, "sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		sleeper.Process.Kill()
		sleeper.Wait()
	}()
	notGo := strconv.Itoa(sleeper.Process.Pid)
	profile := filepath.Join(t.TempDir(), "p")
	words := strings.Fields
	for _, test := range []struct {
		args   []string
		status int
		stderr string
	}{
		{words("version"), 0, ""},
		{words("ps"), 0, ""},
		{words("doctor " + sample), 0, ""},
		{words("goroutines " + sample), 0, ""},
		{words("goroutines --pause " + sample), 0, ""},
		{words("profile -q -o " + profile + " " + sample), 0, ""},
		{words("goroutines -- true"), 1, "use a shorter --after"},
		{words("profile -o /no/such/dir/p " + sample), 1, "cannot write /no/such/dir/p: no such file or directory"},
		{words("goroutines"), 2, "missing TARGET"},
		{words("gorutines " + sample), 2, "did you mean goroutines"},
		{words("goroutines " + filepath.Base(loupe)), 2, "matches 2 processes"},
		{words("goroutines " + loupe), 2, "matches 2 processes"},
		{words("goroutines --bogus " + sample), 2, "unknown flag"},
		{words("goroutines 1073741824"), 3, "no such process"},
		{words("goroutines no-such-program"), 3, "no such process"},
		{words("goroutines " + notGo), 3, "not a Go program"},
		{words("profile -o " + profile + " " + notGo), 3, "not a Go program"},
		{words("doctor " + notGo), 3, ""},
		{words("goroutines --after 10ms -- cat"), 3, "not a Go program"},
		{words("goroutines -- /no/such/program"), 3, "cannot start"},
		{append(words("goroutines --after 10ms -- sh -c"), "cat; exit 44"), 44, "not a Go program"},
	} {
		status, stdout, stderr := runUntil(t, test.stderr, test.args...)
		if status != test.status || !strings.Contains(stderr, test.stderr) || test.stderr != "" && strings.Count(stderr, "\n") != 1 {
			t.Errorf("loupe %q: status %d, stderr %q; want %d, one line with %q", test.args, status, stderr, test.status, test.stderr)
		}
		if status == 0 && stdout == "" && test.args[0] != "profile" {
			t.Errorf("loupe %q says nothing", test.args)
		}
	}
}

// demoReport is the part of loupe demo --json that the tests look at.
type demoReport struct {
	PID           int
	Before, After int
	Groups        []struct {
		Task  frame
		After int
		Doing []struct {
			Words, Reason string
			Count         int
		}
	}
	Suspects []struct {
		CreatedBy       frame
		Stack           []frame
		Count           int
		GrowthPerMinute float64
		Reason          string
		Evidence        string
	}
}

type frame struct {
	Func, File string
	Line       int
}

// lineOf returns the number of the line of the sample program's search.go that holds a text.
func lineOf(t *testing.T, text string) int {
	t.Helper()
	source, err := os.ReadFile("../../internal/demo/search.go")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(source), "\n") {
		if strings.Contains(line, text) {
			return i + 1
		}
	}
	t.Fatalf("search.go has no %q", text)
	return 0
}

func TestDemoFindsTheLeak(t *testing.T) {
	expectDemo(t, 3*time.Second, func(d time.Duration) (report demoReport) {
		decodeReport(t, &report, run, "demo", "--json", "--duration", d.String())
		if runs(report.PID) {
			t.Errorf("process %d is left behind", report.PID)
		}
		return report
	})
}

// decodeReport runs loupe by a function such as run, and decodes the report that it prints.
func decodeReport(t *testing.T, report *demoReport, run func(t *testing.T, args ...string) (status int, stdout, stderr string), args ...string) {
	t.Helper()
	status, stdout, stderr := run(t, args...)
	if err := json.Unmarshal([]byte(stdout), report); status != 0 || err != nil {
		t.Fatalf("%q: status %d, %v, stderr %q", args, status, err, stderr)
	}
}

// expectDemo compares reports on the sample program with what the program does, until one lacks nothing. Each is of two moments at the
// distance d. If the machine stalls for most of that time, the program does nothing in between, and more looks leaked than is. Else
// a report that suspects anything but the search fails the test at once.
func expectDemo(t *testing.T, first time.Duration, report func(d time.Duration) demoReport) {
	t.Helper()
	testcmd.UntilSeen(t, first, func(d time.Duration) error {
		var r demoReport
		stalled := longestStall(func() { r = report(d) })
		if len(r.Suspects) > 1 && stalled < d/2 {
			t.Fatalf("suspects: %+v, want the search alone; the longest stall took %v", r.Suspects, stalled)
		}
		return checkDemo(t, &r)
	})
}

// checkDemo compares a report with what the sample program does. It returns an error if the report lacks something or suspects too much.
func checkDemo(t *testing.T, report *demoReport) error {
	t.Helper()
	if len(report.Suspects) != 1 {
		return fmt.Errorf("suspects: %+v, want the search alone", report.Suspects)
	}
	s := report.Suspects[0]
	if s.CreatedBy.Line != lineOf(t, "go askReplica(") || !strings.HasSuffix(s.CreatedBy.File, "internal/demo/search.go") ||
		!strings.HasSuffix(s.CreatedBy.Func, "internal/demo.search") {
		t.Errorf("created by %+v", s.CreatedBy)
	}
	if len(s.Stack) == 0 || s.Stack[0].Line != lineOf(t, "answers <-") || s.Reason != "chan send" {
		t.Errorf("blocked at %+v, %q", s.Stack, s.Reason)
	}
	if s.GrowthPerMinute <= 0 || s.Evidence == "" {
		t.Errorf("growth %v, evidence %q", s.GrowthPerMinute, s.Evidence)
	}
	if report.After <= report.Before {
		return fmt.Errorf("%d goroutines after %d", report.After, report.Before)
	}
	doing := map[string]bool{}
	for _, g := range report.Groups {
		for _, d := range g.Doing {
			doing[d.Words] = true
		}
	}
	for _, want := range []string{"waiting to receive from a channel", "waiting for a mutex that another goroutine holds",
		"waiting for data from a network connection", "waiting for the next network connection", "sleeping"} {
		if !doing[want] {
			return fmt.Errorf("nobody is %s: %v", want, doing)
		}
	}
	return nil
}

func TestDemoText(t *testing.T) {
	testcmd.UntilSeen(t, 2*time.Second, func(d time.Duration) error {
		status, stdout, stderr := run(t, "demo", "--duration", d.String())
		if status != 0 || stderr != "" {
			t.Errorf("status %d, stderr %q", status, stderr)
		}
		if strings.Contains(stdout, "\x1b") {
			t.Error("colours although stdout is no terminal")
		}
		for _, want := range []string{"LOOKS LEAKED", "internal/demo/search.go:" + strconv.Itoa(lineOf(t, "go askReplica(")),
			"internal/demo/search.go:" + strconv.Itoa(lineOf(t, "answers <-")), "a minute", "still blocked here"} {
			if !strings.Contains(stdout, want) {
				return fmt.Errorf("no %q in\n%s", want, stdout)
			}
		}
		return nil
	})
}

// TestDemoAsOrdinaryUser runs the demo without any privilege.
func TestDemoAsOrdinaryUser(t *testing.T) {
	expectDemo(t, 3*time.Second, func(d time.Duration) (report demoReport) {
		decodeReport(t, &report, func(t *testing.T, args ...string) (status int, stdout, stderr string) {
			cmd := testcmd.Command(t, loupe, args...)
			cmd.Dir = "/"
			return finishOrdinary(t, cmd)
		}, "demo", "--json", "--duration", d.String())
		return report
	})
}

// finishOrdinary is finish for a program without privileges: as user nobody, or where others may not even enter the root
// directory, as in some chroots, as root without any capability.
func finishOrdinary(t *testing.T, cmd *exec.Cmd) (status int, stdout, stderr string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return finish(t, cmd)
	}
	root, err := os.Stat("/")
	if err != nil {
		t.Fatal(err)
	}
	if root.Mode().Perm()&0o001 != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		return finish(t, cmd)
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never to be unlocked: the thread's capabilities are gone for good
		for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
				done <- err
				return
			}
		}
		done <- cmd.Run()
	}()
	var exit *exec.ExitError
	if err := <-done; err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

// TestDemoLeavesNothingBehind ends loupe demo in the middle of its work.
func TestDemoLeavesNothingBehind(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		cmd := testcmd.Command(t, loupe, "demo", "--duration", "1h")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		child := childOf(t, cmd.Process.Pid)
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		for deadline := time.Now().Add(patience); runs(child); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				syscall.Kill(child, syscall.SIGKILL)
				t.Fatalf("%v: process %d is left behind", signal, child)
			}
		}
		if signal != syscall.SIGKILL && (cmd.ProcessState.ExitCode() != 1 || stderr.String() != "loupe: interrupted\n") {
			t.Errorf("%v: %v, stderr %q", signal, cmd.ProcessState, stderr.String())
		}
	}
}

// childOf waits until a process has a child and returns it.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range lists {
			text, _ := os.ReadFile(list) // the thread may be gone
			if f := strings.Fields(string(text)); len(f) > 0 {
				child, err := strconv.Atoi(f[0])
				if err != nil {
					t.Fatal(err)
				}
				return child
			}
		}
	}
	t.Fatalf("process %d has no child", pid)
	return 0
}

// runs reports whether a process is there and is not a zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

func TestProgramForm(t *testing.T) {
	testcmd.UntilSeen(t, time.Second, func(after time.Duration) error {
		cmd := testcmd.Command(t, loupe, "goroutines", "--json", "--after", after.String(), "--", loupe, "demo-program")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		stdin, stdout := startPiped(t, cmd)
		var list struct {
			PID        int
			Goroutines []struct{ G uint64 }
		}
		if err := json.NewDecoder(stdout).Decode(&list); err != nil {
			t.Fatalf("%v, stderr %q", err, stderr.String())
		}
		if !runs(list.PID) {
			t.Error("the program does not run")
		}
		stdin.Close() // the program ends, and Loupe with it
		if err := cmd.Wait(); err != nil || stderr.String() != "ready\n" {
			t.Errorf("%v, stderr %q", err, stderr.String())
		}
		if len(list.Goroutines) < 20 {
			return fmt.Errorf("%d goroutines after %v", len(list.Goroutines), after)
		}
		return nil
	})
}

// TestSignalsArePassedOn asks Loupe to end while it stays with a program: the program is asked instead.
func TestSignalsArePassedOn(t *testing.T) {
	cmd := testcmd.Command(t, loupe, "goroutines", "--json", "--after", "10ms", "--", loupe, "demo-program")
	stdin, err := cmd.StdinPipe() // which keeps the program running
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var list struct{ PID int }
	if err := json.NewDecoder(stdout).Decode(&list); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	// A program that is still starting cannot catch the signal and is ended by it.
	var exit *exec.ExitError
	if early := errors.As(err, &exit) && exit.ExitCode() == 128+int(syscall.SIGTERM); early {
		err = nil
	}
	if err != nil || runs(list.PID) {
		t.Errorf("%v; the program runs: %v", err, runs(list.PID))
	}
}

func TestDemoKeepsTheProgramRunning(t *testing.T) {
	cmd := testcmd.Command(t, loupe, "demo", "--keep", "--duration", "10ms")
	cmd.Stderr = nil
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanf(stderr, "loupe: the sample program continues as process %d until Ctrl-C\n", &pid); err != nil {
		t.Fatal(err)
	}
	if !runs(pid) {
		t.Errorf("process %d does not run", pid)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || runs(pid) {
		t.Errorf("%v; the program runs: %v", err, runs(pid))
	}
}

// TestProgramIsNotLeftAlone closes Loupe's stdout before Loupe has written to it, as head does to a long list.
func TestProgramIsNotLeftAlone(t *testing.T) {
	cmd := testcmd.Command(t, loupe, "goroutines", "--", loupe, "demo-program")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdout.Close()
	// Long enough for the look, which is after a second; if it is not, the test shows nothing, but does not fail.
	time.AfterFunc(3*time.Second, func() { stdin.Close() })
	if err := cmd.Wait(); err != nil || stderr.String() != "ready\n" {
		t.Errorf("%v, stderr %q", err, stderr.String())
	}
}

func TestProfileIsReadByPprof(t *testing.T) {
	sample := startSample(t)
	file := filepath.Join(t.TempDir(), "goroutines.pb.gz")
	if status, _, stderr := run(t, "profile", strconv.Itoa(sample), "-o", file); status != 0 {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	out, err := testcmd.Combined(testcmd.Command(t, "go", "tool", "pprof", "-top", "-symbolize=none", file))
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"Type: goroutine", "runtime.gopark", "internal/demo.packOrders"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestPsListsTheSample(t *testing.T) {
	sample := startSample(t)
	status, stdout, stderr := run(t, "ps", "--json")
	var list []struct {
		PID              int
		Exe, GoVersion   string
		Linkage, Symbols string
		Goroutines       int
	}
	if err := json.Unmarshal([]byte(stdout), &list); status != 0 || err != nil {
		t.Fatalf("status %d, %v, stderr %q", status, err, stderr)
	}
	for _, p := range list {
		if p.PID == sample {
			if p.Exe != loupe || p.Linkage != "static" || p.Symbols != "stripped" || p.Goroutines < 20 || !strings.HasPrefix(p.GoVersion, "go1.") {
				t.Errorf("%+v", p)
			}
			return
		}
	}
	t.Errorf("process %d is not among %s", sample, stdout)
}
