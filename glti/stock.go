package glti

import (
	"bytes"
	"runtime"
	"strconv"
)

// stock is what a Go program permits that was not built by `loupe go build`. Its methods are those of hooks.
type stock struct {
	symbols   symbolTable
	blockRate *rateControl
	mutexRate *rateControl
	heapRate  *rateControl
	cpu       cpuCollector
	trace     *tracer
}

func newStock() *stock {
	s := &stock{trace: newTracer()}
	s.setRates()
	return s
}

// stockCapabilities are the capabilities that differ from those of a program with hooks, by the name of the method.
var stockCapabilities = map[string]Capability{
	"FuncForName":              {Why: "the debug information cannot be compared with the runtime's"},
	"GetGls":                   {Why: noGls},
	"GetGlsPtr":                {Why: noGls},
	"SetGls":                   {Why: noGls},
	"SetGlsPtr":                {Why: noGls},
	"InheritGls":               {Why: noGls},
	"ReflectCall":              {Why: "a call without the type of the function is not safe"},
	"RegisterEvUnhandledPanic": {Why: "the runtime calls nothing before it exits"},
	"CountAllocs":              {Why: noAllocs},
	"Allocs":                   {Why: noAllocs},
	"AllocsEnded":              {Why: noAllocs},
	"CountEvent":               {Why: "the scheduler has no hooks"},
	"HandleRaw":                {Why: "the scheduler has no hooks"},
	"GetG":                     {Available: true, Limits: "Addr is 0; a call takes some microseconds"},
	"FuncForPC":                {Available: true},
	"ResolveIface":             {Available: true},
	"ResolveSymbol":            {Available: true, Limits: "functions only if the program has no symbol table, or is no ELF file"},
}

const noGls = "the runtime has no storage for each goroutine, and does not say when a goroutine ends"

const noAllocs = "the allocator does not count for each goroutine"

func (*stock) builtBy() string { return "go" }

func (s *stock) capability(c Capability) Capability {
	known := stockCapabilities[c.Method]
	for kind, p := range stockProfiles {
		if c.Method == Profile(kind).method() {
			known = Capability{Available: true, Limits: p.limits}
		}
	}
	for ev := firstEvent; ev < endEvent; ev++ {
		if c.Method == ev.method() {
			known = traceCapability(ev)
			c.Class = ClassC
		}
	}
	c.Available, c.Why, c.Limits = known.Available, known.Why, known.Limits
	return c
}

func (s *stock) enableRaw(Event, func(*RawRecord)) (func(), error) {
	return nil, s.unavailable("HandleRaw")
}

func (s *stock) countEvent(Event, bool) error { return s.unavailable("CountEvent") }
func (*stock) counted(Event) uint64           { return 0 }

func (s *stock) onPanic(func(any)) error { return s.unavailable("RegisterEvUnhandledPanic") }

// current reads the goroutine's ID from the first line of its traceback, "goroutine 18 [running]:".
func (*stock) current() G {
	var buf [64]byte
	id, ok := goroutineID(buf[:runtime.Stack(buf[:], false)])
	if !ok {
		return G{}
	}
	return G{ID: id}
}

// goroutineID parses the begin of a traceback.
func goroutineID(traceback []byte) (id uint64, ok bool) {
	rest, ok := bytes.CutPrefix(traceback, []byte("goroutine "))
	if !ok {
		return 0, false
	}
	digits, _, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(string(digits), 10, 64)
	return id, err == nil
}

func (s *stock) glsGet(*agent, G) any               { return nil }
func (s *stock) glsSet(*agent, G, any) error        { return s.unavailable("SetGls") }
func (s *stock) glsGetPtr(*agent, G) uintptr        { return 0 }
func (s *stock) glsSetPtr(*agent, G, uintptr) error { return s.unavailable("SetGlsPtr") }
func (s *stock) inherit(bool) error                 { return s.unavailable("InheritGls") }
func (s *stock) quiet()                             {}
func (s *stock) call(_, _ uintptr, _ uint32) error  { return s.unavailable("ReflectCall") }

func (s *stock) funcType(uintptr) (*FuncType, error) { return nil, s.unavailable("FuncForName") }

func (s *stock) countAllocs(bool) error          { return s.unavailable("CountAllocs") }
func (*stock) allocs(G) (a Allocations, ok bool) { return a, false }
func (*stock) allocsEnded() (a Allocations)      { return a }

// unavailable returns the error of an unavailable method.
func (s *stock) unavailable(method string) error {
	return s.capability(Capability{Method: method}).err()
}
