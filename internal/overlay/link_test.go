package overlay

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// agentSource is an agent that prints its name.
const agentSource = `import (
	"fmt"
	"os"

	iface "github.com/loupe-go/loupe/glti"
)

func InitGltiAgent(env *iface.GLTIEnv) { fmt.Fprintln(os.Stderr, "init NAME") }

func ShutdownGltiAgent(code int) { fmt.Fprintln(os.Stderr, "shutdown NAME", code) }
`

// linkModules writes modules: app has programs and agents, far is an agent, bare a program without requirements, old one of an older Go.
func linkModules(t *testing.T) string {
	t.Helper()
	glti, err := filepath.Abs(filepath.Join("..", "..", "glti"))
	if err != nil {
		t.Fatal(err)
	}
	requires := "\ngo 1.21\n\nrequire github.com/loupe-go/loupe/glti v0.0.0\n\nreplace github.com/loupe-go/loupe/glti => " + glti + "\n"
	const program = `package main // import "ignored"

import "os"

func main() {
	os.Stderr.WriteString("main\n")
	if len(os.Args) == 2 && os.Args[1] == "panic" {
		panic("line 8")
	}
}
`
	agent := func(pkg, name string) string {
		return "package " + pkg + "\n\n" + strings.ReplaceAll(agentSource, "NAME", name)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"app/go.mod":                "module example.com/app\n" + requires,
		"app/cmd/a/main.go":         program,
		"app/cmd/b/main.go":         program,
		"app/cmd/b/b_test.go":       "package main\n\nimport \"testing\"\n\nfunc Test(t *testing.T) { main() }\n",
		"app/lib/lib.go":            "// Package lib is no program.\npackage lib\n\nfunc One() int { return 1 }\n",
		"app/lib/lib_test.go":       "package lib\n\nimport \"testing\"\n\nfunc Test(t *testing.T) { t.Log(One()) }\n",
		"app/agents/inits/agent.go": agent("inits", "inits"),
		"app/agents/main/agent.go":  agent("main", "main") + "\nfunc main() { other() }\n",
		"app/agents/main/other.go":  "package main\n\nfunc other() {}\n",
		"app/agents/own/agent.go": "package own\n\nimport (\n\t\"os\"\n\n\t\"github.com/loupe-go/loupe/glti\"\n)\n\n" +
			"func init() {\n\tglti.RegisterAgent(glti.Agent{Init: func(*glti.GLTIEnv) { os.Stderr.WriteString(\"init own\\n\") }})\n}\n",
		"app/agents/wrong/agent.go":   "package wrong\n\nfunc InitGltiAgent(env int) {}\n",
		"far/go.mod":                  "module example.com/far/v2\n" + requires,
		"far/agent/agent.go":          strings.Replace(agent("main", "far"), "\"os\"\n", "\"os\"\n\n\t_ \"example.com/far/v2/sub\"", 1),
		"far/sub/sub.go":              "package sub\n",
		"new/go.mod":                  "module example.com/new\n" + strings.Replace(requires, "1.21", "1.21.1", 1),
		"new/agent.go":                agent("agent", "new"),
		"bare/go.mod":                 "module example.com/bare\n\ngo 1.21\n",
		"bare/main.go":                program,
		"bare/mine.mod":               "module example.com/bare\n\ngo 1.21\n",
		"vendored/go.mod":             "module example.com/vendored\n\ngo 1.21\n",
		"vendored/main.go":            program,
		"vendored/vendor/modules.txt": "",
		"go.work":                     "go 1.21\n\nuse (\n\t./app\n\t./bare\n)\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

// TestLinkAgents links agents into programs. Neither the source of the program nor its go.mod changes.
func TestLinkAgents(t *testing.T) {
	for _, release := range built(t) {
		t.Run(release, func(t *testing.T) {
			dir := linkModules(t)
			before := contents(t, dir)
			for name, value := range map[string]string{"CGO_ENABLED": "0", "GOFLAGS": "-trimpath", "GOWORK": "off", "GOTOOLCHAIN": "go" + release} {
				t.Setenv(name, value)
			}
			out := t.TempDir()
			run := func(where, want, verb string, args ...string) {
				t.Helper()
				text, err := testcmd.Combined(goCommand(t, release, filepath.Join(dir, where), verb, args...))
				if !strings.Contains(string(text), want) || (err != nil) != strings.Contains(want, "main.main()") {
					t.Errorf("go %s %q in %s: %v, expected %q\n%s", verb, args, where, err, want, text)
				}
			}
			const both = "init inits\ninit own\nmain\nshutdown inits 0\n"
			run("app", both, "run", "-agent=./agents/inits", "-agent", "./agents/own", "./cmd/a")
			run("app", both, "run", "-agent=example.com/app/agents/inits,./agents/own", "cmd/a/main.go")
			run("app/cmd/a", "main.main()\n\texample.com/app/cmd/a/main.go:8 ", "run", "-agent=../../agents/main", ".", "panic")
			run("app", "", "build", "-o", out, "-agent=./agents/main", "./...")
			for _, name := range []string{"a", "b"} {
				if _, stderr := runHost(t, filepath.Join(out, name), ""); stderr != "init main\nmain\nshutdown main 0\n" {
					t.Errorf("%s of two programs: %s", name, stderr)
				}
			}
			run("app", "init own\n=== RUN", "test", "-v", "-agent=./agents/own", "./cmd/b")
			run("app", "init own\n=== RUN", "test", "-v", "-cover", "-agent=./agents/own", "./lib")
			const far = "init far\nmain\nshutdown far 0\n"
			run("app", far, "run", "-agent=../far/agent", "./cmd/a")
			run("bare", far, "run", "-agent="+filepath.Join(dir, "far", "agent"), ".")
			run("bare", far, "run", "-mod", "mod", "-modfile=mine.mod", "-agent=../far/agent", ".")
			run("vendored", far, "run", "-mod=readonly", "-agent=../far/agent", ".")
			t.Setenv("GOWORK", filepath.Join(dir, "go.work"))
			run("bare", "init main\nmain\nshutdown main 0\n", "run", "-agent=../app/agents/main", ".")
			if after := contents(t, dir); !maps.Equal(before, after) {
				t.Errorf("files have changed: %v, before %v", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
			}
		})
	}
}

// contents returns the files in a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestLinkAgentsRefused checks the errors for agents that cannot be linked: each is one line.
func TestLinkAgentsRefused(t *testing.T) {
	dir := linkModules(t)
	for _, test := range []struct{ where, env, args, want string }{
		{"app", "", "build -agent=plugin ./cmd/a", "plugin is a kind of agents, not a package (use -agents=plugin)"},
		{"app", "", "build -agents=jvm ./cmd/a", "unknown kind of agents \"jvm\"; it has native and plugin"},
		{"app", "", "build -agent= ./cmd/a", "empty name"},
		{"app", "", "build -agent=./agents/own,,./agents/inits ./cmd/a", "empty name"},
		{"app", "", "vet -agent=./agents/own ./...", "go vet builds no program"},
		{"app", "", "list -agents native ./...", "go list builds no program"},
		{"app", "", "build -buildmode=plugin -agent=./agents/own ./cmd/a", "with -buildmode=plugin: only programs contain or load agents"},
		{"app", "GOFLAGS=-buildmode=c-shared", "build -agent=./agents/own ./cmd/a", "with -buildmode=c-shared"},
		{"app", "", "build -cover -agent=./agents/own ./cmd/a", "with -cover: the go command's coverage ignores overlays (go test -cover works)"},
		{"app", "", "install -agents=native example.com/x@latest", "with example.com/x@latest: the module cache cannot be changed"},
		{"app", "", "build -agent=./agents/own ./lib", "no programs in the packages"},
		{"app", "", "test -agent=./agents/own ./cmd/a", "no tests in the packages"},
		{"app", "", "build -agent=./agents/own ./absent", "go list: stat "},
		{"app", "", "build -agent=./agents/own cmd/gofmt", "cmd/gofmt is a package of the toolchain"},
		{"app", "", "build -agent=./absent ./cmd/a", "cannot link agent ./absent: no such directory"},
		{"app", "", "build -agent=./agents/... ./cmd/a", "it is a pattern, not a package"},
		{"app", "", "build -agent=example.com/absent ./cmd/a", "no required module provides package example.com/absent (add its module by go get, or use a directory such as ./absent)"},
		{"app", "", "build -agent=./lib ./cmd/a", "it has neither a function InitGltiAgent nor a call of glti.RegisterAgent"},
		{"app", "", "build -agent=./agents/wrong ./cmd/a", "InitGltiAgent must be a func(*glti.GLTIEnv)"},
		{"app", "GOOS=darwin", "build -agents=native ./cmd/a", "programs for darwin cannot load agents, only those for linux"},
		{"app", "", "build -agents=native,plugin ./cmd/a", "cannot use -agents=native,plugin: requires cgo (set CGO_ENABLED=1"},
		{"vendored", "", "build -agent=../far/agent .", "the program's modules are vendored (vendor the agent's as well, or use -mod=readonly)"},
		{"bare", "GOWORK=" + filepath.Join(dir, "go.work"), "build -agent=../far/agent .", "the program is built in a workspace (add the module by go work use "},
		{"bare", "", "build -agent=../new .", "requires the line \"go 1.21.1\", and the program has \"go 1.21\""},
		{"", "", "build -agent=./far/agent bare/main.go", "the program is in no module (use go mod init)"},
	} {
		t.Run(test.args+" "+test.env, func(t *testing.T) {
			for name, value := range map[string]string{"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "go" + testtarget.Latest()} {
				t.Setenv(name, value)
			}
			if name, value, ok := strings.Cut(test.env, "="); ok {
				t.Setenv(name, value)
			}
			verb, args, _ := strings.Cut(test.args, " ")
			_, err := Prepare(t.Context(), verb, append([]string{"-C", filepath.Join(dir, test.where)}, strings.Fields(args)...), userCache(t))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, expected %s", err, test.want)
			}
		})
	}
}
