package discover

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/container"
	"github.com/loupe-go/loupe/internal/container/containertest"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestFollow reports processes that exist, that appear, and that end.
func TestFollow(t *testing.T) {
	path := tiny(t)
	sources(t, func(t *testing.T, w *Watcher) {
		before := testtarget.Start(t, path)
		f := follow(t, w)
		if e := f.wait(before.PID(), Appeared); e.Process.Exe != path {
			t.Errorf("%+v", e.Process)
		}
		cmd := testcmd.Within(t, 0, path)
		cmd.Env = append(os.Environ(), "OTEL_SERVICE_NAME=shop", "OTEL_RESOURCE_ATTRIBUTES=a=b,c=d", "X_OTEL_SERVICE_NAME=no")
		p := testtarget.StartCmd(t, cmd)
		e := f.wait(p.PID(), Appeared)
		id, err := goproc.Identify(p.PID())
		if err != nil {
			t.Fatal(err)
		}
		build := e.Process.BuildID
		want := Process{ID: id, PID: p.PID(), StartTicks: id.StartTicks(), UID: os.Geteuid(), Exe: path, BuildID: build,
			Comm: filepath.Base(path)[:min(15, len(filepath.Base(path)))], ServiceName: "shop", ResourceAttributes: "a=b,c=d", Container: e.Process.Container}
		if e.Process != want || len(build) < 40 {
			t.Errorf("%+v, want %+v", e.Process, want)
		}
		before.Stop()
		f.wait(before.PID(), Vanished)
		p.Kill()
		if e := f.wait(p.PID(), Vanished); e.Process != want {
			t.Errorf("%+v, want %+v", e.Process, want)
		}
		sum := f.Stats()
		if total := sum.Go + sum.NotGo + sum.Gone + failures(sum); total != sum.Programs {
			t.Errorf("%d programs of %+v", total, sum)
		}
	})
}

func failures(s Stats) (n uint64) {
	for _, v := range s.Failed {
		n += v
	}
	return n
}

// TestExec reports what a process executes.
func TestExec(t *testing.T) {
	path := tiny(t)
	sources(t, func(t *testing.T, w *Watcher) {
		f := follow(t, w)
		// A shell, then the test executable, then the target, then a program that is not a Go program.
		cmd := testcmd.Within(t, 0, "sh", "-c", fmt.Sprintf("read x; %s='exec %s' exec %s", helperEnv, path, os.Args[0]))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			cmd.Process.Kill()
			cmd.Wait()
		})
		pid := cmd.Process.Pid
		write := func(s string) {
			t.Helper()
			if _, err := io.WriteString(in, s); err != nil {
				t.Fatal(err)
			}
		}
		write("\n")
		first := f.wait(pid, Appeared)
		if self, _ := filepath.EvalSymlinks(os.Args[0]); first.Process.Exe != self {
			t.Errorf("%+v", first.Process)
		}
		write("\n")
		e := f.wait(pid, Replaced)
		if e.Process.Exe != path || e.Previous != first.Process || e.Process.ID == first.Process.ID || !e.Process.ID.SameProcess(first.Process.ID) {
			t.Errorf("%+v", e)
		}
		in.Close()
		f.wait(pid, Vanished)
	})
}

// TestExecOther reports that a process executes a program that is not a Go program.
func TestExecOther(t *testing.T) {
	sources(t, func(t *testing.T, w *Watcher) {
		f := follow(t, w)
		p := startHelper(t, "exec /bin/sleep 600")
		f.wait(p.pid, Appeared)
		p.next(t)
		f.wait(p.pid, Vanished)
		if _, err := goproc.Identify(p.pid); err != nil {
			t.Error(err)
		}
	})
}

// A running helper.
type running struct {
	pid int
	in  io.Writer
	out io.Reader
}

// startHelper starts the test executable as a helper.
func startHelper(t *testing.T, words string) *running {
	t.Helper()
	cmd := testcmd.Within(t, 0, os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+words)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	r := &running{cmd.Process.Pid, in, out}
	if line := r.line(t); line != "ready" {
		t.Fatalf("%q", line)
	}
	return r
}

func (r *running) next(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(r.in, "\n"); err != nil {
		t.Fatal(err)
	}
}

func (r *running) line(t *testing.T) string {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if _, err := r.out.Read(b); err != nil {
			t.Fatal(err)
		}
		if b[0] == '\n' {
			return string(line)
		}
	}
}

// TestFork does not report a process that was forked before it had time to execute another program.
func TestFork(t *testing.T) {
	f := follow(t, New(polling(20*time.Millisecond)))
	p := startHelper(t, "fork")
	f.wait(p.pid, Appeared)
	p.next(t)
	var child, errno int
	if _, err := fmt.Sscan(p.line(t), &child, &errno); err != nil || errno != 0 {
		t.Fatal(errno, err)
	}
	e := f.wait(child, Appeared)
	if age := e.Process.ID.Age(); age < forkTime {
		t.Errorf("reported after %v", age)
	}
	p.next(t)
	f.wait(child, Vanished)
}

// TestContainer reports the container of a process.
func TestContainer(t *testing.T) {
	path := tiny(t)
	id, uid := containertest.NewID(), containertest.NewUID()
	cgroup := containertest.Container(t, uid, id)
	sources(t, func(t *testing.T, w *Watcher) {
		f := follow(t, w)
		p := testtarget.StartCmd(t, testcmd.Within(t, 0, "sh", "-c", fmt.Sprintf("echo $$ >%s && exec %s", cgroup.Procs(), path)))
		e := f.wait(p.PID(), Appeared)
		if want := (container.Ref{ID: id, Runtime: container.Containerd, PodUID: uid}); e.Process.Container != want {
			t.Errorf("%+v, want %+v", e.Process.Container, want)
		}
		p.Kill()
		f.wait(p.PID(), Vanished)
	})
}

// TestStorm starts processes that end at once. If the kernel reports processes, each one is accounted for.
func TestStorm(t *testing.T) {
	path := tiny(t)
	t.Run("connector", func(t *testing.T) { storm(t, path, withConnector(t), 500) })
	t.Run("tracepoints", func(t *testing.T) { storm(t, path, withTracepoints(t), 100) })
}

func storm(t *testing.T, path string, w *Watcher, processes int) {
	const atOnce = 4
	var mu sync.Mutex
	outcomes := map[int]outcome{}
	w.examined = func(pid int, o outcome) {
		mu.Lock()
		defer mu.Unlock()
		outcomes[pid] = o
	}
	f := follow(t, w)
	pids := make(chan int, processes)
	var storm sync.WaitGroup
	for range atOnce {
		storm.Go(func() {
			for range processes / atOnce {
				cmd := testcmd.Command(t, path) // its input is empty, so that it ends at once
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				pids <- cmd.Process.Pid
				cmd.Wait()
			}
		})
	}
	storm.Wait()
	close(pids)
	last := testtarget.Start(t, path) // notices are in order
	f.wait(last.PID(), Appeared)
	s := f.Stats()
	counts := map[outcome]int{}
	mu.Lock()
	defer mu.Unlock()
	for pid := range pids {
		o, ok := outcomes[pid]
		if !ok && s.Overflows == 0 {
			t.Errorf("process %d was not noticed: %+v", pid, s)
		}
		counts[o]++
	}
	if counts[failed]+counts[notGo]+counts[noProgram] > 0 || s.Analyses > s.Programs/4 {
		t.Errorf("%v: %+v", counts, s)
	}
	t.Logf("%d Go, %d gone, %d overflows, %d analyses", counts[isGo], counts[gone], s.Overflows, s.Analyses)
}

// TestPIDReused tells two processes with the same ID apart.
func TestPIDReused(t *testing.T) {
	if os.Getenv("LOUPE_TEST_NAMESPACE") == "" {
		inNamespace(t, "--pid", "--fork", "--mount-proc", "--propagation", "unchanged")
		return
	}
	w := New(polling(0))
	var events []Event
	w.handle = func(e Event) { events = append(events, e) }
	path := tiny(t)
	scan := func() {
		if err := w.scan(true); err != nil {
			t.Fatal(err)
		}
	}
	first := testtarget.Start(t, path)
	scan()
	first.Stop()
	if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", fmt.Append(nil, first.PID()-1), 0); err != nil {
		t.Skip(err)
	}
	second := testtarget.Start(t, path)
	if second.PID() != first.PID() {
		t.Skipf("another process has got the ID: %d, %d", first.PID(), second.PID())
	}
	scan()
	events = ofPID(events, first.PID())
	if len(events) != 3 || events[0].Kind != Appeared || events[1].Kind != Vanished || events[2].Kind != Appeared ||
		events[0].Process != events[1].Process || events[2].Process.ID == events[0].Process.ID {
		t.Errorf("%+v", events)
	}
}

func ofPID(events []Event, pid int) (list []Event) {
	for _, e := range events {
		if e.Process.PID == pid {
			list = append(list, e)
		}
	}
	return list
}

// inNamespace runs the test once more by unshare, with arguments.
func inNamespace(t *testing.T, args ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("requires root to make a namespace")
	}
	runAgain(t, append(append([]string{"unshare"}, args...), os.Args[0])...)
}

// runAgain runs the test once more by another command.
func runAgain(t *testing.T, command ...string) {
	t.Helper()
	cmd := testcmd.Command(t, command[0], append(command[1:], "-test.run=^"+t.Name()+"$", "-test.v")...)
	cmd.Env = append(os.Environ(), "LOUPE_TEST_NAMESPACE=1")
	out, err := testcmd.Combined(cmd)
	switch text := string(out); {
	case strings.Contains(text, "--- SKIP: "+t.Name()):
		t.Skip(text)
	case err != nil || !strings.Contains(text, "--- PASS: "+t.Name()):
		t.Errorf("%v\n%s", err, text)
	}
}

// TestPermission counts processes that cannot be read.
func TestPermission(t *testing.T) {
	if os.Getenv("LOUPE_TEST_NAMESPACE") == "" {
		if os.Getuid() != 0 {
			t.Skip("requires root, whose processes cannot be read without capabilities")
		}
		runAgain(t, "setpriv", "--inh-caps=-all", "--bounding-set=-all", os.Args[0])
		return
	}
	var log lines
	opt := polling(time.Millisecond)
	opt.Log = slog.New(slog.NewTextHandler(&log, nil))
	f := follow(t, New(opt))
	for f.Stats().Scans < 3*scansRound {
		time.Sleep(time.Millisecond)
	}
	s := f.Stats()
	if s.Failed[CausePermission] < 2 || s.Failed[CausePermission] > s.Programs || log.count("cause=permission") != 1 {
		t.Errorf("%+v, %d messages", s, log.count("cause=permission"))
	}
}

// lines are messages of a log.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(b))
	return len(b), nil
}

func (l *lines) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.text {
		n += strings.Count(line, text)
	}
	return n
}
