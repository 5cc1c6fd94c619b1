package raw

import (
	"errors"
	"fmt"
	"strconv"
)

// A SyntaxError says where a trace is not what its format asks for.
type SyntaxError struct {
	// Line is the line of a text trace, counted from 1. It is 0 for a wire trace.
	Line int64
	// Offset is the offset in bytes of the event in a wire trace. It is 0 for a text trace.
	Offset int64
	// Err says what is wrong. It is io.ErrUnexpectedEOF, perhaps wrapped, if the trace ends within an event.
	Err error
}

// Error returns the place and what is wrong there, in one line.
func (e *SyntaxError) Error() string {
	if e.Line > 0 {
		return "line " + strconv.FormatInt(e.Line, 10) + ": " + e.Err.Error()
	}
	return "offset " + strconv.FormatInt(e.Offset, 10) + ": " + e.Err.Error()
}

// Unwrap returns e.Err.
func (e *SyntaxError) Unwrap() error { return e.Err }

// Limits of what is read and written, which keep memory bounded whatever the input. They are far above what the runtime
// writes: 128 frames, strings of 1 KiB (1 MB in V1 versions), experimental batches of 64 KiB.
const (
	// MaxFrames is the most frames that a stack may have.
	MaxFrames = 1 << 16
	// MaxData is the most bytes of data that an event may have.
	MaxData = 2 << 20
	// MaxLine is the most bytes that a line of a text trace may have.
	MaxLine = 16 << 20
	// MaxBatch is the most bytes of events that a batch may have, for readers accept no more. Only a Writer that
	// recomputes sizes looks at it.
	MaxBatch = 64 << 10
)

var (
	// ErrVersion is returned, wrapped, for a trace or an event of a version that is not supported, or not expected.
	ErrVersion = errors.New("version not supported")
	// ErrHeader is returned, wrapped, for input that does not begin as a trace does.
	ErrHeader = errors.New("not a Go execution trace")
)

// tooMany returns the error for a count above its limit.
func tooMany(what string, n uint64, limit int) error {
	return fmt.Errorf("%d %s, the limit is %d", n, what, limit)
}
