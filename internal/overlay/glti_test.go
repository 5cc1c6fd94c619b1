package overlay

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestGlti runs those tests of package glti that require the patched runtime.
func TestGlti(t *testing.T) {
	builds(t, func(t *testing.T, release string, m mode) {
		args := append([]string{"-vet=off", "-count=1", "-run=TestPatched"}, m.flags...)
		cmd := goCommand(t, release, filepath.Join("..", "..", "glti"), "test", append(args, ".")...)
		if out, err := testcmd.Combined(cmd); err != nil {
			t.Errorf("go test: %v\n%s", err, out)
		}
	})
}

// TestFunctions runs a program that compares the types of its functions with those that package glti returns. The tests of package glti are
// linked without debug information.
func TestFunctions(t *testing.T) {
	builds(t, func(t *testing.T, release string, m mode) {
		runGltiProgram(t, release, m, "functions")
	})
}

// runGltiProgram builds and runs a program of glti/testdata with the patched runtime, and returns what it printed, which is to contain ok.
func runGltiProgram(t *testing.T, release string, m mode, name string, args ...string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), name)
	cmd := goCommand(t, release, filepath.Join("..", "..", "glti"), "build", append(slices.Clip(m.flags), "-o", exe, "./testdata/"+name)...)
	if out, err := testcmd.Combined(cmd); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := testcmd.Combined(testcmd.Command(t, exe, args...))
	if err != nil || !strings.Contains("\n"+string(out), "\nok") {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// TestTracing checks the traces that an application makes of itself while agents use all events.
func TestTracing(t *testing.T) {
	builds(t, func(t *testing.T, release string, m mode) {
		dir := t.TempDir()
		out := runGltiProgram(t, release, m, "tracing", dir)
		var want int
		if _, err := fmt.Sscanf(out[strings.LastIndex(out, "ok "):], "ok %d", &want); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.trace"))
		if err != nil || len(files) < 3 {
			t.Fatalf("traces %q, %v", files, err)
		}
		for _, file := range files {
			if got := tracedGoroutines(t, file); got != want {
				t.Errorf("%s contains %d goroutines, expected %d", filepath.Base(file), got, want)
			}
		}
	})
}

// tracedGoroutines returns the number of goroutines of the program tracing that began and ended in a trace.
func tracedGoroutines(t *testing.T, path string) int {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := trace.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	began, ended := map[trace.GoID]bool{}, 0
	for {
		ev, err := r.ReadEvent()
		if err == io.EOF {
			return ended
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if ev.Kind() != trace.EventStateTransition || ev.StateTransition().Resource.Kind != trace.ResourceGoroutine {
			continue
		}
		change := ev.StateTransition()
		from, to := change.Goroutine()
		switch {
		case from == trace.GoNotExist:
			for frame := range change.Stack.Frames() {
				began[change.Resource.Goroutine()] = frame.Func == "main.traced" || frame.Func == "main.work.gowrap1" || frame.Func == "main.work.func1"
				break
			}
		case to == trace.GoNotExist && began[change.Resource.Goroutine()]:
			ended++
		}
	}
}
