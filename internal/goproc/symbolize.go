package goproc

import (
	"encoding/binary"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gobin"
)

// symbolizer resolves addresses of one process to functions and frames. It caches results: a process with
// 100,000 goroutines has a few hundred distinct addresses.
type symbolizer struct {
	modules []*module // the module with the runtime is first
	rules   tracebackRules
	pcs     map[uint64]*pcInfo
	stacks  map[string][]event.StackFrame // by the addresses of the physical frames
	key     []byte
}

// Limits on the symbolizer's memory. The cache is cleared when a limit is reached.
const (
	maxCachedPCs    = 1 << 18
	maxCachedStacks = 1 << 17
)

// pcInfo is the cached information about one address.
type pcInfo struct {
	mod      *module
	fn       gobin.Func
	known    bool  // the address is in a Go function: mod and fn are set
	delta    int64 // the frame's size: from the stack pointer to the return address; negative without one on the stack
	hasDelta bool
	role     role
	switches bool            // the function changes the stack pointer in a way that delta does not describe
	site     *event.Frame    // the result of location; nil until requested
	calls    [2][]gobin.Call // [0] if the address is a return address, [1] if it is that of an instruction
}

// role is the special meaning of a function for unwinding and tracebacks.
type role uint8

const (
	roleNormal   role = iota
	roleTop           // the outermost frame of a stack
	roleInjected      // a signal injected its frame: its caller was stopped at the exact instruction
	rolePanic         // a wrapper that calls it is shown in tracebacks
	roleSigpanic      // both injected and panic
	roleSwitch        // switches stacks: inside of it the registers belong to neither stack
)

// roles are the functions that unwinding and tracebacks treat specially (runtime/traceback.go, the functions
// marked TOPFRAME in runtime/asm_*.s).
var roles = map[string]role{
	"runtime.goexit":       roleTop,
	"runtime.mstart":       roleTop,
	"runtime.rt0_go":       roleTop,
	"runtime.sigtramp":     roleTop,
	"runtime.asyncPreempt": roleInjected,
	"runtime.debugCallV1":  roleInjected,
	"runtime.debugCallV2":  roleInjected,
	"runtime.sigpanic":     roleSigpanic,
	"runtime.gopanic":      rolePanic,
	"runtime.panicwrap":    rolePanic,

	"gogo":                         roleSwitch, // runtime.gogo jumps to it from Go 1.17 on
	"runtime.gogo":                 roleSwitch,
	"runtime.mcall":                roleSwitch,
	"runtime.morestack":            roleSwitch,
	"runtime.systemstack":          roleSwitch,
	"runtime.asmcgocall":           roleSwitch,
	"runtime.cgocallback_gofunc":   roleSwitch,
	"gosave_systemstack_switch":    roleSwitch,
	"runtime.sigreturn":            roleSwitch,
	"runtime.sigreturn__sigaction": roleSwitch,
}

func newSymbolizer(main *module) *symbolizer {
	return &symbolizer{
		modules: []*module{main}, rules: tracebackRulesOf(main.bin.Version().Minor),
		pcs: map[uint64]*pcInfo{}, stacks: map[string][]event.StackFrame{},
	}
}

// module returns the image whose Go code contains an address, or nil.
func (s *symbolizer) module(pc uint64) *module {
	for _, m := range s.modules {
		if pc >= m.lo && pc < m.hi {
			return m
		}
	}
	return nil
}

// inText reports whether an address lies in Go code.
func (s *symbolizer) inText(pc uint64) bool { return s.module(pc) != nil }

// lookup returns the information about an address.
func (s *symbolizer) lookup(pc uint64) *pcInfo {
	if info, ok := s.pcs[pc]; ok {
		return info
	}
	if len(s.pcs) >= maxCachedPCs {
		clear(s.pcs)
	}
	info := &pcInfo{mod: s.module(pc)}
	if info.mod != nil {
		info.fn, info.known = info.mod.bin.FuncForPC(pc - info.mod.bias)
	}
	if info.known {
		delta, _, _, ok := info.mod.bin.SPDelta(info.fn, pc-info.mod.bias)
		info.delta, info.hasDelta = int64(delta), ok
		info.role = roles[info.fn.Name]
		info.switches = info.switchesStack()
	}
	s.pcs[pc] = info
	return info
}

// switchesStack reports whether a stack cannot be unwound beyond the function: it moves the stack pointer to another stack.
// cgocallback does so too, but keeps both stacks valid (runtime/traceback.go).
func (i *pcInfo) switchesStack() bool {
	switch i.fn.Name {
	case "runtime.cgocallback", "runtime.cgocallback_gofunc":
		return false
	case "gogo", "runtime.gogo", "runtime.mcall", "runtime.morestack", "runtime.systemstack": // not recorded before Go 1.17
		return true
	}
	return i.mod.bin.WritesSP(i.fn)
}

// calls returns the logical calls at an address. exact reports whether it is the address of the instruction at which
// execution stopped, and not a return address.
func (s *symbolizer) calls(pc uint64, info *pcInfo, exact bool) []gobin.Call {
	file := pc - info.mod.bias
	kind := 0
	if exact || file == info.fn.Entry {
		kind = 1
	}
	if info.calls[kind] == nil {
		if kind == 0 {
			file--
		}
		info.calls[kind] = info.mod.bin.Calls(info.fn, file)
	}
	return info.calls[kind]
}

// location returns the source position of a return address, as a traceback's "created by" shows it: the function that
// the machine code belongs to, and the innermost line.
func (s *symbolizer) location(pc uint64) event.Frame {
	info := s.lookup(pc)
	if !info.known {
		return event.Frame{}
	}
	if info.site != nil {
		return *info.site
	}
	at := pc - info.mod.bias
	if at > info.fn.Entry {
		at--
	}
	file, line := info.mod.bin.Line(info.fn, at)
	info.site = &event.Frame{Func: info.fn.Name, File: file, Line: line}
	return *info.site
}

// frames returns the logical frames of a stack. Stacks with the same addresses share them.
func (s *symbolizer) frames(pcs []physical) []event.StackFrame {
	if len(pcs) == 0 {
		return nil
	}
	s.stackKey(pcs)
	if frames, ok := s.cached(); ok {
		return frames
	}
	return s.cache(s.build(pcs))
}

// stackKey sets the key of a stack in the cache.
func (s *symbolizer) stackKey(pcs []physical) {
	s.key = s.key[:0]
	for _, p := range pcs {
		s.key = binary.LittleEndian.AppendUint64(s.key, p.pc<<1|uint64(b2i(p.exact)))
	}
}

// cached returns the frames in the cache for the key.
func (s *symbolizer) cached() (frames []event.StackFrame, ok bool) {
	frames, ok = s.stacks[string(s.key)]
	return frames, ok
}

// cache stores frames for the key, and returns them.
func (s *symbolizer) cache(frames []event.StackFrame) []event.StackFrame {
	if len(s.stacks) >= maxCachedStacks {
		clear(s.stacks)
	}
	s.stacks[string(s.key)] = frames
	return frames
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// build creates the logical frames of a stack and marks those that a Go traceback omits.
func (s *symbolizer) build(pcs []physical) []event.StackFrame {
	var frames []event.StackFrame
	callee, shown := roleNormal, false
	for _, p := range pcs {
		info := s.lookup(p.pc)
		if !info.known {
			frames = append(frames, event.StackFrame{PC: p.pc, Hidden: true})
			continue
		}
		for _, call := range s.calls(p.pc, info, p.exact) {
			show := s.rules.show(call, info.fn.Name, callee, shown)
			shown = shown || show
			callee = roles[call.Name]
			frames = append(frames, event.StackFrame{Frame: call.Frame, StartLine: call.StartLine, PC: p.pc, Inlined: call.Inlined, Hidden: !show})
		}
	}
	if !shown {
		for i := range frames { // if all frames were hidden, a traceback shows all
			frames[i].Hidden = false
		}
	}
	return frames
}
