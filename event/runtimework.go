package event

import (
	"iter"
	"slices"
	"strings"
)

// works maps runtime functions in which goroutines of the program do work for the runtime, or wait for it, to a name for
// that work. The functions are in runtime/mgc.go, mgcmark.go, mgcsweep.go and proc.go.
var works = map[string]string{
	"runtime.gcMarkDone":        "GC mark termination",
	"runtime.gcStart":           "GC start",
	"runtime.gcAssistAlloc":     "GC assist",
	"runtime.gcWaitOnMark":      "GC cycle",
	"runtime.deductSweepCredit": "GC sweep",
	"runtime.stopTheWorld":      "stop the world",
	"runtime.stopTheWorldGC":    "stop the world",
}

// IsRuntimeWork reports whether function, a name such as "runtime.gcAssistAlloc", is one in which a goroutine does work
// for the runtime or waits for the runtime.
func IsRuntimeWork(function string) bool { return works[function] != "" }

// RuntimeWork returns the work that a goroutine does for the runtime or waits for, given the names of the functions on
// its stack, innermost first. The result is "GC mark termination", "GC start", "GC assist", "GC cycle", "GC sweep",
// "stop the world", or empty if the stack shows no such work.
//
// The functions are those of runtime/mgc.go, mgcmark.go, mgcsweep.go and proc.go. The wait reason alone does not show
// such work: a goroutine that allocates may have to end the mark phase, and waits with the reason "semacquire" then.
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

// RuntimeWork returns the work that the goroutine does for the runtime or waits for, as the function [RuntimeWork] does.
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

// SplitWait splits a text made by [WaitText] into the reason and the work. If the text is a reason alone, work is empty.
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
