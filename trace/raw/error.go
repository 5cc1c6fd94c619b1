package raw

import (
	"errors"
	"fmt"
	"strconv"
)

// A SyntaxError reports a position at which a trace is malformed.
type SyntaxError struct {
	// Line is the line number in a text trace, starting at 1. It is 0 for a wire trace.
	Line int64
	// Offset is the offset in bytes of the event in a wire trace. It is 0 for a text trace.
	Offset int64
	// Err describes the error. It is or wraps io.ErrUnexpectedEOF if the trace ends in the middle of an event.
	Err error
}

// Error returns the position and the description of the error in one line.
func (e *SyntaxError) Error() string {
	if e.Line > 0 {
		return "line " + strconv.FormatInt(e.Line, 10) + ": " + e.Err.Error()
	}
	return "offset " + strconv.FormatInt(e.Offset, 10) + ": " + e.Err.Error()
}

// Unwrap returns e.Err.
func (e *SyntaxError) Unwrap() error { return e.Err }

// Limits for reading and writing, which bound memory for any input. They are far above what the runtime writes: 128
// frames, strings of 1 KiB (1 MB in V1 versions), experimental batches of 64 KiB.
const (
	// MaxFrames is the maximum number of frames of a stack.
	MaxFrames = 1 << 16
	// MaxData is the maximum size of the data of an event in bytes.
	MaxData = 2 << 20
	// MaxLine is the maximum length of a line of a text trace in bytes.
	MaxLine = 16 << 20
	// MaxBatch is the maximum size of the events of a batch in bytes. Trace readers accept no more. Only a Writer that
	// recomputes sizes enforces this limit.
	MaxBatch = 64 << 10
)

var (
	// ErrVersion is wrapped by errors about a version that is not supported, and about events whose version is not that
	// of the trace.
	ErrVersion = errors.New("version not supported")
	// ErrHeader is wrapped by errors about input that does not begin with the header of a trace.
	ErrHeader = errors.New("not a Go execution trace")
)

// tooMany returns the error for a count above its limit.
func tooMany(what string, n uint64, limit int) error {
	return fmt.Errorf("%d %s exceed the limit of %d", n, what, limit)
}
