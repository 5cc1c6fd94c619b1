package probe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/gobin/layout"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/sampling"
)

// Want configures a Session: what to observe.
type Want struct {
	Kinds       event.Kinds
	StackDepth  int           // maximum number of return addresses of a stack; 0: no stacks
	MinBlock    time.Duration // 0: every wait
	Goroutines  []uint64      // empty: all
	System      bool          // include the runtime's own goroutines
	SampleOneIn int           // 0 and 1: all
	BufferBytes int           // size of the buffer between target and reader, a power of two
	Procs       bool          // report the P on which a goroutine starts
	Sets        []*Set        // in addition to that of the runtime

	// Requests selects the goroutines that serve a request, from the moment at which a probe of a set reports that it has begun
	// (follow_begin in C), and the goroutines that these create. Goroutines and System do not apply.
	Requests bool

	// Spare are those of Kinds that nobody wants to know if no probe of a set depends on them: Declaration.Alone. It requires Requests.
	Spare event.Kinds

	// Allocated receives what a goroutine of a request has allocated since the request began, or since the goroutine was created, with
	// each of its notes, and when it blocks, wakes another one, enters a system call or ends. It is called by the goroutine that iterates
	// over Events, before the note or the event is. It requires a set that counts: malloc.ByRequest. Without Requests, other goroutines
	// are observed, too, and each allocation takes longer. It may be nil.
	Allocated func(goroutine, bytes, objects uint64)

	// Propagate selects the probes that write the contexts of spans to the requests that the program sends. It requires an engine
	// that can change the target, and Requests.
	Propagate *Propagate

	// ProfilerMap is the path at which a map is pinned by which eBPF profilers know the span that a thread works for. The probes fill it,
	// and choose the IDs of the spans of requests. Empty means none. It requires Requests, the kinds of events of a breakdown, and an
	// engine of eBPF programs.
	ProfilerMap string
}

// PacksAllocated reports whether the records of waits have what their goroutine has allocated, instead of the length of the wait.
func (w *Want) PacksAllocated() bool { return w.Allocated != nil && w.MinBlock == 0 }

// Propagate is how the spans whose contexts are written are sampled. The probes must decide that.
type Propagate struct {
	Baggage bool // requests carry on the baggage of the request that they belong to

	Bound  uint64 // a new trace is sampled if the last 8 bytes of its ID, shifted right by one, are below; 1<<63: always
	Parent bool   // a span with a parent is sampled if that is
}

// A Plan lists the probes to attach to one process, and their settings.
type Plan struct {
	PID       int
	ImagePath string // the file that contains the runtime, as a path that this process can open
	Config    csrc.Config
	Sets      []PlannedSet // the runtime's set is first
	Probes    []Probe      // of all sets

	TableBytes int // size of the tables of all sets on one processor or in one lane

	Want Want

	// Bias is the difference between an address in the process and in the image.
	Bias uint64

	Rule       sampling.Rule // which goroutines are sampled at first
	Goroutines []uint64      // the goroutines to report or to exclude: see Config.OnlyListed
	// SystemStarts are the addresses at which goroutines of the runtime itself start.
	SystemStarts []uint64

	// SignalStacks returns the stacks on which the threads of the process currently handle signals.
	SignalStacks func() ([]ptrace.Interval, error)

	// Ended returns an error if the process has exited or has executed another program: the plan does not apply to it.
	Ended func() error

	// StableMemory returns the memory that probes can read without a system call. The error is why the heap is unknown.
	StableMemory func() (goproc.StableMemory, error)

	bin *gobin.Binary
}

// requestRoom is the number of goroutines that can serve requests at once.
const requestRoom = 1 << 16

// Room returns the number of goroutines for which the engine's filter must have room at least.
func (p *Plan) Room() int {
	if p.Want.Requests || p.Want.Allocated != nil {
		return requestRoom
	}
	return len(p.Goroutines)
}

// Arch returns the architecture of the program, as in GOARCH.
func (p *Plan) Arch() string { return p.bin.Arch() }

// Code returns the address in the image and the machine code of the function that contains a site, including the
// padding after it.
func (p *Plan) Code(site Site) (entry uint64, code []byte, err error) {
	f, ok := p.bin.FuncForPC(site.Addr)
	if !ok {
		return 0, nil, fmt.Errorf("no function at %#x", site.Addr)
	}
	code, err = p.bin.Code(f)
	return f.Entry, code, err
}

// Instead returns the lists of places at which a probe would report the same as at its current places: after the first
// instruction of its function, at the call of its function, at a call to which its function passes its arguments,
// where its function stores a word in the object that it returns, after the calls of its deferred functions, where it removes its
// frame, or elsewhere after the calls of another function. Preferred lists are first.
func (p *Plan) Instead(probe *Probe) ([][]Site, error) {
	if len(probe.instead) > 0 {
		return probe.instead, nil
	}
	if len(probe.Sites) != 1 {
		return nil, nil
	}
	f, ok := p.bin.FuncForPC(probe.Sites[0].Addr)
	if !ok {
		return nil, fmt.Errorf("no function at %#x", probe.Sites[0].Addr)
	}
	var places []insn.Site
	var err error
	switch d := probe.declared; {
	case probe.Place == AtEntry:
		places, err = p.bin.LaterSites(f, d.Words)
	case d.Stores != nil:
		places, err = p.bin.StoreSites(f, int64(d.Stores(&p.Config)))
	}
	if err != nil {
		return nil, err
	}
	sites := make([]Site, len(places))
	for i, at := range places {
		sites[i] = Site{Func: f.Name, Addr: at.PC, At: at}
	}
	if caller, ok := p.bin.LookupFunc(probe.declared.Caller); ok {
		calls, err := callsOf(p.bin, caller, f)
		if err != nil {
			return nil, err
		}
		for _, at := range calls {
			sites = append(sites, Site{Func: caller.Name, Addr: at.PC, At: at})
		}
	}
	if callee, ok := p.bin.LookupFunc(probe.declared.Passes); ok {
		calls, err := callsOf(p.bin, f, callee)
		if err != nil {
			return nil, err
		}
		if len(calls) == 1 {
			sites = append(sites, Site{Func: f.Name, Addr: calls[0].PC, At: calls[0]})
		}
	}
	lists := make([][]Site, len(sites))
	for i, site := range sites {
		lists[i] = []Site{site}
	}
	return lists, nil
}

// Settings returns how the probe reads registers at the site.
func (s *Site) Settings() csrc.Site {
	settings := csrc.Site{G_reg: registerNumber(s.At.GReg), SpMoved: int16(s.At.SPMoved),
		ObjectReg: registerNumber(s.At.Object), ValueReg: registerNumber(s.At.Value)}
	if s.At.CheckTaken {
		settings.CheckTaken = 1
	}
	settings.Caller, settings.CallerSize = s.At.Caller, s.At.CallerSize
	for i := range settings.Results {
		settings.Results[i] = csrc.NoSlot
		if i < s.At.Words {
			settings.Results[i] = int16(s.At.Results[i])
		}
	}
	return settings
}

// Move changes the places of a probe to those of a list that Instead has returned.
func (p *Plan) Move(probe *Probe, sites []Site) {
	probe.Sites = sites
	p.Sets[probe.Set].Sites[probe.ID] = sites[0].Settings()
}

// Number returns the number of a probe among the probes of all sets.
func (p *Plan) Number(probe *Probe) int { return p.Sets[probe.Set].First + int(probe.ID) }

// A Probe is one program and its places.
type Probe struct {
	Set     int        // index of its set in Plan.Sets
	ID      csrc.Probe // its number in the set
	Program string
	Kinds   event.Kinds // that it reports
	Place   Place       // the position of its sites in their functions
	Sites   []Site
	Reads   bool   // reads memory that need not be valid
	Fence   bool   // all instructions before its place must have completed when the time is read
	Untimed bool   // the time need not be read
	Without string // the events that are missing if it cannot be attached

	Requires string // the program of its set without which it is not attached; empty: none
	Lends    bool   // lends memory to the program

	declared *Declaration
	instead  [][]Site // AtExit in a deferred function: the places after the calls of it; at returns: where the frame is removed; AfterCall: instructions that are longer than a jump
}

// Only returns the kind of engines that attach the probe.
func (p *Probe) Only() Engines { return p.declared.Only }

// addInstead adds a place to one of the lists that Instead returns.
func (p *Probe) addInstead(list int, f gobin.Func, site insn.Site) {
	for len(p.instead) <= list {
		p.instead = append(p.instead, nil)
	}
	p.instead[list] = append(p.instead[list], Site{Func: f.Name, Addr: site.PC, At: site})
}

// A Site is one place of a probe.
type Site struct {
	Func   string
	Addr   uint64 // in the image
	Offset uint64 // in the file of the image
	At     insn.Site
}

// ErrNothing reports that no requested probe has a place in the program. It wraps goproc.ErrUnsupported.
var ErrNothing error = &reason{"no probe matches this program", goproc.ErrUnsupported}

// A Program is the subject of a Plan: a goproc.Process, or an executable on disk.
type Program interface {
	PID() int
	ImagePath() string // the file that contains the runtime
	Binary() *gobin.Binary
	Layout() *layout.Layout
	LoadBias() uint64
	SystemStarts() []uint64
	SignalStacks() ([]ptrace.Interval, error)
	Ended() error
	StableMemory() (goproc.StableMemory, error)
}

// NewPlan finds the places of probes in a program. The warnings are one line each, about events that will be missing.
func NewPlan(p Program, want Want) (*Plan, []event.Warning, error) {
	pl := &planner{bin: p.Binary(), plan: &Plan{
		PID: p.PID(), ImagePath: p.ImagePath(), Want: want, Bias: p.LoadBias(),
		SignalStacks: p.SignalStacks, Ended: p.Ended, StableMemory: p.StableMemory, bin: p.Binary()}}
	// An option of Go 1.17 only, which is part of the version.
	if version := pl.bin.GoVersion(); strings.Contains(version, "noregabi") {
		return nil, nil, fmt.Errorf("process %d: %w: it was built with GOEXPERIMENT=noregabi (%s); build it without", p.PID(), goproc.ErrUnsupported, version)
	}
	if err := pl.configure(p); err != nil {
		return nil, nil, fmt.Errorf("process %d: %w", p.PID(), err)
	}
	for _, set := range append([]*Set{runtimeSet()}, want.Sets...) {
		if err := pl.addSet(p, set); err != nil {
			return nil, nil, fmt.Errorf("process %d: %w", p.PID(), err)
		}
	}
	pl.spare()
	if want.Requests && !slices.ContainsFunc(pl.plan.Probes, func(p Probe) bool { return p.Set > 0 }) {
		reasons := strings.Join(event.WarningTexts(pl.warnings), "; ")
		return nil, nil, fmt.Errorf("process %d: %w: %s", p.PID(), ErrNothing, cmp.Or(reasons, "it has no supported library"))
	}
	if len(pl.plan.Probes) == 0 && len(want.Sets) > 0 && len(pl.warnings) > 0 {
		return nil, nil, fmt.Errorf("process %d: %w: %s", p.PID(), ErrNothing, strings.Join(event.WarningTexts(pl.warnings), "; "))
	}
	if len(pl.plan.Probes) == 0 {
		return nil, nil, fmt.Errorf("process %d: %w", p.PID(), ErrNothing)
	}
	return pl.plan, pl.warnings, nil
}

// spare removes the runtime's probes if all of their kinds can be spared. Then the goroutines of requests are not followed.
func (pl *planner) spare() {
	plan := pl.plan
	needs := func(p Probe) bool {
		if p.Set == 0 {
			return !plan.Want.Spare.Contains(p.Kinds)
		}
		has := func(program string) bool {
			return slices.ContainsFunc(plan.Probes, func(other Probe) bool { return other.Set == p.Set && other.Program == program })
		}
		return len(p.declared.Alone) == 0 || slices.ContainsFunc(p.declared.Alone, func(program string) bool { return !has(program) })
	}
	if plan.Want.Spare.IsEmpty() || slices.ContainsFunc(plan.Probes, needs) {
		return
	}
	plan.Probes = slices.DeleteFunc(plan.Probes, func(p Probe) bool { return p.Set == 0 })
	plan.Want.Kinds = plan.Want.Kinds.Without(plan.Want.Spare)
	plan.Config.Kinds, plan.Config.Follow = plan.Want.Kinds.Words(), 0
}

type planner struct {
	bin      *gobin.Binary
	plan     *Plan
	set      *PlannedSet // whose probes are being added
	warnings []event.Warning
}

// warn adds a warning that events will be missing.
func (pl *planner) warn(format string, args ...any) {
	pl.warnings = append(pl.warnings, event.Warnf(event.WarnMissing, format, args...))
}

// addSet adds the probes of a set that the program requires.
func (pl *planner) addSet(p Program, set *Set) error {
	first := 0
	if n := len(pl.plan.Sets); n > 0 {
		last := &pl.plan.Sets[n-1]
		first = last.First + len(last.Code.Probes)
	}
	if len(pl.plan.Sets) > csrc.MaxSets {
		return fmt.Errorf("more than %d sets of probes", csrc.MaxSets)
	}
	if total := first + len(set.Code.Probes); total > csrc.MaxProbes {
		return fmt.Errorf("%s with those of %s, want at most %d", english.Count(total, "probe"), set.Name, csrc.MaxProbes)
	}
	pl.plan.Sets = append(pl.plan.Sets, planSet(set, first))
	pl.set = &pl.plan.Sets[len(pl.plan.Sets)-1]
	if n := len(pl.plan.Sets) - 1; n > 0 {
		pl.set.Kind = csrc.KindSet + uint8(n-1)
	}
	if err := pl.setTables(); err != nil {
		return err
	}
	unknown, err := pl.setOwn(p)
	if err != nil {
		return err
	}
	for i := range set.Probes {
		d := &set.Probes[i]
		if !d.Kinds.IsEmpty() && d.Kinds.Intersect(pl.plan.Want.Kinds).IsEmpty() || !d.inRelease(pl.bin.Version().Minor) ||
			d.Propagates && pl.plan.Want.Propagate == nil || d.Identifies && pl.plan.Want.ProfilerMap == "" ||
			slices.ContainsFunc(d.Modules, func(m Module) bool { return !m.In(pl.bin) }) {
			continue
		}
		if d.Requires != "" && !slices.ContainsFunc(pl.plan.Probes, func(p Probe) bool { return p.Set == len(pl.plan.Sets)-1 && p.Program == d.Requires }) {
			continue
		}
		if why := firstUnknown(d.Settings, unknown); why != nil {
			pl.warn("%s: %v", d.Without, why)
			continue
		}
		if err := pl.add(d); err != nil {
			return err
		}
	}
	pl.warnVersion(set)
	return nil
}

// add finds the places of one probe in all of its functions.
func (pl *planner) add(d *Declaration) error {
	id, err := pl.set.number(d.Program)
	if err != nil {
		return err
	}
	set := len(pl.plan.Sets) - 1
	if slices.ContainsFunc(pl.plan.Probes, func(p Probe) bool { return p.Set == set && p.ID == id }) {
		return fmt.Errorf("%s: two declarations of probe %s apply to this executable", pl.set.Name, d.Program)
	}
	probe := Probe{Set: set, ID: id, Program: d.Program, Kinds: d.Kinds, Place: d.Place, Without: d.Without, Requires: d.Requires, Lends: d.Lends, declared: d,
		Reads: d.Reads, Untimed: d.Fence == Untimed, Fence: d.Fence == Fenced || d.Fence == FenceProc && pl.plan.Config.Procs != 0}
	var funcs []gobin.Func
	for _, name := range d.Funcs {
		if f, ok := pl.bin.LookupFunc(name); ok {
			funcs = append(funcs, f)
		}
	}
	for _, addr := range d.Addrs {
		if f, ok := pl.bin.FuncForPC(addr); ok && f.Entry == addr {
			funcs = append(funcs, f)
		}
	}
	if d.Find != nil {
		found, err := d.Find(pl.bin)
		if err != nil {
			pl.warn("%s: %v", d.Without, err)
			return nil
		}
		funcs = append(funcs, found...)
	}
	add := pl.addIn
	if d.Local != nil {
		add = pl.localCalls(d.Local)
	}
	for _, f := range funcs {
		if err := add(&probe, d, f); err != nil {
			pl.warn("%s: %v", d.Without, err)
			return nil
		}
	}
	if len(probe.Sites) == 0 {
		if !d.Quiet {
			pl.warn("%s: found no place for probe %s in this executable", d.Without, d.Program)
		}
		return nil
	}
	pl.plan.Probes = append(pl.plan.Probes, probe)
	return nil
}

// addIn finds the places of a probe in one function.
func (pl *planner) addIn(probe *Probe, d *Declaration, f gobin.Func) error {
	switch d.Place {
	case AtCall:
		return pl.addCalls(probe, d, f)
	case AtReturn:
		return pl.addReturns(probe, d, f)
	case AtExit:
		return pl.addExits(probe, d, f)
	case AfterCall:
		return pl.addAfter(probe, d, f)
	}
	site, err := pl.bin.PrologueSite(f, d.Words)
	if err != nil {
		return err
	}
	return pl.addSite(probe, d, f, site)
}

// addReturns places a probe at the return instructions of a function.
func (pl *planner) addReturns(probe *Probe, d *Declaration, f gobin.Func) error {
	returns, err := pl.bin.ReturnSites(f)
	if err != nil {
		return err
	}
	// All places of a probe must have the same settings: earlier places are used if all returns have one, at the same depth.
	early := len(returns) > 0 && !slices.ContainsFunc(returns, func(r insn.Return) bool {
		return r.Early == nil || r.Early.SPMoved != returns[0].Early.SPMoved
	})
	for _, r := range returns {
		site := r.Site
		if early {
			site = *r.Early
		}
		site.GReg = insn.GReg(pl.bin.Arch(), pl.bin.Version().Minor)
		if err := pl.addSite(probe, d, f, site); err != nil {
			return err
		}
	}
	if d.Stores == nil && len(probe.Sites) == len(returns) { // this is its only function
		if sites := pl.frameSites(f, returns); len(sites) > 0 {
			probe.instead = [][]Site{sites}
		}
	}
	return nil
}

// frameSites returns the places where a function removes its frame before it returns, or nil if they do not all have the same settings.
func (pl *planner) frameSites(f gobin.Func, returns []insn.Return) []Site {
	var sites []Site
	for _, r := range returns {
		if r.Frame == nil || r.Frame.SPMoved != returns[0].Frame.SPMoved {
			return nil
		}
		site := *r.Frame
		site.GReg = insn.GReg(pl.bin.Arch(), pl.bin.Version().Minor)
		sites = append(sites, Site{Func: f.Name, Addr: site.PC, At: site})
	}
	return sites
}

// addExits places a probe where a function returns, so that it can read the results.
func (pl *planner) addExits(probe *Probe, d *Declaration, f gobin.Func) error {
	exits, ok, err := pl.bin.Exits(f, d.Results)
	if err != nil {
		return err
	}
	deferreturn, _ := pl.bin.LookupFunc("runtime.deferreturn")
	closure, hasClosure := pl.bin.LookupFunc(d.Deferred)
	if ok && !slices.ContainsFunc(exits, func(e insn.Exit) bool { return e.Target != deferreturn.Entry }) {
		for _, e := range exits {
			site := callSite(pl.bin, e.PC)
			site.Words = copy(site.Results[:], e.Results)
			if err := pl.addSite(probe, d, f, site); err != nil {
				return err
			}
		}
		return nil
	}
	if !ok || !hasClosure {
		return pl.addReturns(probe, d, f)
	}
	for _, e := range exits {
		if !slices.Equal(e.Results, exits[0].Results) {
			return fmt.Errorf("the results of %s are in different places", f.Name)
		}
	}
	sites, err := pl.inClosure(d, closure)
	if err != nil {
		return err
	}
	for _, e := range exits {
		site := insn.Site{PC: e.After, Kind: insn.SiteBody, GReg: insn.GReg(pl.bin.Arch(), pl.bin.Version().Minor)}
		site.Words = copy(site.Results[:], e.Results)
		probe.addInstead(0, f, site)
	}
	for _, site := range sites {
		for i, slot := range exits[0].Results {
			site.Results[i], site.Words = slot+site.SPMoved+8, i+1 // 8: the return address
		}
		site.Caller, site.CallerSize = f.Entry+pl.plan.Bias, f.End-f.Entry
		if err := pl.addSite(probe, d, closure, site); err != nil {
			return err
		}
	}
	return nil
}

// inClosure returns the places in a closure that a function defers: where it calls Callee, or its entry.
func (pl *planner) inClosure(d *Declaration, closure gobin.Func) ([]insn.Site, error) {
	if d.Callee == "" {
		site, err := pl.bin.PrologueSite(closure, 0)
		return []insn.Site{site}, err
	}
	callee, ok := pl.bin.LookupFunc(d.Callee)
	if !ok {
		return nil, nil
	}
	sites, err := callsOf(pl.bin, closure, callee)
	for i := range sites {
		moved, ok, err := pl.bin.StackMoved(closure, sites[i].PC)
		if err != nil || !ok {
			return nil, fmt.Errorf("the frame of %s is unknown: %w", closure.Name, err)
		}
		sites[i].SPMoved = moved
	}
	return sites, err
}

// addSite adds a place. All places of a probe must have the same settings, because a probe has only one set of them.
func (pl *planner) addSite(probe *Probe, d *Declaration, f gobin.Func, site insn.Site) error {
	if site.Repeats {
		return fmt.Errorf("%s has no instruction that each call executes exactly once", f.Name)
	}
	if site.GReg == "" && d.NeedsG && pl.plan.Config.G_tls == 0 {
		return fmt.Errorf("the location of the current goroutine is unknown in %s", f.Name)
	}
	place := Site{Func: f.Name, Addr: site.PC, At: site}
	settings := place.Settings()
	slot := &pl.set.Sites[probe.ID]
	if len(probe.Sites) > 0 && *slot != settings {
		return fmt.Errorf("the places of probe %s are inconsistent", d.Program)
	}
	var ok bool
	if place.Offset, ok = pl.bin.FileOffset(site.PC); !ok {
		return fmt.Errorf("the code of %s is not in the file", f.Name)
	}
	*slot = settings
	probe.Sites = append(probe.Sites, place)
	return nil
}

// registers are the numbers of the amd64 registers in machine code.
var registers = map[string]uint8{
	"RAX": 0, "RCX": 1, "RDX": 2, "RBX": 3, "RBP": 5, "RSI": 6, "RDI": 7, "R8": 8, "R9": 9, "R10": 10, "R11": 11,
	"R12": 12, "R13": 13, "R14": 14, "R15": 15, "R28": 28,
}

func registerNumber(name string) uint8 {
	if n, ok := registers[name]; ok {
		return n
	}
	return csrc.NoRegister
}
