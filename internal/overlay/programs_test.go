package overlay

import (
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

var (
	matrix = flag.Bool("overlay.matrix", false, "build the scripted programs also with -race, without optimizations, and with cgo")
	storm  = flag.Duration("overlay.storm", 500*time.Millisecond, "how long the program storm runs")
)

// A mode is how a program is built.
type mode struct {
	name  string
	flags []string
	cgo   string
}

var modes = []mode{
	{name: "plain", cgo: "0"},
	{name: "cgo", cgo: "1"},
	{name: "race", flags: []string{"-race"}, cgo: "1"},
	{name: "debug", flags: []string{"-gcflags=all=-N -l"}, cgo: "0"},
	{name: "trimpath", flags: []string{"-trimpath", "-ldflags=-s -w"}, cgo: "0"},
}

// TestPrograms runs the scripted programs. Each knows its events, compares them, and prints ok.
func TestPrograms(t *testing.T) {
	builds(t, func(t *testing.T, release string, m mode) {
		dir := t.TempDir()
		want := build(t, release, m, dir)
		if got := stampOf(t, filepath.Join(dir, "events")); got != want {
			t.Errorf("the executable has fingerprint %q, the overlay %q", got, want)
		}
		for _, command := range programs() {
			out, err := testcmd.Combined(testcmd.Command(t, filepath.Join(dir, command[0]), command[1:]...))
			if err != nil || !strings.Contains("\n"+string(out), "\nok") {
				t.Errorf("%s: %v\n%s", command, err, out)
			}
		}
	})
}

// builds runs a test for each release and each way to build, with the environment for go commands.
func builds(t *testing.T, test func(t *testing.T, release string, m mode)) {
	list := modes
	if !*matrix {
		list = modes[:1]
	}
	for _, release := range built(t) {
		for _, m := range list {
			t.Run(release+"/"+m.name, func(t *testing.T) {
				if m.cgo == "1" {
					testtarget.Needs(t, "gcc", "gcc")
				}
				t.Setenv("GOFLAGS", "")
				t.Setenv("GOWORK", "off")
				t.Setenv("CGO_ENABLED", m.cgo)
				test(t, release, m)
			})
		}
	}
}

// programs returns the commands of the scripted programs.
func programs() [][]string {
	return [][]string{{"events"}, {"storage"}, {"blocks"}, {"sched"}, {"threads"}, {"runtime"}, {"cpu"}, {"contention"}, {"allocs"}, {"user"}, {"panics"},
		{"storm", storm.String()}}
}

// standin is the module of the scripted programs.
const standin = "testdata/standin"

// build builds the scripted programs with the patched runtime, into a directory. It returns the fingerprint of the overlay.
func build(t *testing.T, release string, m mode, dir string) string {
	t.Helper()
	cmd := goCommand(t, release, standin, "build", append(m.flags, "-o", dir, "./...")...)
	if out, err := testcmd.Combined(cmd); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return made(t, toolchain(t, release), userCache(t)).Fingerprint
}

// stampOf returns the fingerprint of an executable.
func stampOf(t *testing.T, path string) string {
	t.Helper()
	b, err := gobin.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	return b.ToolInterface()
}

func userCache(t *testing.T) string {
	t.Helper()
	cache, err := CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return cache
}

// goCommand returns a go command with the overlay, in a directory.
func goCommand(t *testing.T, release, dir, verb string, args ...string) *exec.Cmd {
	t.Helper()
	t.Setenv("GOTOOLCHAIN", "go"+release)
	c, err := Prepare(t.Context(), verb, append([]string{"-C", dir}, args...), userCache(t))
	if err != nil {
		t.Fatal(err)
	}
	cmd := testcmd.Command(t, c.Path, c.Args[1:]...)
	cmd.Env = c.Env
	return cmd
}
