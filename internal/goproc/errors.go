package goproc

import (
	"errors"

	"github.com/loupe-go/loupe/internal/ptrace"
)

// The reasons why a process cannot be observed. Errors of this package wrap one of them; errors.Is tells which. Those
// that package ptrace has too are the same.
var (
	ErrNoProcess   = ptrace.ErrNoProcess
	ErrPermission  = ptrace.ErrPermission
	ErrUnreadable  = unreadable{} // the file permissions of its executable; wraps ErrPermission
	ErrNotGo       = errors.New("not a Go program")
	ErrUnsupported = ptrace.ErrUnsupported
	ErrLayout      = errors.New("layout not verified") // the runtime's data structures do not match the expected layout
	ErrExited      = ptrace.ErrExited

	// ErrReplaced says that the process has replaced itself by another program.
	ErrReplaced = errors.New("the process has executed another program; attach again to observe it")
)

type unreadable struct{}

func (unreadable) Error() string { return "its code is in a file that this user may not read" }
func (unreadable) Unwrap() error { return ErrPermission }
