package overlay

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// module writes a module whose program prints which of its files were compiled.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"app/go.mod": "module example.com/app\n\ngo 1.21\n\nrequire example.com/lib v1.0.0\n",
		"app/main.go": `package main

import (
	"fmt"
	"os"

	"example.com/lib"
)

func main() {
	fmt.Println(tags, overlaid, lib.Name)
	if len(os.Args) > 1 {
		panic("on purpose")
	}
}
`,
		"app/overlaid.go":  "package main\n\nconst overlaid = \"original\"\n",
		"app/stock.go":     "//go:build !loupe_glti || !mine\n\npackage main\n\nconst tags = \"without tags\"\n",
		"app/tagged.go":    "//go:build loupe_glti && mine\n\npackage main\n\nconst tags = \"both tags\"\n",
		"app/main_test.go": "package main\n\nimport \"testing\"\n\nfunc TestTags(t *testing.T) { t.Log(tags, overlaid) }\n",
		"app/mine.json":    `{"Replace": {"overlaid.go": "other.txt"}}`,
		"app/other.txt":    "package main\n\nconst overlaid = \"overlay\"\n",

		"app/vendor/modules.txt":            "# example.com/lib v1.0.0\n## explicit; go 1.21\nexample.com/lib\n",
		"app/vendor/example.com/lib/lib.go": "package lib\n\nconst Name = \"vendored\"\n",
		"lib/go.mod":                        "module example.com/lib\n\ngo 1.21\n",
		"lib/lib.go":                        "package lib\n\nconst Name = \"workspace\"\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

// TestVerbs runs each command of the go command, with the flags and files that a user may have.
func TestVerbs(t *testing.T) {
	for _, release := range built(t) {
		t.Run(release, func(t *testing.T) {
			dir := module(t)
			app := filepath.Join(dir, "app")
			t.Setenv("CGO_ENABLED", "0")
			run := func(want string, ok bool, verb string, args ...string) {
				t.Helper()
				out, err := testcmd.Combined(goCommand(t, release, app, verb, args...))
				if (err == nil) != ok || !strings.Contains(string(out), want) {
					t.Errorf("go %s %q with GOFLAGS=%q: %v, expected %q\n%s", verb, args, os.Getenv("GOFLAGS"), err, want, out)
				}
			}
			t.Setenv("GOFLAGS", "")
			t.Setenv("GOWORK", "off")
			run("without tags original vendored", true, "run", ".")
			run("both tags overlay vendored", true, "run", "-tags", "mine", "-overlay=mine.json", ".")
			run("main.go:13", false, "run", ".", "x") // the line of the panic
			t.Setenv("GOTRACEBACK", "system")
			run("src/runtime/proc.go:"+line(t, release, "fn()"), false, "run", ".", "x")
			t.Setenv("GOTRACEBACK", "")
			run("both tags original", true, "test", "-v", ".", "-tags=mine")
			run("coverage: 0.0% of statements", true, "test", "-cover", ".")
			run("without tags original vendored", true, "run", "-cover", ".")
			run("", true, "vet", "-tags", "mine", "./...")
			run("flag provided but not defined: -absent", false, "build", "-absent")
			run("example.com/app", true, "list", "./...")
			t.Setenv("GOFLAGS", "-tags=mine -overlay=mine.json")
			run("both tags overlay vendored", true, "run", ".")
			run("without tags overlay", true, "run", "-tags=other", ".")
			t.Setenv("GOFLAGS", "")
			t.Setenv("GOWORK", filepath.Join(dir, "go.work"))
			write(t, filepath.Join(dir, "go.work"), "go 1.21\n\nuse (\n\t./app\n\t./lib\n)\n")
			run("without tags original workspace", true, "run", ".")
		})
	}
}

// TestSameList checks that the patterns of packages mean the same as without an overlay.
func TestSameList(t *testing.T) {
	dir := module(t)
	release := testtarget.Latest()
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOWORK", "off")
	for _, pattern := range []string{"std", "crypto/..."} {
		got, err := testcmd.Combined(goCommand(t, release, dir+"/app", "list", pattern))
		if err != nil {
			t.Fatalf("%v\n%s", err, got)
		}
		stock := testcmd.Command(t, "go", "list", pattern)
		stock.Dir = dir + "/app"
		want, err := testcmd.Combined(stock)
		if err != nil || string(got) != string(want) {
			t.Errorf("go list %s: %s\nwithout overlay: %v %s", pattern, got, err, want)
		}
	}
}

// line returns the line of runtime/proc.go, in a release, in which runtime.main calls main.main.
func line(t *testing.T, release, call string) string {
	t.Helper()
	text := string(must(t, toolchain(t, release), "runtime/proc.go"))
	_, rest, _ := strings.Cut(text, "fn := main_main")
	at := strings.Index(rest, call)
	return strconv.Itoa(strings.Count(text[:len(text)-len(rest)+at], "\n") + 1)
}
