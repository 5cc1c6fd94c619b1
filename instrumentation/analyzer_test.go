package instrumentation

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestFind finds a process that executes the program at once, and one that does so later.
func TestFind(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "service")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	a := newAnalyzer([]string{path}, slog.New(slog.DiscardHandler))
	for n := range 2 * fullFinds {
		if list := a.find(); len(list) != 0 {
			t.Fatalf("find %d: %v", n, list)
		}
	}
	later := testcmd.Command(t, "sh", "-c", "echo; read x; exec "+path+" 60")
	in, out := pipes(t, later)
	start(t, later)
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for range newFinds + 1 { // it is inspected, and then it is not new any more
		if list := a.find(); len(list) != 0 {
			t.Fatalf("%v before it executes the program", list)
		}
	}
	soon := testcmd.Command(t, path, "60")
	start(t, soon)
	list := a.find()
	if len(list) != 1 || list[0].id.PID != soon.Process.Pid || list[0].exe != path {
		t.Fatalf("%v, want process %d", list, soon.Process.Pid)
	}
	if again := a.find(); len(again) != 1 || again[0] != list[0] {
		t.Errorf("%v, want process %d again", again, soon.Process.Pid)
	}
	a.take(list[0])
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	for link := ""; link != path; {
		if link, err = os.Readlink(filepath.Join("/proc", strconv.Itoa(later.Process.Pid), "exe")); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; ; n++ {
		list := a.find()
		if len(list) == 1 && list[0].id.PID == later.Process.Pid {
			t.Logf("found by find %d", n)
			break
		}
		if len(list) != 0 || n > fullFinds {
			t.Fatalf("find %d: %v, want process %d", n, list, later.Process.Pid)
		}
	}
}

func pipes(t *testing.T, cmd *exec.Cmd) (io.WriteCloser, io.ReadCloser) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return in, out
}

// start starts a command, which is killed when the test ends.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
}

func BenchmarkFind(b *testing.B) {
	a := newAnalyzer([]string{"/nowhere/service"}, slog.New(slog.DiscardHandler))
	for b.Loop() {
		a.find()
	}
}
