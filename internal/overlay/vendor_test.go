package overlay

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// cachedAgent writes a module with agents to a module proxy in a directory: one that has InitGltiAgent, one that registers itself, and one that
// is a package main.
func cachedAgent(t *testing.T, dir string) {
	t.Helper()
	const module = "example.com/cached"
	mod := "module " + module + "\n\ngo 1.21\n\nrequire github.com/loupe-go/loupe/glti v0.0.0\n"
	agent := func(pkg string) string {
		return "package " + pkg + "\n\n" + strings.ReplaceAll(agentSource, "NAME", pkg)
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for name, text := range map[string]string{
		"go.mod":         mod,
		"inits/agent.go": agent("inits"),
		"main/agent.go":  agent("main") + "\nfunc main() {}\n",
		"own/agent.go": "package own\n\nimport (\n\t\"os\"\n\n\t\"github.com/loupe-go/loupe/glti\"\n)\n\n" +
			"func init() {\n\tglti.RegisterAgent(glti.Agent{Init: func(*glti.GLTIEnv) { os.Stderr.WriteString(\"init own\\n\") }})\n}\n",
	} {
		f, err := z.Create(module + "@v1.0.0/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, module, "@v")
	write(t, filepath.Join(at, "list"), "v1.0.0\n")
	write(t, filepath.Join(at, "v1.0.0.info"), `{"Version":"v1.0.0"}`)
	write(t, filepath.Join(at, "v1.0.0.mod"), mod)
	write(t, filepath.Join(at, "v1.0.0.zip"), archive.String())
}

// TestCachedAgents links agents from the module cache, and the same agents from a vendor directory. It has a module cache of its own.
func TestCachedAgents(t *testing.T) {
	release := testtarget.Latest()
	tc := toolchain(t, release)
	glti, err := filepath.Abs(filepath.Join("..", "..", "glti"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	proxy, app := filepath.Join(dir, "proxy"), filepath.Join(dir, "app")
	cachedAgent(t, proxy)
	for name, value := range map[string]string{"PATH": filepath.Join(tc.Root, "bin") + string(os.PathListSeparator) + os.Getenv("PATH"), "GOMODCACHE": filepath.Join(dir, "cache"),
		"GOPROXY": "file://" + filepath.ToSlash(proxy), "GONOSUMDB": "*", "GOFLAGS": "-modcacherw -trimpath", "CGO_ENABLED": "0"} {
		t.Setenv(name, value)
	}
	write(t, filepath.Join(app, "go.mod"), "module example.com/app\n\ngo 1.21\n\nrequire (\n\texample.com/cached v1.0.0\n\tgithub.com/loupe-go/loupe/glti v0.0.0\n)\n\nreplace github.com/loupe-go/loupe/glti => "+
		glti+"\n")
	write(t, filepath.Join(app, "main.go"), "package main\n\nimport \"os\"\n\nfunc main() { os.Stderr.WriteString(\"main\\n\") }\n")
	write(t, filepath.Join(app, "agents.go"), "//go:build tools\n\npackage main\n\nimport (\n\t_ \"example.com/cached/inits\"\n\t_ \"example.com/cached/own\"\n)\n")
	stock := func(args ...string) {
		t.Helper()
		cmd := testcmd.Command(t, filepath.Join(tc.Root, "bin", "go"), args...)
		cmd.Dir = app
		if out, err := testcmd.Combined(cmd); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
	}
	stock("mod", "tidy")
	for _, where := range []string{"the module cache", "a vendor directory"} {
		for _, test := range []struct{ agent, want string }{
			{"", "main\n"},
			{"-agent=example.com/cached/inits", "init inits\nmain\nshutdown inits 0\n"},
			{"-agent=example.com/cached/own", "init own\nmain\n"},
		} {
			args := append(strings.Fields(test.agent), ".")
			if out, err := testcmd.Combined(goCommand(t, release, app, "run", args...)); err != nil || string(out) != test.want {
				t.Errorf("%s: go run %q: %v\n%s", where, args, err, out)
			}
		}
		if where == "a vendor directory" {
			break
		}
		_, err := Prepare(t.Context(), "run", []string{"-C", app, "-agent=example.com/cached/main", "."}, userCache(t))
		const want = "cannot link agent example.com/cached/main: it is a package main in the module cache, which cannot be changed (use a directory, or another package of its module)"
		if err == nil || err.Error() != want {
			t.Errorf("%v, expected %s", err, want)
		}
		stock("mod", "vendor")
		if err := os.RemoveAll(filepath.Join(dir, "cache")); err != nil {
			t.Fatal(err)
		}
		t.Setenv("GOPROXY", "off")
	}
	_, err = Prepare(t.Context(), "run", []string{"-C", app, "-agent=example.com/cached/main", "."}, userCache(t))
	if err == nil || !strings.HasSuffix(err.Error(), "(import it in a file with a build tag and run go mod vendor, or use -mod=readonly)") || strings.Contains(err.Error(), "\n") {
		t.Errorf("an agent that is not vendored: %v", err)
	}
}
