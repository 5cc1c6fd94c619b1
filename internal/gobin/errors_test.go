package gobin_test

import (
	"errors"
	"testing"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/gobin/layout"
)

// TestUnsupportedArch checks that all packages report an unsupported architecture with the same error.
func TestUnsupportedArch(t *testing.T) {
	_, layoutErr := layout.ForVersion("go1.22.3", "riscv64")
	_, insnErr := insn.Refs(insn.Code{Arch: "riscv64", Bytes: []byte{0}})
	for name, err := range map[string]error{"layout": layoutErr, "insn": insnErr} {
		for _, sentinel := range []error{gobin.ErrUnsupportedArch, layout.ErrUnsupportedArch, insn.ErrUnsupportedArch} {
			if !errors.Is(err, sentinel) {
				t.Errorf("package %s: %v is not %v of each package", name, err, sentinel)
			}
		}
	}
}
