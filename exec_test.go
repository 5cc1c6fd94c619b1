package loupe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/inject"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/probe/uprobe"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// execer is a mill that replaces itself while another process does something to it, so that its answers come at any time.
type execer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *lines
}

func startExecer(t *testing.T, path string, env ...string) *execer {
	t.Helper()
	m := &execer{cmd: testcmd.Command(t, path), out: &lines{}}
	m.cmd.Env = append(os.Environ(), env...)
	in, err := m.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	m.in, m.cmd.Stdout = in, m.out
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.out.await(t, "ready", 1)
	return m
}

// exec has the program replace itself, by one of its commands. A program that stands still does so as soon as it goes on.
func (m *execer) exec(t *testing.T, command string) {
	t.Helper()
	if _, err := io.WriteString(m.in, command+"\n"); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end) && strings.Count(m.out.String(), "ready") < 2; {
		time.Sleep(time.Millisecond)
	}
}

// expectUnharmed ends the program after it has done some work.
func (m *execer) expectUnharmed(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(m.in, "spawn 1000\npingpong 100\nquit\n"); err != nil {
		t.Error(err)
	}
	m.in.Close()
	err := m.cmd.Wait()
	if said := m.out.String(); err != nil || !strings.Contains(said, "pingpong 100") {
		t.Errorf("the program ended with %v and said %q", err, said)
	}
}

// TestInlineTargetExecAtCall has the program replace itself by itself at each system call by which engine inline changes it:
// all addresses are as before, and what was mapped is gone. The new program is unharmed, and nothing is in it.
func TestInlineTargetExecAtCall(t *testing.T) {
	path := testtarget.Build(t, testtarget.Spec{Program: "mill"})
	target := testtarget.Start(t, path)
	points := pointsOf(t, observers{path: os.Args[0]}, target.PID())
	if !thorough() {
		points = slices.DeleteFunc(distinct(points), func(p point) bool { return p.call > 1 || p.section == unmapSection && p.call > 0 })
		points = testtarget.Some(t, points, 6)
	}
	target.Stop()
	execs := 0
	for _, at := range points {
		t.Run(at.String(), func(t *testing.T) {
			m := startExecer(t, path)
			code := textOf(t, m.cmd.Process.Pid)
			replaced, line := execAt(t, m, at)
			good := line == "ended: <nil>" || strings.HasPrefix(line, "ended: ") && strings.Contains(line, "executed another program")
			if strings.Contains(line, "\n") || !good {
				t.Errorf("the observer says %q", line)
			}
			if replaced {
				execs++
				m.out.await(t, "ready", 2)
			}
			if textOf(t, m.cmd.Process.Pid) != code {
				t.Error("the program's code has changed")
			}
			m.expectUnharmed(t)
		})
	}
	if execs < len(points)/2 { // an observer need not come to a point that another one came to
		t.Errorf("only %d of %d programs replaced themselves", execs, len(points))
	}
}

// execAt has a program replace itself at a point of an observer, and returns whether the observer came there and what it said.
func execAt(t *testing.T, m *execer, at point) (replaced bool, line string) {
	t.Helper()
	p := pointer{seen: map[point]int{}}
	cmd, said := observers{path: os.Args[0]}.start(t, m.cmd.Process.Pid)
	status, err := inject.Run(cmd, func(c inject.Call) bool {
		if !c.After {
			if now, ok := p.next(c); ok && now == at {
				m.exec(t, "exec")
				replaced = true
			}
		}
		return true
	})
	if err != nil || status.Signaled() || status.ExitStatus() != 0 {
		t.Errorf("the observer ended with %#x, %v", status, err)
	}
	return replaced, said()
}

// spy looks at a process between the time that another engine attaches to it and the time that it detaches.
type spy struct {
	probe.Engine
	before, after func()
}

func (s spy) Attach(plan *probe.Plan) ([]event.Warning, error) {
	s.before()
	warnings, err := s.Engine.Attach(plan)
	s.after()
	return warnings, err
}

// TestExecBeforeAttach has a program replace itself after its executable has been read, by another Go program or by itself. Neither
// engine changes the code of the other program, where the addresses mean something else. Engine inline does not change the code of
// the same program either.
func TestExecBeforeAttach(t *testing.T) {
	path := testtarget.Build(t, testtarget.Spec{Program: "mill"})
	other := testtarget.Build(t, testtarget.Spec{Program: "mill", Go: "1.17.13"})
	for _, engine := range []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline} {
		for _, command := range []string{"exec", "execother"} {
			t.Run(fmt.Sprintf("%s/%s", engine, command), func(t *testing.T) {
				dir := t.TempDir()
				if err := os.Symlink(other, filepath.Join(dir, "true")); err != nil {
					t.Fatal(err)
				}
				m := startExecer(t, path, "PATH="+dir)
				p, err := goproc.Open(m.cmd.Process.Pid, goproc.Options{})
				if err != nil {
					t.Fatal(err)
				}
				var code string
				s := spy{Engine: uprobe.New(uprobe.Options{})}
				if engine == loupe.EngineInline {
					s.Engine = inline.New(nil, "")
				}
				s.before = func() {
					m.exec(t, command)
					m.out.await(t, "ready", 2)
					code = textOf(t, m.cmd.Process.Pid)
				}
				s.after = func() {
					if (command == "execother" || engine == loupe.EngineInline) && textOf(t, m.cmd.Process.Pid) != code {
						t.Error("the new program's code has changed")
					}
				}
				session, err := probe.OpenRunning(context.Background(), p, s, probe.Want{Kinds: event.KindsDefault, BufferBytes: 1 << 20})
				if err == nil {
					session.Close()
				}
				if errors.Is(err, probe.ErrPermission) {
					t.Skip(err)
				}
				if !errors.Is(err, loupe.ErrExec) {
					t.Errorf("attaching: %v, want that the process has executed another program", err)
				}
				if textOf(t, m.cmd.Process.Pid) != code {
					t.Error("the program's code has changed")
				}
				m.expectUnharmed(t)
			})
		}
	}
}
