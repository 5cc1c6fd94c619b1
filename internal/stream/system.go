package stream

import (
	"strings"

	"github.com/loupe-go/loupe/event"
)

// IsSystem reports whether a stack is one of the runtime's own goroutines: they start with a function of package runtime
// (runtime.isSystemGoroutine). Traces leave out runtime.main, with which the program's first goroutine starts.
func IsSystem(s *event.Stack) bool {
	if s == nil || len(s.Frames) == 0 || s.Truncated {
		return false
	}
	switch root := s.Frames[len(s.Frames)-1].Func; root {
	case "runtime.main", "runtime.corostart", "runtime.handleAsyncEvent":
		return false
	default:
		return strings.HasPrefix(root, "runtime.")
	}
}
