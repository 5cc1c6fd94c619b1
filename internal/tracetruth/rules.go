package tracetruth

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Rule explains why two observers who are both right differ.
type Rule uint8

// The rules.
const (
	// RuleResize: when GOMAXPROCS takes away the P on which it was called, the runtime's procresize writes a GoStop and a
	// GoStart into the trace, to tell that the goroutine is on another P. It runs all the time. The two are left out.
	RuleResize Rule = iota + 1
	// RuleSyscallStart: a goroutine that comes back from a system call without its P starts again in the trace. In the
	// runtime it passes execute only when no P was free at once. So Loupe may have seen the start or not.
	RuleSyscallStart
	// RuleSwitchOrder: a coroutine switch is one event of the trace, which its reader splits into the end of the wait of
	// the next coroutine, the block or end of this one, and the start of the next. Loupe splits it so that a coroutine
	// stops before the next goes on.
	RuleSwitchOrder
	// RuleSwitchReason: the trace has no reason for the block of a coroutine that hands over.
	RuleSwitchReason
	// RuleGCBegin: the tracer writes the begin of a garbage collection right before gcStart calls gcBgMarkStartWorkers.
	// Loupe sees it at that call or behind the prologue of the function. A goroutine may be preempted between the two. Its
	// stack does not show whether it was: it may have called gcStart again, and the trace lacks a frame (RuleStopFrame).
	// Wakes that may be the runtime's own do not count in between, for only the trace gives them to the goroutine.
	RuleGCBegin
	// RuleSelfWake: when the unlock function of gopark finds that there is nothing to wait for any more, the goroutine
	// goes on at once. In the trace nobody woke it. An observer may say that it woke itself.
	RuleSelfWake
	// RuleRuntimeWaker: see byRuntime. An observer may say that the runtime woke the goroutine, not the one that ran.
	RuleRuntimeWaker
	// RuleNoTraceReason: before Go 1.22 the tracer has no reasons but types of events, so Loupe gives none. The wait
	// reason is compared with the type.
	RuleNoTraceReason
	// RuleEdge: Loupe saw it right before the first mark or right after the last. Or Loupe saw it before the last mark, and the
	// trace has it as the goroutine's first step behind that mark: the thread lost its processor between the two.
	RuleEdge
	// RuleSkip: the tracer leaves out innermost frames, as many as its caller says (traceskip), so that the trace shows what
	// the program called. They are never of the program's own code.
	RuleSkip
	// RuleStopFrame: before Go 1.25 the tracer leaves out the innermost frame of a goroutine that is preempted
	// (traceLocker.GoPreempt skips one), which is that of the function in whose prologue it stopped.
	RuleStopFrame
	// RuleWrapper: a goroutine stopped in the prologue of its first function, which does nothing but call another. The tracer
	// leaves out functions that the compiler made for go statements, and those of reflectcall, and has no stack.
	RuleWrapper
	// RuleInterrupted: for a goroutine that a signal has interrupted (asyncPreempt) the tracer takes the address of the
	// interrupted instruction for a return address, so it may tell the line before, and a call that
	// is inlined there. Loupe has the caller, except
	// within the few instructions in which a function makes or removes its frame.
	RuleInterrupted
	// RuleNoStack: before Go 1.22 the tracer writes no stack where the runtime passes it 0 as the number of frames to skip
	// (traceskip): when a worker of the garbage collector or a goroutine that it preempts (preemptPark) stops, and when
	// the runtime wakes by ready or injectglist. From Go 1.22 to 1.25 preemptPark writes its event when the
	// goroutine has left its thread, so that there is no stack to walk. A coroutine switch is one event without a stack. And when
	// ReadTrace wakes a goroutine on its thread's stack, the tracer skips frames of the other stack, all that there are.
	RuleNoStack
	// RuleGoStatement: a timer's function creates a goroutine, which no goroutine did. There is no stack. A recording of Loupe's has
	// the go statement instead.
	RuleGoStatement
	// RuleRuntimeStack: on stacks of the runtime's functions alone the trace lacks wrappers and innermost frames.
	RuleRuntimeStack
	// RuleFramePointer: before Go 1.14 runtime.nanotime and walltime leave another value in the frame pointer than they found
	// (runtime/sys_linux_amd64.s), so a stack may end at their caller, such as time.Sleep.
	RuleFramePointer
	// RuleMovedStack: before Go 1.21 the runtime can move the stack of a goroutine that is on the system stack for the garbage
	// collector, and systemstack then returns with the old frame pointer (runtime/asm_amd64.s). Loupe's stack ends at its caller.
	RuleMovedStack
	// RuleDepth: the stack is deeper than both record.
	RuleDepth
	// RuleLate: the times differ by more than maxDelta, or than the observer says that they may. Both observers read the clock within less than a microsecond of
	// code; when the machine takes the processor away from the thread just there, the second look is late.
	RuleLate

	numRules
)

var ruleNames = [numRules]string{
	RuleResize:        "GOMAXPROCS moved a running goroutine",
	RuleSyscallStart:  "start after a system call",
	RuleSwitchOrder:   "order within a coroutine switch",
	RuleSwitchReason:  "coroutine switch without a reason",
	RuleGCBegin:       "stopped at the begin of a garbage collection",
	RuleSelfWake:      "wait that was over before it began",
	RuleRuntimeWaker:  "woken by the runtime",
	RuleNoTraceReason: "release without tracer's reasons",
	RuleEdge:          "before the first or after the last mark",
	RuleSkip:          "frames that the tracer skips",
	RuleStopFrame:     "frame of a function that was stopped where it begins",
	RuleWrapper:       "wrapper alone",
	RuleInterrupted:   "interrupted function",
	RuleNoStack:       "step without a stack in the trace",
	RuleGoStatement:   "go statement of a timer",
	RuleRuntimeStack:  "stack of the runtime alone",
	RuleFramePointer:  "frame pointer overwritten by the runtime",
	RuleMovedStack:    "stack moved while the goroutine was on the system stack",
	RuleDepth:         "stack too deep",
	RuleLate:          "late look at the clock",
}

// String returns what the rule is about.
func (r Rule) String() string {
	if r < numRules {
		return ruleNames[r]
	}
	return fmt.Sprintf("Rule(%d)", uint8(r))
}

// RuleCounts tells how often each rule was used.
type RuleCounts map[Rule]int

// String returns the counts in one line.
func (c RuleCounts) String() string {
	var parts []string
	for _, r := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%s: %d", r, c[r]))
	}
	return strings.Join(parts, ", ")
}
