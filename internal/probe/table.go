package probe

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

var switches = event.KindsOf(event.GoBlock, event.GoUnblock, event.GoStart)

func only(k event.Kind) event.Kinds { return event.KindsOf(k) }

// runtimeSet returns the set of probes in the Go runtime.
func runtimeSet() *Set {
	return &Set{Name: "Go runtime", Code: &csrc.Runtime, Probes: runtimeProbes}
}

// runtimeProbes are the probes in the runtime. The functions are those of runtime/proc.go, chan.go, select.go, sema.go,
// coro.go and mgc.go; csrc has their signatures.
var runtimeProbes = []Declaration{
	{Program: "gopark", Fence: Unfenced, Kinds: only(event.GoBlock), Words: 4, NeedsG: true,
		Funcs: []string{"runtime.gopark"}, Without: "waits are not reported"},
	{Program: "ready", Fence: Unfenced, Kinds: only(event.GoUnblock), Words: 1,
		Funcs: []string{"runtime.ready"}, Without: "wake-ups by other goroutines are not reported"},
	{Program: "casgstatus", Kinds: only(event.GoUnblock), Place: AtCall, Callee: "runtime.casgstatus",
		Funcs: []string{"runtime.park_m", "runtime.injectglist", "runtime.findrunnable", "runtime.findRunnable", "runtime.schedule",
			"runtime.(*gcControllerState).findRunnableGCWorker", "runtime.procresize", "runtime.(*p).destroy"},
		Last:    []string{"runtime.park_m"}, // each wait begins with the first
		Without: "wake-ups by the network poller are not reported"},
	{Program: "borrow_casgstatus", Kinds: event.KindsOf(event.GoCreate, event.GoDestroy), Place: AtCall, Callee: "runtime.casgstatus",
		Funcs: []string{"runtime.needm", "runtime.dropm"}, Without: "goroutines that C threads borrow are not reported"},
	{Program: "execute", Fence: FenceProc, Kinds: only(event.GoStart), Words: 1,
		Funcs: []string{"runtime.execute"}, Without: "goroutine starts are not reported"},
	{Program: "goschedImpl", Kinds: only(event.GoStop), Since: 22, Words: 2,
		Funcs: []string{"runtime.goschedImpl"}, Without: "preemption and runtime.Gosched are not reported"},
	{Program: "gosched_m", Kinds: only(event.GoStop), Until: 22,
		Place: AtCall, Callee: "runtime.goschedImpl", Funcs: []string{"runtime.gosched_m"}, Without: "runtime.Gosched is not reported"},
	{Program: "goschedguarded_m", Kinds: only(event.GoStop), Until: 22,
		Place: AtCall, Callee: "runtime.goschedImpl", Funcs: []string{"runtime.goschedguarded_m"}, Quiet: true, Without: "some stops of goroutines are not reported"},
	{Program: "gopreempt_m", Kinds: only(event.GoStop), Until: 22,
		Place: AtCall, Callee: "runtime.goschedImpl", Funcs: []string{"runtime.gopreempt_m"}, Without: "preemption is not reported"},
	{Program: "goyield_m", Kinds: only(event.GoStop), Since: 14, Words: 1,
		Funcs: []string{"runtime.goyield_m"}, Passes: "runtime.casgstatus", Without: "goroutines that yield are not reported"},
	{Program: "preemptPark", Kinds: only(event.GoBlock), Since: 14, Words: 1,
		Funcs: []string{"runtime.preemptPark"}, Without: "stops for stack scans of the garbage collector are not reported"},
	{Program: "newproc_runqput", Fence: Unfenced, Kinds: only(event.GoCreate), Until: 24,
		Place: AtCall, Callee: "runtime.runqput", Funcs: []string{"runtime.newproc.func1", "runtime.newproc1"},
		Without: "goroutine creation is not reported"},
	{Program: "newproc1_casgstatus", Fence: Unfenced, Kinds: only(event.GoCreate), Since: 24,
		Place: AtCall, Callee: "runtime.casgstatus", Funcs: []string{"runtime.newproc1"}, NeedsG: true,
		Without: "goroutine creation is not reported"},
	{Program: "newcoro", Fence: Unfenced, Kinds: only(event.GoCreate), Since: 23, Until: 24,
		Place: AtReturn, Stores: func(c *csrc.Config) uint32 { return c.G_coroarg }, Funcs: []string{"runtime.newcoro"}, Quiet: true, Without: "coroutine creation is not reported"},
	{Program: "goexit0", Fence: Unfenced, Kinds: only(event.GoDestroy), Words: 1,
		Funcs: []string{"runtime.goexit0"}, Without: "goroutine exits are not reported"},
	{Program: "coroswitch_m", Kinds: switches.Union(only(event.GoDestroy)), Since: 23, Words: 1,
		Funcs: []string{"runtime.coroswitch_m"}, Quiet: true, Without: "coroutine switches are not reported"},

	{Program: "reentersyscall", Fence: Unfenced, Kinds: only(event.GoSyscallBegin), NeedsG: true,
		Funcs: []string{"runtime.reentersyscall"}, Without: "starts of system calls are not reported"},
	{Program: "entersyscallblock", Fence: Unfenced, Kinds: only(event.GoSyscallBegin), NeedsG: true,
		Funcs: []string{"runtime.entersyscallblock"}, Without: "system calls of the runtime that block are not reported"},
	{Program: "exitsyscall", Kinds: only(event.GoSyscallEnd), NeedsG: true,
		Funcs: []string{"runtime.exitsyscall"}, Without: "ends of system calls are not reported"},
	{Program: "exitsyscallNoP", Fence: Unfenced, Kinds: only(event.GoStart), Identifies: true,
		Funcs: []string{"runtime.exitsyscallNoP", "runtime.exitsyscall0"}, Without: "the map of a profiler cannot be filled"},

	{Program: "makechan", Kinds: only(event.ChanMake), Place: AtReturn, NeedsG: true,
		Stores: func(c *csrc.Config) uint32 { return c.HchanDataqsiz },
		Funcs:  []string{"runtime.makechan"}, Without: "channel creation is not reported"},
	{Program: "chansend", Kinds: only(event.ChanSend), Words: 1, NeedsG: true,
		Funcs: []string{"runtime.chansend"}, Without: "channel sends are not reported"},
	{Program: "chanrecv", Kinds: only(event.ChanReceive), Words: 1, NeedsG: true,
		Funcs: []string{"runtime.chanrecv"}, Without: "channel receives are not reported"},
	{Program: "closechan", Kinds: only(event.ChanClose), Words: 1, NeedsG: true,
		Funcs: []string{"runtime.closechan"}, Quiet: true, Without: "channel closes are not reported"},
	{Program: "selectgo", Kinds: only(event.Select), Words: 5, NeedsG: true,
		Funcs: []string{"runtime.selectgo"}, Quiet: true, Without: "selects are not reported"},
	{Program: "semacquire1", Kinds: only(event.SemAcquire), Words: 1, NeedsG: true,
		Funcs: []string{"runtime.semacquire1"}, Without: "lock waits are not reported"},
	{Program: "semrelease1", Kinds: only(event.SemRelease), Words: 1, NeedsG: true,
		Funcs: []string{"runtime.semrelease1"}, Without: "lock releases are not reported"},

	{Program: "gcBgMarkStartWorkers", Kinds: event.KindsOf(event.GCBegin, event.HeapAlloc),
		Funcs: []string{"runtime.gcBgMarkStartWorkers"}, Caller: "runtime.gcStart", Without: "starts of garbage collections are not reported"},
	{Program: "gcMarkTermination", Kinds: only(event.GCEnd),
		Funcs: []string{"runtime.gcMarkTermination"}, Without: "ends of garbage collections are not reported"},
	{Program: "gcSweep", Kinds: only(event.HeapAlloc),
		Funcs: []string{"runtime.gcSweep"}, Without: "the size of the live heap is not reported"},
	{Program: "stopTheWorldWithSema", Kinds: only(event.STWBegin), Words: 1,
		Funcs: []string{"runtime.stopTheWorldWithSema"}, Without: "starts of STW pauses are not reported"},
	{Program: "startTheWorldWithSema", Kinds: only(event.STWEnd),
		Funcs: []string{"runtime.startTheWorldWithSema"}, Without: "ends of STW pauses are not reported"},
	{Program: "gcAssistAlloc1_gcDrainN", Kinds: only(event.GCMarkAssistBegin), Place: AtCall, Callee: "runtime.gcDrainN", NeedsG: true,
		Funcs: []string{"runtime.gcAssistAlloc1"}, Without: "starts of mark assists are not reported"},
	{Program: "gcAssistAlloc1_casgstatus", Kinds: only(event.GCMarkAssistEnd), Place: AtCall, Callee: "runtime.casgstatus",
		Funcs: []string{"runtime.gcAssistAlloc1"}, Last: []string{"runtime.gcAssistAlloc1"}, Without: "ends of mark assists are not reported"},
}

// selectArgs are the indices of the arguments of runtime.selectgo that are its numbers of cases (runtime/select.go), from Go
// 1.since on. The oldest release comes first.
var selectArgs = []struct {
	since        int
	cases, recvs uint32 // recvs: csrc.NoField if cases is the number of all
}{
	{since: 0, cases: 2, recvs: csrc.NoField},
	{since: 16, cases: 3, recvs: 4},
}
