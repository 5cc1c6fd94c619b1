package realtarget

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// Module is a program that is built from a Go module by a given Go release,
// with the dependencies that the module itself names.
type Module struct {
	Path, Version string
	Dir           string // of the main package inside the module; "" for its root
	Go            string // the release that builds it: "1.27.4"
	Ldflags       string // flags for the linker

	// Required builds the program as a package that another module requires. The go command installs no package of a module whose
	// go.mod file replaces modules.
	Required bool

	// Files are the contents of files by their paths in the module, which the module lacks because its developers generate them. The
	// program is then built from a copy, as the main module.
	Files map[string]string
}

// Package returns the import path of the main package.
func (m Module) Package() string { return path.Join(m.Path, m.Dir) }

// String implements Source.
func (m Module) String() string {
	return fmt.Sprintf("module %s@%s built by go%s", m.Path, m.Version, m.Go)
}

func (m Module) key() string {
	name := strings.Join([]string{m.Package(), m.Version, "go" + m.Go}, "-") + m.Ldflags
	return strings.NewReplacer("/", "_", " ", "_").Replace(name)
}

func (m Module) missing() string {
	if _, err := exec.LookPath("go"); err != nil {
		return "the go command"
	}
	return ""
}

// minorInstallVersion is the first minor release whose `go install` takes a
// package of a version.
const minorInstallVersion = 16

func (m Module) get(dir, name string) error {
	minor, err := m.minor()
	if err != nil {
		return err
	}
	if minor < minorInstallVersion || m.Files != nil {
		return m.buildCopy(dir, name)
	}
	if m.Required {
		return m.buildRequired(dir, name)
	}
	bin := filepath.Join(dir, "bin")
	if err := run(dir, append(m.env(), "GOBIN="+bin), "go", "install", "-ldflags="+m.Ldflags, m.Package()+"@"+m.Version); err != nil {
		return err
	}
	installed, err := os.ReadDir(bin) // the go command chooses the name
	if err != nil || len(installed) != 1 {
		return fmt.Errorf("go install left %d files instead of one: %w", len(installed), err)
	}
	return os.Rename(filepath.Join(bin, installed[0].Name()), filepath.Join(dir, name))
}

// buildRequired builds the program in a module that requires that of the program and nothing else.
func (m Module) buildRequired(dir, name string) error {
	work, err := os.MkdirTemp(dir, "module-")
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"mod", "init", "example.com/build"}, {"get", m.Package() + "@" + m.Version},
		{"build", "-ldflags=" + m.Ldflags, "-o", filepath.Join(dir, name), m.Package()}} {
		if err := run(work, m.env(), "go", args...); err != nil {
			return err
		}
	}
	return nil
}

// buildCopy builds the program like its developers do, as the main module. The
// module cache's copy must stay as it is, and old releases write to go.sum.
func (m Module) buildCopy(dir, name string) error {
	var zip struct{ Dir string }
	cmd := testcmd.Within(nil, buildTime, "go", "mod", "download", "-json", m.Path+"@"+m.Version)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go mod download: %w\n%s", err, bytes.TrimSpace(out))
	}
	if err := json.Unmarshal(out, &zip); err != nil {
		return fmt.Errorf("go mod download: %w", err)
	}
	src := filepath.Join(dir, "src")
	if err := os.CopyFS(src, os.DirFS(zip.Dir)); err != nil {
		return err
	}
	for path, content := range m.Files {
		if err := os.WriteFile(filepath.Join(src, path), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return run(src, m.env(), "go", "build", "-ldflags="+m.Ldflags, "-o", filepath.Join(dir, name), "./"+m.Dir)
}

// env returns the environment for the go command: the caller's, without what
// changes a build.
func (m Module) env() []string {
	var env []string
	for _, kv := range os.Environ() {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "GOOS", "GOARCH", "GOEXPERIMENT", "GOAMD64", "GOARM64", "GODEBUG":
		default:
			env = append(env, kv)
		}
	}
	// GOFLAGS is set, not emptied, so that it also replaces what the user's
	// go/env file has: releases before 1.18 do not know all of today's flags.
	return append(env, "GOTOOLCHAIN=go"+m.Go, "GOFLAGS=-trimpath", "GO111MODULE=on", "GOWORK=off", "CGO_ENABLED=0")
}

// minor returns 27 for "1.27.4".
func (m Module) minor() (int, error) {
	_, rest, _ := strings.Cut(m.Go, ".")
	digits, _, _ := strings.Cut(rest, ".")
	minor, err := strconv.Atoi(digits)
	if err != nil {
		return 0, fmt.Errorf("%q is no Go release: %w", m.Go, err)
	}
	return minor, nil
}

// buildTime is how long one command of a build may take, with its downloads.
const buildTime = 40 * time.Minute

// run runs a command and puts what it printed into the error. A nil env is the
// caller's.
func run(dir string, env []string, name string, args ...string) error {
	cmd := testcmd.Within(nil, buildTime, name, args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := testcmd.Combined(cmd)
	if err == nil {
		return nil
	}
	const most = 4 << 10
	if out = bytes.TrimSpace(out); len(out) > most {
		out = out[len(out)-most:]
	}
	return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
}
