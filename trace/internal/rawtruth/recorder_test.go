package rawtruth

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// A release is a Go release whose toolchain records traces for the tests.
type release struct {
	version string // such as "1.22.12"
	minor   int
}

// releases returns releases of all trace formats. The recorder compiles with Go 1.18 and later; Go 1.19 has the format of
// Go 1.20.
func releases(tb testing.TB) []release {
	var all []release
	for _, v := range testtarget.Versions() {
		minor, err := strconv.Atoi(strings.Split(v, ".")[1])
		if err != nil {
			tb.Fatal(err)
		}
		if minor >= 18 && minor != 19 {
			all = append(all, release{v, minor})
		}
	}
	return all
}

// allocFree reports whether the release has the experiment AllocFree.
func (r release) allocFree() bool { return r.minor >= 23 }

// command returns a run of the release's go command.
func (r release) command(tb testing.TB, dir string, args ...string) *exec.Cmd {
	cmd := testcmd.Command(tb, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=go"+r.version, "GOFLAGS=", "GOWORK=off", "GO111MODULE=on", "CGO_ENABLED=0", "GODEBUG=")
	return cmd
}

// A recording is what a recorder is asked for.
type recording struct {
	release release
	rounds  int
	pause   string
	godebug string
}

// recorders has the paths of the recorders that were built, by release; recordings what they have recorded. Each is made
// once in a test process.
var recorders, recordings sync.Map

// once returns what make returns for a key, which it is called for once.
func once[V any](m *sync.Map, key any, make func() (V, error)) (V, error) {
	f, _ := m.LoadOrStore(key, sync.OnceValues(make))
	return f.(func() (V, error))()
}

// workDir is removed when the tests end.
var workDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if workDir, err = os.MkdirTemp("", "trace-raw-test-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(workDir)
		return m.Run()
	}())
}

// record returns a trace of the recorder, built by a release.
func record(tb testing.TB, rec recording) []byte {
	tb.Helper()
	trace, err := once(&recordings, rec, func() ([]byte, error) {
		program, err := once(&recorders, rec.release, func() (string, error) { return rec.release.buildRecorder(tb) })
		if err != nil {
			return nil, err
		}
		file, err := os.CreateTemp(workDir, "*.trace")
		if err != nil {
			return nil, err
		}
		defer os.Remove(file.Name())
		defer file.Close()
		cmd := testcmd.Command(tb, program, file.Name(), strconv.Itoa(rec.rounds), rec.pause)
		cmd.Env = append(os.Environ(), "GODEBUG="+rec.godebug)
		if err := run(cmd); err != nil {
			return nil, err
		}
		return os.ReadFile(file.Name())
	})
	if err != nil {
		tb.Fatal(err)
	}
	return trace
}

// buildRecorder builds testdata/recorder.
func (r release) buildRecorder(tb testing.TB) (path string, err error) {
	dir := filepath.Join(workDir, r.version)
	if err := os.CopyFS(dir, os.DirFS("testdata/recorder")); err != nil {
		return "", err
	}
	mod := fmt.Sprintf("module recorder\n\ngo 1.%d\n", r.minor)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o666); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "recorder.exe")
	return path, run(r.command(tb, dir, "build", "-o", path, "."))
}

// run runs a command and puts what it printed into the error.
func run(cmd *exec.Cmd) error {
	if out, err := testcmd.Combined(cmd); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
