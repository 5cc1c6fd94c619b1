package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/procmap"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testmount"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// outputsAll takes more time than make test has.
var outputsAll = flag.Bool("outputs.all", false, "end every command in every way while its output is blocked")

// outputCase is a command whose output goes somewhere, and how it is ended.
type outputCase struct {
	args   string // %d is the duration
	output string // blocked, terminal (one that nobody reads), closed, full, none (stdout is closed), fifo (without a reader), stuck (a blocked fifo)
	end    string // duration, INT, TERM, HUP, QUIT, INT INT, keys that are pressed; itself: the command ends without being asked
	engine string

	status int
	stderr string // is part of it; empty: nothing is there

	keyboard *os.File      // of the terminal
	pause    time.Duration // before the command is asked to end
}

func (c outputCase) String() string {
	return fmt.Sprintf("%s, output %s, ended by %s, engine %s", c.args, c.output, c.end, c.engine)
}

// probes reports whether the command observes live events until it is asked to end. On a busy machine report does without.
func (c *outputCase) probes() bool {
	return c.output != "fifo" && c.end != "itself" && !strings.HasPrefix(c.args, "goroutines") && !strings.HasPrefix(c.args, "report")
}

// outputCases are the cases: each command with each output and each engine, and each way to end where it matters, or all.
func outputCases() []outputCase {
	const stuck = "its reader has read nothing for 5s"
	var list []outputCase
	for _, engine := range []string{"uprobe", "inline"} {
		add := func(args, output, end string, status int, stderr string) {
			list = append(list, outputCase{args: args, output: output, end: end, engine: engine, status: status, stderr: stderr})
		}
		blocked := func(args, output string, ends ...string) {
			for _, end := range ends {
				switch end {
				case "INT INT":
					add(args, output, end, 1, "loupe: interrupted")
				case "QUIT":
					add(args, output, end, 2, "SIGQUIT")
				default:
					add(args, output, end, 1, stuck)
				}
			}
		}
		every := []string{"duration", "INT", "TERM", "HUP", "INT INT", "QUIT"}
		some := []string{"duration", "INT"}
		if *outputsAll {
			some = every
		}
		blocked("trace", "blocked", every...)
		for _, args := range []string{"trace --json", "top -n 100 --interval 100ms", "top --json --interval 100ms", "spans -q --interval 100ms", "spans -q --slower-than 1us", "spans -q --json", "record -o - --format text", "record -o -",
			"profile --type block -o -"} {
			blocked(args, "blocked", some...)
		}
		blocked("record -o -", "blocked", "INT INT")
		const live = "top --interval 100ms"
		for _, end := range append(some, "\x03") {
			switch end {
			case "INT INT", "QUIT":
				blocked(live, "terminal", end)
			default:
				add(live, "terminal", end, 0, "") // nothing but the screen is missing
			}
		}
		for _, args := range []string{"record --last 10s -o fifo", "record -o fifo", "profile --type block -o fifo"} {
			blocked(args, "stuck", some...)
		}
		blocked("report --interval 1s", "blocked", slices.DeleteFunc(slices.Clone(some), func(end string) bool { return end == "duration" })...)
		add("record --last 10s -o fifo", "fifo", "duration", 1, "start its reader first")
		add("record -o fifo", "fifo", "duration", 1, "start its reader first")
		add("record -o fifo", "fifo", "INT", 1, "loupe: interrupted")
		add("profile --type block -o fifo", "fifo", "TERM", 1, "loupe: interrupted")
		for _, args := range []string{"trace", "trace --json", "top -n 100 --interval 100ms", "spans -q --interval 100ms", "spans -q --slower-than 1us", "spans -q --json", "record -o - --format text"} {
			end := "itself"
			if strings.HasPrefix(args, "record") { // it writes when it ends
				end = "INT"
			}
			add(args, "closed", end, 0, "")
			add(args, "full", end, 1, "no space left on device")
		}
		add("report --interval 1s", "closed", "itself", -1, "") // SIGPIPE
		add("report --interval 1s", "full", "itself", 1, "no space left on device")
		add("trace", "none", "INT", 0, "") // the Go runtime opens /dev/null instead
	}
	for _, args := range []string{"goroutines", "goroutines --json"} {
		list = append(list,
			outputCase{args: args, output: "blocked", end: "INT", status: 1, stderr: stuck},
			outputCase{args: args, output: "blocked", end: "TERM", status: 1, stderr: stuck},
			outputCase{args: args, output: "closed", end: "itself", status: -1}, // SIGPIPE
			outputCase{args: args, output: "full", end: "itself", status: 1, stderr: "no space left on device"})
	}
	return list
}

// TestBlockedOutput has the output of commands accept nothing, or be closed, full or absent. The probes are removed when the
// command is asked to end, whatever the output does, and the command ends within seconds, with one line that says why.
func TestBlockedOutput(t *testing.T) {
	const together = 6 // they wait most of the time
	room := make(chan struct{}, together)
	var all sync.WaitGroup
	for _, c := range testtarget.Some(t, outputCases(), 10) { // not the same for both engines
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			err := c.try(t)
			for c.pause = firstPause; errors.Is(err, errEarly) && c.pause < patience; c.pause *= 2 {
				err = c.try(t)
			}
			if err != nil {
				t.Errorf("%v: %v", c, err)
			}
		})
	}
	all.Wait()
}

// errEarly says that a command was asked to end before it had attached, or caught signals, or before the test has seen that: the
// machine is busy.
var errEarly = errors.New("the command was asked to end too early")

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
			if c.output == "stuck" {
				pipe, err := os.OpenFile(args[i], os.O_RDWR, 0)
				if err != nil {
					return err
				}
				defer pipe.Close()
				if err := fill(int(pipe.Fd())); err != nil {
					return err
				}
			}
		}
	}
	if c.end == "duration" {
		args = append(args, "--duration", (3*time.Second + 2*c.pause).String()) // the test has to see the probes
	}
	if c.engine != "" {
		args = append(args, "--engine", c.engine)
	}
	args = append(args, fmt.Sprint(target.Process.Pid))
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
	ended, kill, err := startKillable(cmd)
	if err != nil {
		return err
	}
	defer kill()
	if err := c.finish(cmd.Process, target.Process.Pid, before, ended); err != nil {
		return fmt.Errorf("%w, stderr %q", err, stderr.String())
	}
	if status, said := cmd.ProcessState.ExitCode(), testcmd.WithoutMachineNotes(stderr.String()); status != c.status || c.stderr == "" && said != "" ||
		!strings.Contains(said, c.stderr) || c.end != "QUIT" && strings.Count(said, "loupe: cannot write") > 1 {
		err := fmt.Errorf("status %d, stderr %q; want %d, %q", status, said, c.status, c.stderr)
		if status == -1 || strings.HasSuffix(said, "loupe: interrupted\n") {
			err = fmt.Errorf("%w: %w", errEarly, err)
		}
		return err
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
	case "terminal":
		return c.stalledTerminal(cmd)
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
		return cleanup, fill(ends[1])
	}
	return func() {}, nil
}

// stalledTerminal gives a command a terminal whose screen accepts nothing.
func (c *outputCase) stalledTerminal(cmd *exec.Cmd) (cleanup func(), err error) {
	user, terminal, err := openTerminal()
	if err != nil {
		return nil, err
	}
	c.keyboard = user
	cmd.Stdin, cmd.Stdout = terminal, terminal
	cmd.Env = append(cmd.Environ(), "TERM=xterm-256color")
	return func() { terminal.Close(); user.Close() }, fill(int(terminal.Fd()))
}

// openTerminal opens both sides of a pseudo terminal.
func openTerminal() (user, terminal *os.File, err error) {
	user, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		user.Close()
	}
	return user, terminal, err
}

// fill writes to a file until it accepts no more. A terminal accepts more after it has moved what it has to its other side.
func fill(fd int) error {
	err := unix.SetNonblock(fd, true)
	for pieces := 0; pieces > 0 || err == nil; time.Sleep(50 * time.Millisecond) {
		pieces = -1
		for err = nil; err == nil; pieces++ {
			_, err = unix.Write(fd, make([]byte, 1<<12))
		}
		if !errors.Is(err, unix.EAGAIN) {
			return err
		}
	}
	return unix.SetNonblock(fd, false)
}

// firstPause is for the pipe to be waited for; less would test less.
const firstPause = 500 * time.Millisecond

// awaitBlocked waits for the command to be blocked by its output.
func (c *outputCase) awaitBlocked(loupe int, ended <-chan struct{}) error {
	switch {
	case c.output == "terminal":
		return await(ended, "the keyboard to be read", func() (bool, error) {
			t, err := unix.IoctlGetTermios(int(c.keyboard.Fd()), unix.TCGETS)
			return err == nil && t.Lflag&unix.ICANON == 0, err
		})
	case c.output == "blocked" && (strings.HasPrefix(c.args, "goroutines") || strings.HasPrefix(c.args, "report")): // they write once
		return await(ended, "output", func() (bool, error) { return writes(loupe), nil })
	}
	time.Sleep(max(c.pause, firstPause))
	return nil
}

// writes reports whether a thread of a process is in a system call that writes to stdout.
func writes(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	for _, name := range threads {
		call, err := os.ReadFile(name)
		if err == nil && strings.HasPrefix(string(call), fmt.Sprintf("%d 0x1 ", unix.SYS_WRITE)) {
			return true
		}
	}
	return false
}

// finish ends the command and waits for the end. The probes are gone first.
func (c *outputCase) finish(loupe *os.Process, target int, before string, ended <-chan struct{}) error {
	if c.probes() {
		if err := await(ended, "the probes to be there", func() (bool, error) { now, err := codeOf(target); return now != before, err }); err != nil {
			if c.end == "duration" && errors.Is(err, errEnded) {
				err = fmt.Errorf("%w: %w", errEarly, err)
			}
			return err
		}
	}
	if err := c.awaitBlocked(loupe.Pid, ended); err != nil {
		return err
	}
	signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT}
	for i, name := range strings.Fields(c.end) {
		if i > 0 {
			time.Sleep(2 * time.Second) // within one second it would be the same request
		}
		if s, ok := signals[name]; ok {
			loupe.Signal(s) // fails when it has ended
		} else if c.keyboard != nil {
			io.WriteString(c.keyboard, name)
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

// startKillable starts a command. The channel is closed when it has ended; kill ends it if it has not.
func startKillable(cmd *exec.Cmd) (ended <-chan struct{}, kill func(), err error) {
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		cmd.Wait()
	}()
	return over, func() {
		cmd.Process.Kill() // fails when it has ended
		<-over
	}, nil
}

// errEnded says that a command has ended before what the test waited for.
var errEnded = errors.New("it has ended while the test waits")

// await waits until something is so. It fails when the command has ended before.
func await(ended <-chan struct{}, what string, so func() (bool, error)) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if ok, err := so(); ok || err != nil {
			return err
		}
		select {
		case <-ended:
			return fmt.Errorf("%w for %s", errEnded, what)
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

// TestBlockedDemo has the output of the demo accept nothing, or be closed or full: it ends, and so does its sample program.
func TestBlockedDemo(t *testing.T) {
	for _, c := range []outputCase{
		{output: "blocked", end: "INT", status: 1, stderr: "loupe: interrupted"},
		{output: "blocked", end: "TERM", status: 1, stderr: "loupe: interrupted"},
		{output: "closed", end: "itself", status: -1}, // SIGPIPE
		{output: "full", end: "itself", status: 1, stderr: "no space left on device"},
	} {
		cmd := testcmd.Command(t, loupe, "demo", "--duration", "1s")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		cleanup, err := c.redirect(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		sample := 0
		if c.end != "itself" {
			if err := await(nil, "output", func() (bool, error) { return writes(cmd.Process.Pid), nil }); err != nil {
				t.Fatal(err)
			}
			threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", cmd.Process.Pid))
			for _, name := range threads {
				if children, err := os.ReadFile(name); err == nil {
					fmt.Sscan(string(children), &sample) // all but one have none
				}
			}
			if sample == 0 {
				t.Error("there is no sample program")
			}
			cmd.Process.Signal(map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM}[c.end])
		}
		cmd.Wait()
		cleanup()
		if status := cmd.ProcessState.ExitCode(); status != c.status || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%v: status %d, stderr %q", c, status, stderr.String())
		}
		if sample != 0 && runs(sample) {
			t.Errorf("%v: the sample program runs on", c)
		}
	}
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
		dirs["no space left on device"] = testmount.New(t, "tmpfs", "size=4k")
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
				cmd = testcmd.Command(t, "sh", append([]string{"-c", `ulimit -f 8; exec "$0" "$@"`, loupe}, args...)...)
			}
			if status, stdout, stderr := finish(t, cmd); status != 1 || stdout != "" || testcmd.WithoutMachineNotes(stderr) != "loupe: cannot write "+file+": "+why+"\n" {
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
