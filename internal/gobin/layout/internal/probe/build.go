// Package probe builds a small program with an actual Go toolchain, and reads from it what package layout needs to know
// about that release: the layouts of the runtime's structs, constants and strings.
//
// It reads DWARF with the standard library's debug/dwarf, which has no code in common with the reader of package
// layout, so that each of the two verifies the other.
package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/internal/gobin/layout/internal/table"
)

// Arches are the architectures that Loupe knows, in Go's spelling.
var Arches = []string{"amd64", "arm64"}

// Builder builds probe programs. Toolchains come from the Go module cache, or through the go command's own download.
type Builder struct {
	dir string   // for sources and programs
	env []string // the go command's settings, once resolved
}

// NewBuilder returns a Builder that leaves its programs in dir.
func NewBuilder(ctx context.Context, dir string) (*Builder, error) {
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644); err != nil {
		return nil, err
	}
	// The toolchains before Go 1.18 reject settings of later ones, so none of them gets to read the user's.
	out, err := run(exec.CommandContext(ctx, "go", "env", "-json",
		"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE"))
	if err != nil {
		return nil, err
	}
	var settings map[string]string
	if err := json.Unmarshal(out, &settings); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	b := &Builder{dir: dir, env: append(os.Environ(),
		"GOENV=off", "GOFLAGS=", "GOEXPERIMENT=", "GODEBUG=", "GOWORK=off", "GOAMD64=", "GOARM64=", "GOROOT=")}
	for name, value := range settings {
		if value != "" {
			b.env = append(b.env, name+"="+value)
		}
	}
	return b, nil
}

// Build compiles the probe program with a release for linux and an architecture, symbols and DWARF kept, and returns its
// path. flags go to "go build".
func (b *Builder) Build(ctx context.Context, r table.Release, arch string, flags ...string) (string, error) {
	goroot, err := b.goroot(ctx, r)
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.dir, fmt.Sprintf("probe-%v-%s", r, arch))
	args := append([]string{"build", "-o", path}, flags...)
	cmd := exec.CommandContext(ctx, filepath.Join(goroot, "bin", "go"), append(args, "main.go")...)
	cmd.Dir = b.dir
	// The toolchain is run by its path: with modules off the go command does not switch toolchains.
	cmd.Env = append(b.env, "GOROOT="+goroot, "GOTOOLCHAIN=local", "GO111MODULE=off", "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if _, err := run(cmd); err != nil {
		return "", fmt.Errorf("go%v linux/%s: %w", r, arch, err)
	}
	return path, nil
}

// goroot returns the directory of a release's toolchain, which the go command downloads when it has to.
func (b *Builder) goroot(ctx context.Context, r table.Release) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOROOT")
	cmd.Dir = b.dir
	cmd.Env = append(b.env, "GOTOOLCHAIN=go"+r.String(), "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	out, err := run(cmd)
	if err != nil {
		return "", fmt.Errorf("toolchain go%v: %w", r, err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// Published returns the releases whose toolchains for this machine the module golang.org/toolchain lists, oldest first.
func (b *Builder) Published(ctx context.Context) ([]table.Release, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-versions", "golang.org/toolchain")
	cmd.Dir = b.dir
	cmd.Env = append(b.env, "GOTOOLCHAIN=local", "GO111MODULE=on")
	out, err := run(cmd)
	if err != nil {
		return nil, err
	}
	var releases []table.Release
	for _, word := range strings.Fields(string(out)) {
		// A version is v0.0.1-go1.22.12.linux-amd64.
		name, ok := strings.CutSuffix(word, "."+runtime.GOOS+"-"+runtime.GOARCH)
		_, name, isVersion := strings.Cut(name, "-go")
		if !ok || !isVersion {
			continue
		}
		if r, rest, err := table.ParseRelease(name); err == nil && rest == "" {
			releases = append(releases, r)
		}
	}
	slices.SortFunc(releases, table.Release.Compare)
	return releases, nil
}

// run returns a command's standard output; the error holds the last line of what it said.
func run(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		said := bytes.TrimSpace(stderr.Bytes())
		return nil, fmt.Errorf("%s: %w: %s", cmd.Args[0], err, said[bytes.LastIndexByte(said, '\n')+1:])
	}
	return stdout.Bytes(), nil
}
