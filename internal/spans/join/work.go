package join

import (
	"slices"
	"strings"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/spans"
)

// classOf returns the class of the state after an event.
func classOf(e *event.Event) spans.Class {
	switch gostate.After(e) {
	case gostate.Runnable:
		return spans.Runnable
	case gostate.Syscall:
		return spans.Syscall
	case gostate.Waiting:
		return waitClass(e.Reason, e.Stack)
	}
	return spans.Running
}

func waitClass(reason string, stack *event.Stack) spans.Class {
	switch reason {
	case "IO wait":
		return spans.Network
	case "sleep":
		return spans.Sleep
	}
	if strings.HasPrefix(reason, "GC assist") {
		return spans.Assist
	}
	switch gostate.WaitOf(reason) {
	case gostate.WaitLock:
		return spans.Mutex
	case gostate.WaitSemaphore:
		if gostate.ForLock(reason, stack) {
			return spans.Mutex
		}
		if ofRuntime(stack) {
			return spans.Assist
		}
		return spans.Sync
	case gostate.WaitSync:
		return spans.Sync
	case gostate.WaitSend, gostate.WaitReceive:
		return spans.Chan
	case gostate.WaitSelect:
		return spans.Select
	}
	return spans.Other
}

// ofRuntime reports whether the runtime waits for a semaphore of its own: a goroutine that begins a garbage collection waits for others
// that do. Packages wait for a semaphore in functions such as sync.runtime_Semacquire.
func ofRuntime(stack *event.Stack) bool {
	if stack == nil {
		return false
	}
	i := slices.IndexFunc(stack.Frames, func(f event.Frame) bool { return !strings.HasPrefix(f.Func, "runtime.") })
	return i >= 0 && !strings.Contains(stack.Frames[i].Func, ".runtime_")
}

// enter notes the state after an event.
func (g *goroutine) enter(e *event.Event) {
	g.state, g.class, g.returned = gostate.After(e), classOf(e), e.Kind == event.GoSyscallEnd
}

// spend accounts the time since the last event to the class that the goroutine was in.
func (g *goroutine) spend(until int64) {
	d := time.Duration(max(until-g.since, 0))
	g.since = max(g.since, until)
	switch {
	case g.request == nil:
	case g.child:
		g.request.span.Work.Started[g.class] += d
	default:
		g.request.span.Work.Own[g.class] += d
	}
}

// release notes who ended a wait for a lock.
func (g *goroutine) release(e *event.Event) {
	if g.class != spans.Mutex || g.request == nil {
		return
	}
	holder := &g.request.span.Work.Holder
	if wait := time.Duration(e.Time - g.since); wait > holder.Wait {
		*holder = spans.Holder{Wait: wait, G: e.By, Func: unlocking(e.Stack)}
	}
}

// unlocking returns the function of the program that released a lock.
func unlocking(stack *event.Stack) string {
	if frames := ofProgram(stack); len(frames) > 0 {
		return frames[0].Func
	}
	return ""
}

// depth returns the number of functions on a stack without those of the runtime that wait.
func depth(stack *event.Stack) int {
	frames := ofProgram(stack)
	if n := len(frames); n > 0 && strings.HasPrefix(frames[n-1].Func, "runtime.") {
		return n - 1
	}
	return len(frames)
}

// ofProgram returns the frames of a stack from the innermost one that is not part of the runtime or of package sync.
func ofProgram(stack *event.Stack) []event.Frame {
	if stack == nil {
		return nil
	}
	i := slices.IndexFunc(stack.Frames, func(f event.Frame) bool {
		return !strings.HasPrefix(f.Func, "sync.") && !strings.HasPrefix(f.Func, "internal/sync.") && !strings.HasPrefix(f.Func, "runtime.")
	})
	if i < 0 {
		return nil
	}
	return stack.Frames[i:]
}
