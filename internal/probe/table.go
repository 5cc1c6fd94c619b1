package probe

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// place is the position of a probe in a function.
type place uint8

const (
	atEntry  place = iota // the cheapest position at which the arguments are still available
	atCall                // at the calls of another function, with the arguments of that call
	atReturn              // where the function returns
)

// declaration declares a probe: its program, its place and its events.
type declaration struct {
	id      csrc.Probe
	program string      // its name in the C sources
	kinds   event.Kinds // the kinds that it reports; it is attached if one of them is selected

	// since and until are the releases that require it: Go 1.since and later, before Go 1.until; 0 is no bound.
	since, until int

	funcs  []string // runtime functions to attach to; functions that the release does not have are ignored
	place  place
	callee string // atCall: the function that is called

	// last lists the functions in which only the last call is probed: the others are frequent and redundant.
	last  []string
	words int // atEntry: number of argument words that must be unchanged

	// Alternatives for an engine that cannot use the place. atEntry: the calls by the only function that calls this
	// one, or the only call of a function to which this one passes its arguments. atReturn: the store of a word at an offset
	// in the object that the function creates.
	caller string
	passes string
	stores func(*csrc.Config) uint32

	needsG bool // requires the current g
	// quiet suppresses the warning if the executable has none of the functions: other releases do not have them, or
	// the linker has removed them because the program does not call them.
	quiet bool

	// without says which events are missing if it cannot be attached.
	without string
}

var (
	goStates = event.KindsOf(event.GoUnblock, event.GoCreate, event.GoDestroy)
	switches = event.KindsOf(event.GoBlock, event.GoUnblock, event.GoStart)
)

func only(k event.Kind) event.Kinds { return event.KindsOf(k) }

// declarations are all probes. The functions are those of runtime/proc.go, chan.go, select.go, sema.go, coro.go and
// mgc.go; csrc has their signatures.
var declarations = []declaration{
	{id: csrc.ProbesLoupeProbePROBE_gopark, program: "gopark", kinds: only(event.GoBlock), words: 4, needsG: true,
		funcs: []string{"runtime.gopark"}, without: "waits are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_ready, program: "ready", kinds: only(event.GoUnblock), words: 1,
		funcs: []string{"runtime.ready"}, without: "wake-ups by other goroutines are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_casgstatus, program: "casgstatus", kinds: goStates, place: atCall, callee: "runtime.casgstatus",
		funcs: []string{"runtime.park_m", "runtime.injectglist", "runtime.findrunnable", "runtime.findRunnable", "runtime.schedule",
			"runtime.(*gcControllerState).findRunnableGCWorker", "runtime.procresize", "runtime.(*p).destroy",
			"runtime.needm", "runtime.dropm"},
		last:    []string{"runtime.park_m"}, // each wait begins with the first
		without: "wake-ups by the network poller are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_execute, program: "execute", kinds: only(event.GoStart), words: 1,
		funcs: []string{"runtime.execute"}, without: "goroutine starts are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_goschedImpl, program: "goschedImpl", kinds: only(event.GoStop), since: 22, words: 2,
		funcs: []string{"runtime.goschedImpl"}, without: "preemption and runtime.Gosched are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_goschedM, program: "gosched_m", kinds: only(event.GoStop), until: 22,
		place: atCall, callee: "runtime.goschedImpl", funcs: []string{"runtime.gosched_m"}, without: "runtime.Gosched is not reported"},
	{id: csrc.ProbesLoupeProbePROBE_goschedguardedM, program: "goschedguarded_m", kinds: only(event.GoStop), until: 22,
		place: atCall, callee: "runtime.goschedImpl", funcs: []string{"runtime.goschedguarded_m"}, quiet: true, without: "some stops of goroutines are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_gopreemptM, program: "gopreempt_m", kinds: only(event.GoStop), until: 22,
		place: atCall, callee: "runtime.goschedImpl", funcs: []string{"runtime.gopreempt_m"}, without: "preemption is not reported"},
	{id: csrc.ProbesLoupeProbePROBE_goyieldM, program: "goyield_m", kinds: only(event.GoStop), since: 14, words: 1,
		funcs: []string{"runtime.goyield_m"}, passes: "runtime.casgstatus", without: "goroutines that yield are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_preemptPark, program: "preemptPark", kinds: only(event.GoBlock), since: 14, words: 1,
		funcs: []string{"runtime.preemptPark"}, without: "stops for stack scans of the garbage collector are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_newprocRunqput, program: "newproc_runqput", kinds: only(event.GoCreate), until: 24,
		place: atCall, callee: "runtime.runqput", funcs: []string{"runtime.newproc.func1", "runtime.newproc1"},
		without: "goroutine creation is not reported"},
	{id: csrc.ProbesLoupeProbePROBE_newproc1Casgstatus, program: "newproc1_casgstatus", kinds: only(event.GoCreate), since: 24,
		place: atCall, callee: "runtime.casgstatus", funcs: []string{"runtime.newproc1"}, needsG: true,
		without: "goroutine creation is not reported"},
	{id: csrc.ProbesLoupeProbePROBE_newcoro, program: "newcoro", kinds: only(event.GoCreate), since: 23, until: 24,
		place: atReturn, stores: func(c *csrc.Config) uint32 { return c.G_coroarg }, funcs: []string{"runtime.newcoro"}, quiet: true, without: "coroutine creation is not reported"},
	{id: csrc.ProbesLoupeProbePROBE_goexit0, program: "goexit0", kinds: only(event.GoDestroy), words: 1,
		funcs: []string{"runtime.goexit0"}, without: "goroutine exits are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_coroswitchM, program: "coroswitch_m", kinds: switches, since: 23, words: 1,
		funcs: []string{"runtime.coroswitch_m"}, quiet: true, without: "coroutine switches are not reported"},

	{id: csrc.ProbesLoupeProbePROBE_reentersyscall, program: "reentersyscall", kinds: only(event.GoSyscallBegin), needsG: true,
		funcs: []string{"runtime.reentersyscall"}, without: "starts of system calls are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_entersyscallblock, program: "entersyscallblock", kinds: only(event.GoSyscallBegin), needsG: true,
		funcs: []string{"runtime.entersyscallblock"}, without: "system calls of the runtime that block are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_exitsyscall, program: "exitsyscall", kinds: only(event.GoSyscallEnd), needsG: true,
		funcs: []string{"runtime.exitsyscall"}, without: "ends of system calls are not reported"},

	{id: csrc.ProbesLoupeProbePROBE_makechan, program: "makechan", kinds: only(event.ChanMake), place: atReturn, needsG: true,
		stores: func(c *csrc.Config) uint32 { return c.HchanDataqsiz },
		funcs:  []string{"runtime.makechan"}, without: "channel creation is not reported"},
	{id: csrc.ProbesLoupeProbePROBE_chansend, program: "chansend", kinds: only(event.ChanSend), words: 1, needsG: true,
		funcs: []string{"runtime.chansend"}, without: "channel sends are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_chanrecv, program: "chanrecv", kinds: only(event.ChanReceive), words: 1, needsG: true,
		funcs: []string{"runtime.chanrecv"}, without: "channel receives are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_closechan, program: "closechan", kinds: only(event.ChanClose), words: 1, needsG: true,
		funcs: []string{"runtime.closechan"}, quiet: true, without: "channel closes are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_selectgo, program: "selectgo", kinds: only(event.Select), words: 5, needsG: true,
		funcs: []string{"runtime.selectgo"}, quiet: true, without: "selects are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_semacquire1, program: "semacquire1", kinds: only(event.SemAcquire), words: 1, needsG: true,
		funcs: []string{"runtime.semacquire1"}, without: "lock waits are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_semrelease1, program: "semrelease1", kinds: only(event.SemRelease), words: 1, needsG: true,
		funcs: []string{"runtime.semrelease1"}, without: "lock releases are not reported"},

	{id: csrc.ProbesLoupeProbePROBE_gcBgMarkStartWorkers, program: "gcBgMarkStartWorkers", kinds: event.KindsOf(event.GCBegin, event.HeapAlloc),
		funcs: []string{"runtime.gcBgMarkStartWorkers"}, caller: "runtime.gcStart", without: "starts of garbage collections are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_gcMarkTermination, program: "gcMarkTermination", kinds: only(event.GCEnd),
		funcs: []string{"runtime.gcMarkTermination"}, without: "ends of garbage collections are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_gcSweep, program: "gcSweep", kinds: only(event.HeapAlloc),
		funcs: []string{"runtime.gcSweep"}, without: "the size of the live heap is not reported"},
	{id: csrc.ProbesLoupeProbePROBE_stopTheWorldWithSema, program: "stopTheWorldWithSema", kinds: only(event.STWBegin), words: 1,
		funcs: []string{"runtime.stopTheWorldWithSema"}, without: "starts of STW pauses are not reported"},
	{id: csrc.ProbesLoupeProbePROBE_startTheWorldWithSema, program: "startTheWorldWithSema", kinds: only(event.STWEnd),
		funcs: []string{"runtime.startTheWorldWithSema"}, without: "ends of STW pauses are not reported"},
}

// inRelease reports whether a Go release requires the probe.
func (d *declaration) inRelease(minor int) bool {
	return minor >= d.since && (d.until == 0 || minor < d.until)
}
