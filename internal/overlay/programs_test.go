package overlay

import (
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

var matrix = flag.Bool("overlay.matrix", false, "build the scripted programs also with -race, without optimizations, and with cgo")

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
	list := modes
	if !*matrix {
		list = modes[:1]
	}
	for _, release := range testtarget.Ends(t, supported(true)) {
		for _, m := range list {
			t.Run(release+"/"+m.name, func(t *testing.T) {
				if m.cgo == "1" {
					testtarget.Needs(t, "gcc", "gcc")
				}
				dir := t.TempDir()
				build(t, release, m, dir)
				for _, program := range []string{"events", "storage"} {
					out, err := testcmd.Combined(testcmd.Command(t, filepath.Join(dir, program)))
					if err != nil || !strings.HasPrefix(string(out), "ok") {
						t.Errorf("%s: %v\n%s", program, err, out)
					}
				}
			})
		}
	}
}

// build builds the scripted programs with the patched runtime, into a directory.
func build(t *testing.T, release string, m mode, dir string) {
	t.Helper()
	cmd := goCommand(t, release, m.cgo, "build", append(m.flags, "-o", dir, "./...")...)
	if out, err := testcmd.Combined(cmd); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
}

// goCommand returns a go command with the overlay, in the module of the scripted programs.
func goCommand(t *testing.T, release, cgo, verb string, args ...string) *exec.Cmd {
	t.Helper()
	t.Setenv("GOTOOLCHAIN", "go"+release)
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOWORK", "off")
	t.Setenv("CGO_ENABLED", cgo)
	cache, err := CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Prepare(t.Context(), verb, append([]string{"-C", filepath.Join("testdata", "standin")}, args...), cache)
	if err != nil {
		t.Fatal(err)
	}
	cmd := testcmd.Command(t, c.Path, c.Args[1:]...)
	cmd.Env = c.Env
	return cmd
}
