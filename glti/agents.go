package glti

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Agent is an agent that is linked into the program.
type Agent struct {
	// Name appears in reports.
	Name string
	// Init is called once with the agent's environment. It is what `InitGltiAgent` is for an agent that is loaded at run time.
	Init func(env *GLTIEnv)
	// Shutdown, if not nil, is called once when the program ends, with its exit code. In a program that `loupe go build` compiled, it is
	// called for each end but those in which no Go code can run: errors of the runtime itself, and stack overflow.
	Shutdown func(exitCode int)
}

// linked are the agents of RegisterAgent.
var linked struct {
	sync.Mutex
	waiting []Agent // Init has not been called
	running []Agent
	ended   bool // Shutdown has been called
}

// RegisterAgent adds an agent that is linked into the program, usually in a function init of the agent's package. InitGLTI
// initializes it.
func RegisterAgent(a Agent) {
	if a.Init == nil {
		panic("glti: RegisterAgent: Init is nil")
	}
	linked.Lock()
	defer linked.Unlock()
	linked.waiting = append(linked.waiting, a)
}

// InitGLTI initializes the agents of [RegisterAgent], each once, in the order of their registration. In a stock program nothing
// calls it by itself: the program calls it first in its main function. Calling it again initializes the agents
// that were registered since. An agent that panics is reported, and its callbacks are removed.
func InitGLTI() {
	for {
		linked.Lock()
		if len(linked.waiting) == 0 || linked.ended {
			linked.Unlock()
			return
		}
		a := linked.waiting[0]
		linked.waiting = linked.waiting[1:]
		linked.running = append(linked.running, a)
		linked.Unlock()
		env := NewEnv(a.Name)
		if !guard(a.Name, "InitGltiAgent", func() { a.Init(env) }) {
			env.Close()
		}
	}
}

// Shutdown calls the Shutdown functions of the initialized agents, each once, in reverse order. In a stock program nothing calls it by
// itself: the program calls it before it exits.
func Shutdown(exitCode int) {
	linked.Lock()
	running := linked.running
	linked.running, linked.ended = nil, true
	linked.Unlock()
	for i := len(running) - 1; i >= 0; i-- {
		if a := running[i]; a.Shutdown != nil {
			guard(a.Name, "ShutdownGltiAgent", func() { a.Shutdown(exitCode) })
		}
	}
}

// guard calls a function of an agent, and reports a panic.
func guard(agent, function string, f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			report(Report{Agent: agent, Method: function, Err: fmt.Errorf("the agent panicked: %q\n%s", fmt.Sprint(v), debug.Stack())})
		}
	}()
	f()
	return true
}
