package goproc

import (
	"errors"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// The reasons why a process cannot be observed. The errors of this package wrap one of these. Errors that packages
// gobin and ptrace also define are the same values, except gobin.ErrUnsupported.
var (
	ErrNoProcess   = ptrace.ErrNoProcess
	ErrPermission  = ptrace.ErrPermission
	ErrNotGo       = gobin.ErrNotGo
	ErrUnsupported = ptrace.ErrUnsupported
	ErrLayout      = errors.New("layout not verified") // the runtime's data structures do not match the expected layout
	ErrExited      = ptrace.ErrExited

	// ErrUnreadable reports that the file permissions of the executable do not permit reading it. It wraps ErrPermission.
	ErrUnreadable error = unreadable{}

	// ErrReplaced reports that the process has executed another program (execve(2)).
	ErrReplaced = errors.New("the process has executed another program; attach again to observe it")
)

type unreadable struct{}

func (unreadable) Error() string { return "its code is in a file that this user may not read" }
func (unreadable) Unwrap() error { return ErrPermission }
