package gostate

import (
	"iter"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/event"
)

// Wait reasons of the runtime (waitReasonStrings in runtime/runtime2.go).
const (
	MutexLock    = "sync.Mutex.Lock"
	RWMutexRLock = "sync.RWMutex.RLock"
	RWMutexLock  = "sync.RWMutex.Lock"
	GroupWait    = "sync.WaitGroup.Wait"
	CondWait     = "sync.Cond.Wait"

	// Semacquire is the reason of waits for semaphores. Before Go 1.20 it is that of all waits for locks, and before
	// Go 1.24 that of waits for a sync.WaitGroup.
	Semacquire = "semacquire"

	// Coroutine is the reason of goroutines that another one switches to directly: they start without being unblocked.
	Coroutine = "coroutine"
)

// Wait is a class of wait reasons.
type Wait uint8

// The classes of wait reasons.
const (
	WaitOther     Wait = iota // for the network, a clock, the runtime, or for nothing
	WaitLock                  // for a lock
	WaitSemaphore             // for a semaphore, which may be that of a lock
	WaitSync                  // for a sync.WaitGroup or a sync.Cond
	WaitSend                  // to send on a channel
	WaitReceive               // to receive from a channel
	WaitSelect                // in a select statement
	WaitGC                    // to assist, begin or end a garbage collection
)

// waits are the classes by wait reason.
var waits = map[string]Wait{
	MutexLock: WaitLock, RWMutexRLock: WaitLock, RWMutexLock: WaitLock,
	Semacquire: WaitSemaphore,
	GroupWait:  WaitSync, CondWait: WaitSync,
	"chan send": WaitSend, "chan send (nil chan)": WaitSend,
	"chan receive": WaitReceive, "chan receive (nil chan)": WaitReceive,
	"select": WaitSelect,
}

// bubbles are the suffixes of wait reasons inside a testing/synctest bubble, by release.
var bubbles = []string{" (durable)", " (synctest)"}

// collections begin the wait reasons, and the texts of event.WaitText, of goroutines that the garbage collector needs.
var collections = []string{"GC assist", "GC mark termination", "GC start"}

// WaitOf returns the class of a wait reason or of a text made by event.WaitText.
func WaitOf(reason string) Wait {
	for _, b := range bubbles {
		reason = strings.TrimSuffix(reason, b)
	}
	if slices.ContainsFunc(collections, func(c string) bool { return strings.HasPrefix(reason, c) }) {
		return WaitGC
	}
	return waits[reason]
}

// Contended reports whether a wait reason is that of contention: goroutines that wait for a lock, to send a value that no
// goroutine receives, or to assist the garbage collector. Other waits are often those of goroutines with nothing to do.
func Contended(reason string) bool {
	switch WaitOf(reason) {
	case WaitLock, WaitSemaphore, WaitSend, WaitGC:
		return true
	}
	return false
}

// ForLock reports whether a wait is for a lock. The stack is that of the goroutine that waits or of the one that ends the
// wait. It distinguishes locks from other uses of semaphores.
func ForLock(reason string, stack *event.Stack) bool {
	switch WaitOf(reason) {
	case WaitLock:
		return true
	case WaitSemaphore:
		return stack != nil && slices.ContainsFunc(stack.Frames, func(f event.Frame) bool {
			return strings.HasPrefix(f.Func, "sync.(*Mutex).") || strings.HasPrefix(f.Func, "sync.(*RWMutex).")
		})
	}
	return false
}

// semaphores are the functions that wait for a semaphore, and the reasons that later releases have for their waits. A
// function comes before those that it calls.
var semaphores = []struct{ function, reason string }{
	{"sync.(*WaitGroup).Wait", GroupWait},
	{"sync.(*RWMutex).RLock", RWMutexRLock},
	{"sync.(*RWMutex).Lock", RWMutexLock},
	{"sync.(*Mutex).Lock", MutexLock},
}

// Precise returns the reason of a wait as current releases have it, given the names of the functions on the stack. It
// differs from reason only for Semacquire.
func Precise(reason string, functions iter.Seq[string]) string {
	if reason != Semacquire {
		return reason
	}
	found := len(semaphores)
	for f := range functions {
		for i := range found {
			if strings.HasPrefix(f, semaphores[i].function) {
				found = i
				break
			}
		}
	}
	if found < len(semaphores) {
		return semaphores[found].reason
	}
	return reason
}
