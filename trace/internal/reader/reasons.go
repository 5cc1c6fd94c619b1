package reader

import (
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// A Reason is what a block reason of the tracer means.
type Reason struct {
	// Trace is the reason itself.
	Trace string
	// wait is the wait reason of the runtime; empty if there are several, that the stack may tell apart.
	wait string
	// places tell the wait reason by the function that blocks.
	places []place
	known  bool
}

// A place is a function that waits in one way only, as the first or the second of a stack.
type place struct {
	function, wait string
	since          raw.Version // of which all releases have the wait reason
}

// reasons has what the tracer's block reasons (traceBlockReasonStrings in runtime/traceruntime.go) mean, by the wait
// reasons that the runtime gives together with them to gopark. A reason that is not here is the same word in both sets.
var reasons = map[string]Reason{
	"network":                      {wait: "IO wait"},
	"sync.(*Cond).Wait":            {wait: "sync.Cond.Wait"},
	"GC background sweeper wait":   {wait: "GC sweep wait"},
	"GC mark assist wait for work": {wait: "GC assist wait"},
	"wait until GC ends":           {wait: "wait for GC cycle"},
	"sync":                         {places: syncPlaces},
	"forever":                      {places: foreverPlaces},
	"system goroutine wait":        {places: systemPlaces},
	"synctest":                     {places: synctestPlaces},
}

var syncPlaces = []place{
	{"sync.(*Mutex).Lock", "sync.Mutex.Lock", raw.Go121},
	{"internal/sync.(*Mutex).Lock", "sync.Mutex.Lock", raw.Go121},
	{"internal/sync.(*Mutex).lockSlow", "sync.Mutex.Lock", raw.Go121},
	{"sync.(*Mutex).lockSlow", "sync.Mutex.Lock", raw.Go121},
	{"sync.(*RWMutex).RLock", "sync.RWMutex.RLock", raw.Go121},
	{"sync.(*RWMutex).Lock", "sync.RWMutex.Lock", raw.Go121},
	{"sync.(*WaitGroup).Wait", "sync.WaitGroup.Wait", raw.Go125},
	{"runtime.gcMarkDone", "semacquire", raw.Go111},
	{"runtime.gcStart", "semacquire", raw.Go111},
	{"runtime.stopTheWorld", "semacquire", raw.Go111},
	{"runtime.stopTheWorldGC", "semacquire", raw.Go111},
	{"runtime.traceAdvance", "semacquire", raw.Go111},
	{"internal/poll.(*FD).Close", "semacquire", raw.Go111},
	{"internal/poll.(*fdMutex).rwlock", "semacquire", raw.Go111},
}

var foreverPlaces = []place{
	{"runtime.block", "select (no cases)", raw.Go111},
	{"runtime.chanrecv1", "chan receive (nil chan)", raw.Go111},
	{"runtime.chanrecv2", "chan receive (nil chan)", raw.Go111},
	{"runtime.chansend1", "chan send (nil chan)", raw.Go111},
}

var systemPlaces = []place{
	{"runtime.gcBgMarkWorker", "GC worker (idle)", raw.Go111},
	{"runtime.(*scavengerState).park", "GC scavenge wait", raw.Go111},
	{"runtime.runfinq", "finalizer wait", raw.Go111},
	{"runtime.runFinalizers", "finalizer wait", raw.Go111},
	{"runtime.(*cleanupQueue).dequeue", "cleanup wait", raw.Go111},
	{"runtime.forcegchelper", "force gc (idle)", raw.Go111},
	{"runtime/trace.Start.func1", "trace reader (blocked)", raw.Go111},
	{"runtime/trace.(*traceMultiplexer).startLocked.func1", "trace reader (blocked)", raw.Go111},
}

var synctestPlaces = []place{
	{"internal/synctest.Run", "synctest.Run", raw.Go111},
	{"internal/synctest.Wait", "synctest.Wait", raw.Go111},
}

// Coroutine is the wait reason of a coroutine that has handed over, for which the tracer has no word.
const Coroutine = "coroutine"

// ReasonOf returns what a block reason of the tracer means.
func ReasonOf(trace string) Reason {
	r, ok := reasons[trace]
	if !ok {
		r.wait = trace
	}
	r.Trace, r.known = trace, true
	return r
}

// WaitAt returns the wait reason of a block at a stack.
func (r *Reason) WaitAt(stack *event.Stack, v raw.Version) string {
	if r.wait != "" || stack == nil {
		return r.word()
	}
	for i := range stack.Frames[:min(2, len(stack.Frames))] {
		for _, p := range r.places {
			if p.function == stack.Frames[i].Func && v >= p.since {
				return p.wait
			}
		}
	}
	return r.word()
}

// word returns the wait reason, or the tracer's word if it is not known.
func (r *Reason) word() string {
	if r.wait != "" {
		return r.wait
	}
	return r.Trace
}

// IsSystem reports whether goroutines that start with a function belong to the runtime (runtime.isSystemGoroutine).
func IsSystem(function string) bool {
	switch function {
	case "runtime.main", "runtime.corostart", "runtime.handleAsyncEvent":
		return false
	}
	return strings.HasPrefix(function, "runtime.")
}
