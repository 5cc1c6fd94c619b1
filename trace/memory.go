package trace

import (
	"github.com/loupe-go/loupe/trace/internal/memory"
	"github.com/loupe-go/loupe/trace/raw"
)

// DefaultMaxMemory is the default limit, in bytes, of the memory for reading a trace: 2 GiB.
const DefaultMaxMemory = memory.DefaultMax

// A MemoryError reports that reading a trace requires more memory than permitted.
type MemoryError struct {
	Version raw.Version
	Limit   int64 // the limit in bytes
	Offset  int64 // the offset in bytes up to which the trace was read
}

// Error returns the offset, what does not fit into memory, and the limit, in one line.
func (e *MemoryError) Error() string { return (*memory.Error)(e).Error() }
