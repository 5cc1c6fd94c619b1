package event

import (
	"iter"
	"strings"
)

// works are the functions of the runtime in which goroutines of the program work or wait for the runtime (runtime/mgc.go,
// mgcmark.go, mgcsweep.go and proc.go), with words for what that is. The wait reason does not say it: a goroutine that allocates may
// have to end the mark phase, and waits for a "semacquire" then.
var works = map[string]string{
	"runtime.gcMarkDone":        "GC mark termination",
	"runtime.gcStart":           "GC start",
	"runtime.gcAssistAlloc":     "GC assist",
	"runtime.gcWaitOnMark":      "GC cycle",
	"runtime.deductSweepCredit": "GC sweep",
	"runtime.stopTheWorld":      "stop the world",
	"runtime.stopTheWorldGC":    "stop the world",
}

// IsRuntimeWork reports whether a function is one in which a goroutine works or waits for the runtime.
func IsRuntimeWork(function string) bool { return works[function] != "" }

// RuntimeWork returns what a goroutine with these functions on its stack, the innermost first, does or waits for on behalf of the
// runtime: "GC mark termination", "GC start", "GC assist", "GC cycle", "GC sweep" or "stop the world"; empty when it does not.
func RuntimeWork(functions iter.Seq[string]) string {
	for f := range functions {
		if work := works[f]; work != "" {
			return work
		}
		if !strings.HasPrefix(f, "runtime.") {
			break
		}
	}
	return ""
}

// RuntimeWork returns what the goroutine does or waits for on behalf of the runtime, see the function of that name.
func (s *Stack) RuntimeWork() string {
	if s == nil || len(s.Frames) == 0 || !strings.HasPrefix(s.Frames[0].Func, "runtime.") {
		return ""
	}
	return RuntimeWork(func(yield func(string) bool) {
		for i := range s.Frames {
			if !yield(s.Frames[i].Func) {
				return
			}
		}
	})
}

// WaitText returns the words for a wait with a reason of the runtime's and a work as RuntimeWork returns it:
// "GC mark termination (semacquire)". It is the reason alone when there is no work, or when the reason says it.
func WaitText(reason, work string) string {
	if work == "" || reason == "" || strings.Contains(reason, "GC") {
		return reason
	}
	return work + " (" + reason + ")"
}

// SplitWait returns the reason and the work that WaitText was given; the work is empty where the reason alone says it.
func SplitWait(text string) (reason, work string) {
	for _, work := range works {
		if rest, ok := strings.CutPrefix(text, work+" ("); ok {
			return strings.TrimSuffix(rest, ")"), work
		}
	}
	return text, ""
}
