package goproc

import (
	"context"
	"fmt"
	"strings"

	"github.com/loupe-go/loupe/event"
)

// Information about a process that a stream of events requires in addition to a snapshot.

// ImagePath returns a path by which this process can open the image that holds the Go runtime until Close is called. It is
// always the file that was read, whatever the path in the target leads to: the target may have replaced itself by another
// program, or somebody may have replaced the file.
func (p *Process) ImagePath() string { return fmt.Sprintf("/proc/self/fd/%d", p.main.bin.File().Fd()) }

// Lock keeps other Loupes from attaching to the process until unlock is called: each engine looks for what the other one has
// put there before it begins.
func (p *Process) Lock(ctx context.Context) (unlock func(), err error) { return p.dir.lock(ctx) }

// Frames returns the logical frames of a stack, given its addresses, the innermost first, without those that a Go traceback
// leaves out. They are return addresses, but for the one after a frame that a signal has put there.
//
// hidden is what was on top of the stack when the innermost function was interrupted, or 0: the return address to that
// one's caller if it had no frame at that moment, else it says nothing.
func (p *Process) Frames(pcs []uint64, hidden uint64) []event.Frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	stack := make([]physical, 0, len(pcs)+1)
	injected := false
	for _, pc := range pcs {
		info := p.symbols.lookup(pc)
		stack = append(stack, physical{pc: pc, exact: injected})
		if injected && hidden != 0 && info.known && info.hasDelta && info.delta == 0 {
			stack = append(stack, physical{pc: hidden})
			hidden = 0
		}
		injected = info.role == roleInjected || info.role == roleSigpanic
	}
	return Visible(p.symbols.build(stack))
}

// Visible returns the frames that a Go traceback shows, and those before them that say what the goroutine does for the runtime
// (event.IsRuntimeWork): without these a wait for the garbage collector would be taken for one of the function that allocates.
func Visible(stack []Frame) []event.Frame {
	frames := make([]event.Frame, 0, len(stack))
	inRuntime := true // all frames so far belong to the runtime
	for _, f := range stack {
		inRuntime = inRuntime && strings.HasPrefix(f.Func, "runtime.")
		if !f.Hidden || inRuntime && event.IsRuntimeWork(f.Func) {
			frames = append(frames, f.Frame)
		}
	}
	return frames
}

// Origin returns where a goroutine comes from, given the address of its go statement (0 for none) and that of the function
// that it starts with.
func (p *Process) Origin(gopc, startpc uint64) event.Origin {
	p.mu.Lock()
	defer p.mu.Unlock()
	var o event.Origin
	if gopc != 0 {
		o.CreatedBy = p.symbols.location(gopc)
	}
	info := p.symbols.lookup(startpc)
	if !info.known {
		return o
	}
	// A go statement with arguments starts a wrapper that the compiler generates. The function of the statement is its callee.
	if wrapped, ok := info.mod.bin.Wrapped(info.fn); ok {
		pc := wrapped.Entry + info.mod.bias
		if to := p.symbols.lookup(pc); to.known {
			startpc, info = pc, to
		}
	}
	calls := p.symbols.calls(startpc, info, true)
	outer := calls[len(calls)-1]
	o.Start = event.Frame{Func: outer.Func, File: outer.File, Line: outer.StartLine}
	o.System = isSystem(info.fn.Name, nil)
	return o
}

// SystemStarts returns the addresses of the functions that goroutines of the runtime itself start with: all functions of
// package runtime that are not known to start the program's own.
func (p *Process) SystemStarts() []uint64 {
	var starts []uint64
	for f := range p.main.bin.Functions() {
		if strings.HasPrefix(f.Name, "runtime.") && isSystem(f.Name, nil) {
			starts = append(starts, f.Entry+p.main.bias)
		}
	}
	return starts
}
