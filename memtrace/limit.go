package memtrace

import (
	"context"
	"errors"
	"fmt"
)

// Errors that a [LimitError] is, according to errors.Is.
var (
	ErrLimit        = errors.New("memtrace: a limit was passed")
	ErrLimitBytes   = errors.New("memtrace: the limit of bytes was passed")
	ErrLimitObjects = errors.New("memtrace: the limit of objects was passed")
	ErrLimitCalls   = errors.New("memtrace: the limit of calls was passed")
)

// A LimitError says which limit of a trace was passed. The Err method of the trace's [Context] returns it, and
// [context.Cause] returns it for contexts derived from that. It is [ErrLimit], the error of its kind, such as
// [ErrLimitBytes], and [context.Canceled].
type LimitError struct {
	// Limit is what the trace was allowed to use.
	Limit int64

	kind kind
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("memtrace: the limit of %d %s was passed", e.Limit, e.kind)
}

// Is reports whether e is target.
func (e *LimitError) Is(target error) bool {
	return target == ErrLimit || target == kindErrors[e.kind] || target == context.Canceled
}

// kind is what a limit limits.
type kind uint8

const (
	bytesUsed kind = iota
	objectsUsed
	callsUsed
	kinds
)

var kindErrors = [kinds]error{ErrLimitBytes, ErrLimitObjects, ErrLimitCalls}

func (k kind) String() string { return [kinds]string{"bytes", "objects", "calls"}[k] }
