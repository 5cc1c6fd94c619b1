package ptrace

import (
	"errors"
	"fmt"
)

// The reasons why a process cannot be stopped or changed. The errors of this package wrap one of these.
var (
	ErrNoProcess   = errors.New("no such process")
	ErrPermission  = errors.New("permission denied")
	ErrTraced      = errors.New("another process traces it")
	ErrExited      = errors.New("the process has exited")
	ErrUnsupported = errors.New("not supported")
	ErrSeccomp     = errors.New("forbidden by its seccomp filter")
	ErrBusy        = errors.New("temporarily impossible") // resume the process for a moment and try again
	ErrReleased    = errors.New("the process is no longer stopped")
)

// A TracedError reports that another process already traces the target. The kernel allows only one tracer. It wraps
// ErrPermission and ErrTraced.
type TracedError struct {
	Tracer int
	Name   string // command name of the tracer; empty if unknown
}

func (e *TracedError) Error() string   { return TracerWords(e.Tracer, e.Name) + " already traces it" }
func (e *TracedError) Unwrap() []error { return []error{ErrPermission, ErrTraced} }

// A StillError reports that a process cannot be stopped because one of its threads does not run at all, for example
// because its cgroup is frozen. The process can be stopped when the thread runs again.
type StillError struct {
	TID int
	Why string
}

func (e *StillError) Error() string { return fmt.Sprintf("thread %d does not stop: %s", e.TID, e.Why) }

// TracerWords returns a description of a tracer, such as "strace (process 77)".
func TracerWords(tracer int, name string) string {
	if name == "" {
		return fmt.Sprintf("process %d", tracer)
	}
	return fmt.Sprintf("%s (process %d)", name, tracer)
}

// both combines two errors into one with a message of one line. Either may be nil.
func both(err, more error) error {
	switch {
	case err == nil:
		return more
	case more == nil:
		return err
	}
	return fmt.Errorf("%w; and %w", err, more)
}
