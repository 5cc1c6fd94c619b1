package probe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/gobin/layout"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// Want says what to observe.
type Want struct {
	Kinds       event.Kinds
	StackDepth  int           // return addresses of a stack; 0: no stacks
	MinBlock    time.Duration // 0: every wait
	Goroutines  []uint64      // empty: all
	System      bool          // the runtime's own goroutines too
	SampleOneIn int           // 0 and 1: all
	BufferBytes int           // of the buffer between target and reader, a power of two
	Procs       bool          // which P a goroutine starts on

	// AtEntry puts probes that sit in a function's prologue on its first instruction. It is for comparisons: a hit costs
	// some twenty times as much there, and a call whose stack grows is seen twice.
	AtEntry bool
}

// Plan is what an engine is to do in one process.
type Plan struct {
	PID       int
	ImagePath string // the file that holds the runtime, to be opened from here
	Config    csrc.Config
	Probes    []Probe
	Want      Want

	// Bias is what to add to an address of the image for the address in the process.
	Bias uint64

	Goroutines []uint64 // the goroutines to report, or to leave out: see Config.OnlyListed
	// SystemStarts are the addresses at which goroutines of the runtime itself start.
	SystemStarts []uint64

	// SignalStacks returns the stacks on which the process's threads handle signals at this moment.
	SignalStacks func() ([]ptrace.Interval, error)

	bin *gobin.Binary
}

// Arch returns the architecture of the program, as Go names it.
func (p *Plan) Arch() string { return p.bin.Arch() }

// Code returns the function that a site is in: its address in the image and its machine code, with the padding after it.
func (p *Plan) Code(site Site) (entry uint64, code []byte, err error) {
	f, ok := p.bin.FuncForPC(site.Addr)
	if !ok {
		return 0, nil, fmt.Errorf("no function at %#x", site.Addr)
	}
	code, err = p.bin.Code(f)
	return f.Entry, code, err
}

// Instead returns the places at which a probe would see the same as at the one that it has: behind the first instruction of
// its function, at the call of its function, at a call to which its function passes its arguments, or where its function stores
// a word in the object that it returns. The ones to prefer come first.
func (p *Plan) Instead(probe *Probe) ([]Site, error) {
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
	case d.place == atEntry:
		places, err = p.bin.LaterSites(f, d.words)
	case d.stores != nil:
		places, err = p.bin.StoreSites(f, int64(d.stores(&p.Config)))
	}
	if err != nil {
		return nil, err
	}
	sites := make([]Site, len(places))
	for i, at := range places {
		sites[i] = Site{Func: f.Name, Addr: at.PC, At: at}
	}
	if caller, ok := p.bin.LookupFunc(probe.declared.caller); ok {
		calls, err := callsOf(p.bin, caller, f)
		if err != nil {
			return nil, err
		}
		for _, at := range calls {
			sites = append(sites, Site{Func: caller.Name, Addr: at.PC, At: at})
		}
	}
	if callee, ok := p.bin.LookupFunc(probe.declared.passes); ok {
		calls, err := callsOf(p.bin, f, callee)
		if err != nil {
			return nil, err
		}
		if len(calls) == 1 {
			sites = append(sites, Site{Func: f.Name, Addr: calls[0].PC, At: calls[0]})
		}
	}
	return sites, nil
}

// Settings returns how registers are to be read at a site.
func (s *Site) Settings() csrc.Site {
	settings := csrc.Site{G_reg: registerNumber(s.At.GReg), SpMoved: int16(s.At.SPMoved),
		ObjectReg: registerNumber(s.At.Object), ValueReg: registerNumber(s.At.Value)}
	if s.At.CheckTaken {
		settings.CheckTaken = 1
	}
	return settings
}

// Probe is one program and the places where it sits.
type Probe struct {
	ID      csrc.Probe
	Program string
	Kinds   event.Kinds // that it reports
	Sites   []Site
	Without string // what users miss when it cannot be attached

	declared *declaration
}

// Site is one place of a probe.
type Site struct {
	Func   string
	Addr   uint64 // in the image
	Offset uint64 // in the image's file
	At     insn.Site
}

// ErrNothing says that not one probe that was asked for has a place in the program.
var ErrNothing = errors.New("no probe matches this program")

// Program is what a plan is made for: a goproc.Process, or an executable on disk.
type Program interface {
	PID() int
	ImagePath() string // of the file that holds the runtime
	Binary() *gobin.Binary
	Layout() *layout.Layout
	LoadBias() uint64
	SystemStarts() []uint64
	SignalStacks() ([]ptrace.Interval, error)
}

// NewPlan finds the places of probes in a program. The warnings are one line each, about events that will be missing.
func NewPlan(p Program, want Want) (*Plan, []string, error) {
	pl := &planner{bin: p.Binary(), plan: &Plan{
		PID: p.PID(), ImagePath: p.ImagePath(), Want: want, Bias: p.LoadBias(),
		SignalStacks: p.SignalStacks, bin: p.Binary()}}
	// An option of Go 1.17 alone, which the version names.
	if version := pl.bin.GoVersion(); strings.Contains(version, "noregabi") {
		return nil, nil, fmt.Errorf("process %d: %w: it was built with GOEXPERIMENT=noregabi (%s); build it without", p.PID(), ErrUnsupported, version)
	}
	if err := pl.configure(p); err != nil {
		return nil, nil, fmt.Errorf("process %d: %w", p.PID(), err)
	}
	for i := range declarations {
		d := &declarations[i]
		if !d.kinds.Intersect(pl.plan.Want.Kinds).IsEmpty() && d.inRelease(pl.bin.Version().Minor) {
			pl.add(d)
		}
	}
	if len(pl.plan.Probes) == 0 {
		return nil, nil, fmt.Errorf("process %d: %w", p.PID(), ErrNothing)
	}
	return pl.plan, pl.warnings, nil
}

type planner struct {
	bin      *gobin.Binary
	plan     *Plan
	warnings []string
}

func (pl *planner) warn(format string, args ...any) {
	pl.warnings = append(pl.warnings, fmt.Sprintf(format, args...))
}

// add finds the places of one probe in all of its functions.
func (pl *planner) add(d *declaration) {
	probe := Probe{ID: d.id, Program: d.program, Kinds: d.kinds, Without: d.without, declared: d}
	for _, name := range d.funcs {
		f, ok := pl.bin.LookupFunc(name)
		if !ok {
			continue
		}
		if err := pl.addIn(&probe, d, f); err != nil {
			pl.warn("%s: %v", d.without, err)
			return
		}
	}
	if len(probe.Sites) == 0 {
		if !d.quiet {
			pl.warn("%s: found no place for probe %s in this executable", d.without, d.program)
		}
		return
	}
	pl.plan.Probes = append(pl.plan.Probes, probe)
}

// addIn finds the places of a probe in one function.
func (pl *planner) addIn(probe *Probe, d *declaration, f gobin.Func) error {
	switch d.place {
	case atCall:
		return pl.addCalls(probe, d, f)
	case atReturn:
		returns, err := pl.bin.ReturnSites(f)
		if err != nil {
			return err
		}
		for _, r := range returns {
			site := r.Site
			if r.Early != nil {
				site = *r.Early
			}
			site.GReg = insn.GReg(pl.bin.Arch(), pl.bin.Version().Minor)
			if err := pl.addSite(probe, d, f, site); err != nil {
				return err
			}
		}
		return nil
	}
	site, err := pl.bin.PrologueSite(f, d.words)
	if err != nil {
		return err
	}
	if pl.plan.Want.AtEntry {
		site = insn.Site{PC: f.Entry, Kind: insn.SiteEntry, GReg: insn.GReg(pl.bin.Arch(), pl.bin.Version().Minor)}
	}
	return pl.addSite(probe, d, f, site)
}

// addCalls places a probe at the calls of another function.
func (pl *planner) addCalls(probe *Probe, d *declaration, f gobin.Func) error {
	callee, ok := pl.bin.LookupFunc(d.callee)
	if !ok {
		return nil
	}
	sites, err := callsOf(pl.bin, f, callee)
	if err != nil {
		return err
	}
	if len(sites) > 1 && slices.Contains(d.last, f.Name) {
		sites = sites[len(sites)-1:]
	}
	for _, site := range sites {
		if err := pl.addSite(probe, d, f, site); err != nil {
			return err
		}
	}
	return nil
}

// callsOf returns the calls of one function in another.
func callsOf(bin *gobin.Binary, f, callee gobin.Func) ([]insn.Site, error) {
	calls, err := bin.CallSites(f)
	if err != nil {
		return nil, err
	}
	var sites []insn.Site
	for _, c := range calls {
		if c.Target != callee.Entry || c.Tail {
			continue
		}
		site := insn.Site{PC: c.PC, Kind: insn.SiteCall, Emulated: true, GReg: insn.GReg(bin.Arch(), bin.Version().Minor)}
		if bin.Arch() == insn.AMD64 {
			site.SPMoved = -8 // the callee's return address is not pushed yet
		}
		sites = append(sites, site)
	}
	return sites, nil
}

// addSite adds a place. All places of a probe must have the same settings, because a probe has only one set of them.
func (pl *planner) addSite(probe *Probe, d *declaration, f gobin.Func, site insn.Site) error {
	if site.Repeats {
		return fmt.Errorf("%s has no instruction that each call executes exactly once", f.Name)
	}
	if site.GReg == "" && d.needsG && pl.plan.Config.G_tls == 0 {
		return fmt.Errorf("the location of the current goroutine is unknown in %s", f.Name)
	}
	place := Site{Func: f.Name, Addr: site.PC, At: site}
	settings := place.Settings()
	slot := &pl.plan.Config.Sites[d.id]
	if len(probe.Sites) > 0 && *slot != settings {
		return fmt.Errorf("the places of probe %s are inconsistent", d.program)
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
