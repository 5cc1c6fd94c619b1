package probe

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// A Place is the position of a probe in a function.
type Place uint8

const (
	AtEntry   Place = iota // the cheapest position at which the arguments are still available
	AtCall                 // at the calls of another function, with the arguments of that call
	AtReturn               // where the function returns
	AtExit                 // where the function returns, with its results; before that, deferred functions may have been called or not
	AfterCall              // after the calls of another function, with the results of that call
)

// A Declaration declares a probe: its functions, its place in them, and its requirements.
type Declaration struct {
	Program string // its name in the C source

	// Kinds are the kinds of events that it reports. It is attached if one of them is selected, or if it reports none.
	Kinds event.Kinds

	// Since and Until are the releases that require it: Go 1.Since and later, before Go 1.Until. 0 means no bound.
	Since, Until int
	// Modules are the versions of modules that require it. The program must contain all of them. Two declarations with the
	// same Program must not apply to the same executable.
	Modules []Module

	Funcs  []string // functions to attach to; functions that the executable does not have are ignored
	Addrs  []uint64 // entries of further functions, in the image
	Place  Place
	Callee string // AtCall, AfterCall: the function that is called

	// Find returns further functions of an executable. It may be nil.
	Find func(*gobin.Binary) ([]gobin.Func, error)
	// Callees are further functions that are called.
	Callees []string
	// Local selects calls for AfterCall. It may be nil: all.
	Local *Local

	// AfterCall: the number of result words that the probe reads. The probe is at the first instruction after the call that the
	// kernel emulates, or at the next one. Releases that pass results on the stack have no place for it.
	//
	// AtExit: the number of result words that the probe reads, and the first closure that the function defers. On amd64 the probe
	// is at the calls of runtime.deferreturn. If the compiler has replaced these by calls of closures, it is in this closure: where
	// it calls Callee, or at its entry; an engine that cannot use that place can use those after the calls of the closure. The C half
	// tests RETURNS, because a panic calls the closure, too. Functions without deferred calls have the probe at their return
	// instructions. Engine inline cannot use these on amd64; it uses an instruction before them that a jump can replace, such as the
	// one that removes a frame of at least 128 bytes.
	Results  int
	Deferred string

	// Last lists the functions in which only the last call is probed: the others are frequent and redundant.
	Last []string

	// Words is the number of argument words that the probe reads at its entry: at most 9 on amd64 and 16 on arm64, which are
	// in registers. The C source names a word by its number and, for releases that pass arguments on the stack, by its offset.
	Words int

	// Alternatives for an engine that cannot use the place. AtEntry: the calls by the only function that calls this
	// one, or the only call of a function to which this one passes its arguments. AtReturn: the store of a word at an offset
	// in the object that the function creates.
	Caller string
	Passes string
	Stores func(*csrc.Config) uint32

	// Propagates marks a probe that is attached only with Want.Propagate: it changes memory of the target.
	Propagates bool

	// Identifies marks a probe that is attached only with Want.ProfilerMap.
	Identifies bool
	// Lends marks one of these that lends memory to the program: csrc.Loans.
	Lends bool

	// Only is the kind of engines that attach the probe: others have another way to report the same. AnyEngine is the zero value.
	Only Engines

	NeedsG bool // requires the current g
	Reads  bool // reads memory that need not be valid (read_foreign in C)
	Fence  Fence

	// Settings are the names of the set's settings that the probe requires.
	Settings []string

	// Requires is another program of the set, declared before this one, without which this one is useless: an engine that cannot attach
	// that one does not attach this one either, and says so only once. Empty: none.
	Requires string

	// Alone are programs of the set with which this probe requires no other ones that observe goroutines: what it reports does not depend on
	// which goroutine has created another one, and these programs report what the ends of goroutines would. Empty: it does. See Want.Spare.
	Alone []string

	// Quiet suppresses the warning if the executable has none of the functions: other releases do not have them, or
	// the linker has removed them because the program does not call them.
	Quiet bool

	// Without describes the events that are missing if it cannot be attached.
	Without string
}

// Engines is a kind of engines.
type Engines uint8

const (
	AnyEngine     Engines = iota
	KernelEngines         // whose probes are run by the kernel
	NativeEngines         // whose probes are machine code in the target
)

// A Local selects the calls to which a function passes the address of a variable on its stack. Their places can differ in the offset of the
// variable, and all places of a probe must be alike, so a set has several programs for them that do the same.
type Local struct {
	Word int // the number of the argument word with the address

	// Nth is the number of the offset that the calls have, from 0 on, among all that there are. The offset from the stack pointer is that of
	// the first result which the probe does not read.
	Nth int
	// Last reports that calls with further offsets have no probe: Declaration.Without is then said.
	Last bool
}

// A Fence determines whether all instructions before a probe's place must have completed when engine inline reads the
// time. A fence takes a third of the time of an event.
//
// Without a fence the processor may read the time a little early. Earlier events of the same thread and of the same
// goroutine still have earlier times (event_time in native.h): a goroutine never starts before it was made runnable,
// and is never made runnable before it blocked, whichever threads did it. So a probe requires no fence if the causes of
// its events are among these, or if they precede the event by many more instructions than a processor executes ahead,
// as when a thread is woken after the world was stopped. Events with other causes, such as preemption, the phases of a
// collection and values from channels, require it.
type Fence uint8

const (
	Fenced    Fence = iota
	Unfenced        // events of the goroutine itself order this one
	FenceProc       // unfenced unless events contain the P: in that case a start depends on what other threads did on this P
	Untimed         // the time is not read: for a probe that counts in tables. The times of its notes have no meaning
)

// inRelease reports whether a Go release requires the probe.
func (d *Declaration) inRelease(minor int) bool {
	return minor >= d.Since && (d.Until == 0 || minor < d.Until)
}
