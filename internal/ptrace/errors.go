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
	ErrBusy        = errors.New("temporarily impossible") // resume the process for a moment and try again
	ErrReleased    = errors.New("the process is no longer stopped")
)

// TracedError is why a process cannot be traced that another one traces: the kernel allows one tracer. It wraps ErrPermission.
type TracedError struct {
	Tracer int
	Name   string // of the tracer's program; empty when it is unknown
}

func (e *TracedError) Error() string { return TracerWords(e.Tracer, e.Name) + " already traces it" }
func (e *TracedError) Unwrap() error { return ErrPermission }

// StillError is why a process cannot be stopped one of whose threads does not run, not even to stop: its cgroup is frozen, for
// example. Once the thread runs again, the process can be stopped.
type StillError struct {
	TID int
	Why string
}

func (e *StillError) Error() string { return fmt.Sprintf("thread %d does not stop: %s", e.TID, e.Why) }

// TracerWords names a tracer: "strace (process 77)".
func TracerWords(tracer int, name string) string {
	if name == "" {
		return fmt.Sprintf("process %d", tracer)
	}
	return fmt.Sprintf("%s (process %d)", name, tracer)
}

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
