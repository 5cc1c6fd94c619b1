package event

import (
	"iter"
	"slices"
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

// stops are the reasons of a goroutine that does not wait for anything: it is stopped in what it does.
var stops = []string{StopPreempted, StopGosched}

// WaitText describes a wait by its wait reason and by work, a result of [RuntimeWork]. It returns texts such as
// "GC mark termination (semacquire)", or "preempted during GC start" for a goroutine that was stopped during the work. If
// work is empty, or the reason itself mentions the GC, the result is the reason.
func WaitText(reason, work string) string {
	switch {
	case work == "" || reason == "" || strings.Contains(reason, "GC"):
		return reason
	case slices.Contains(stops, reason):
		return reason + " during " + work
	}
	return work + " (" + reason + ")"
}

// SplitWait returns the reason and the work that WaitText was given; the work is empty where the reason alone says it.
func SplitWait(text string) (reason, work string) {
	for _, stop := range stops {
		if work, ok := strings.CutPrefix(text, stop+" during "); ok {
			return stop, work
		}
	}
	for _, work := range works {
		if rest, ok := strings.CutPrefix(text, work+" ("); ok {
			return strings.TrimSuffix(rest, ")"), work
		}
	}
	return text, ""
}
