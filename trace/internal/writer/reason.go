package writer

import "github.com/loupe-go/loupe/event"

// Block reasons that the writer itself gives.
const (
	notObserved = "not observed" // something ended that a goroutine did, no event says how
	systemWait  = "system goroutine wait"
	forever     = "forever"
)

// logCategory is the category of messages that the writer itself adds.
const logCategory = "loupe"

// blockReasons has the tracer's block reasons (traceBlockReasonStrings in runtime/traceruntime.go) of the wait reasons of
// tracebacks (waitReasonStrings in runtime/runtime2.go), as the runtime passes them to gopark. The words of both are the
// same for those that are missing.
var blockReasons = map[string]string{
	"chan receive (nil chan)":       forever,
	"chan send (nil chan)":          forever,
	"select (no cases)":             forever,
	"panicwait":                     forever,
	"IO wait":                       "network",
	"semacquire":                    "sync",
	"sync.Mutex.Lock":               "sync",
	"sync.RWMutex.RLock":            "sync",
	"sync.RWMutex.Lock":             "sync",
	"sync.WaitGroup.Wait":           "sync",
	"sync.Cond.Wait":                "sync.(*Cond).Wait",
	"GC worker (idle)":              systemWait,
	"force gc (idle)":               systemWait,
	"GC scavenge wait":              systemWait,
	"finalizer wait":                systemWait,
	"cleanup wait":                  systemWait,
	"GOMAXPROCS updater (idle)":     systemWait,
	"trace reader (blocked)":        systemWait,
	"timer goroutine (idle)":        systemWait,
	"GC sweep wait":                 "GC background sweeper wait",
	"GC assist wait":                "GC mark assist wait for work",
	"wait for GC cycle":             "wait until GC ends",
	"synctest.Run":                  "synctest",
	"synctest.Wait":                 "synctest",
	"chan receive (durable)":        "chan receive",
	"chan receive (synctest)":       "chan receive",
	"chan send (durable)":           "chan send",
	"chan send (synctest)":          "chan send",
	"select (durable)":              "select",
	"select (synctest)":             "select",
	"sync.WaitGroup.Wait (durable)": "sync",
}

// blockReason returns why a goroutine blocks, in the words of the execution tracer, which viewers know.
func blockReason(e *event.Event) string {
	if e.TraceReason != "" {
		return e.TraceReason
	}
	if r, ok := blockReasons[e.Reason]; ok {
		return r
	}
	return e.Reason
}
