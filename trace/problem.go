package trace

import (
	"github.com/loupe-go/loupe/trace/internal/memory"
	"github.com/loupe-go/loupe/trace/internal/problem"
)

// publicError returns an error as the type that users of this package know.
func publicError(err error) error {
	switch err := err.(type) {
	case *problem.Problem:
		return &Problem{Code: Code(err.Code), Severity: Severity(err.Severity), Offset: err.Offset, Generation: err.Generation, Batch: err.Batch,
			Thread: err.Thread, Event: err.Event, Text: err.Text}
	case *memory.Error:
		return (*MemoryError)(err)
	}
	return err
}
