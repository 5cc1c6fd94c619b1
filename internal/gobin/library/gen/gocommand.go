package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/loupe-go/loupe/internal/gobin/library/internal/table"
)

// A goCommand runs the go command outside of any module. It provides toolchains and the sources of modules.
type goCommand struct {
	ctx       context.Context
	dir       string // without a go.mod
	released  []release
	downloads map[string]*sources // by path@version
}

func newGoCommand(ctx context.Context) (*goCommand, error) {
	dir, err := os.MkdirTemp("", "loupe-library")
	if err != nil {
		return nil, err
	}
	return &goCommand{ctx: ctx, dir: dir, downloads: map[string]*sources{}}, nil
}

func (g *goCommand) close() { os.RemoveAll(g.dir) }

// run runs the go command with additional settings and returns its standard output.
func (g *goCommand) run(settings []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(g.ctx, "go", args...)
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off", "GO111MODULE=on", "CGO_ENABLED=0", "GOOS=linux")
	cmd.Env = append(cmd.Env, settings...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(stderr.String() + stdout.String())
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, said)
	}
	return stdout.Bytes(), nil
}

// sources are the sources of a module in the module cache.
type sources struct {
	path     string
	version  string
	dir      string
	minGo    int               // the minor Go version in go.mod; 0 if it has none
	requires map[string]string // versions of modules by path
}

// download returns the sources of a version of a module. The version can be a query such as "latest".
func (g *goCommand) download(path, version string) (*sources, error) {
	key := path + "@" + version
	if s, ok := g.downloads[key]; ok {
		return s, nil
	}
	out, err := g.run(nil, "mod", "download", "-json", key)
	if err != nil {
		return nil, err
	}
	var m struct{ Version, Dir, GoMod string }
	if err := json.Unmarshal(out, &m); err != nil {
		return nil, fmt.Errorf("go mod download %s: %w", key, err)
	}
	s := &sources{path: path, version: m.Version, dir: m.Dir, requires: map[string]string{}}
	if err := g.readGoMod(s, m.GoMod); err != nil {
		return nil, err
	}
	g.downloads[key] = s
	return s, nil
}

// readGoMod reads the requirements in a go.mod file.
func (g *goCommand) readGoMod(s *sources, file string) error {
	out, err := g.run(nil, "mod", "edit", "-json", file)
	if err != nil {
		return err
	}
	var m struct {
		Go      string
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &m); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if m.Go != "" {
		if _, err := fmt.Sscanf(m.Go, "1.%d", &s.minGo); err != nil {
			return fmt.Errorf("%s: Go version %q: %w", file, m.Go, err)
		}
	}
	for _, r := range m.Require {
		s.requires[r.Path] = r.Version
	}
	return nil
}

// versions returns the releases of a module since a version, oldest first.
func (g *goCommand) versions(path string, since table.Version) ([]table.Version, error) {
	out, err := g.run(nil, "list", "-m", "-versions", "-retracted", path)
	if err != nil {
		return nil, err
	}
	var list []table.Version
	for _, word := range strings.Fields(string(out))[1:] {
		if v, err := table.ParseVersion(word); err == nil && v.Pre == "" && v.Compare(since) >= 0 {
			list = append(list, v)
		}
	}
	return list, nil
}

// newest returns the newest version of a module.
func (g *goCommand) newest(path string) (table.Version, error) {
	out, err := g.run(nil, "list", "-m", path+"@latest")
	if err != nil {
		return table.Version{}, err
	}
	_, version, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	return table.ParseVersion(version)
}

// exists reports whether a version of a module is published. A version that the checksum database does not have is not.
func (g *goCommand) exists(path string, v table.Version) bool {
	_, err := g.download(path, v.String())
	return err == nil
}
