package gobin

import (
	"errors"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// The reasons why a file cannot be analyzed. The errors of this package wrap one of these.
var (
	ErrNotELF          = errors.New("not an ELF executable")
	ErrNotGo           = errors.New("not a Go program")
	ErrUnsupportedArch = insn.ErrUnsupportedArch // neither amd64 nor arm64
	ErrUnsupported     = errors.New("not supported")
	ErrCorrupt         = errors.New("corrupted executable")
)
