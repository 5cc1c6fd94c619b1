package overlay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Toolchain is the Go toolchain that the go command uses in a directory.
type Toolchain struct {
	Version  string // such as go1.26.8
	Minor    int    // 26
	Root     string // GOROOT
	ModCache string // GOMODCACHE
	Flags    string // GOFLAGS
	GOOS     string
	Cgo      bool   // CGO_ENABLED
	Mod      string // GOMOD
	Work     string // GOWORK
	NoLoader bool   // static programs do not have the code that starts loaders
}

// Find asks the go command of the search path which toolchain it uses in a directory, with the environment of this process. The empty
// directory is the current one. A release without patches is a [ReleaseError].
func Find(ctx context.Context, dir string) (Toolchain, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "-json", "GOVERSION", "GOROOT", "GOMODCACHE", "GOFLAGS", "GOOS", "CGO_ENABLED", "GOMOD", "GOWORK")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return Toolchain{}, fmt.Errorf("cannot find the go command in PATH: install Go 1.%d to 1.%d", oldest, newest)
	case err != nil && ctx.Err() != nil:
		return Toolchain{}, ctx.Err()
	case err != nil:
		return Toolchain{}, fmt.Errorf("go env: %s: %w", firstLine(stderr.String()), err)
	}
	var env map[string]string
	if err := json.Unmarshal(out, &env); err != nil {
		return Toolchain{}, fmt.Errorf("go env: %w", err)
	}
	tc := Toolchain{Version: env["GOVERSION"], Root: env["GOROOT"], ModCache: env["GOMODCACHE"], Flags: env["GOFLAGS"],
		GOOS: env["GOOS"], Cgo: env["CGO_ENABLED"] == "1", Mod: env["GOMOD"], Work: env["GOWORK"]}
	if tc.Minor, err = minorOf(tc.Version); err != nil {
		return Toolchain{}, err
	}
	return tc, nil
}

// firstLine returns the first line of a text that is not empty.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// cached reports whether the go command keeps the toolchain in its module cache.
func (tc Toolchain) cached() bool {
	return tc.ModCache != "" && inside(tc.ModCache, tc.Root)
}

// packagesName is replaced by the packages of the toolchain in the code of patches.
const packagesName = "LOUPE_PACKAGES"

// packages returns the import paths of the toolchain's packages that programs can contain, in the order of their names.
func (tc Toolchain) packages() ([]string, error) {
	var list []string
	src := filepath.Join(tc.Root, "src")
	err := filepath.WalkDir(src, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			if path == filepath.Join(src, "cmd") || e.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		case !isGo(path):
			return nil
		}
		rel, err := filepath.Rel(src, filepath.Dir(path))
		if name := filepath.ToSlash(rel); err == nil && (len(list) == 0 || list[len(list)-1] != name) {
			list = append(list, name)
		}
		return err
	})
	slices.Sort(list)
	return slices.Compact(list), err
}

// source reads a file below GOROOT/src.
func (tc Toolchain) source(name string) ([]byte, error) {
	return os.ReadFile(sourcePath(tc, name))
}
