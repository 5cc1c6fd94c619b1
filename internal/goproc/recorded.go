package goproc

import (
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gobin"
)

// heapStack returns the frames of a stack of the memory profile as runtime/pprof writes them: without the runtime's
// functions at the leaf, unless it has no others.
func (s *symbolizer) heapStack(pcs []uint64, rules *profileRules) []event.StackFrame {
	for i, pc := range pcs {
		if !s.ofRuntime(pc, rules) {
			return s.recordedStack(pcs[i:], rules)
		}
	}
	return s.recordedStack(pcs, rules)
}

// ofRuntime reports whether the function at a return address belongs to the runtime. As in runtime/pprof, it is the
// function of the instruction after the call (runtime.FuncForPC).
func (s *symbolizer) ofRuntime(pc uint64, rules *profileRules) bool {
	info := s.lookup(pc)
	if !info.known {
		return false
	}
	name := s.calls(pc, info, true)[0].Name
	return strings.HasPrefix(name, "runtime.") || rules.hideInternal && strings.HasPrefix(name, "internal/runtime/")
}

// recordedStack returns the frames of a stack that the runtime has recorded for a profile, as runtime/pprof writes them.
// The addresses are return addresses. A call that was inlined has one of its own: that of a mark, plus one. Those are
// added where they are missing, because the runtime records only the addresses on the stack when it unwinds by frame
// pointers (runtime.CallersFrames).
func (s *symbolizer) recordedStack(pcs []uint64, rules *profileRules) []event.StackFrame {
	frames := make([]event.StackFrame, 0, len(pcs))
	for i := 0; i < len(pcs); {
		pc := pcs[i]
		i++
		for pc != 0 {
			info := s.lookup(pc)
			if !info.known {
				frames = append(frames, event.StackFrame{PC: pc})
				break
			}
			calls := s.calls(pc, info, false)
			if frame := recordedFrame(&calls[0], pc); frame.Func != "runtime.goexit" {
				frames = append(frames, frame)
			}
			if i == len(pcs) {
				if rules.expandedFinal {
					frames = appendOuter(frames, calls, info.mod.bias)
				}
				break
			}
			pc = missingCaller(calls, info.mod.bias, pcs[i])
		}
	}
	return frames
}

// missingCaller returns the return address of the function that the innermost call was inlined into, if it is not the
// next address of the stack. Otherwise it returns 0.
func missingCaller(calls []gobin.Call, bias, next uint64) uint64 {
	for i := range calls[1:] {
		outer := &calls[1+i]
		pc := outer.PC + 1 + bias
		if pc == next {
			return 0
		}
		if !elided(outer, &calls[0]) {
			return pc
		}
	}
	return 0
}

// appendOuter appends the frames of all calls except the innermost one.
func appendOuter(frames []event.StackFrame, calls []gobin.Call, bias uint64) []event.StackFrame {
	for i := range calls[1:] {
		if outer := &calls[1+i]; !elided(outer, &calls[i]) {
			frames = append(frames, recordedFrame(outer, outer.PC+1+bias))
		}
	}
	return frames
}

// elided reports whether the runtime leaves a call out of its stacks: a wrapper, unless a function of panics calls it.
func elided(outer, callee *gobin.Call) bool {
	r := roles[callee.Name]
	return outer.Wrapper && r != rolePanic && r != roleSigpanic
}

// recordedFrame returns the frame of a call. Its function has the name of the symbol table, with type arguments.
func recordedFrame(call *gobin.Call, pc uint64) event.StackFrame {
	frame := call.Frame
	frame.Func = call.Name
	return event.StackFrame{Frame: frame, StartLine: call.StartLine, PC: pc, Inlined: call.Inlined}
}
