package realtarget

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Tree is a program of this repository whose directory is a module of its own: a main.go, which requires large programs as packages.
// Nobody looks at its code.
type Tree struct {
	Dir   string
	Quick []string // patterns of packages that are to be compiled quickly: without inlining and debugging information
}

// quickly are flags of the compiler for programs at whose code nobody looks.
const quickly = "-l -dwarf=false"

// String implements Source.
func (t Tree) String() string { return "module in " + t.Dir }

func (t Tree) key() string {
	sum := sha256.New()
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		text, _ := os.ReadFile(filepath.Join(t.Dir, name)) // the build fails if there is none
		sum.Write(text)
	}
	return "tree-" + filepath.Base(t.Dir) + "-" + hex.EncodeToString(sum.Sum(nil)[:8])
}

func (Tree) missing() string {
	if _, err := exec.LookPath("go"); err != nil {
		return "the go command"
	}
	return ""
}

func (t Tree) get(dir, name string) error {
	env := slices.Concat(os.Environ(), []string{"GOFLAGS=-mod=readonly", "GO111MODULE=on", "GOWORK=off", "CGO_ENABLED=0"})
	args := []string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(dir, name)}
	for _, pattern := range t.Quick {
		args = append(args, "-gcflags="+pattern+"="+quickly)
	}
	return run(t.Dir, env, "go", append(args, ".")...)
}
