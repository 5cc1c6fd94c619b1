package census

import (
	"iter"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// EndedBy is what ends an activity of a goroutine. Goroutines leak in waits that only another goroutine of the program can
// end, and does not.
type EndedBy int

const (
	ByItself    EndedBy = iota // the goroutine, which is executing
	ByOutside                  // something outside of the program: the network, a file, a signal, C code
	ByTime                     // a timer
	ByRuntime                  // the Go runtime
	ByGoroutine                // another goroutine
	ByNobody                   // nothing: the wait lasts until the process exits
)

// An Activity describes what a goroutine is doing.
type Activity struct {
	Doing   string // such as "waiting to send on a channel"
	EndedBy EndedBy
	Fix     string // the usual fix if such goroutines leak; empty if there is none
}

// rule recognises an activity. Empty fields match everything.
type rule struct {
	state  event.State
	reason string // the wait reason, whole
	frame  string // a function on the stack starts with it
	Activity
}

// The usual fix of a leak, by what the goroutines are blocked on.
const (
	fixSend = "no goroutine receives the value: give the channel a buffer, or select on ctx.Done() too " +
		"when sending"
	fixReceive = "no goroutine sends a value: close the channel after the last value, or select on " +
		"ctx.Done() too when receiving"
	fixSelect = "no case of the select becomes ready: add a case for ctx.Done() or a done channel, and " +
		"make sure that it is closed"
	fixLock  = "the lock is not released: look for a path that returns without Unlock, or that locks twice"
	fixGroup = "a goroutine does not call Done: make defer wg.Done() its first line"
	fixCond  = "no goroutine calls Signal or Broadcast"
	fixNil   = "a nil channel never becomes ready: it was not made, or was set to nil"
)

// rules are tried in order; the first that matches tells the activity. The reasons are those of waitReasonStrings in
// runtime/runtime2.go in current releases, see gostate.Precise.
var rules = []rule{
	{event.StateRunning, "", "", Activity{"running", ByItself, ""}},
	{event.StateRunnable, "", "", Activity{"runnable, waiting for a processor", ByRuntime, ""}},
	{event.StateCopystack, "", "", Activity{"stopped while the runtime moves its stack", ByRuntime, ""}},
	{event.StatePreempted, "", "", Activity{"preempted by the runtime", ByRuntime, ""}},
	{event.StateSyscall, "", "runtime.cgocall", Activity{"executing C code", ByOutside, ""}},
	{event.StateSyscall, "", "os/signal.signal_recv", Activity{"waiting for a signal", ByOutside, ""}},
	{event.StateSyscall, "", "os.(*File).Read", Activity{"waiting for input from a file or pipe", ByOutside, ""}},
	{event.StateSyscall, "", "os.(*Process).", Activity{"waiting for a child process", ByOutside, ""}},
	{event.StateSyscall, "", "", Activity{"in a system call", ByOutside, ""}},

	{"", "chan send (nil chan)", "", Activity{"sending on a nil channel, forever", ByNobody, fixNil}},
	{"", "chan receive (nil chan)", "", Activity{"receiving from a nil channel, forever", ByNobody, fixNil}},
	{"", "select (no cases)", "", Activity{"parked forever in a select without cases", ByNobody, ""}},
	{"", "chan send", "", Activity{"waiting to send on a channel", ByGoroutine, fixSend}},
	{"", "chan receive", "", Activity{"waiting to receive from a channel", ByGoroutine, fixReceive}},
	{"", "select", "net/http.(*persistConn).writeLoop",
		Activity{"waiting for a request to write to an HTTP connection", ByGoroutine, ""}},
	{"", "select", "net/http.(*persistConn).readLoop",
		Activity{"waiting until an HTTP response has been read", ByGoroutine,
			"close the Body of every response; the connection is in use until then"}},
	{"", "select", "net/http.(*persistConn).roundTrip", Activity{"waiting for an HTTP response", ByOutside, ""}},
	{"", "select", "", Activity{"waiting in a select for one of several channels", ByGoroutine, fixSelect}},
	{"", "chan send (durable)", "", Activity{"waiting to send inside a synctest bubble", ByGoroutine, ""}},
	{"", "chan receive (durable)", "", Activity{"waiting to receive inside a synctest bubble", ByGoroutine, ""}},

	{"", "IO wait", "net.(*netFD).accept", Activity{"waiting for the next network connection", ByOutside, ""}},
	{"", "IO wait", "net.(*netFD).connect", Activity{"waiting for a network connection to be made", ByOutside, ""}},
	{"", "IO wait", "net.(*conn).Read", Activity{"waiting for data from a network connection", ByOutside, ""}},
	{"", "IO wait", "net.(*conn).Write", Activity{"waiting to write to a network connection", ByOutside, ""}},
	{"", "IO wait", "net.", Activity{"waiting for the network", ByOutside, ""}},
	{"", "IO wait", "os.(*File).Read", Activity{"waiting for input from a file or pipe", ByOutside, ""}},
	{"", "IO wait", "", Activity{"waiting for input or output", ByOutside, ""}},

	{"", "sleep", "", Activity{"sleeping", ByTime, ""}},
	{"", gostate.MutexLock, "", Activity{"waiting for a mutex that another goroutine holds", ByGoroutine, fixLock}},
	{"", gostate.RWMutexRLock, "", Activity{"waiting to read-lock a mutex", ByGoroutine, fixLock}},
	{"", gostate.RWMutexLock, "", Activity{"waiting to write-lock a mutex", ByGoroutine, fixLock}},
	{"", gostate.GroupWait, "", Activity{"waiting for a group of goroutines to finish", ByGoroutine, fixGroup}},
	{"", gostate.CondWait, "", Activity{"waiting for a condition to be signalled", ByGoroutine, fixCond}},
	{"", gostate.Semacquire, "", Activity{"waiting for a semaphore of the runtime", ByGoroutine, ""}},
	{"", gostate.Coroutine, "", Activity{"waiting for its turn in an iterator", ByGoroutine,
		"call the stop function that iter.Pull returns"}},
	{"", "synctest.Run", "", Activity{"waiting for a synctest bubble to end", ByGoroutine, ""}},
	{"", "synctest.Wait", "", Activity{"waiting for a synctest bubble to settle", ByGoroutine, ""}},
	{"", "GC assist marking", "", Activity{"assisting the garbage collector", ByRuntime, ""}},
	{"", "GC assist wait", "", Activity{"waiting for garbage collector assist credit", ByRuntime, ""}},
	{"", "wait for GC cycle", "", Activity{"waiting for a garbage collection to end", ByRuntime, ""}},
	{"", "", "", Activity{"waiting", ByRuntime, ""}},
}

// RuntimeWork returns the work that a goroutine with the given stack does for the runtime or waits for, as
// [event.RuntimeWork] does.
func RuntimeWork(stack []event.StackFrame) string { return event.RuntimeWork(functions(stack)) }

// functions yields the names of the functions of a stack.
func functions(stack []event.StackFrame) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range stack {
			if !yield(stack[i].Func) {
				return
			}
		}
	}
}

// ActivityOf returns the activity of goroutines with the given state, wait reason and stack.
func ActivityOf(state event.State, reason string, stack []event.StackFrame) Activity {
	if work := RuntimeWork(stack); work != "" && state == event.StateWaiting {
		return Activity{"waiting for the runtime: " + work, ByRuntime, ""}
	}
	reason = gostate.Precise(reason, functions(stack))
	for i := range rules {
		r := &rules[i]
		if (r.state == "" || r.state == state) && (r.reason == "" || r.reason == reason) && r.onStack(stack) {
			if r.state == "" && r.reason == "" && reason != "" {
				return Activity{Doing: "waiting (" + reason + ")", EndedBy: r.EndedBy}
			}
			return r.Activity
		}
	}
	return Activity{}
}

// onStack reports whether the rule's function is on the stack.
func (r *rule) onStack(stack []event.StackFrame) bool {
	if r.frame == "" {
		return true
	}
	for i := range stack {
		if strings.HasPrefix(stack[i].Func, r.frame) {
			return true
		}
	}
	return false
}
