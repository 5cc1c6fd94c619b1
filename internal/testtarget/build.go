package testtarget

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// Build returns the path of the executable that s describes, building it when
// the cache does not have it. It fails the test when the build fails and skips
// it when the machine lacks a tool for it (see Unsupported). Test processes may
// build the same spec at the same time.
func Build(tb testing.TB, s Spec) string {
	tb.Helper()
	// What was built elsewhere and put into the cache needs no tool.
	if missing := s.Unsupported(); missing != "" && !built(s.withDefaults()) {
		tb.Skip(missing)
	}
	path, err := build(s.withDefaults())
	if err != nil {
		tb.Fatalf("testtarget: %v", err)
	}
	return path
}

// Executable is Build for callers that are no test.
func Executable(s Spec) (string, error) { return build(s.withDefaults()) }

// built reports whether the cache has the executable of a spec without empty fields.
func built(s Spec) bool {
	b, err := s.goBuild()
	if err != nil {
		return false
	}
	c, err := openCache()
	return err == nil && c.use(b.entry(c))
}

// build returns the cached executable of a spec without empty fields.
func build(s Spec) (string, error) {
	b, err := s.goBuild()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", s, err)
	}
	return b.run()
}

// goBuild returns how a spec without empty fields is built.
func (s Spec) goBuild() (goBuild, error) {
	if s.minor() < 0 {
		return goBuild{}, fmt.Errorf("%q is not a Go release such as %s", s.Go, Latest())
	}
	if s.Trimpath && s.minor() < minorTrimpath {
		return goBuild{}, fmt.Errorf("-trimpath needs Go 1.%d", minorTrimpath)
	}
	files, err := s.sources()
	if err != nil {
		return goBuild{}, err
	}
	return goBuild{
		name:     strings.ReplaceAll(s.String(), "/", "-"),
		output:   s.Program,
		files:    files,
		args:     s.buildArgs(),
		env:      s.buildEnv(),
		compiler: s.buildCompiler(),
		strip:    s.Binutils,
		after:    s.afterBuild(),
	}, nil
}

// afterBuild returns the commands that make what a spec wants beside the executable, or instead of it.
func (s Spec) afterBuild() [][]string {
	switch {
	case s.Library:
		cc, _ := cCompiler(s.Arch)
		lib := "lib" + s.Program + ".so"
		return [][]string{
			{"mv", "{dir}/" + s.Program, "{dir}/" + lib},
			{cc.command, "-o", "{dir}/" + s.Program, hostSource, `-DLIBRARY="` + lib + `"`, `-DMAIN="` + s.Program + `Main"`,
				"-ldl", "-Wl,-rpath,$ORIGIN"},
		}
	case s.Archive:
		cc, _ := cCompiler(s.Arch)
		archive := "lib" + s.Program + ".a"
		return [][]string{
			{"mv", "{dir}/" + s.Program, "{dir}/" + archive},
			{cc.command, "-o", "{dir}/" + s.Program, hostSource, "-DLINKED=" + s.Program + "Main", "{dir}/" + archive, "-lpthread"},
		}
	case s.Plugin:
		args := append([]string{"go"}, s.buildArgs()...)
		return [][]string{append(args, "-buildmode=plugin", "-o", "{dir}/plugged.so", "./plugged")}
	}
	return nil
}

// sources returns the files of the spec's program with a go.mod of the release's
// own language version, as a program written for that release has.
func (s Spec) sources() (map[string][]byte, error) {
	files, err := programFiles(s.Program)
	if err != nil {
		return nil, err
	}
	if s.Library || s.Archive {
		if files[hostSource], err = hostTree.ReadFile("testdata/" + hostSource); err != nil {
			return nil, err
		}
	}
	files["go.mod"] = fmt.Appendf(nil, "module loupe.test/%s\n\ngo 1.%d\n", s.Program, s.minor())
	if s.Module != "" {
		parts := strings.Fields(s.Module)
		if len(parts) != 3 {
			return nil, fmt.Errorf("%q is not a module, a version and a directory", s.Module)
		}
		files["go.mod"] = fmt.Appendf(files["go.mod"], "\nrequire %s %s\n\nreplace %s => %s\n", parts[0], parts[1], parts[0], parts[2])
		files[parts[2][len("./"):]+"/go.mod"] = fmt.Appendf(nil, "module %s\n\ngo 1.%d\n", parts[0], s.minor())
	}
	return files, nil
}

// buildArgs returns the arguments of the go command for a spec.
func (s Spec) buildArgs() []string {
	args := []string{"build"}
	if s.minor() >= minorBuildVCS {
		// The cache may lie inside somebody's repository.
		args = append(args, "-buildvcs=false")
	}
	if s.Trimpath {
		args = append(args, "-trimpath")
	}
	if s.Stripped {
		args = append(args, "-ldflags=-s -w")
	}
	if s.PIE {
		args = append(args, "-buildmode=pie")
	}
	if s.Library {
		args = append(args, "-buildmode=c-shared")
	}
	if s.Archive {
		args = append(args, "-buildmode=c-archive")
	}
	var tags []string
	if s.Cgo {
		tags = append(tags, "zoocgo")
	}
	if s.Plugin {
		tags = append(tags, s.Program+"plugin")
	}
	if s.Tags != "" {
		tags = append(tags, strings.Split(s.Tags, ",")...)
	}
	if len(tags) > 0 {
		// Go 1.12 wants spaces between tags, later releases take them too.
		args = append(args, "-tags="+strings.Join(tags, " "))
	}
	if s.Flags != "" {
		args = append(args, strings.Split(s.Flags, "\n")...)
	}
	return args
}

// buildEnv returns what a spec adds to the environment of the go command.
func (s Spec) buildEnv() []string {
	env := []string{"GOTOOLCHAIN=go" + s.Go, "GOOS=linux", "GOARCH=" + s.Arch}
	if s.Experiment != "" {
		env = append(env, "GOEXPERIMENT="+s.Experiment)
	}
	if s.AMD64Level != "" {
		env = append(env, "GOAMD64="+s.AMD64Level)
	}
	if s.needsC() {
		return append(env, "CGO_ENABLED=1")
	}
	return append(env, "CGO_ENABLED=0")
}

// buildCompiler returns the C compiler for a spec, or "" when it needs none.
func (s Spec) buildCompiler() string {
	if !s.needsC() {
		return ""
	}
	cc, _ := cCompiler(s.Arch)
	return cc.command
}

// A goBuild is one run of the go command whose result is cached.
type goBuild struct {
	name   string            // says to people what the cache entry is
	output string            // name of the executable
	files  map[string][]byte // sources by slash-separated path, with go.mod
	args   []string          // of the go command, without -o and package
	env    []string          // what is added to cleanEnv

	// compiler is for C, when one is needed. A cross compiler has another name and makes the same.
	compiler string
	strip    bool       // run strip over the result
	after    [][]string // commands that are run afterwards, in the directory of the sources; {dir} is the result's
}

// run returns the path of the result. A cache entry is named after the hash of
// all that went into it, so that it never goes stale.
func (b goBuild) run() (string, error) {
	c, err := openCache()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", b.name, err)
	}
	sources, entry := b.sources(c), b.entry(c)
	err = c.fill(entry, func(dir string) error {
		if err := c.fill(sources, func(dir string) error { return writeFiles(dir, b.files) }); err != nil {
			return err
		}
		return b.compile(sources, filepath.Join(dir, b.output))
	})
	if err != nil {
		return "", fmt.Errorf("build %s: %w", b.name, err)
	}
	return filepath.Join(entry, b.output), nil
}

// sources returns the cache entry with the build's sources.
func (b goBuild) sources(c cache) string { return c.entry("src-"+b.output, hashFiles(b.files)) }

// entry returns the cache entry with the build's result.
func (b goBuild) entry(c cache) string {
	parts := append([]string{b.sources(c), fmt.Sprint(b.strip, b.after)}, b.args...)
	parts = append(parts, b.env...)
	if b.compiler != "" {
		parts = append(parts, "CC=gcc")
	}
	return c.entry(b.name, hashStrings(parts))
}

// compile runs the go command in a directory of sources.
func (b goBuild) compile(sources, output string) error {
	env, err := cleanEnv()
	if err != nil {
		return err
	}
	if b.compiler != "" {
		env = append(env, "CC="+b.compiler)
	}
	args := append(append([]string{}, b.args...), "-o", output, ".")
	if err := runTool(sources, append(env, b.env...), "go", args...); err != nil {
		return fmt.Errorf("%s %w", strings.Join(b.env, " "), err)
	}
	if b.strip {
		if err := runTool("", nil, "strip", output); err != nil {
			return err
		}
	}
	for _, command := range b.after {
		command = slices.Clone(command)
		for i := range command {
			command[i] = strings.ReplaceAll(command[i], "{dir}", filepath.Dir(output))
		}
		if err := runTool(sources, append(env, b.env...), command[0], command[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// buildTime is how long one command of a build may take. The first one with a
// release's toolchain downloads it and builds the standard library.
const buildTime = 15 * time.Minute

// runTool runs a command and puts what it printed into the error.
func runTool(dir string, env []string, name string, args ...string) error {
	cmd := testcmd.Within(nil, buildTime, name, args...)
	cmd.Dir = dir
	cmd.Env = env
	out, err := testcmd.Combined(cmd)
	if err == nil {
		return nil
	}
	const most = 4 << 10
	out = bytes.TrimSpace(out)
	if len(out) > most {
		out = append(out[:most:most], " [...]"...)
	}
	return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
}

// cleanEnv returns the environment for the go command: the caller's, without
// what changes a build. GOENV is off because releases before 1.18 fail on flags
// they do not know in that file, so what it says about places and downloads is
// carried over as variables.
var cleanEnv = sync.OnceValues(func() ([]string, error) {
	carried := []string{"GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE",
		"GOPATH", "GOMODCACHE", "GOCACHE"}
	cmd := testcmd.Command(nil, "go", append([]string{"env", "-json"}, carried...)...)
	cmd.Stderr = nil       // for the error's text
	cmd.Dir = os.TempDir() // outside any module, whose toolchain line would count
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, fmt.Errorf("go env: %w\n%s", err, bytes.TrimSpace(exit.Stderr))
		}
		return nil, fmt.Errorf("go env: %w", err)
	}
	var values map[string]string
	if err := json.Unmarshal(out, &values); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "GO") && !strings.HasPrefix(name, "CGO_") && name != "CC" && name != "CXX" {
			env = append(env, kv)
		}
	}
	for _, name := range carried {
		env = append(env, name+"="+values[name])
	}
	// Compilers and linkers that collect less garbage use 15 % less processor time.
	env = append(env, "GOENV=off", "GOFLAGS=", "GO111MODULE=on", "GOWORK=off", "GOGC=300")
	return slices.Clip(env), nil // builds side by side append to it, each its own
})

// hashFiles returns a short hash of file names and contents.
func hashFiles(files map[string][]byte) string {
	var parts []string
	for name, content := range files {
		parts = append(parts, name+"\x00"+string(content))
	}
	sort.Strings(parts)
	return hashStrings(parts)
}

// hashStrings returns a short hash of a list of strings.
func hashStrings(parts []string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
