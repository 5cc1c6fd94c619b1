package discover

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestVariables reads environments.
func TestVariables(t *testing.T) {
	long := strings.Repeat("x", maxVariable)
	for _, test := range []struct {
		env, name, attributes string
		clipped               bool
	}{
		{"", "", "", false},
		{"A=b\x00OTEL_SERVICE_NAME=shop\x00OTEL_RESOURCE_ATTRIBUTES=a=b\x00", "shop", "a=b", false},
		{"OTEL_SERVICE_NAME=\x00", "", "", false},
		{"OTEL_SERVICE_NAME\x00OTEL_SERVICE_NAMES=x\x00", "", "", false},
		{"OTEL_SERVICE_NAME=first\x00OTEL_SERVICE_NAME=second\x00", "first", "", false},
		{"OTEL_SERVICE_NAME=unfinished", "", "", false},
		{"OTEL_SERVICE_NAME=" + long + "\x00", long, "", false},
		{"OTEL_SERVICE_NAME=" + long + "x\x00OTEL_RESOURCE_ATTRIBUTES=a=b\x00", "", "a=b", true},
		{"OTEL_SERVICE_NAME=shop\x00" + strings.Repeat("A=b\x00", maxEnviron/4), "shop", "", true},
		{strings.Repeat("A=b\x00", maxEnviron/4) + "OTEL_SERVICE_NAME=shop\x00", "", "", true},
		{strings.Repeat("x", 2*maxEnviron), "", "", true},
	} {
		name, attributes, clipped := variables(strings.NewReader(test.env))
		if name != test.name || attributes != test.attributes || clipped != test.clipped {
			t.Errorf("%.40q: %.40q, %.40q, %t; want %.40q, %.40q, %t", test.env, name, attributes, clipped, test.name, test.attributes, test.clipped)
		}
	}
}

func FuzzVariables(f *testing.F) {
	f.Add("A=b\x00OTEL_SERVICE_NAME=shop\x00OTEL_RESOURCE_ATTRIBUTES=a=b\x00")
	f.Fuzz(func(t *testing.T, env string) {
		name, attributes, _ := variables(strings.NewReader(env))
		if len(name) > maxVariable || len(attributes) > maxVariable || strings.Contains(name+attributes, "\x00") {
			t.Errorf("%q, %q", name, attributes)
		}
	})
}

// TestGenerations keeps what was used last, and no more than its size.
func TestGenerations(t *testing.T) {
	const size = 10
	g := newGenerations[int, int](size)
	g.put(-1, -1)
	for i := range 100 {
		g.put(i, 2*i)
		if v, ok := g.get(-1); !ok || v != -1 {
			t.Fatalf("%d: the value that is used was dropped", i)
		}
		if v, ok := g.get(i); !ok || v != 2*i {
			t.Fatalf("%d: %d, %t", i, v, ok)
		}
		if n := len(g.newer) + len(g.old); n > size {
			t.Fatalf("%d: %d values", i, n)
		}
	}
	if _, ok := g.get(0); ok {
		t.Error("0 was kept")
	}
}

// TestSameBuild does not analyze a copy of an executable, and analyzes one without a build ID.
func TestSameBuild(t *testing.T) {
	w := New(Options{})
	contents, err := os.ReadFile(tiny(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, analyses := range []uint64{1, 1, 1} {
		path := filepath.Join(t.TempDir(), "copy")
		if err := os.WriteFile(path, contents, 0o755); err != nil {
			t.Fatal(err)
		}
		p := testtarget.Start(t, path)
		for range 2 {
			id, err := goproc.Identify(p.PID())
			if err != nil {
				t.Fatal(err)
			}
			if f := w.examine(id); f.outcome != isGo || f.process.Exe != path || w.Stats().Analyses != analyses {
				t.Errorf("copy %d: %+v, %d analyses", i, f, w.Stats().Analyses)
			}
		}
		p.Stop()
	}
}

// TestBadExecutables runs executables that are no Go programs, or unusual ones.
func TestBadExecutables(t *testing.T) {
	w := New(Options{})
	for name, path := range testtarget.RunnableBadBinaries(t) {
		cmd := testcmd.Within(t, 0, path)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if cmd.Start() != nil {
			continue
		}
		id, err := goproc.Identify(cmd.Process.Pid)
		f := w.examine(id)
		if err == nil && f.outcome == failed && f.err == nil {
			t.Errorf("%s: %+v", name, f)
		}
		t.Logf("%s: %d, %v", name, f.outcome, f.err)
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	}
}

// TestWithin goes on if an examination does not end, and bounds their number.
func TestWithin(t *testing.T) {
	var hanging atomic.Int32
	blocked := make(chan struct{})
	var ended sync.WaitGroup
	ended.Add(maxHanging)
	for i := range maxHanging {
		if _, ok := within(time.Millisecond, &hanging, func() int { defer ended.Done(); <-blocked; return 1 }); ok {
			t.Errorf("%d has returned", i)
		}
	}
	if n := hanging.Load(); n != maxHanging {
		t.Errorf("%d are hanging", n)
	}
	if _, ok := within(time.Hour, &hanging, func() int { t.Error("called"); return 1 }); ok {
		t.Error("one more was called")
	}
	close(blocked)
	ended.Wait()
	for hanging.Load() != 0 {
		time.Sleep(time.Millisecond)
	}
	if v, ok := within(time.Hour, &hanging, func() int { return 7 }); !ok || v != 7 {
		t.Error(v, ok)
	}
	if causeOf(errHanging) != CauseHanging || causeOf(errors.New("x")) != CauseOther || causeOf(os.ErrPermission) != CausePermission {
		t.Error("causes")
	}
}
