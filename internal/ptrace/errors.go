package ptrace

import (
	"errors"
	"fmt"
)

// The reasons why a process cannot be stopped or changed. Errors of this package wrap one of them; errors.Is tells which.
var (
	ErrNoProcess   = errors.New("no such process")
	ErrPermission  = errors.New("permission denied")
	ErrExited      = errors.New("the process has exited")
	ErrUnsupported = errors.New("not supported")
	ErrSeccomp     = errors.New("forbidden by its seccomp filter")
	ErrBusy        = errors.New("a thread is in the way") // let the process go on for a moment and try again
	ErrReleased    = errors.New("the process goes on already")
)

// both returns two errors as one of one line; either may be nil.
func both(err, more error) error {
	switch {
	case err == nil:
		return more
	case more == nil:
		return err
	}
	return fmt.Errorf("%w; and %w", err, more)
}
