package goproc

import (
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gobin"
)

// tracebackRules define which frames a Go traceback omits. The rules are those of runtime/traceback.go, which differ
// between releases.
type tracebackRules struct {
	since          int  // the first release with these rules, 1.x
	outerName      bool // an inlined call is judged by the name of the function that it was inlined into
	exportedMethod bool // exported methods of package runtime are shown
	finalizers     bool // the frame that runs finalizers and cleanups is shown
}

var tracebackHistory = []tracebackRules{
	{since: 12, outerName: true},
	{since: 16},
	{since: 23, exportedMethod: true},
	{since: 25, exportedMethod: true, finalizers: true},
}

func tracebackRulesOf(minor int) tracebackRules {
	rules := tracebackHistory[0]
	for _, next := range tracebackHistory {
		if next.since <= minor {
			rules = next
		}
	}
	return rules
}

// show reports whether a traceback shows a call. outer is the function whose machine code holds it, callee the role of
// the call below it, and shown whether a frame below it is shown.
func (r tracebackRules) show(call gobin.Call, outer string, callee role, shown bool) bool {
	if call.Wrapper && callee != rolePanic && callee != roleSigpanic {
		return false
	}
	name := call.Name
	if call.Inlined && r.outerName {
		name = outer
	}
	switch {
	case r.finalizers && (name == "runtime.runFinalizers" || name == "runtime.runCleanups"):
		return true
	case name == "runtime.gopanic" && shown:
		return true
	}
	local, isRuntime := strings.CutPrefix(name, "runtime.")
	if !isRuntime {
		return strings.Contains(name, ".")
	}
	return r.exported(local)
}

// exported reports whether a function of package runtime is exported. local is its name without the package.
func (r tracebackRules) exported(local string) bool {
	if !r.exportedMethod {
		return startsUpper(local)
	}
	if i := strings.LastIndexByte(local, '.'); i >= 0 {
		receiver := local[:i]
		if strings.HasPrefix(receiver, "(*") && strings.HasSuffix(receiver, ")") {
			receiver = receiver[2 : len(receiver)-1]
		}
		return startsUpper(receiver) && startsUpper(local[i+1:])
	}
	return startsUpper(local)
}

func startsUpper(s string) bool { return s != "" && 'A' <= s[0] && s[0] <= 'Z' }

// isSystem reports whether a goroutine belongs to the runtime, from the name of the function it was started with and
// its stack (runtime.isSystemGoroutine). The goroutine that runs finalizers counts as the program's own while it is
// inside of one.
func isSystem(start string, stack []event.StackFrame) bool {
	switch start {
	case "runtime.main", "runtime.corostart", "runtime.handleAsyncEvent":
		return false
	case "runtime.runfinq", "runtime.runFinalizers", "runtime.runCleanups":
		for _, f := range stack {
			if f.Func != "" && !strings.HasPrefix(f.Func, "runtime.") {
				return false
			}
		}
		return true
	}
	return strings.HasPrefix(start, "runtime.")
}
