package stream

import (
	"slices"
	"strings"
)

// contendedReasons begin the wait reasons of goroutines that are in each other's way: they want a lock, or to send what
// nobody takes yet, or have to help the garbage collector. Waits for anything else are those of goroutines with nothing to
// do as often as not. Before Go 1.20 all waits for locks are "semacquire".
var contendedReasons = []string{"sync.Mutex.", "sync.RWMutex.", "semacquire", "chan send", "GC assist", "GC mark termination", "GC start"}

// Contended reports whether a wait reason is that of a goroutine that others are in the way of.
func Contended(reason string) bool {
	return slices.ContainsFunc(contendedReasons, func(r string) bool { return strings.HasPrefix(reason, r) })
}
