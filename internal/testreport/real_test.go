package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// badTests are packages whose tests do not end as tests should, by name, with what the report must say.
var badTests = map[string]struct {
	source string
	want   []string
}{
	"hang": {`func TestHang(t *testing.T) { t.Run("inner", func(t *testing.T) { innermost() }) }
func innermost() { select {} }
func TestNotReached(t *testing.T) {}`,
		[]string{"never ended  bad/hang TestHang/inner\n", "never ended  bad/hang TestHang\n", "test timed out after", "bad/hang.innermost(", "failed  bad/hang:"}},
	"crash": {`func TestCrash(t *testing.T) { done := make(chan bool); go boom(done); <-done }
func boom(chan bool) { panic("crashed here") }`,
		[]string{"crashed here", "bad/crash.boom(", "bad/crash"}},
	"exit": {`func TestExit(t *testing.T) { println("last words"); os.Exit(1) }`,
		[]string{"last words", "bad/exit"}},
	"main": {`func TestMain(m *testing.M) { println("cannot begin"); os.Exit(3) }
func TestUnseen(t *testing.T) {}`,
		[]string{"cannot begin", "failed  bad/main:"}},
	"build": {`func TestBuild(t *testing.T) { undefinedName() }`,
		[]string{"undefinedName", "failed  bad/build:"}},
}

// TestRealFailures reports what the go command prints of tests that hang, crash, exit and do not build.
func TestRealFailures(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module bad\n\ngo 1.24\n")
	for name, bad := range badTests {
		write(name+"/a_test.go", "package "+name+"\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Exit\n\n"+bad.source+"\n")
	}
	for name, bad := range badTests {
		t.Run(name, func(t *testing.T) {
			run := func(timeout time.Duration) (status int, stdout, stderr string) {
				cmd := testcmd.Within(t, 0, "go", "test", "-json", "-timeout", timeout.String(), "-vet=off", "./"+name)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
				return testcmd.Run(t, cmd)
			}
			timeout := time.Minute
			if name == "hang" {
				timeout = time.Second
			}
			status, stdout, stderr := run(timeout)
			for name == "hang" && !strings.Contains(stdout, "innermost(") && timeout < 30*time.Second { // it had not begun to hang
				timeout *= 2
				status, stdout, stderr = run(timeout)
			}
			var out strings.Builder
			r := newReport(&out)
			if err := r.read(strings.NewReader(stdout)); err != nil {
				t.Fatal(err)
			}
			if status == 0 || r.finish(false) {
				t.Errorf("status %d, all is well: %s", status, stderr)
			}
			for _, want := range append(bad.want, "FAIL\n") {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s%s", want, out.String(), stderr)
				}
			}
		})
	}
}

// TestProgress shows a run that hangs on a terminal and elsewhere.
func TestProgress(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const run = `{"Time":"2026-01-02T03:04:05Z","Action":"start","Package":"a/b"}
{"Time":"2026-01-02T03:04:05Z","Action":"run","Package":"a/b","Test":"TestSlow"}
{"Time":"2026-01-02T03:04:05Z","Action":"run","Package":"a/b","Test":"TestOther"}
{"Time":"2026-01-02T03:04:05Z","Action":"pause","Package":"a/b","Test":"TestOther"}
`
	for name, test := range map[string]struct {
		terminal bool
		want     string
	}{
		"terminal": {true, "\r\x1b[K2m0s  0 packages done, 0 tests passed, 0 failed; running b TestSlow\r\x1b[K2m1s  0 packages done, 0 tests passed, 0 failed; running b TestSlow\r\x1b[K"},
		"plain":    {false, "running  a/b\nrunning  a/b TestSlow for 2m0s\n"},
	} {
		var out, progress strings.Builder
		r := newReport(&out)
		p := newProgress(&progress, test.terminal, r)
		p.began = began
		if err := r.read(strings.NewReader(run)); err != nil {
			t.Fatal(err)
		}
		p.show(began.Add(2 * time.Minute))
		p.show(began.Add(2*time.Minute + time.Second))
		r.finish(false) // removes the status line first
		if progress.String() != test.want {
			t.Errorf("%s: %q, want %q", name, progress.String(), test.want)
		}
	}
}
