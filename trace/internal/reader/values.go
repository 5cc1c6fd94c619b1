package reader

import (
	"math"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/internal/generation"
)

// ThreadID returns the ID of a thread; 0 for none.
func ThreadID(m uint64) int32 {
	if m > math.MaxInt32 {
		return 0
	}
	return int32(m)
}

// ProcOf returns the P with an ID of the trace.
func ProcOf(p uint64) event.Proc {
	if p >= math.MaxInt32 {
		return 0
	}
	return event.ProcOf(int32(p))
}

// GoID returns the ID of a goroutine or task; 0 for none.
func GoID(g uint64) uint64 {
	if g == generation.None {
		return 0
	}
	return g
}

// Int64 returns a number of the trace as one of an event.
func Int64(x uint64) int64 { return int64(min(x, math.MaxInt64)) }

// LostEvents returns how many events were lost, if that is what a message says.
func LostEvents(category, message string) (int64, bool) {
	if category != logCategory {
		return 0, false
	}
	number, ok := strings.CutSuffix(message, " events lost")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(number, 10, 64)
	return n, err == nil && n >= 0
}

// Counter returns the kind and the value of an event that a Writer has written as a message, if it is one.
func Counter(category, message string) (event.Kind, int64, bool) {
	name, number, ok := strings.Cut(message, " ")
	if category != logCategory || !ok {
		return 0, 0, false
	}
	kind, _ := event.ParseKind(name)
	if kind != event.AllocBytes && kind != event.AllocObjects {
		return 0, 0, false
	}
	n, err := strconv.ParseInt(number, 10, 64)
	return kind, n, err == nil && n >= 0
}

// logCategory is the category of the messages of a Writer.
const logCategory = "loupe"
