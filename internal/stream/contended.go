package stream

import (
	"slices"
	"strings"
)

// contendedReasons are prefixes of the wait reasons of contention: goroutines that wait for a lock, to send a value that
// no goroutine receives, or to assist the garbage collector. Other waits are often those of goroutines with nothing to
// do. Before Go 1.20 all waits for locks are "semacquire".
var contendedReasons = []string{"sync.Mutex.", "sync.RWMutex.", "semacquire", "chan send", "GC assist", "GC mark termination", "GC start"}

// Contended reports whether a wait reason is that of a goroutine that others are in the way of.
func Contended(reason string) bool {
	return slices.ContainsFunc(contendedReasons, func(r string) bool { return strings.HasPrefix(reason, r) })
}
