package modules

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

const root = "../.."

// requirements are the modules that a module requires, by the directory of the module.
var requirements = map[string][]string{
	"glti":               nil,
	"internal/codepatch": {"golang.org/x/arch"},
	"memtrace":           {"github.com/loupe-go/loupe/internal/codepatch", "golang.org/x/arch"},
	"memtrace/memgrpc": {
		"github.com/loupe-go/loupe/memtrace", "google.golang.org/grpc", "github.com/loupe-go/loupe/internal/codepatch", "golang.org/x/arch",
		"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/protobuf",
	},
	"trace/raw": nil,
}

// everyRelease are the modules that depend on the Go runtime: they are tested with each release.
var everyRelease = []string{"glti", "memtrace"}

// systems are other systems for which the modules build.
var systems = []struct{ os, arch string }{{"linux", "arm64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

// TestReleases tests each module with the oldest and the newest Go release that it permits, those that depend on the runtime with all,
// and builds it for other systems with the newest. The go command of the main module tests them with its own release in any case.
func TestReleases(t *testing.T) {
	testtarget.Whole(t, "the modules with other releases than the go command's")
	eachModule(t, func(t *testing.T, dir string, permitted []string) {
		newest := permitted[len(permitted)-1]
		if !slices.Contains(everyRelease, dir) {
			permitted = slices.Compact([]string{permitted[0], newest})
		}
		for _, release := range permitted {
			t.Run(release, func(t *testing.T) {
				runGo(t, dir, release, nil, "test", "-vet=all", "./...")
				if release != newest {
					return
				}
				for _, s := range systems {
					runGo(t, dir, release, []string{"GOOS=" + s.os, "GOARCH=" + s.arch}, "build", ".")
				}
			})
		}
	})
}

// runGo runs the go command of a release for a module without the main module.
func runGo(t *testing.T, dir, release string, env []string, args ...string) {
	t.Helper()
	cmd := command(t, dir, release, args...)
	cmd.Env = append(cmd.Env, env...)
	if out, err := testcmd.Combined(cmd); err != nil {
		t.Errorf("%s %s: %v\n%s", strings.Join(env, " "), cmd, err, out)
	}
}

// TestRequirements checks that each module of the workspace requires what the table says, without replacements.
func TestRequirements(t *testing.T) {
	var dirs []string
	eachModule(t, func(t *testing.T, dir string, _ []string) {
		dirs = append(dirs, dir)
		var required []string
		mod := readMod(t, dir)
		for _, r := range mod.Require {
			required = append(required, r.Path)
		}
		if want, ok := requirements[dir]; !ok || !slices.Equal(required, want) || len(mod.Replace) > 0 {
			t.Errorf("requires %v, want %v; replaces %d modules", required, want, len(mod.Replace))
		}
	})
	if len(dirs) != len(requirements) {
		t.Errorf("modules %v, want those of the table", dirs)
	}
}

// eachModule calls check for each module of the workspace but the main one, with the selected Go releases that it permits,
// oldest first.
func eachModule(t *testing.T, check func(t *testing.T, dir string, permitted []string)) {
	t.Helper()
	var work struct{ Use []struct{ DiskPath string } }
	readJSON(t, root, &work, "work", "edit", "-json")
	for _, use := range work.Use {
		dir := filepath.ToSlash(filepath.Clean(use.DiskPath))
		if dir == "." {
			continue
		}
		t.Run(dir, func(t *testing.T) {
			oldest := minor(t, readMod(t, dir).Go)
			permitted := slices.DeleteFunc(testtarget.Versions(), func(r string) bool { return minor(t, r) < oldest })
			if len(permitted) == 0 {
				t.Fatalf("no release to test with from Go 1.%d on", oldest)
			}
			check(t, dir, permitted)
		})
	}
}

// modFile is a part of what go mod edit -json prints.
type modFile struct {
	Go      string
	Require []struct{ Path string }
	Replace []any
}

func readMod(t *testing.T, dir string) (mod modFile) {
	t.Helper()
	readJSON(t, filepath.Join(root, dir), &mod, "mod", "edit", "-json")
	return mod
}

func readJSON(t *testing.T, dir string, value any, args ...string) {
	t.Helper()
	cmd := testcmd.Command(t, "go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	if err := json.Unmarshal(out, value); err != nil {
		t.Fatal(err)
	}
}

// command returns a run of the go command of a release in the directory of a module.
func command(t *testing.T, dir, release string, args ...string) *exec.Cmd {
	cmd := testcmd.Within(t, 0, "go", args...) // it may compile the standard library
	cmd.Dir = filepath.Join(root, dir)
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=go"+release, "GOFLAGS=", "GOWORK="+workspace(t, dir), "GO111MODULE=on", "CGO_ENABLED=0", "GODEBUG=")
	return cmd
}

// workspace returns GOWORK for a module: a workspace of all modules that require Go 1.23 or later, but the main one, whose releases of
// Go they do not share. A module that requires none of them has none, and so can permit older releases.
func workspace(t *testing.T, dir string) string {
	t.Helper()
	if requirements[dir] == nil {
		return "off"
	}
	text := "go 1.23\n"
	for other, required := range requirements {
		if required == nil {
			continue
		}
		path, err := filepath.Abs(filepath.Join(root, other))
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("use %q\nreplace github.com/loupe-go/loupe/%s v0.1.0 => %q\n", path, other, path)
	}
	file := filepath.Join(t.TempDir(), "go.work")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// minor returns 23 for "1.23" and "1.23.4".
func minor(t *testing.T, release string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.Split(release, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
