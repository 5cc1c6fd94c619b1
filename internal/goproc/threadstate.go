package goproc

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/loupe-go/loupe/event"
)

// A ThreadState is what a thread of the process did at one moment: its registers, the goroutine that it ran, and copies of
// the stacks. Fields are 0 where the runtime has no value.
type ThreadState struct {
	PC, SP, FP uint64 // in user mode
	LR         uint64 // only where the machine has it

	M      uint64 // address of the thread's runtime.m; 0 if the thread does not run Go code
	G      uint64 // address of the goroutine's g
	GM     uint64 // the m to which the g refers
	GoID   uint64
	Start  uint64 // address of the function that the goroutine was started with
	Labels uint64 // address of its set of labels

	StackLo, StackHi          uint64 // bounds of the goroutine's stack
	SchedPC, SchedSP, SchedLR uint64 // runtime.g.sched
	SyscallPC, SyscallSP      uint64 // runtime.g.syscallpc and syscallsp
	VDSOPC, VDSOSP            uint64 // runtime.m.vdsoPC and vdsoSP
	CgoCalls                  uint64 // runtime.m.ncgo
	Collecting                bool   // runtime.m.preemptoff is set: a phase of the garbage collector

	// Stack is a copy of the stack that the thread used, from SP on. Goroutine is one of the goroutine's stack if that is
	// another one. They may end before the stack does.
	Stack, Goroutine StackCopy
}

// A StackCopy is a copy of a part of a stack.
type StackCopy struct {
	Addr uint64 // of the first byte
	Data []byte
}

// A ThreadStack is the call stack of a thread.
type ThreadStack struct {
	// Frames are all frames except wrappers, as the runtime's CPU profiler reports them: those of the runtime included, and
	// those of the goroutine after those on the thread's system stack. If the thread executes code that is not Go code, the
	// functions of that code come first. If a function or its caller is not known, the frame is runtime._ExternalCode.
	Frames []event.StackFrame

	External  bool // the thread executed code that is not Go code, except that of the vDSO for the runtime
	Unknown   bool // the callers are unknown; of a thread that runs Go code, the last frame is runtime._System or runtime._GC
	Truncated bool // the copies of the stacks end before the outermost frame
}

// Frames that stand for code without a call stack (runtime/proc.go, sigprof).
const (
	externalCode = "runtime._ExternalCode"
	systemCode   = "runtime._System"
	gcCode       = "runtime._GC"
)

// ThreadStack computes the call stack of a thread by the rules of the CPU profiler of the runtime (sigprof in runtime/proc.go
// and the unwinder in runtime/traceback.go).
func (p *Process) ThreadStack(t *ThreadState) ThreadStack {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := threadWalk{s: p.symbols, t: t, frames: p.walk[:0]}
	w.run(p.rt.m.vdsoBelow)
	p.walk = w.frames
	stack := ThreadStack{External: w.external, Truncated: w.truncated}
	stack.Frames = p.symbols.profileFrames(w.frames)
	if !w.external && len(w.frames) > 0 {
		return stack
	}
	own := p.nativeStack(t)
	stack.Truncated = stack.Truncated || own.truncated
	stack.Unknown = len(w.frames) == 0 && !own.complete
	stack.Frames = slices.Concat(own.frames, stack.Frames)
	switch {
	case !stack.Unknown || t.M == 0:
	case t.Collecting:
		stack.Frames = append(stack.Frames, named(gcCode))
	default:
		stack.Frames = append(stack.Frames, named(systemCode))
	}
	return stack
}

func named(function string) event.StackFrame {
	return event.StackFrame{Frame: event.Frame{Func: function}}
}

// threadWalk is the walk of one thread's stacks, from the innermost frame.
type threadWalk struct {
	s *symbolizer
	t *ThreadState

	frames    []physical
	external  bool
	truncated bool
}

// run determines where the walk begins, and walks.
func (w *threadWalk) run(vdsoBelow uint64) {
	t := w.t
	inGo := w.s.lookup(t.PC).known
	w.external = !inGo
	switch {
	case t.M == 0:
		w.external = true
	case t.CgoCalls > 0 && w.onGoroutine(t.SyscallSP):
		// In C code, or on the way there. The goroutine saved its registers at the call.
		w.walk(registers{pc: t.SyscallPC, sp: t.SyscallSP}, true)
	case inGo:
		w.walk(registers{pc: t.PC, sp: t.SP, lr: t.LR, exact: true}, false)
	case t.VDSOSP != 0:
		w.external = false // the runtime's profiler does not show the vDSO either
		w.walk(registers{pc: t.VDSOPC, sp: t.VDSOSP + vdsoBelow}, false)
	case w.onGoroutine(t.SyscallSP):
		w.walk(registers{pc: t.SyscallPC, sp: t.SyscallSP}, true)
	}
}

// onGoroutine reports whether an address is on the stack of the goroutine.
func (w *threadWalk) onGoroutine(sp uint64) bool { return sp >= w.t.StackLo && sp < w.t.StackHi }

// maxThreadFrames bounds the walk. The runtime's profiler keeps 64 frames.
const maxThreadFrames = 1024

// walk appends the frames from r on. saved says that the goroutine saved these registers when it left its stack: later changes
// of the stack pointer by the same function do not matter.
func (w *threadWalk) walk(r registers, saved bool) {
	pc, sp, lr, exact := r.pc, r.sp, r.lr, r.exact
	for len(w.frames) < maxThreadFrames {
		info := w.s.lookup(pc)
		if !info.known || !info.hasDelta {
			return
		}
		crossed := false
		if !w.onGoroutine(sp) && w.t.G != 0 && w.t.GM == w.t.M {
			switch info.fn.Name {
			case "runtime.morestack":
				// It does not return: the goroutine continues where it was.
				pc, sp, lr, exact = w.t.SchedPC, w.t.SchedSP, w.t.SchedLR, false
				if !w.onGoroutine(sp) {
					return
				}
				continue
			case "runtime.systemstack":
				crossed = true
				if info.mod.bin.Arch() != "arm64" || info.delta != 0 { // else it has not switched stacks yet
					sp = w.t.SchedSP
				}
			}
		}
		w.frames = append(w.frames, physical{pc: pc, exact: exact})
		if info.role == roleTop || info.switches && !crossed && !saved {
			return
		}
		next, nextSP, ok := w.s.caller(info, sp, lr, w.image(sp))
		if !ok {
			w.truncated = true
			return
		}
		pc, sp, lr, exact, saved = next, nextSP, 0, info.role == roleInjected || info.role == roleSigpanic, false
	}
	w.truncated = true
}

// image returns the copy of the stack to which a stack pointer belongs.
func (w *threadWalk) image(sp uint64) stackImage {
	c := &w.t.Stack
	if g := &w.t.Goroutine; sp >= g.Addr && sp-g.Addr < uint64(len(g.Data)) {
		c = g
	}
	return stackImage{base: c.Addr, data: c.Data}
}

// profileFrames returns the logical frames of a stack without wrappers, and without the frame in which every goroutine
// starts, as profiles of the runtime have them. Stacks with the same addresses share them.
func (s *symbolizer) profileFrames(pcs []physical) []event.StackFrame {
	s.stackKey(pcs)
	s.key = append(s.key, 'p') // in contrast to frames
	if frames, ok := s.cached(); ok {
		return frames
	}
	var frames []event.StackFrame
	callee := roleNormal
	for _, p := range pcs {
		info := s.lookup(p.pc)
		if info.fn.Name == "runtime.goexit" {
			continue
		}
		first := len(frames)
		for _, call := range s.calls(p.pc, info, p.exact) {
			if !call.Wrapper || callee == rolePanic || callee == roleSigpanic {
				frames = append(frames, event.StackFrame{Frame: call.Frame, StartLine: call.StartLine, PC: p.pc, Inlined: call.Inlined})
			}
			callee = roles[call.Name]
		}
		if len(frames) > first {
			frames[len(frames)-1].Inlined = false // the function that it is inlined into may be a wrapper
		}
	}
	if len(frames) == 0 && len(pcs) > 0 { // interrupted before the goroutine's first function, or in a wrapper
		frames = []event.StackFrame{{Frame: s.location(pcs[0].pc), PC: pcs[0].pc}}
	}
	return s.cache(frames)
}

// A LabelReader reads the labels of goroutines for profiles.
type LabelReader struct {
	p     *Process
	known map[labelKey]map[string]string
}

// labelKey identifies a set of labels: the address alone may be reused for another set.
type labelKey struct{ set, g, goid uint64 }

// maxKnownLabels is the number of sets that a LabelReader remembers.
const maxKnownLabels = 1 << 16

// LabelReader returns a reader of labels.
func (p *Process) LabelReader() *LabelReader {
	return &LabelReader{p: p, known: map[labelKey]map[string]string{}}
}

// Read returns the labels that a goroutine had at the moment of a ThreadState. They are read now. certain is false if the
// goroutine has other labels now, or ended: the memory of the set may have been reused. The labels are nil if they cannot be
// read, and in secret mode (package runtime/secret).
func (r *LabelReader) Read(t *ThreadState) (labels map[string]string, certain bool) {
	if t.Labels == 0 {
		return nil, true
	}
	key := labelKey{t.Labels, t.G, t.GoID}
	labels, known := r.known[key]
	if !known {
		var err error
		if labels, err = newLabelReader(r.p.mem, r.p.main.bin.Version().Minor).read(t.Labels); err != nil {
			return nil, false
		}
	}
	gs, err := r.p.readGs([]uint64{t.G})
	if err == nil && gs[0].goid == t.GoID && gs[0].secret {
		return nil, true
	}
	if err != nil || gs[0].goid != t.GoID || gs[0].labels != t.Labels {
		return labels, known
	}
	if len(r.known) >= maxKnownLabels {
		clear(r.known)
	}
	r.known[key] = labels
	return labels, true
}

// CPUTime returns the processor time that all threads of the process have used, including those that have ended.
func (p *Process) CPUTime() (int64, error) {
	d, err := processTime(p.pid)
	return d.Nanoseconds(), err
}

// Ended returns why nothing more can be observed of the process: an error that wraps ErrExited or ErrReplaced, or nil while the
// process runs the program for which it was opened.
func (p *Process) Ended() error {
	st, err := p.dir.stat()
	switch {
	case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
		return nil
	case err != nil || st.ended():
		return fmt.Errorf("process %d: %w", p.pid, ErrExited)
	case st.program != "" && st.program != p.program:
		return fmt.Errorf("process %d: %w", p.pid, ErrReplaced)
	}
	return nil
}
