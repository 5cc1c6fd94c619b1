package goproc

import (
	"context"
	"fmt"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gobin"
)

// Information about a process that a stream of events requires in addition to a snapshot.

// ImagePath returns a path at which this process can open the image that contains the Go runtime. The path is valid
// until Close is called. It always refers to the file that was read, even if the target has executed another program or
// the file has been replaced.
func (p *Process) ImagePath() string { return fmt.Sprintf("/proc/self/fd/%d", p.main.bin.File().Fd()) }

// Lock prevents other Loupe processes from attaching to the process until unlock is called. Each engine holds it while
// it checks for other engines and attaches.
func (p *Process) Lock(ctx context.Context) (unlock func(), err error) { return p.dir.lock(ctx) }

// Frames returns the logical frames of a stack, innermost first, without the frames that a Go traceback omits. pcs are
// return addresses, except that the address after a frame injected by a signal is that of the interrupted instruction.
//
// hidden is the word that was on top of the stack when the innermost function was interrupted, or 0. If that function
// had no frame at that moment, hidden is its return address. Otherwise hidden has no meaning.
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

// Visible returns the frames that a Go traceback shows, and the frames before them that show what the goroutine does
// for the runtime (event.IsRuntimeWork). Without these, a wait for the garbage collector would look like a wait of the
// function that allocates.
func Visible(stack []event.StackFrame) []event.Frame {
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

// VisibleCalls returns those of the calls of a stack, innermost first, that Visible returns. goVersion is the release that built the program.
func VisibleCalls(goVersion string, calls []event.Frame) []event.Frame {
	release, err := gobin.ParseVersion(goVersion)
	if err != nil {
		release.Minor = gobin.NewestMinor
	}
	rules := tracebackRulesOf(release.Minor)
	frames := make([]event.StackFrame, len(calls))
	callee, shown := roleNormal, false
	for i, c := range calls {
		show := rules.show(gobin.Call{Frame: c, Name: c.Func}, c.Func, callee, shown)
		shown, callee = shown || show, roles[c.Func]
		frames[i] = event.StackFrame{Frame: c, Hidden: !show}
	}
	if !shown { // as in a traceback
		return calls
	}
	return Visible(frames)
}

// IsSystemStart reports whether a goroutine that starts with a function belongs to the runtime.
func IsSystemStart(function string) bool { return isSystem(function, nil) }

// Origin returns the origin of a goroutine, given the address of its go statement (0 if it has none) and the address of
// its start function.
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

// SystemStarts returns the addresses of the start functions of the runtime's own goroutines: all functions of package
// runtime except those that are known to start goroutines of the program.
func (p *Process) SystemStarts() []uint64 {
	var starts []uint64
	for f := range p.main.bin.Functions() {
		if strings.HasPrefix(f.Name, "runtime.") && isSystem(f.Name, nil) {
			starts = append(starts, f.Entry+p.main.bias)
		}
	}
	return starts
}
