package memtruth

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

const right = "64000 1000"

// program is a running budget.
type program struct {
	in  io.Writer
	out *bufio.Scanner
	pid int
}

func build(t *testing.T, cgo bool, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "budget")
	cmd := testcmd.Command(t, "go", append(append([]string{"build", "-o", path}, flags...), "./budget")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if cgo {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	if out, err := testcmd.Combined(cmd); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func start(t *testing.T, path string, args ...string) *program {
	t.Helper()
	cmd := testcmd.Command(t, path, args...)
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
	p := &program{in, bufio.NewScanner(out), cmd.Process.Pid}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	if answer := p.read(t); answer != "ready" {
		t.Fatal(answer)
	}
	return p
}

func (p *program) read(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("no answer: %v", p.out.Err())
	}
	return p.out.Text()
}

// trace makes the program trace, and returns its answer.
func (p *program) trace(t *testing.T) string {
	t.Helper()
	if _, err := fmt.Fprintln(p.in); err != nil {
		t.Fatal(err)
	}
	return p.read(t)
}

func (p *program) want(t *testing.T, parts ...string) {
	t.Helper()
	answer := p.trace(t)
	for _, part := range parts {
		if !strings.Contains(answer, part) {
			t.Errorf("the program answered %q, want %q", answer, parts)
			return
		}
	}
}

// TestBuilds traces in programs that are built in different ways.
func TestBuilds(t *testing.T) {
	builds := map[string]struct {
		cgo   bool
		flags []string
	}{
		"normal":       {},
		"stripped":     {flags: []string{"-ldflags=-s -w"}},
		"trimpath":     {flags: []string{"-trimpath"}},
		"pie":          {flags: []string{"-buildmode=pie"}},
		"cgo":          {cgo: true, flags: []string{"-ldflags=-linkmode=external"}},
		"race":         {cgo: true, flags: []string{"-race"}},
		"unoptimized":  {flags: []string{"-gcflags=all=-N -l"}},
		"random order": {flags: []string{"-ldflags=-randlayout=7"}},
	}
	names := []string{"normal", "stripped"}
	names = append(names, testtarget.Rare(t, "trimpath", "pie", "cgo", "race", "unoptimized", "random order")...)
	for _, name := range names {
		c := builds[name]
		t.Run(name, func(t *testing.T) {
			p := start(t, build(t, c.cgo, c.flags...))
			for range 3 {
				p.want(t, right)
			}
		})
	}
}

// TestRefused traces where the kernel does not permit code to be changed.
func TestRefused(t *testing.T) {
	p := start(t, build(t, false), "mdwe")
	for range 2 {
		p.want(t, "memtrace: allocations cannot be traced: ", "mprotect: ")
	}
}

// TestObserved traces while Loupe counts the same allocations.
func TestObserved(t *testing.T) {
	path := build(t, false)
	attach := func(t *testing.T, p *program, engine loupe.Engine) *loupe.Session {
		t.Helper()
		s, err := loupe.Attach(context.Background(), loupe.PID(p.pid),
			loupe.Options{Engine: engine, StackDepth: -1, Allocs: loupe.AllocOptions{By: loupe.AllocsByGoroutine}})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for range s.Events() {
			}
		}()
		return s
	}
	t.Run("inline before", func(t *testing.T) {
		p := start(t, path)
		s := attach(t, p, loupe.EngineInline)
		p.want(t, "memtrace: allocations cannot be traced: ", "another tool has changed the code")
		s.Close()
	})
	t.Run("inline later", func(t *testing.T) {
		p := start(t, path)
		p.want(t, right)
		s, err := loupe.Attach(context.Background(), loupe.PID(p.pid),
			loupe.Options{Engine: loupe.EngineInline, StackDepth: -1, Allocs: loupe.AllocOptions{By: loupe.AllocsByGoroutine}})
		if err == nil {
			s.Close()
			t.Error("engine inline patched a patched function")
		}
		p.want(t, right)
	})
	t.Run("uprobe", func(t *testing.T) {
		p := start(t, path)
		p.want(t, right)
		s := attach(t, p, loupe.EngineUprobe)
		p.want(t, "memtrace: allocations cannot be traced: ", "another tool has changed the code")
		s.Close()
		p.want(t, right)
	})
}
