package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/procmap"
	"github.com/loupe-go/loupe/internal/testcmd"
)

// outputCase is a command whose output goes somewhere, and how it is ended.
type outputCase struct {
	args   string // %d is the duration
	output string // blocked, closed, full, none (stdout is closed), fifo (without a reader)
	end    string // duration, INT, TERM, HUP, QUIT, INT INT; itself: the command ends without being asked
	engine string

	status int
	stderr string // is part of it; empty: nothing is there
}

func (c outputCase) String() string {
	return fmt.Sprintf("%s, output %s, ended by %s, engine %s", c.args, c.output, c.end, c.engine)
}

// outputCases are all cases: each command with each output and each engine, and each way to end where it matters.
func outputCases() []outputCase {
	const stuck = "its reader has read nothing for 5s"
	var list []outputCase
	for _, engine := range []string{"uprobe", "inline"} {
		add := func(args, output, end string, status int, stderr string) {
			list = append(list, outputCase{args, output, end, engine, status, stderr})
		}
		for _, end := range []string{"duration", "INT", "TERM", "HUP"} {
			add("trace", "blocked", end, 1, stuck)
		}
		add("trace", "blocked", "INT INT", 1, "loupe: interrupted")
		add("trace", "blocked", "QUIT", 2, "SIGQUIT")
		for _, args := range []string{"trace --json", "top -n 100 --interval 100ms", "top --json --interval 100ms", "record -o -", "profile --type block -o -"} {
			add(args, "blocked", "duration", 1, stuck)
			add(args, "blocked", "INT", 1, stuck)
		}
		add("record -o -", "blocked", "INT INT", 1, "loupe: interrupted")
		add("record --last 10s -o fifo", "fifo", "duration", 1, "start its reader first")
		add("record -o fifo", "fifo", "duration", 1, "start its reader first")
		add("record -o fifo", "fifo", "INT", 1, "loupe: interrupted")
		add("profile --type block -o fifo", "fifo", "TERM", 1, "loupe: interrupted")
		for _, args := range []string{"trace", "trace --json", "top -n 100 --interval 100ms", "record -o - --format text"} {
			end := "itself"
			if strings.HasPrefix(args, "record") { // it writes when it ends
				end = "INT"
			}
			add(args, "closed", end, 0, "")
			add(args, "full", end, 1, "no space left on device")
		}
		add("trace", "none", "INT", 0, "") // the Go runtime opens /dev/null instead
	}
	return list
}

// TestBlockedOutput has the output of commands accept nothing, or be closed, full or absent. The probes are removed when the
// command is asked to end, whatever the output does, and the command ends within seconds, with one line that says why.
func TestBlockedOutput(t *testing.T) {
	const together = 10 // they wait most of the time
	room := make(chan struct{}, together)
	var all sync.WaitGroup
	for _, c := range outputCases() {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			if err := c.try(t); err != nil {
				t.Errorf("%v: %v", c, err)
			}
		})
	}
	all.Wait()
}

// try runs the case.
func (c *outputCase) try(t *testing.T) error {
	target := testcmd.Command(t, loupe, "demo-program")
	stdin, err := target.StdinPipe()
	if err != nil {
		return err
	}
	ready, err := target.StdoutPipe()
	if err != nil {
		return err
	}
	if err := target.Start(); err != nil {
		return err
	}
	defer target.Wait()
	defer stdin.Close()
	if _, err := io.ReadFull(ready, make([]byte, len("ready\n"))); err != nil {
		return err
	}
	before, err := codeOf(target.Process.Pid)
	if err != nil {
		return err
	}
	args := strings.Fields(c.args)
	for i := range args {
		if args[i] == "fifo" {
			args[i] = filepath.Join(t.TempDir(), "fifo")
			if err := unix.Mkfifo(args[i], 0o600); err != nil {
				return err
			}
		}
	}
	if c.end == "duration" {
		args = append(args, "--duration", "1s")
	}
	args = append(args, "--engine", c.engine, fmt.Sprint(target.Process.Pid))
	cmd := testcmd.Command(t, loupe, args...)
	if c.output == "none" {
		cmd = testcmd.Command(t, "sh", append([]string{"-c", `exec "$0" "$@" >&-`, loupe}, args...)...)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cleanup, err := c.redirect(cmd)
	if err != nil {
		return err
	}
	defer cleanup()
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	defer func() {
		cmd.Process.Kill() // fails when it has ended
		<-ended
	}()
	if err := c.finish(cmd.Process, target.Process.Pid, before, ended); err != nil {
		return fmt.Errorf("%w, stderr %q", err, stderr.String())
	}
	if status, said := cmd.ProcessState.ExitCode(), stderr.String(); status != c.status || c.stderr == "" && said != "" ||
		!strings.Contains(said, c.stderr) || c.end != "QUIT" && strings.Count(said, "loupe: cannot write") > 1 {
		return fmt.Errorf("status %d, stderr %q; want %d, %q", status, said, c.status, c.stderr)
	}
	return nil
}

// redirect gives a command its stdout.
func (c *outputCase) redirect(cmd *exec.Cmd) (cleanup func(), err error) {
	switch c.output {
	case "full":
		f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		cmd.Stdout = f
		return func() { f.Close() }, err
	case "blocked", "closed":
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			return nil, err
		}
		r, w := os.NewFile(uintptr(ends[0]), "reader"), os.NewFile(uintptr(ends[1]), "writer")
		cmd.Stdout = w
		cleanup = func() { w.Close(); r.Close() }
		if c.output == "closed" {
			return cleanup, r.Close()
		}
		if err := unix.SetNonblock(ends[1], true); err != nil {
			return cleanup, err
		}
		for fill := make([]byte, 1<<12); err == nil; { // it is full before the command begins
			_, err = unix.Write(ends[1], fill)
		}
		if !errors.Is(err, unix.EAGAIN) {
			return cleanup, err
		}
		return cleanup, unix.SetNonblock(ends[1], false)
	}
	return func() {}, nil
}

// finish ends the command and waits for the end. The probes are gone first.
func (c *outputCase) finish(loupe *os.Process, target int, before string, ended <-chan struct{}) error {
	attaches := c.output != "fifo"
	if attaches && c.end != "itself" {
		if err := await(ended, "the probes to be there", func() (bool, error) { now, err := codeOf(target); return now != before, err }); err != nil {
			return err
		}
	}
	time.Sleep(500 * time.Millisecond) // for the pipe to be waited for; less would test less
	signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT}
	for i, name := range strings.Fields(c.end) {
		if i > 0 {
			time.Sleep(1100 * time.Millisecond) // sooner would be the same request
		}
		if s, ok := signals[name]; ok {
			loupe.Signal(s) // fails when it has ended
		}
	}
	if err := await(nil, "the probes to be removed", func() (bool, error) { now, err := codeOf(target); return now == before, err }); err != nil {
		return err
	}
	select {
	case <-ended:
	case <-time.After(patience):
		return errors.New("it does not end")
	}
	if now, err := codeOf(target); err != nil || now != before {
		return fmt.Errorf("the target's code is %s, %v; was %s", now, err, before)
	}
	return nil
}

// await waits until something is so. It fails when the command has ended before.
func await(ended <-chan struct{}, what string, so func() (bool, error)) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if ok, err := so(); ok || err != nil {
			return err
		}
		select {
		case <-ended:
			return fmt.Errorf("it has ended while the test waits for %s", what)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for %s in vain", what)
		}
	}
}

// codeOf returns what a process has as code, and whether there is memory of Loupe in it.
func codeOf(pid int) (string, error) {
	maps, err := procmap.Read(pid)
	if err != nil {
		return "", err
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return "", err
	}
	defer mem.Close()
	var list strings.Builder
	for _, m := range maps {
		if strings.HasPrefix(m.Path, "/memfd:") {
			fmt.Fprintf(&list, "%s ", m.Path)
		}
		if !m.Exec() || strings.HasPrefix(m.Path, "[") { // the kernel's own, uprobes' too
			continue
		}
		code := make([]byte, m.End-m.Start)
		if _, err := mem.ReadAt(code, int64(m.Start)); err != nil {
			fmt.Fprintf(&list, "%x %v ", m.Start, err) // it is being unmapped
			continue
		}
		fmt.Fprintf(&list, "%x %.8x ", m.Start, sha256.Sum256(code))
	}
	return list.String(), nil
}

// TestFullDisk writes to a disk without room, and to files that may not be large enough: one line says why, and nothing is
// left.
func TestFullDisk(t *testing.T) {
	sample := fmt.Sprint(startSample(t))
	whole := filepath.Join(t.TempDir(), "whole.trace")
	if status, _, stderr := run(t, "record", "-o", whole, "--duration", "1s", sample); status != 0 {
		t.Fatal(stderr)
	}
	dirs := map[string]string{"file too large": t.TempDir()}
	if os.Geteuid() == 0 {
		small := t.TempDir()
		if err := unix.Mount("loupe-test", small, "tmpfs", 0, "size=16k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(small, 0) })
		dirs["no space left on device"] = small
	}
	for why, dir := range dirs {
		file := filepath.Join(dir, "orders.trace")
		for _, args := range [][]string{
			{"record", "-o", file, "--duration", "2s", sample},
			{"record", "-o", file, "--duration", "2s", "--last", "1s", sample},
			{"record", "-o", file, "--duration", "2s", "--format", "perfetto", sample},
			{"record", "-o", file, "--duration", "2s", "--format", "chrome", sample},
			{"tracefile", "convert", whole, "-o", file, "--format", "chrome"},
			{"tracefile", "text", whole, "-o", file},
		} {
			cmd := testcmd.Command(t, loupe, args...)
			if why == "file too large" {
				cmd = testcmd.Command(t, "sh", append([]string{"-c", `ulimit -f 16; exec "$0" "$@"`, loupe}, args...)...)
			}
			if status, stdout, stderr := finish(t, cmd); status != 1 || stdout != "" || stderr != "loupe: cannot write "+file+": "+why+"\n" {
				t.Errorf("%q: status %d, %q, stderr %q", args, status, stdout, stderr)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Fatalf("%q leaves %v, %v", args, left, err)
			}
		}
	}
}

// TestKilledRecording kills a recording: what was written has a name that says so, and can be read.
func TestKilledRecording(t *testing.T) {
	sample := startSample(t)
	dir := t.TempDir()
	cmd := testcmd.Command(t, loupe, "record", "--engine", "uprobe", "-o", filepath.Join(dir, "orders.trace"), fmt.Sprint(sample))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	partial := filepath.Join(dir, fmt.Sprintf("orders.trace.partial-%d", cmd.Process.Pid))
	err := await(nil, "something to be written", func() (bool, error) {
		info, err := os.Stat(partial)
		return err == nil && info.Size() > 0, nil
	})
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(partial); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	whole := filepath.Join(dir, "whole.trace")
	if status, _, stderr := run(t, "tracefile", "convert", "--partial", "--format", "go", partial, "-o", whole); status != 0 {
		t.Fatalf("status %d, %q", status, stderr)
	}
	if status, stdout, stderr := run(t, "tracefile", "stat", whole); status != 0 || !strings.Contains(stdout, "GOROUTINES") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

// TestSuspended stops Loupe as Ctrl-Z does, while engine inline comes, and while it observes: the target runs on, and what
// does not fit into the buffer is lost and counted.
func TestSuspended(t *testing.T) {
	for _, engine := range []string{"uprobe", "inline"} {
		sample := startSample(t)
		before, err := codeOf(sample)
		if err != nil {
			t.Fatal(err)
		}
		cmd := testcmd.Command(t, loupe, "trace", "--json", "--engine", engine, "--buffer", "64KiB", fmt.Sprint(sample))
		var out, errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errOut
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := await(nil, "the probes", func() (bool, error) { now, err := codeOf(sample); return now != before, err }); err != nil {
			t.Fatal(err)
		}
		cmd.Process.Signal(syscall.SIGTSTP)
		if err := await(nil, "Loupe to be suspended", func() (bool, error) { return stateOf(cmd.Process.Pid) == 'T', nil }); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second) // for some thousand events
		if s := stateOf(sample); s == 'T' || s == 't' {
			t.Errorf("%s: the target is in state %c", engine, s)
		}
		cmd.Process.Signal(syscall.SIGCONT)
		cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err != nil || !strings.Contains(errOut.String(), "events were lost") && !strings.Contains(out.String(), `"lost":0`) {
			t.Errorf("%s: %v, stderr %q", engine, err, errOut.String())
		}
		t.Logf("%s: %s", engine, strings.TrimSpace(errOut.String()))
		if now, err := codeOf(sample); err != nil || now != before {
			t.Errorf("%s: code is %s, %v; was %s", engine, now, err, before)
		}
	}
}

// stateOf returns the state of a process, as in /proc/PID/stat.
func stateOf(pid int) byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if i := bytes.LastIndexByte(stat, ')'); err == nil && i > 0 {
		return stat[i+2]
	}
	return 0
}
