package tracetruth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/event"
)

// compareStack returns what is wrong with the stack of a step, empty when nothing is.
func (c *comparison) compareStack(p pair) string {
	truth, seen := known(p.truth.Stack), known(p.seen.Stack)
	if p.truth.Kind == event.GoUnblock && p.truth.By != p.seen.By {
		return "" // isRuntimeWake judges it: the stacks are of different goroutines
	}
	n := c.report.stacks(p.truth.Kind)
	if len(truth) == 0 && len(seen) == 0 {
		n.None++
		return ""
	}
	rule, ok := c.sameStack(p, truth, seen)
	switch {
	case !ok:
		return fmt.Sprintf("its stack is\n%vnot\n%v", lines(truth), lines(seen))
	case rule == 0:
		n.Equal++
	default:
		n.Excused[rule]++
		c.report.Rules[rule]++
	}
	return ""
}

// noStack returns the rule by which the tracer has no stack of a step; false when it should have one.
func (c *comparison) noStack(p pair, seen []Frame) (Rule, bool) {
	release := c.truth.Release
	own := slices.DeleteFunc(slices.Clone(seen), func(f Frame) bool { return isWrapper(f.Func) })
	switch {
	case p.truth.Kind == event.GoStop && len(own) == 0:
		return RuleWrapper, true
	case p.truth.Kind == event.GoStop && p.truth.TraceReason == event.StopPreempted && release < minorStopFrame && len(own) == 1:
		return RuleStopFrame, true // it was the only one
	case p.truth.Kind == event.GoCreate && p.truth.By == 0 && len(seen) == 1:
		return RuleGoStatement, true
	case p.truth.Kind == event.GoUnblock && release >= minorTraceV2 && slices.Contains(traceReaders, seen[0].Func):
		return RuleNoStack, true // it skips more frames than ReadTrace has, which wakes on its thread's stack
	}
	for _, s := range stackless {
		if s.kind == p.truth.Kind && s.wait == c.reason[p.truth.G] && release >= s.since && (s.until == 0 || release < s.until) {
			return RuleNoStack, true
		}
	}
	return 0, false
}

// traceReaders are the names of ReadTrace. That of package runtime/trace is the linker's, in Go 1.25.
var traceReaders = []string{"runtime.ReadTrace", "runtime/trace.runtime_readTrace"}

// stackless are the other steps of RuleNoStack, by the wait that begins or ends, and by the releases: from since on, before until.
var stackless = []struct {
	kind         event.Kind
	wait         string
	since, until int
}{
	{event.GoBlock, "GC worker (idle)", 0, minorTraceV2},
	{event.GoBlock, waitPreempted, 14, 26},
	{event.GoBlock, waitCoroutine, minorSwitch, 0},
	{event.GoUnblock, waitCoroutine, minorSwitch, 0},
	{event.GoUnblock, waitPreempted, 14, minorTraceV2},
	{event.GoUnblock, "GC assist wait", 0, minorTraceV2},
	{event.GoUnblock, "GC worker (idle)", 0, 16}, // by procresize, which ends the workers of Ps
	{event.GoUnblock, "GC scavenge wait", 13, minorTraceV2},
	{event.GoUnblock, "GC sweep wait", 0, minorTraceV2},
	{event.GoUnblock, "IO wait", 0, minorTraceV2},
	{event.GoUnblock, "sleep", 0, minorTraceV2},
	{event.GoUnblock, "timer goroutine (idle)", 0, minorNoTimerproc},
	{event.GoUnblock, "wait for GC cycle", 0, minorTraceV2},
}

// isWrapper reports whether a function does nothing but call another: with the arguments of a go or defer statement, made by the
// compiler, or with those of a finalizer, by reflectcall.
func isWrapper(function string) bool {
	if size, ok := strings.CutPrefix(function, "runtime.call"); ok && strings.Trim(size, "0123456789") == "" {
		return true
	}
	_, name, _ := strings.Cut(function[strings.LastIndexByte(function, '/')+1:], ".")
	return strings.HasPrefix(name[strings.LastIndexByte(name, '.')+1:], "gowrap")
}

// compareWork returns what is wrong with what a block waits for on behalf of the runtime, by its stack; empty when nothing is. The
// trace has all of the runtime's functions on its stacks, and Loupe those that say it.
func (c *comparison) compareWork(p pair) string {
	if len(known(p.truth.Stack)) == 0 {
		return ""
	}
	want, got := workOf(p.truth.Stack), workOf(p.seen.Stack)
	if want != got {
		return fmt.Sprintf("it waits for %q on behalf of the runtime, not %q", want, got)
	}
	if want != "" {
		c.report.Works[want]++
	}
	return ""
}

func workOf(stack []Frame) string {
	return event.RuntimeWork(func(yield func(string) bool) {
		for _, f := range stack {
			if !yield(f.Func) {
				return
			}
		}
	})
}

// sameStack reports whether two stacks are the same, or which rule explains the difference; 0 for none. Of the runtime's
// functions only those count that called nothing of the program.
func (c *comparison) sameStack(p pair, truth, seen []Frame) (Rule, bool) {
	if len(truth) == 0 {
		return c.noStack(p, seen)
	}
	if !slices.ContainsFunc(slices.Concat(truth, seen), func(f Frame) bool { return !isRuntimeFrame(f) }) {
		return c.sameRuntimeStack(truth, seen)
	}
	interrupted := slices.ContainsFunc(truth, func(f Frame) bool { return f.Func == "runtime.asyncPreempt" })
	own, got := slices.DeleteFunc(slices.Clone(truth), isRuntimeFrame), slices.DeleteFunc(slices.Clone(seen), isRuntimeFrame)
	stopped := p.truth.Kind == event.GoStop && p.truth.TraceReason == event.StopPreempted && c.truth.Release < minorStopFrame
	rule := Rule(0)
	if len(seen) >= minDeep && len(truth) >= minDeep {
		// Both have the innermost frames up to a limit, of which the runtime's count too.
		rule = RuleDepth
		got = got[:min(len(got), len(own))]
		own = own[:len(got)]
	}
	if slices.Equal(own, got) {
		return rule, true
	}
	if n := len(got) - 1; rule == RuleDepth && stopped && n > 0 && slices.Equal(own[:n], got[1:]) {
		return RuleStopFrame, true // the frame that the tracer leaves out makes room for another one at the limit
	}
	if interrupted {
		return RuleInterrupted, sameInterrupted(own, got)
	}
	if c.truth.Release < minorFramePointers && (sameBegin(own, got) || len(got) == 0 && len(seen) > 0) {
		return RuleFramePointer, true
	}
	if c.truth.Release < minorSystemstack && endsInCollector(truth, seen) && c.report.Rules[RuleMovedStack] < maxMoved {
		return RuleMovedStack, true
	}
	left := len(got) - len(own)
	if left <= 0 || !slices.Equal(own, got[left:]) {
		return 0, false
	}
	if stopped && left == 1 {
		return RuleStopFrame, true
	}
	return RuleSkip, !slices.ContainsFunc(got[:left], isProgram)
}

// minDeep is the length of a stack that may have been cut off.
const minDeep = 100

// maxInlined is how many calls one missing address may stand for.
const maxInlined = 4

// sameInterrupted is sameStack for a goroutine that was interrupted: the line of the innermost frame does not count, nor what is
// inlined there, and the trace may lack the address of the next. So may Loupe, within the instructions in which a function makes or removes its frame.
func sameInterrupted(own, got []Frame) bool {
	for i := range min(len(own), 1+maxInlined) {
		for j := range min(len(got), 1+maxInlined) {
			if own[i].Func != got[j].Func {
				continue
			}
			own, got := own[i+1:], got[j+1:]
			for missing := range 1 + maxInlined {
				if slices.Equal(own, got[min(missing, len(got)):]) || slices.Equal(own[min(missing, len(own)):], got) {
					return true
				}
			}
		}
	}
	return false
}

// sameBegin reports whether got ends too early and is the same up to there, after the frames that the tracer skips.
func sameBegin(own, got []Frame) bool {
	for skipped := range len(got) + 1 {
		if rest := got[skipped:]; len(rest) > 0 && len(rest) < len(own) && slices.Equal(own[:len(rest)], rest) {
			return !slices.ContainsFunc(got[:skipped], isProgram)
		}
	}
	return false
}

// maxMoved is how many stacks of a program may end by RuleMovedStack. It was observed once in some hundred programs, whose goroutines assist the
// collector some times each: more than one is a fault.
const maxMoved = 1

// collectorSwitches are functions of the garbage collector that call systemstack, and during that let the stack of their goroutine
// be moved.
var collectorSwitches = []string{"runtime.gcAssistAlloc", "runtime.gcMarkDone", "runtime.gcMarkTermination", "runtime.stopTheWorld"}

// endsInCollector reports whether seen ends too early, at one of collectorSwitches, and is the same up to there, after the frames that
// the tracer skips.
func endsInCollector(truth, seen []Frame) bool {
	last := len(seen) - 1
	if last < 0 || !slices.Contains(collectorSwitches, seen[last].Func) {
		return false
	}
	n := slices.Index(truth, seen[last]) + 1
	return n > 0 && n < len(truth) && n <= len(seen) && slices.Equal(truth[:n], seen[len(seen)-n:])
}

// sameRuntimeStack is sameStack for stacks of the runtime's functions alone. Loupe shows them all, or those of the runtime's API
// alone if there are any; the trace lacks the innermost and wrappers.
func (c *comparison) sameRuntimeStack(truth, seen []Frame) (Rule, bool) {
	if slices.Equal(truth, seen) {
		return 0, true
	}
	if c.truth.Release < minorFramePointers && sameBegin(truth, seen) {
		return RuleFramePointer, true
	}
	if isPart(seen, truth) || len(seen) > 1 && isPart(seen[1:], truth) || !slices.ContainsFunc(seen, func(f Frame) bool { return isHidden(f.Func) }) {
		return RuleRuntimeStack, true
	}
	own := slices.DeleteFunc(slices.Clone(truth), func(f Frame) bool {
		return f.Func == "runtime.gopark" || f.Func == "runtime.systemstack_switch" || f.Func == "runtime.asyncPreempt"
	})
	for skipped := 0; skipped < len(own); skipped++ { // Loupe's probe may be in an outer one of them
		rest := own[skipped:]
		for at := 0; at+len(rest) <= len(seen); at++ {
			if slices.Equal(rest, seen[at:at+len(rest)]) {
				return RuleRuntimeStack, true
			}
		}
	}
	return 0, false
}

// isPart reports whether a stack has all frames of part, in the same order.
func isPart(part, stack []Frame) bool {
	for _, f := range stack {
		if len(part) > 0 && f == part[0] {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// known returns the frames of a stack that have a name, without those below the function that the goroutine began with.
func known(stack []Frame) []Frame {
	return slices.DeleteFunc(slices.Clone(stack), func(f Frame) bool {
		return f.Func == "" || f.Func == "runtime.goexit" || f.Func == "runtime.main"
	})
}

// isProgram reports whether a frame is of the program's code, not of the standard library's.
func isProgram(f Frame) bool { return strings.HasPrefix(f.Func, "main.") }

func isRuntimeFrame(f Frame) bool { return isRuntime(f.Func) }

// isHidden reports whether a traceback leaves out a function: the runtime's own that are not part of its API.
func isHidden(function string) bool {
	local, ok := strings.CutPrefix(function, "runtime.")
	if !ok {
		return false
	}
	for name := range strings.SplitSeq(local, ".") { // a method's type too: (*Frames).Next
		name = strings.TrimPrefix(name, "(*")
		if name == "" || name[0] < 'A' || name[0] > 'Z' {
			return true
		}
	}
	return false
}

func lines(stack []Frame) string {
	var b strings.Builder
	for _, f := range stack {
		fmt.Fprintf(&b, "      %s:%d\n", f.Func, f.Line)
	}
	return b.String()
}
