package gobin

import "errors"

// The reasons why a file cannot be analysed. Errors of this package wrap one of them; errors.Is tells which.
var (
	ErrNotELF          = errors.New("not an ELF executable")
	ErrNotGo           = errors.New("not a Go program")
	ErrUnsupportedArch = errors.New("unsupported architecture")
	ErrUnsupported     = errors.New("not supported")
	ErrCorrupt         = errors.New("corrupted executable")
)
