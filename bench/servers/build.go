package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/loupe-go/loupe/bench/internal/program"
)

// build builds the executables of a server that its directory does not have yet. The server is built from a copy of its module: an agent cannot be
// linked into a package of the module cache.
func (s *server) build(ctx context.Context, dir string) error {
	// The module of the server is not in the workspace.
	if err := os.Setenv("GOWORK", "off"); err != nil {
		return err
	}
	if err := s.copyModule(ctx, dir); err != nil {
		return err
	}
	agent, err := filepath.Abs("bench/servers/testdata/agent")
	if err != nil {
		return err
	}
	for _, b := range []struct {
		name  string
		flags []string
	}{{stock, nil}, {patched, []string{"-agents=native"}}, {linked, []string{"-agent=" + agent}}} {
		to := filepath.Join(dir, b.name)
		if _, err := os.Stat(to); err == nil {
			continue
		}
		log.Printf("building %s: %s", s.name, b.name)
		args := append([]string{"-C", dir, "-mod=mod", "-trimpath", "-o", to}, b.flags...)
		cmd, err := program.GoBuild(ctx, b.name != stock, append(args, s.module+s.pkg)...)
		if err != nil {
			return err
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return nil
}

// copyModule makes a module that requires that of the server, and replaces it by a copy.
func (s *server) copyModule(ctx context.Context, dir string) error {
	src := filepath.Join(dir, "src")
	if _, err := os.Stat(src); err == nil {
		return nil
	}
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", s.module+"@"+s.version).Output()
	if err != nil {
		return fmt.Errorf("go mod download: %w\n%s", err, out)
	}
	var zip struct{ Dir string }
	if err := json.Unmarshal(out, &zip); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("module example.com/servers\n\ngo 1.26.0\n\nrequire %s %s\n\nreplace %[1]s => ./src\n", s.module, s.version)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644); err != nil {
		return err
	}
	// The directory is complete or absent.
	if err := os.RemoveAll(src + ".new"); err != nil {
		return err
	}
	if err := os.CopyFS(src+".new", os.DirFS(zip.Dir)); err != nil {
		return err
	}
	return os.Rename(src+".new", src)
}
