package memory

import (
	"fmt"

	"github.com/loupe-go/loupe/trace/raw"
)

// DefaultMax is the default limit, in bytes, of the memory for reading a trace: 2 GiB.
const DefaultMax = 2 << 30

// An Error reports that reading a trace requires more memory than permitted.
type Error struct {
	Version raw.Version
	Limit   int64 // the limit in bytes
	Offset  int64 // the offset in bytes up to which the trace was read
}

// Error returns the offset, what does not fit into memory, and the limit, in one line.
func (e *Error) Error() string {
	what := "one generation"
	if e.Version.V1() {
		what = "a trace of " + e.Version.String()
	}
	return fmt.Sprintf("offset %d: %s does not fit into %d MiB of memory", e.Offset, what, e.Limit>>20)
}

// Limit returns the limit for the value of an option: DefaultMax if it is not positive.
func Limit(option int64) int64 {
	if option <= 0 {
		return DefaultMax
	}
	return option
}
