package tracefile

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// workDir is removed when the tests end.
var workDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if workDir, err = os.MkdirTemp("", "tracefile-test-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(workDir)
		return m.Run()
	}())
}

// A release is a Go release whose toolchain records traces for the tests.
type release struct {
	version string // such as "1.22.12"
	minor   int
}

func (r release) String() string { return "go" + r.version }

// releases returns the releases with which traces are recorded, oldest first: one of before Go 1.22, and at least three of those
// since, of which the last two have the time of day. They are the selected ones if those suffice.
func releases(tb testing.TB) []release {
	tb.Helper()
	chosen := testtarget.Versions()
	old := slices.DeleteFunc(slices.Clone(chosen), func(v string) bool { return minorOf(tb, v) < 20 || minorOf(tb, v) >= 22 })
	since := slices.DeleteFunc(chosen, func(v string) bool { return minorOf(tb, v) < 22 })
	all := testtarget.AllVersions()
	if len(old) == 0 {
		old = []string{"1.20.14"}
	}
	if len(since) < 3 {
		since = all[len(all)-4:]
	}
	var list []release
	for _, v := range append(old[:1], since...) {
		list = append(list, release{v, minorOf(tb, v)})
	}
	return list
}

// latest returns the newest of releases.
func latest(tb testing.TB) release {
	tb.Helper()
	all := releases(tb)
	return all[len(all)-1]
}

func minorOf(tb testing.TB, version string) int {
	tb.Helper()
	minor, err := strconv.Atoi(strings.Split(version, ".")[1])
	if err != nil {
		tb.Fatal(err)
	}
	return minor
}

// recordings has the files that were recorded, by what was asked for. Each is made once in a test process.
var recordings sync.Map

// once returns what make returns for a key, which it is called for once.
func once(tb testing.TB, key any, make func() (string, error)) string {
	tb.Helper()
	f, _ := recordings.LoadOrStore(key, sync.OnceValues(make))
	path, err := f.(func() (string, error))()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// record returns the path of a trace of the program that the tests of trace/raw record, built by a release. It has two
// generations, where the release has generations.
func record(tb testing.TB, r release) string {
	tb.Helper()
	return once(tb, r, func() (string, error) {
		program, err := build(tb, r.String(), "../../trace/internal/rawtruth/testdata/recorder", r.version, r.minor)
		if err != nil {
			return "", err
		}
		path := filepath.Join(workDir, r.String()+".trace")
		return path, run(testcmd.Command(tb, program, path, "2", "1.1s"))
	})
}

// recordFlight returns the directory with what testdata/flight has recorded.
func recordFlight(tb testing.TB) string {
	tb.Helper()
	return once(tb, "flight", func() (string, error) {
		program, err := build(tb, "flight", "testdata/flight", testtarget.Latest(), 25)
		if err != nil {
			return "", err
		}
		dir := filepath.Join(workDir, "flight-traces")
		if err := os.Mkdir(dir, 0o777); err != nil {
			return "", err
		}
		return dir, run(testcmd.Command(tb, program, dir))
	})
}

// build builds a program by the toolchain of a release.
func build(tb testing.TB, name, source, version string, minor int) (path string, err error) {
	dir := filepath.Join(workDir, name)
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		return "", err
	}
	mod := fmt.Sprintf("module program\n\ngo 1.%d\n", minor)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o666); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "program.exe")
	cmd := testcmd.Command(tb, "go", "build", "-o", path, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=go"+version, "GOFLAGS=", "GOWORK=off", "GO111MODULE=on", "CGO_ENABLED=0", "GODEBUG=")
	return path, run(cmd)
}

// run runs a command and puts what it printed into the error.
func run(cmd *exec.Cmd) error {
	if out, err := testcmd.Combined(cmd); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// open opens a file that a test reads.
func open(tb testing.TB, path string) *Input {
	tb.Helper()
	in, err := Open(tb.Context(), path, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { in.Close() })
	return in
}

// made has a function write an output, and returns its path.
func made(tb testing.TB, write func(*Output) error) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "out")
	out, err := output.Create(tb.Context(), path, output.Options{Stdout: io.Discard})
	if err != nil {
		tb.Fatal(err)
	}
	if err := write(out); err != nil {
		tb.Fatal(err)
	}
	if err := out.Commit(); err != nil {
		tb.Fatal(err)
	}
	return path
}
