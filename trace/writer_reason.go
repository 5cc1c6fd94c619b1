package trace

import "github.com/loupe-go/loupe/event"

// Block reasons that the writer itself gives.
const (
	wNotObserved = "not observed" // something ended that a goroutine did, no event says how
	wSystemWait  = "system goroutine wait"
	wForever     = "forever"
)

// wLogCategory is the category of messages that the writer itself adds.
const wLogCategory = "loupe"

// wBlockReasons has the tracer's block reasons (traceBlockReasonStrings in runtime/traceruntime.go) of the wait reasons of
// tracebacks (waitReasonStrings in runtime/runtime2.go), as the runtime passes them to gopark. The words of both are the
// same for those that are missing.
var wBlockReasons = map[string]string{
	"chan receive (nil chan)":       wForever,
	"chan send (nil chan)":          wForever,
	"select (no cases)":             wForever,
	"panicwait":                     wForever,
	"IO wait":                       "network",
	"semacquire":                    "sync",
	"sync.Mutex.Lock":               "sync",
	"sync.RWMutex.RLock":            "sync",
	"sync.RWMutex.Lock":             "sync",
	"sync.WaitGroup.Wait":           "sync",
	"sync.Cond.Wait":                "sync.(*Cond).Wait",
	"GC worker (idle)":              wSystemWait,
	"force gc (idle)":               wSystemWait,
	"GC scavenge wait":              wSystemWait,
	"finalizer wait":                wSystemWait,
	"cleanup wait":                  wSystemWait,
	"GOMAXPROCS updater (idle)":     wSystemWait,
	"trace reader (blocked)":        wSystemWait,
	"timer goroutine (idle)":        wSystemWait,
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
	if r, ok := wBlockReasons[e.Reason]; ok {
		return r
	}
	return e.Reason
}
