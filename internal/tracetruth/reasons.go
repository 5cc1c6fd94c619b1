package tracetruth

// A reason is a wait reason of the runtime (waitReasonStrings in runtime/runtime2.go) with the block reasons that the
// tracer gives to the same wait: those of the calls of gopark.
type reason struct {
	wait string
	// now is the tracer's reason since Go 1.22 (traceBlockReasonStrings), old the one before, which follows from the type
	// of the event; empty when it was the general one.
	now, old string
	// since and until bound the minor releases that have it: from since on, before until; 0 is no bound.
	since, until int
}

// reasons are all waits that a goroutine enters through gopark, and stops for the garbage collector.
var reasons = []reason{
	{wait: "chan receive", now: "chan receive", old: "chan receive"},
	{wait: "chan send", now: "chan send", old: "chan send"},
	{wait: "select", now: "select", old: "select"},
	{wait: "chan receive (nil chan)", now: "forever", old: "forever"},
	{wait: "chan send (nil chan)", now: "forever", old: "forever"},
	{wait: "select (no cases)", now: "forever", old: "forever"},
	{wait: "panicwait", now: "forever", old: "forever"},
	{wait: "sleep", now: "sleep", old: "sleep"},
	{wait: "IO wait", now: "network", old: "network"},

	{wait: "semacquire", now: "sync", old: "sync"},
	{wait: "sync.Mutex.Lock", now: "sync", old: "sync", since: 20},
	{wait: "sync.RWMutex.RLock", now: "sync", old: "sync", since: 20},
	{wait: "sync.RWMutex.Lock", now: "sync", old: "sync", since: 20},
	{wait: "sync.WaitGroup.Wait", now: "sync", since: 24},
	{wait: "sync.Cond.Wait", now: "sync.(*Cond).Wait", old: "sync.(*Cond).Wait"},

	{wait: "GC worker (idle)", now: "system goroutine wait"},
	{wait: "force gc (idle)", now: "system goroutine wait"},
	{wait: "GC scavenge wait", now: "system goroutine wait", since: 13},
	{wait: "finalizer wait", now: "system goroutine wait"},
	{wait: "cleanup wait", now: "system goroutine wait", since: 25},
	{wait: "GOMAXPROCS updater (idle)", now: "system goroutine wait", since: 25},
	{wait: "trace reader (blocked)", now: "system goroutine wait"},
	{wait: "timer goroutine (idle)", until: 14},
	{wait: "GC sweep wait", now: "GC background sweeper wait"},
	{wait: "GC assist wait", now: "GC mark assist wait for work", old: "GC mark assist wait for work"},
	{wait: "wait for GC cycle", now: "wait until GC ends"},
	{wait: "GC weak to strong wait", now: "GC weak to strong wait", since: 23},
	{wait: "preempted", now: "preempted", since: 14},

	{wait: "synctest.Run", now: "synctest", since: 24},
	{wait: "synctest.Wait", now: "synctest", since: 24},
	{wait: "chan receive (durable)", now: "chan receive", since: 25},
	{wait: "chan send (durable)", now: "chan send", since: 25},
	{wait: "select (durable)", now: "select", since: 25},
	{wait: "sync.WaitGroup.Wait (durable)", now: "sync", since: 25},
}

// A waitPlace is a function that waits in only one way, as the stacks of a trace show it.
type waitPlace struct {
	function string
	wait     string
	since    int // the minor release that has the wait reason
	before   string
}

// waitPlaces are functions that determine the wait reason of a block exactly.
var waitPlaces = []waitPlace{
	{function: "runtime.block", wait: "select (no cases)"},
	{function: "runtime.chanrecv1", wait: "chan receive (nil chan)"},
	{function: "runtime.chansend1", wait: "chan send (nil chan)"},
	{function: "sync.(*Mutex).Lock", wait: "sync.Mutex.Lock", since: 20, before: "semacquire"},
	{function: "sync.(*RWMutex).RLock", wait: "sync.RWMutex.RLock", since: 20, before: "semacquire"},
	{function: "sync.(*RWMutex).Lock", wait: "sync.RWMutex.Lock", since: 20, before: "semacquire"},
	{function: "sync.(*WaitGroup).Wait", wait: "sync.WaitGroup.Wait", since: 24, before: "semacquire"},
	{function: "runtime.gcMarkDone", wait: "semacquire"},
	{function: "runtime.gcStart", wait: "semacquire"},
	{function: "runtime.stopTheWorld", wait: "semacquire"},
	{function: "runtime.traceAdvance", wait: "semacquire"},
	{function: "runtime.bgsweep", wait: "GC sweep wait"},
	{function: "runtime.gcWaitOnMark", wait: "wait for GC cycle"},
	{function: "runtime.gcBgMarkWorker", wait: "GC worker (idle)"},
	{function: "runtime.(*scavengerState).park", wait: "GC scavenge wait"},
	{function: "runtime.runfinq", wait: "finalizer wait"},
	{function: "runtime.runFinalizers", wait: "finalizer wait"},
	{function: "runtime.(*cleanupQueue).dequeue", wait: "cleanup wait"},
	{function: "runtime.forcegchelper", wait: "force gc (idle)"},
	{function: "runtime/trace.Start.func1", wait: "trace reader (blocked)"},
	{function: "runtime/trace.(*traceMultiplexer).startLocked.func1", wait: "trace reader (blocked)"},
}

// waitAt returns the wait reason of a block in a trace by its place; empty if the place does not determine it.
func waitAt(r *Record, release int) string {
	for _, frame := range r.Stack[:min(len(r.Stack), 2)] {
		for _, p := range waitPlaces {
			if p.function != frame.Func {
				continue
			}
			if known, _ := traceReason(p.name(release), release); known == r.TraceReason {
				return p.name(release)
			}
		}
	}
	return ""
}

// name returns the wait reason in a release.
func (p *waitPlace) name(release int) string {
	if release < p.since {
		return p.before
	}
	return p.wait
}

// waitPreempted is the wait reason of a goroutine that stops for the garbage collector.
const waitPreempted = "preempted"

// waitCoroutine is the wait reason of a coroutine that switched to another. The tracer has no reason for it.
const waitCoroutine = "coroutine"

// inTrace returns the tracer's reason of a wait in a release.
func (r *reason) inTrace(release int) string {
	if release < minorTraceV2 {
		return r.old
	}
	return r.now
}

// in reports whether a release has the reason.
func (r *reason) in(release int) bool {
	return release >= r.since && (r.until == 0 || release < r.until)
}

// traceReason returns the tracer's reason for a wait reason; false if there is no such wait.
func traceReason(wait string, release int) (string, bool) {
	for i := range reasons {
		if reasons[i].wait == wait && reasons[i].in(release) {
			return reasons[i].inTrace(release), true
		}
	}
	return "", false
}

// waitReason returns the first wait reason that has a tracer's reason; false if there is none.
func waitReason(traced string, release int) (string, bool) {
	for i := range reasons {
		if reasons[i].in(release) && reasons[i].inTrace(release) == traced {
			return reasons[i].wait, true
		}
	}
	return "", false
}

// byRuntime are the tracer's reasons of waits that the runtime itself may end while it does something else: a goroutine
// that starts the world polls the network, one that begins a collection wakes the workers and the scavenger. The tracer
// names the goroutine that happened to run then.
var byRuntime = map[string]bool{
	"": true, "network": true, "sleep": true, "system goroutine wait": true, "GC background sweeper wait": true,
	"GC mark assist wait for work": true, "wait until GC ends": true,
}
