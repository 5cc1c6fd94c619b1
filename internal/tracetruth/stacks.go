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
	if len(truth) == 0 {
		return c.noStack(p, seen)
	}
	c.report.Stacks[p.truth.Kind]++
	if !slices.ContainsFunc(slices.Concat(truth, seen), func(f Frame) bool { return !isRuntimeFrame(f) }) {
		return c.compareRuntimeStack(truth, seen)
	}
	if c.sameStack(p, truth, seen) {
		return ""
	}
	return fmt.Sprintf("its stack is\n%vnot\n%v", lines(truth), lines(seen))
}

// noStack judges a step for which the trace has no stack.
func (c *comparison) noStack(p pair, seen []Frame) string {
	if len(seen) == 0 {
		return ""
	}
	untold, waited := c.untold[p.truth.G]
	if !waited {
		untold = c.waits[p.truth.G]
	}
	if p.truth.Kind == event.GoStop && p.seen.TraceReason == event.StopPreempted && c.truth.Release < minorStopFrame && len(seen) <= 1+maxInlined {
		c.report.Rules[RuleStopFrame]++ // they were all
		return ""
	}
	if slices.ContainsFunc(seen, isProgram) && !untold && c.truth.Release >= minorFramePointers {
		return fmt.Sprintf("the trace has no stack, Loupe has\n%v", lines(seen))
	}
	c.report.Rules[RuleNoStack]++
	return ""
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

// sameStack reports whether two stacks are the same. Of the runtime's functions only those count that called nothing of the
// program.
func (c *comparison) sameStack(p pair, truth, seen []Frame) bool {
	interrupted := slices.ContainsFunc(truth, func(f Frame) bool { return f.Func == "runtime.asyncPreempt" })
	own, got := slices.DeleteFunc(slices.Clone(truth), isRuntimeFrame), slices.DeleteFunc(slices.Clone(seen), isRuntimeFrame)
	if len(seen) >= minDeep && len(truth) >= minDeep {
		// Both have the innermost frames up to a limit, of which the runtime's count too.
		c.report.Rules[RuleDepth]++
		got = got[:min(len(got), len(own))]
		own = own[:len(got)]
	}
	if slices.Equal(own, got) {
		return true
	}
	if interrupted {
		c.report.Rules[RuleInterrupted]++
		return sameInterrupted(own, got)
	}
	if c.truth.Release < minorFramePointers && (sameBegin(own, got) || len(got) == 0 && len(seen) > 0) {
		c.report.Rules[RuleFramePointer]++
		return true
	}
	left := len(got) - len(own)
	if left <= 0 || !slices.Equal(own, got[left:]) {
		return false
	}
	if p.truth.Kind == event.GoStop && p.truth.TraceReason == event.StopPreempted && c.truth.Release < minorStopFrame {
		c.report.Rules[RuleStopFrame]++
		return true
	}
	c.report.Rules[RuleSkip]++
	return !slices.ContainsFunc(got[:left], isProgram)
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

// compareRuntimeStack compares stacks of the runtime's functions alone. Loupe shows them all, or those of the runtime's API alone if
// there are any; the trace lacks the innermost and wrappers.
func (c *comparison) compareRuntimeStack(truth, seen []Frame) string {
	c.report.Rules[RuleRuntimeStack]++
	if c.truth.Release < minorFramePointers && sameBegin(truth, seen) {
		c.report.Rules[RuleFramePointer]++
		return ""
	}
	if isPart(seen, truth) || !slices.ContainsFunc(seen, func(f Frame) bool { return isHidden(f.Func) }) {
		return ""
	}
	own := slices.DeleteFunc(slices.Clone(truth), func(f Frame) bool {
		return f.Func == "runtime.gopark" || f.Func == "runtime.systemstack_switch" || f.Func == "runtime.asyncPreempt"
	})
	for skipped := 0; skipped < len(own); skipped++ { // Loupe's probe may be in an outer one of them
		rest := own[skipped:]
		for at := 0; at+len(rest) <= len(seen); at++ {
			if slices.Equal(rest, seen[at:at+len(rest)]) {
				return ""
			}
		}
	}
	return fmt.Sprintf("its stack is\n%vnot\n%v", lines(truth), lines(seen))
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
	return ok && local != "" && (local[0] < 'A' || local[0] > 'Z')
}

func lines(stack []Frame) string {
	var b strings.Builder
	for _, f := range stack {
		fmt.Fprintf(&b, "      %s:%d\n", f.Func, f.Line)
	}
	return b.String()
}
