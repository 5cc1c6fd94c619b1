package goproc

import "errors"

// The reasons why a process cannot be observed. Errors of this package wrap one of them; errors.Is tells which.
var (
	ErrNoProcess   = errors.New("no such process")
	ErrPermission  = errors.New("permission denied")
	ErrNotGo       = errors.New("not a Go program")
	ErrUnsupported = errors.New("not supported")
	ErrLayout      = errors.New("layout not verified") // the runtime's data structures are not where they should be
	ErrExited      = errors.New("the process has exited")
)
