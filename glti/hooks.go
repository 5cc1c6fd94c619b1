package glti

// hooks is what the public API needs of the runtime. The variable impl is its only implementation in a program:
//
//   - hooks_stock.go, without the build tag loupe_glti, sets it to a [stock]: what every Go program permits.
//   - hooks_overlay.go, with the build tag loupe_glti, sets it to what the runtime of `loupe go build` provides. It embeds a stock and
//     replaces the methods that the runtime does better, one by one. capability must agree: a method that is not replaced is the
//     stock's.
//
// # What an implementation provides
//
// The table events in events.go describes each event: its number, the class that its callbacks have at best, and which fields of
// Record it sets. An implementation contains no list of events of its own for registration; enable has the number.
//
// It delivers an event by calling the function deliver of this package with a Record:
//
//   - Class A: on the user's stack of the goroutine that the event is about (GoBlock*, GoSched, GoSleep, GoEnd, User*), or that caused
//     it (GoCreate), at the boundary of the operation, where ordinary Go code may run (getg() == m.curg, m.locks == 0,
//     mallocing == 0, preemptoff == "", not a system goroutine). The runtime refuses to re-enter: events that happen
//     in deliver, on that goroutine, are not delivered to callbacks of class A. Time is when the operation began, End when it was
//     over. Where the guard does not pass, the event takes the way of class C, so that no event is lost.
//   - Class C: on a goroutine of this package that drains the buffers, with Late set and the true Time. It must not deliver events of
//     that goroutine itself. If a buffer overflows, the implementation counts what it loses and calls lost.
//
// deliver does nothing for an event without callbacks. It recovers from panics of callbacks. It may block: a callback may.
//
// GoStart, GoUnblock and GoSysExit are delivered for each start, wake-up and exit. Their Local variants are delivered in addition,
// if the goroutine is on the same P as at its last event. EvGoBlock is any block that no other GoBlock event describes; EvGoStop is a
// block that nothing can end (select{}).
//
// Methods are called on any goroutine, unless their comments state otherwise.
type hooks interface {
	// builtBy returns the value of Built.By: "go" or "loupe go".
	builtBy() string

	// capability returns what holds for a method in this program, by the name of the method. The fields Method and Class have
	// been set to those of a program with all hooks. The result does not change while the program runs.
	capability(c Capability) Capability

	// enable starts the delivery of an event, and disable ends it. They are called when the first callback of the event is
	// registered and when the last is removed, in that order, with the registry's mutex held: they must not call deliver, or wait for
	// something that does. After enable returned, events that happen are delivered, as far as capability says.
	// After disable returned, deliver may still be called for the event. enable returns an error that wraps ErrUnavailable if the
	// event is unavailable.
	enable(ev Event) error
	disable(ev Event)

	// describe calls call with a record of each goroutine that is in the state of an event with atRegistration set, or for EvString of each
	// string: now (Class A), or from a buffer (Class C). It is called once for each callback, after enable, without the registry's mutex.
	describe(ev Event, call func(Record))

	// flush returns when the events of class C that happened before the call have been delivered. It is not called by callbacks.
	flush()

	// enableRaw calls cb for each event of class B, and for the begin of each wait, on a stack of the runtime, in the middle of the
	// scheduler. It returns an error for a cb whose code could call other code. remove ends that. The runtime keeps raw
	// callbacks in a fixed array that it reads without a lock: a callback may still run for a moment after remove returned.
	enableRaw(ev Event, cb func(*RawRecord)) (remove func(), err error)

	// countEvent begins to count an event, or ends that, and counted returns how many there have been while it was counted. countEvent is
	// called by one goroutine at a time, and returns an error that wraps ErrUnavailable if the event is not counted in this program.
	countEvent(ev Event, on bool) error
	counted(ev Event) uint64

	// onPanic calls call with the value of an unhandled panic, on the panicking goroutine, after its deferred functions ran and before
	// the runtime prints the panic. It is called at most once.
	onPanic(call func(value any)) error

	// current returns the current goroutine. It does not allocate in a program with hooks.
	current() G

	// glsGet returns the object that an agent has stored for a goroutine, or nil. It is nil if the goroutine has ended. glsSet sets it; the
	// object is reachable as long as the goroutine lives. Any goroutine may call them for any other.
	glsGet(a *agent, g G) any
	glsSet(a *agent, g G, obj any) error

	// glsGetPtr and glsSetPtr do the same with an address, which the garbage collector ignores.
	glsGetPtr(a *agent, g G) uintptr
	glsSetPtr(a *agent, g G, ptr uintptr) error

	// inherit selects whether a new goroutine begins with what its creator has: that which was stored by an agent with inherits set.
	// Otherwise it begins with nothing.
	inherit(on bool) error

	// quiet ends the reporting of events of the current goroutine, which is one of this package, and what it has inherited.
	quiet()

	// countAllocs begins to count what each goroutine allocates, or ends that. allocs returns what a goroutine has allocated while that was
	// counted, ok is false if it has ended. allocsEnded returns what goroutines have allocated that have ended.
	countAllocs(on bool) error
	allocs(g G) (a Allocations, ok bool)
	allocsEnded() Allocations

	// symbol returns the address of the function or global variable with a name, or 0. funcType returns the type of the function that
	// begins at an address, or why it is unknown.
	symbol(name string) uintptr
	funcType(entry uintptr) (*FuncType, error)

	// call calls the function that begins at the address fn with the frame of argsize bytes at arg, and returns a recovered panic as an error.
	call(fn, arg uintptr, argsize uint32) error

	// openProfile starts to collect a profile. The unit of rate is that of the Register method; it has been checked to be valid.
	// Several profiles of a kind can be open.
	openProfile(kind Profile, rate int) (openProfile, error)
}

// maxAgents is the maximum number of environments at a time, and so of slots of goroutine-local storage.
const maxAgents = 8

// openProfile is a profile that is being collected.
type openProfile interface {
	// snapshot returns what was collected: since the last snapshot (CPU, thread creation), or in total (all others). It is not called
	// concurrently.
	snapshot() (snapshot, error)
	// close ends the collection. Rates are again what they would be without it. A snapshot may be in progress, or follow; what it
	// returns is not used.
	close()
}

// snapshot has the records of a profile in the field of the profile's handlers.
type snapshot struct {
	stacks []StackRecord        // CPU, goroutine, thread creation
	blocks []BlockProfileRecord // block, mutex
	memory []MemProfileRecord   // heap
}
