package glti

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Version is the version of this interface, the GltiVersion of each environment.
const Version = "1.0"

// GLTIEnv is the environment of an agent: the root of the Go Tool Interface. [NewEnv] makes one. All methods can be called from
// any goroutine at any time.
type GLTIEnv struct {
	GltiVersion string // [Version]; agents that are loaded at run time know the offset of this field
	GoVersion   string // [runtime.Version] of the program; agents that are loaded at run time know the offset of this field

	Trace    TracingEnv
	Profiler ProfilerEnv
}

// TracingEnv registers callbacks for events. [GLTIEnv] contains it.
type TracingEnv struct{ agent *agent }

// agent is what environments have in common with their callbacks.
type agent struct {
	name string
	slot int // of goroutine-local storage

	inherits atomic.Bool // what is stored for a goroutine is inherited

	mu       sync.Mutex
	closed   bool
	closers  []func()
	profiles map[Profile][]*profileHandler
	every    time.Duration // between snapshots, 0 for the default
}

// agents are the environments that are open.
var agents struct {
	sync.Mutex
	slots [maxAgents]*agent
}

// NewEnv returns an environment for an agent. The name appears in reports. A program can have 8 environments at a time; NewEnv
// panics if there are more.
func NewEnv(name string) *GLTIEnv {
	agents.Lock()
	defer agents.Unlock()
	for slot, used := range agents.slots {
		if used != nil {
			continue
		}
		a := &agent{name: name, slot: slot, profiles: map[Profile][]*profileHandler{}}
		agents.slots[slot] = a
		return &GLTIEnv{
			GltiVersion: Version,
			GoVersion:   runtime.Version(),
			Trace:       TracingEnv{agent: a},
			Profiler:    ProfilerEnv{agent: a},
		}
	}
	panic(fmt.Sprintf("glti: NewEnv(%q): the maximum of %d is open; close an environment first", name, maxAgents))
}

// Close removes all callbacks of the agent. Calls that have begun continue; Close does not wait for them. Methods that register
// return [ErrClosed] afterwards.
func (env *GLTIEnv) Close() {
	a := env.Trace.agent
	if a == nil {
		return
	}
	closers, ok := a.close()
	if !ok {
		return
	}
	registered.remove(func(h *handler) bool { return h.agent == a })
	for _, f := range closers {
		f()
	}
	for _, kind := range Profiles() {
		env.Profiler.Unregister(kind)
	}
	agents.Lock()
	defer agents.Unlock()
	agents.slots[a.slot] = nil
}

// close marks the agent as closed, and returns what is to be done for that.
func (a *agent) close() (closers []func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, false
	}
	a.closed = true
	return a.closers, true
}

func (a *agent) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

// onClose calls f when the agent is closed, at once if it already is.
func (a *agent) onClose(f func()) {
	a.mu.Lock()
	closed := a.closed
	if !closed {
		a.closers = append(a.closers, f)
	}
	a.mu.Unlock()
	if closed {
		f()
	}
}

// name returns the name of the agent for reports, and its slot.
func (env *GLTIEnv) agent() *agent {
	if a := env.Trace.agent; a != nil {
		return a
	}
	return &agent{name: "without NewEnv", slot: -1}
}

// FuncForName returns the type of the function with a name such as main.run or net/http.(*Client).Do, or nil. The receiver of a
// method is its first parameter. A variadic parameter is a slice: the type does not say that a function is variadic. A function that another
// package implements by go:linkname has the type that it has there.
//
// The type is read from the debug information of the executable. It is nil, with a report, if that does not contain the function or one of
// its types, and for functions in assembly, generic functions, and functions with more than ten words of parameters, whose type
// cannot be verified. The first call can take a second in a large program.
func (env *GLTIEnv) FuncForName(symbolName string) *FuncType {
	const method = "FuncForName"
	if !env.check(method) {
		return nil
	}
	entry := impl.symbol(symbolName)
	if entry == 0 || runtime.FuncForPC(entry) == nil {
		return nil
	}
	t, err := impl.funcType(entry)
	if err != nil {
		report(Report{Agent: env.agent().name, Method: method, Err: err})
		return nil
	}
	return t
}

// FuncForPC returns the function that contains an address, or nil.
func (env *GLTIEnv) FuncForPC(fAddr uintptr) *runtime.Func { return runtime.FuncForPC(fAddr) }

// GetG returns the current goroutine, as a [G].
func (env *GLTIEnv) GetG() interface{} { return impl.current() }

// GetGls returns the object that the agent has associated with a goroutine by [GLTIEnv.SetGls], or nil. gp is a [G].
func (env *GLTIEnv) GetGls(gp interface{}) interface{} {
	g, ok := env.glsOf("GetGls", gp)
	if !ok {
		return nil
	}
	return impl.glsGet(env.agent(), g)
}

// SetGls associates an object with a goroutine (goroutine-local storage). Each agent has its own. gp is a [G]. The object stays
// reachable until the goroutine ends. A new goroutine has none, unless [GLTIEnv.InheritGls] has been called.
func (env *GLTIEnv) SetGls(gp interface{}, obj interface{}) {
	if g, ok := env.glsOf("SetGls", gp); ok {
		env.reportError("SetGls", impl.glsSet(env.agent(), g, obj))
	}
}

// GetGlsPtr returns the address that the agent has associated with a goroutine by [GLTIEnv.SetGlsPtr], or 0. gp is a [G].
func (env *GLTIEnv) GetGlsPtr(gp interface{}) uintptr {
	g, ok := env.glsOf("GetGlsPtr", gp)
	if !ok {
		return 0
	}
	return impl.glsGetPtr(env.agent(), g)
}

// SetGlsPtr associates an address with a goroutine, usually of native memory. The garbage collector ignores it. gp is a [G].
func (env *GLTIEnv) SetGlsPtr(gp interface{}, objPtr uintptr) {
	if g, ok := env.glsOf("SetGlsPtr", gp); ok {
		env.reportError("SetGlsPtr", impl.glsSetPtr(env.agent(), g, objPtr))
	}
}

// inheriting has the open agents that have called InheritGls.
var inheriting struct {
	sync.Mutex
	agents map[*agent]bool
}

// InheritGls selects whether goroutines inherit what the agent stores from now on. If on is true, a goroutine that another one creates
// begins with the object and the address that [GLTIEnv.SetGls] and [GLTIEnv.SetGlsPtr] have associated with its creator; both share the
// object. Later changes for one of them have no effect on the other. An object stays reachable until all goroutines have ended that
// have it.
//
// Goroutines that the function of a [time.AfterFunc] runs in, of the runtime, and those that a callback creates, inherit nothing.
func (env *GLTIEnv) InheritGls(on bool) {
	const method = "InheritGls"
	if !env.check(method) {
		return
	}
	a, c := env.agent(), &inheriting
	if a.slot < 0 || a.isClosed() {
		report(Report{Agent: a.name, Method: method, Err: ErrClosed})
		return
	}
	a.inherits.Store(on)
	c.Lock()
	if !on || c.agents[a] { // what was stored before is still inherited
		c.Unlock()
		return
	}
	if c.agents == nil {
		c.agents = map[*agent]bool{}
	}
	c.agents[a] = true
	err := impl.inherit(true)
	c.Unlock()
	env.reportError(method, err)
	a.onClose(func() {
		c.Lock()
		defer c.Unlock()
		if delete(c.agents, a); len(c.agents) == 0 {
			impl.inherit(false)
		}
	})
}

// ReflectCall calls the function that begins at the address fn, on the current goroutine. arg is the address of a frame of argsize bytes
// in the heap or in native memory: the receiver if there is one, the arguments and the results in the order of the declaration, each
// aligned for its type, the first result and the end of the frame aligned for a pointer. A variadic parameter is a slice.
// ReflectCall writes the results into the frame. If the function panics, ReflectCall recovers and returns an error.
//
// The type of the function must be known, as [GLTIEnv.FuncForName] describes it: ReflectCall returns an error if it is not, or if the
// size of its frame is not argsize. It does not call closures, or functions of the runtime that are not exported.
func (env *GLTIEnv) ReflectCall(fn, arg uintptr, argsize uint32) error {
	return impl.call(fn, arg, argsize)
}

// RegisterEvUnhandledPanic registers a callback that is called with the value of a panic that ends the program, before the
// runtime prints it. Class A.
func (env *GLTIEnv) RegisterEvUnhandledPanic(cb func(obj interface{})) {
	const method = "RegisterEvUnhandledPanic"
	a := env.agent()
	if cb == nil {
		report(Report{Agent: a.name, Method: method, Err: errNilCallback})
		return
	}
	env.reportError(method, addPanicHandler(&panicHandler{callback: callback{agent: a, method: method}, call: cb}))
}

// ResolveIface returns the type of the value in an interface, nil if the interface is nil.
func (env *GLTIEnv) ResolveIface(iface interface{}) reflect.Type { return reflect.TypeOf(iface) }

// ResolveSymbol returns the address of the function or global variable with a name such as main.run or main.config, or 0. The name of
// a package is its import path.
func (env *GLTIEnv) ResolveSymbol(symbolName string) uintptr {
	env.check("ResolveSymbol")
	return impl.symbol(symbolName)
}

// Capabilities returns the result of the function [Capabilities].
func (env *GLTIEnv) Capabilities() []Capability { return Capabilities() }

// check reports once if a method without an error result is unavailable.
func (env *GLTIEnv) check(method string) (ok bool) {
	c := capability(method)
	if !c.Available {
		reportUnavailable(env.agent().name, method, c.err())
	}
	return c.Available
}

// reportError reports an error of a method without an error result, once.
func (env *GLTIEnv) reportError(method string, err error) {
	if err != nil {
		reportUnavailable(env.agent().name, method, err)
	}
}

// glsOf returns the goroutine of an argument. It reports an argument that is not a goroutine, and an unavailable method.
func (env *GLTIEnv) glsOf(method string, gp interface{}) (g G, ok bool) {
	if !env.check(method) {
		return G{}, false
	}
	g, ok = gp.(G)
	switch {
	case !ok:
		report(Report{Agent: env.agent().name, Method: method, Err: fmt.Errorf("the goroutine is a %T; it must be a glti.G", gp)})
	case env.Trace.agent == nil || env.Trace.agent.isClosed():
		report(Report{Agent: env.agent().name, Method: method, Err: ErrClosed})
		return G{}, false
	}
	return g, ok
}
