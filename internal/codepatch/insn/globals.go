package insn

// Globals are the addresses of the runtime's variables, as far as the code of
// its functions gives them away. Slices and strings are the addresses of their
// headers.
type Globals struct {
	Allgs           Global // []*g: every goroutine ever made
	Allglen         Global // uintptr: length of allgs, for readers without the lock
	Allgptr         Global // **g: first element of allgs, for readers without the lock (Go 1.16 on)
	Allm            Global // *m: head of the list of threads
	Allp            Global // []*p
	Sched           Global // schedt
	Gomaxprocs      Global // int32
	Ncpu            Global // int32: processors at start-up; numCPUStartup from Go 1.25 on
	BuildVersion    Global // string: "go1.22.12"
	FirstModuleData Global // moduledata of the executable
	GCController    Global // gcControllerState
	Gcpercent       Global // int32: GOGC (to Go 1.16; a field of gcController since then)
	Mheap           Global // mheap_
	Work            Global // the state of garbage collection, of an unnamed type
	Debug           Global // the GODEBUG settings, of an unnamed type
	RuntimeInitTime Global // int64: nanotime when the main goroutine started
	WaitReasons     Global // [...]string: waitReasonStrings
	WaitReasonCount int    // elements of WaitReasons, 0 when not known

	// The profiles that the runtime keeps (runtime/mprof.go).
	MemBuckets             Global // *bucket: head of the list of the memory profile, mbuckets
	BlockBuckets           Global // *bucket: head of the list of the block profile, bbuckets
	MutexBuckets           Global // *bucket: head of the list of the mutex profile, xbuckets
	MemProfCycle           Global // the cycle of the memory profile: mProf; mProfCycle from Go 1.19 on
	MemProfLock            Global // mutex: guards what the memory profile has published
	BlockProfLock          Global // mutex: guards the block and mutex profiles
	MemProfileRate         Global // int
	DisableMemoryProfiling Global // bool: set by the linker
	BlockProfileRate       Global // uint64: blockprofilerate
	MutexProfileRate       Global // uint64: mutexprofilerate
	Ticks                  Global // the clock of the block and mutex profiles
}

// Global is the address of one variable.
type Global struct {
	// Addr is 0 when no source knows the variable or when two disagree.
	Addr uint64
	// Evidence tells each deduction, agreeing or not.
	Evidence []Evidence
}

// Evidence is one deduction of a variable's address.
type Evidence struct {
	Func string // the runtime function that refers to the variable
	PC   uint64 // the instruction that does
	Addr uint64 // what it says the variable's address is
}

// Lookup returns the code of a runtime function by its full name, such as
// "runtime.allgadd".
type Lookup func(name string) (Code, bool)

// InferGlobals finds the runtime's variables by what its functions refer to.
// valid says whether size bytes at addr are data of the program; a deduction
// that fails it is dropped. What cannot be found stays zero.
//
// The deductions hold for Go 1.12 to 1.27. Functions that are missing, and code
// that looks otherwise, leave variables unfound rather than wrong; still, the
// result wants checking against what the addresses hold.
func InferGlobals(lookup Lookup, valid func(addr uint64, size int) bool) Globals {
	v := &evidenceView{lookup: lookup, valid: valid, refs: make(map[string][]Ref)}
	var g Globals
	for _, rule := range globalRules {
		out := rule.global(&g)
		for _, s := range rule.sources {
			if r, ok := s.find(v, s.fn); ok {
				out.add(s.fn, r.PC, r.Addr, v.valid(r.Addr, rule.size))
			}
		}
	}
	g.WaitReasonCount = v.waitReasonCount(g.WaitReasons)
	return g
}

// add takes one more deduction into account.
func (g *Global) add(fn string, pc, addr uint64, valid bool) {
	if !valid {
		return
	}
	if len(g.Evidence) == 0 {
		g.Addr = addr
	} else if g.Addr != addr {
		g.Addr = 0
	}
	g.Evidence = append(g.Evidence, Evidence{Func: fn, PC: pc, Addr: addr})
}

// globalRule says where the address of one variable shows.
type globalRule struct {
	global  func(*Globals) *Global
	size    int // bytes that must be data at the address
	sources []globalSource
}

// finder finds a reference to a variable in the function fn. The Addr it
// returns is the variable's address.
type finder func(v *evidenceView, fn string) (Ref, bool)

// globalSource finds a variable in the references of one function.
type globalSource struct {
	fn   string
	find finder
}

// globalRules name functions that exist in every Go from 1.12 on, where a rule
// does not say otherwise. A source without its function is skipped.
var globalRules = []globalRule{
	{func(g *Globals) *Global { return &g.Allgs }, 24, []globalSource{
		{"runtime.allgadd", grownSlice},
		{"runtime.forEachG", firstSlice},        // Go 1.17 on
		{"runtime.tracebackothers", firstSlice}, // to Go 1.16
	}},
	{func(g *Globals) *Global { return &g.Allglen }, 8, []globalSource{
		{"runtime.allgadd", storedOnly},
		{"runtime.forEachGRace", nthRead(8, 0)}, // Go 1.17 on
	}},
	{func(g *Globals) *Global { return &g.Allgptr }, 8, []globalSource{
		{"runtime.allgadd", readAndTaken},
		{"runtime.forEachGRace", nthRead(8, 1)}, // Go 1.17 on
	}},
	{func(g *Globals) *Global { return &g.Allm }, 8, []globalSource{
		{"runtime.mcommoninit", readAndTaken},
		{"runtime.mexit", common(taken, "runtime.schedtrace", reads(8))},
	}},
	{func(g *Globals) *Global { return &g.Allp }, 24, []globalSource{
		{"runtime.retake", firstSlice},
		{"runtime.stopTheWorldWithSema", firstSlice},
	}},
	{func(g *Globals) *Global { return &g.Sched }, 64, []globalSource{
		{"runtime.newproc1", schedByGoid},
		{"runtime.schedinit", schedByLastPoll},
	}},
	{func(g *Globals) *Global { return &g.Gomaxprocs }, 4, []globalSource{
		{"runtime.procresize", nthRead(4, 0)},
		{"runtime.stopTheWorldWithSema", nthRead(4, 0)},
	}},
	{func(g *Globals) *Global { return &g.Ncpu }, 4, []globalSource{
		{"runtime.osinit", common(writes(4), "runtime.schedinit", reads(4))},
	}},
	{func(g *Globals) *Global { return &g.BuildVersion }, 16, []globalSource{
		{"runtime.schedinit", unknownVersion},
	}},
	{func(g *Globals) *Global { return &g.FirstModuleData }, 256, []globalSource{
		{"runtime.modulesinit", common(taken, "runtime.schedinit", taken)},        // Go 1.16 on
		{"runtime.modulesinit", common(taken, "runtime.moduledataverify", taken)}, // to Go 1.15
	}},
	{func(g *Globals) *Global { return &g.GCController }, 64, []globalSource{
		{"runtime.gcStart", receiverOf("runtime.(*gcControllerState).startCycle")},
		{"runtime.gcMarkDone", receiverOf("runtime.(*gcControllerState).endCycle")},
	}},
	{func(g *Globals) *Global { return &g.Gcpercent }, 4, []globalSource{
		{"runtime/debug.setGCPercent", common(writes(4), "runtime.gcSetTriggerRatio", reads(4))}, // to Go 1.13
		{"runtime.setGCPercent.func1", common(writes(4), "runtime.gcSetTriggerRatio", reads(4))}, // Go 1.14 to 1.16
	}},
	{func(g *Globals) *Global { return &g.Mheap }, 4096, []globalSource{
		{"runtime.mallocinit", receiverOf("runtime.(*mheap).init")},
		{"runtime.gcSweep", firstTaken}, // mheap_.lock, the first field
	}},
	{func(g *Globals) *Global { return &g.Work }, 64, []globalSource{
		{"runtime.putfull", receiverOf("runtime.(*lfstack).push")},
		{"runtime.trygetfull", receiverOf("runtime.(*lfstack).pop")},
	}},
	{func(g *Globals) *Global { return &g.Debug }, 64, []globalSource{
		{"runtime.parsedebugvars", debugByCgocheck},        // to Go 1.24
		{"runtime.parseRuntimeDebugVars", debugByCgocheck}, // Go 1.25 on
	}},
	{func(g *Globals) *Global { return &g.RuntimeInitTime }, 8, []globalSource{
		{"runtime.main", common(writes(8), "runtime.gcMarkTermination", reads(8))},
	}},
	{func(g *Globals) *Global { return &g.WaitReasons }, 16, []globalSource{
		{"runtime.waitReason.String", indexedStrings},
		{"runtime.goroutineheader", secondIndexedStrings},
	}},
	{func(g *Globals) *Global { return &g.MemBuckets }, 8, []globalSource{
		{"runtime.mProf_FlushLocked", only(reads(8))},
		{"runtime.mProf_PostSweep", only(reads(8))}, // to Go 1.18
	}},
	{func(g *Globals) *Global { return &g.MutexBuckets }, 8, []globalSource{
		{"runtime.stkbucket", afterMemBuckets(1)},
		{"runtime.MutexProfile", only(reads(8))},         // to Go 1.22, where the program uses it
		{"runtime.mutexProfileInternal", only(reads(8))}, // Go 1.23 on, where the program uses it
	}},
	{func(g *Globals) *Global { return &g.BlockBuckets }, 8, []globalSource{
		{"runtime.stkbucket", afterMemBuckets(2)},
		{"runtime.BlockProfile", only(reads(8))},         // to Go 1.22, where the program uses it
		{"runtime.blockProfileInternal", only(reads(8))}, // Go 1.23 on, where the program uses it
	}},
	{func(g *Globals) *Global { return &g.MemProfCycle }, 4, []globalSource{
		{"runtime.mProf_PostSweep", only(reads(4))},
		{"runtime.mProf_NextCycle", only(reads(4))}, // to Go 1.20
	}},
	{func(g *Globals) *Global { return &g.MemProfLock }, 8, []globalSource{
		{"runtime.mProf_PostSweep", takenTwice},
		{"runtime.mProf_Flush", takenTwice},
	}},
	{func(g *Globals) *Global { return &g.BlockProfLock }, 8, []globalSource{
		{"runtime.saveblockevent", takenTwice},      // to Go 1.22
		{"runtime.saveBlockEventStack", takenTwice}, // Go 1.23 on
	}},
	{func(g *Globals) *Global { return &g.MemProfileRate }, 8, []globalSource{
		{"runtime.profilealloc", common(reads(8), "runtime.parsedebugvars", writes(8))}, // to Go 1.20
		{"runtime.profilealloc", common(reads(8), "runtime.schedinit", writes(8))},      // Go 1.20 on
	}},
	{func(g *Globals) *Global { return &g.DisableMemoryProfiling }, 1, []globalSource{
		{"runtime.init", flagBeforeRate},      // Go 1.17 to 1.19
		{"runtime.schedinit", flagBeforeRate}, // Go 1.20 on
	}},
	{func(g *Globals) *Global { return &g.BlockProfileRate }, 8, []globalSource{
		{"runtime.blockevent", only(reads(8))},
		{"runtime.semacquire1", common(reads(8), "runtime.chanrecv", reads(8))},
	}},
	{func(g *Globals) *Global { return &g.MutexProfileRate }, 8, []globalSource{
		{"sync.event", only(reads(8))}, // to Go 1.26
		{"runtime.mutexevent", only(reads(8))},
	}},
	{func(g *Globals) *Global { return &g.Ticks }, 16, []globalSource{
		{"runtime.tickspersecond", receiverOf("runtime.lock")},         // to Go 1.14, where the program uses it
		{"runtime.tickspersecond", receiverOf("runtime.lock2")},        // to Go 1.21, where the program uses it
		{"runtime.schedinit", receiverOf("runtime.(*ticksType).init")}, // Go 1.22 on
	}},
}

// evidenceView gives the rules the references of functions by name.
type evidenceView struct {
	lookup Lookup
	valid  func(addr uint64, size int) bool
	refs   map[string][]Ref
}

// Bounds on what is believed to be a function of the runtime: the code is
// somebody else's, and the rules compare references with each other. The
// largest real one, without optimisation, stays below a fifth of either.
const (
	maxRuntimeCode = 64 << 10 // bytes
	maxRuntimeRefs = 4096
)

// of returns the references of a function to data, none when it is not there.
func (v *evidenceView) of(fn string) []Ref {
	if refs, ok := v.refs[fn]; ok {
		return refs
	}
	var refs []Ref
	if c, ok := v.lookup(fn); ok && len(c.Bytes) <= maxRuntimeCode {
		if all, err := Refs(c); err == nil && len(all) <= maxRuntimeRefs {
			refs = v.inData(all)
		}
	}
	v.refs[fn] = refs
	return refs
}

// inData keeps the references to the program's data.
func (v *evidenceView) inData(all []Ref) []Ref {
	var refs []Ref
	for _, r := range all {
		if v.valid(r.Addr, max(r.Size, 1)) {
			refs = append(refs, r)
		}
	}
	return refs
}
