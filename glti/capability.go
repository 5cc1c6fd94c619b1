package glti

import (
	"fmt"
	"slices"
	"sync"
)

// Capability is what holds for a method of this package in this program.
type Capability struct {
	// Method is the name of the method, such as GetGls or RegisterTraceEvGoCreate.
	Method string
	// Available is false if the method returns or reports an error.
	Available bool
	// Class is the class of the method's callback in this program, ClassNone for methods without a callback.
	Class Class
	// Why says what is missing if the method is unavailable.
	Why string
	// Limits says what does not hold although the method is available, "" if everything holds.
	Limits string
}

// err returns the error of an unavailable method.
func (c Capability) err() error {
	if BuiltBy() != "go" {
		return fmt.Errorf("glti: %s is %w: %s", c.Method, ErrUnavailable, c.Why)
	}
	return fmt.Errorf("glti: %s is unavailable: %w: %s", c.Method, ErrNotBuilt, c.Why)
}

// String returns one line.
func (c Capability) String() string {
	text := c.Method
	if c.Class != ClassNone {
		text += " (class " + c.Class.String() + ")"
	}
	switch {
	case !c.Available:
		return text + ": unavailable: " + c.Why
	case c.Limits != "":
		return text + ": available: " + c.Limits
	}
	return text + ": available"
}

// plainMethods are the methods of GLTIEnv, CountEvent and HandleRaw, with their class in a program with all hooks.
var plainMethods = []Capability{
	{Method: "FuncForName"},
	{Method: "FuncForPC"},
	{Method: "GetG"},
	{Method: "GetGls"},
	{Method: "GetGlsPtr"},
	{Method: "InheritGls"},
	{Method: "ReflectCall"},
	{Method: "RegisterEvUnhandledPanic", Class: ClassA},
	{Method: "ResolveIface"},
	{Method: "ResolveSymbol"},
	{Method: "SetGls"},
	{Method: "SetGlsPtr"},
	{Method: "CountAllocs"},
	{Method: "Allocs"},
	{Method: "AllocsEnded"},
	{Method: "CountEvent"},
	{Method: "HandleRaw", Class: ClassB},
}

// Capabilities returns what each method of [GLTIEnv], [ProfilerEnv] and [TracingEnv] can do in this program. The result does not
// change while the program runs.
func Capabilities() []Capability { return slices.Clone(capabilities()) }

var capabilities = sync.OnceValue(func() []Capability {
	all := slices.Clone(plainMethods)
	for _, kind := range Profiles() {
		all = append(all, Capability{Method: kind.method(), Class: ClassC})
	}
	for _, ev := range Events() {
		all = append(all, Capability{Method: ev.method(), Class: events[ev].class})
	}
	for i, c := range all {
		all[i] = impl.capability(c)
	}
	return all
})

// capability returns what a method can do.
func capability(method string) Capability {
	for _, c := range capabilities() {
		if c.Method == method {
			return c
		}
	}
	return Capability{Method: method, Why: "there is no such method"}
}

// BuiltBy returns "go" in a stock program, and "loupe go" in a program with hooks.
func BuiltBy() string { return impl.builtBy() }
