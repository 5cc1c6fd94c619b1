package inline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/codepatch"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/sampling"
)

// Engine observes one process by code that it puts there.
type Engine struct {
	log      *slog.Logger
	source   Source
	plan     *probe.Plan
	clock    *Clock
	program  *Program
	region   *Region
	reader   *Reader
	in       *installation
	pulse    *pulse // nil before the memory is mapped
	watch    *watch
	reads    reads
	spots    []spot
	selected bool // see RequireSelected
	warnings []event.Warning
	replaced atomic.Bool // a record of the exec was delivered

	mu       sync.Mutex // guards what follows
	closed   bool
	removeBy time.Time // how long Close waits for another tracer to end
	still    error     // why the process could not be stopped when Close was last called
}

var _ probe.Engine = (*Engine)(nil)

// New returns an engine that is not attached yet, and has times from source. log receives details for debugging; nil
// discards them.
func New(log *slog.Logger, source Source) *Engine {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Engine{log: log, source: source}
}

// RequireSelected has Attach fail before it changes the process, unless all probes of sets with Set.Selected have a place. The error
// wraps probe.ErrUnsupported.
func (e *Engine) RequireSelected() { e.selected = true }

func (e *Engine) warn(kind event.WarningKind, format string, args ...any) {
	e.warnings = append(e.warnings, event.Warnf(kind, format, args...))
}

// Attach implements probe.Engine.
func (e *Engine) Attach(plan *probe.Plan) ([]event.Warning, error) {
	e.plan = plan
	for _, step := range []func() error{e.prepare, e.open, e.install} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("attaching code: %w", explain(err))
		}
	}
	return e.warnings, nil
}

// explain adds a sentinel of package probe to an error without changing its text.
func explain(err error) error {
	switch {
	case errors.Is(err, ptrace.ErrPermission):
		return &explained{err, probe.ErrPermission}
	case errors.Is(err, ptrace.ErrUnsupported), errors.Is(err, ptrace.ErrSeccomp), errors.Is(err, ptrace.ErrBusy):
		return &explained{err, probe.ErrUnsupported}
	}
	return err
}

// explained is an error that also matches a sentinel.
type explained struct {
	error
	other error
}

func (e *explained) Unwrap() []error { return []error{e.error, e.other} }

// prepare computes everything that does not depend on the process.
func (e *Engine) prepare() error {
	if arch := e.plan.Arch(); arch != runtime.GOARCH {
		return fmt.Errorf("%w: the program is for %s, this machine for %s", probe.ErrUnsupported, arch, runtime.GOARCH)
	}
	var err error
	if e.clock, err = e.newClock(); err != nil {
		return err
	}
	if err := e.chooseReads(); err != nil {
		return err
	}
	if err := e.choose(); err != nil {
		return err
	}
	pid, err := ownPID(e.plan.PID)
	if err != nil {
		return err
	}
	// The region is twice the requested size, because at most half of the lanes are in use.
	geometry := GeometryFor(runtime.NumCPU(), 2*e.plan.Want.BufferBytes, e.plan.Room())
	geometry.Tables = e.plan.TableBytes
	if e.plan.Want.Allocated != nil {
		geometry.Allocated = geometry.Listed
	}
	propagate := e.propagate(&geometry)
	e.program, err = NewProgram(Options{
		Arch: e.plan.Arch(), Config: e.plan.Config, Sets: e.plan.Sets, PID: pid, Starts: e.plan.SystemStarts, Clock: e.clock,
		Geometry: geometry, Stable: e.reads.stable, Propagate: propagate,
	})
	if err != nil {
		return err
	}
	e.in = &installation{pid: e.plan.PID, signalStacks: e.plan.SignalStacks, ended: e.plan.Ended}
	e.in.lends = geometry.Contexts > 0 && slices.ContainsFunc(e.plan.Probes, func(p probe.Probe) bool { return p.Lends })
	return e.in.measure(e.program, e.spots)
}

// contextRoom is the number of contexts of spans for which there is room: some for each request that is being served.
const contextRoom = 1 << 17

// propagate makes room for the contexts of spans if the requests that the program sends are to carry them.
func (e *Engine) propagate(g *Geometry) probe.Propagate {
	p := e.plan.Want.Propagate
	if p == nil {
		return probe.Propagate{}
	}
	if e.reads.stable.Heap.Arenas == 0 && !e.reads.starting() {
		e.warnings = append(e.warnings, noHeaders(cmp.Or(e.reads.unknown, errors.New("the heap of the program is unknown"))))
		return probe.Propagate{}
	}
	e.reads.propagates = true
	g.Contexts = contextRoom
	return *p
}

// newClock returns the requested clock, or a coarse one if the requested clock is unavailable.
func (e *Engine) newClock() (*Clock, error) {
	if e.source == SourceCoarse {
		return NewCoarseClock()
	}
	c, err := NewClock()
	if e.source != SourcePrecise && errors.Is(err, probe.ErrUnsupported) {
		e.warn(event.WarnTimes, "using the coarse clock (times are exact to the interval between two samples of the reader; the order of events is exact): %v", err)
		return NewCoarseClock()
	}
	return c, err
}

// chooseReads decides how probes read memory that need not be valid. It drops these probes if their reads require a system call that
// a seccomp filter may forbid.
func (e *Engine) chooseReads() error {
	r := &e.reads
	r.pid = e.plan.PID
	if !slices.ContainsFunc(e.plan.Probes, func(p probe.Probe) bool { return p.Reads }) {
		return nil
	}
	var err error
	r.stable, r.unknown = e.plan.StableMemory()
	if r.starting() {
		r.again = e.plan.StableMemory
	}
	if r.calls, err = r.allowed(); err != nil || r.unknown == nil {
		return err
	}
	if r.calls {
		e.warnings = append(e.warnings, r.expensive(r.unknown))
		return nil
	}
	e.plan.Probes = slices.DeleteFunc(e.plan.Probes, func(p probe.Probe) bool {
		if p.Reads {
			e.warn(event.WarnMissing, "%s: %v", p.Without, forbidden(r.unknown))
		}
		return p.Reads
	})
	return nil
}

// choose selects the places to patch and computes the patches.
func (e *Engine) choose() error {
	var first error
	var chosen []probe.Probe
	var refused []string
	for i := range e.plan.Probes {
		p := &e.plan.Probes[i]
		if p.Only() == probe.KernelEngines {
			continue
		}
		if p.Requires != "" && !slices.ContainsFunc(chosen, func(q probe.Probe) bool { return q.Set == p.Set && q.Program == p.Requires }) {
			continue
		}
		spots, err := e.spotsOf(p)
		if err != nil {
			e.warn(event.WarnMissing, "%s: %v", p.Without, err)
			if first == nil {
				first = err
			}
			if set := e.plan.Sets[p.Set].Set; set.Selected && !slices.Contains(refused, set.Name) {
				refused = append(refused, set.Name)
			}
			continue
		}
		chosen = append(chosen, *p)
		e.spots = append(e.spots, spots...)
	}
	if e.selected && len(refused) > 0 {
		more := ""
		if n := len(refused) - 1; n > 0 {
			more = " and " + english.Count(n, "more function")
		}
		return fmt.Errorf("%w: no place for probes in %s%s", probe.ErrUnsupported, refused[0], more)
	}
	e.plan.Probes = chosen
	if len(e.spots) == 0 && first == nil {
		return fmt.Errorf("%w: %w", probe.ErrUnsupported, forbidden(e.reads.unknown))
	}
	if len(e.spots) == 0 {
		return fmt.Errorf("%w: %w", probe.ErrUnsupported, first)
	}
	if i := slices.IndexFunc(e.spots, func(s spot) bool { return s.d.Fixed != 0 }); i > 0 {
		e.spots[0], e.spots[i] = e.spots[i], e.spots[0]
	}
	return nil
}

// leaveOut drops the probe of the first place.
func (e *Engine) leaveOut(why error) error {
	p := e.spots[0].probe
	e.spots = slices.DeleteFunc(e.spots, func(s spot) bool { return e.plan.Number(&s.probe) == e.plan.Number(&p) })
	e.plan.Probes = slices.DeleteFunc(e.plan.Probes, func(q probe.Probe) bool { return e.plan.Number(&q) == e.plan.Number(&p) })
	if len(e.spots) == 0 {
		return fmt.Errorf("%w: %s: %w", probe.ErrUnsupported, p.Without, why)
	}
	e.warn(event.WarnMissing, "%s: %v", p.Without, why)
	return e.in.measure(e.program, e.spots)
}

// spotsOf computes the patches of all places of a probe, or of none. If a place conflicts with other tracers,
// and the probe has an alternative place, it changes the plan.
func (e *Engine) spotsOf(p *probe.Probe) ([]spot, error) {
	spots, err := e.spotsAt(p)
	if err == nil {
		return spots, nil
	}
	instead, insteadErr := e.plan.Instead(p)
	if insteadErr != nil {
		return nil, insteadErr
	}
	for _, sites := range instead {
		moved := *p
		moved.Sites = sites
		if spots, err := e.spotsAt(&moved); err == nil {
			e.plan.Move(p, sites)
			return spots, nil
		}
	}
	return nil, err
}

func (e *Engine) spotsAt(p *probe.Probe) ([]spot, error) {
	var spots []spot
	for _, site := range p.Sites {
		// A body requires g to select a lane. In shared libraries before Go 1.17 only the loader knows the location of g.
		if site.Settings().G_reg == csrc.NoRegister && e.plan.Config.G_tls == 0 {
			return nil, fmt.Errorf("the location of the current goroutine is unknown in %s", site.Func)
		}
		entry, code, err := e.plan.Code(site)
		if err != nil {
			return nil, err
		}
		at := site.At
		at.PC += e.plan.Bias
		d, err := codepatch.Plan(codepatch.Function{Arch: e.plan.Arch(), Entry: entry + e.plan.Bias, Code: code}, at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", site.Func, err)
		}
		if why := e.unfit(d, spots); why != "" {
			if site.At.Kind == insn.SiteReturn && !d.Durable {
				why = "a return from a small frame has no instruction that a jump can replace; engine uprobe can observe it"
			}
			return nil, fmt.Errorf("%s: %w: %s", site.Func, codepatch.ErrRefused, why)
		}
		spots = append(spots, spot{*p, site, entry + e.plan.Bias, d})
	}
	return spots, nil
}

// unfit says why a place must not be patched although it can be; empty if it may. Other tracers set breakpoints at any
// time, most often on the first instruction of a function, which is therefore never patched.
func (e *Engine) unfit(d *codepatch.Displacement, others []spot) string {
	switch {
	case d.AtEntry:
		return "only the first instruction of the function is suitable, and other tracers set breakpoints there"
	case d.FlagsLive:
		return "the flags are live after the probe's place"
	case d.MayFault:
		return "the instruction at the probe's place may fault"
	case !d.Durable:
		return "a breakpoint of another tracer at the probe's place could crash the program"
	}
	for _, list := range [][]spot{e.spots, others} {
		for _, other := range list {
			if d.Overlaps(other.d) {
				return "another probe is at the same place"
			}
			if d.Fixed != 0 && other.d.Fixed != 0 {
				return "the stub of another probe already has a fixed address"
			}
		}
	}
	return ""
}

// open starts to watch the process.
func (e *Engine) open() (err error) {
	e.watch, err = newWatch(e.plan.PID)
	return err
}

// install writes the code into the process and enables the patches.
func (e *Engine) install() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	if e.in.trial, err = ptrace.NewTrial(ctx, e.plan.PID); err != nil {
		return err
	}
	err = e.in.enter(e.program, e.begin, e.spots)
	if errors.Is(err, errFixed) {
		if err = e.leaveOut(err); err == nil {
			err = e.in.enter(e.program, e.begin, e.spots)
		}
	}
	if err != nil {
		return err
	}
	e.watch.memory, e.watch.ring, e.watch.reads = e.in.sharedAt, uint64(e.region.Ring), &e.reads
	e.watch.coarse = e.clock.coarse
	if e.plan.Config.Follow != 0 && !e.clock.coarse {
		e.watch.most = pauseMost
	}
	e.pulse = startPulse(e.in.beat)
	if err := e.in.patch(); err != nil {
		return err
	}
	e.watch.places = newPlaces(e.plan.PID, e.in.edits, e.in.names)
	e.log.Debug("code installed", "pid", e.plan.PID, "places", len(e.spots), "bytes", e.in.size, "stopped for", e.in.standing)
	return nil
}

// begin initializes the region in memory that the process has at an address.
func (e *Engine) begin(mem []byte, at uint64) (err error) {
	if e.region, err = NewRegion(mem, e.program.geometry); err != nil {
		return err
	}
	e.region.AllowReads(e.reads.calls)
	e.region.Sample(e.plan.Rule)
	if e.clock.coarse {
		e.clock.count(&e.region.shared.Ticks)
	}
	e.reader = NewReader(e.region, e.clock)
	e.reader.packed = e.plan.Want.PacksAllocated()
	if err := e.region.List(e.plan.Goroutines); err != nil {
		return err
	}
	return e.region.Place(at)
}

// Enable implements probe.Engine. A coarse clock gives no event a time before this moment.
func (e *Engine) Enable() {
	e.clock.Sample()
	e.region.Enable(true)
}

// Sample implements probe.Engine.
func (e *Engine) Sample(rule sampling.Rule) {
	if e.region != nil {
		e.region.Sample(rule)
	}
}

// List implements probe.Engine.
func (e *Engine) List(goroutines []uint64) error { return e.region.List(goroutines) }

// Unlist implements probe.Engine.
func (e *Engine) Unlist(goroutine uint64) error {
	e.region.Unlist(goroutine)
	return nil
}

// Disown implements probe.Engine.
func (e *Engine) Disown(goroutine uint64) { e.region.Disown(goroutine) }

// Unlisted implements probe.Engine.
func (e *Engine) Unlisted() uint64 {
	if e.region == nil {
		return 0
	}
	return e.region.Unlisted()
}

// ContextsFull returns the number of contexts of spans that were not stored because the table was full. A request whose context is not
// stored is sent without a header.
func (e *Engine) ContextsFull() uint64 {
	if e.region == nil {
		return 0
	}
	return e.region.ContextsFull()
}

// Drain implements probe.Engine.
func (e *Engine) Drain(record func(raw []byte) bool) (all bool) {
	before, began := e.reader.Pending(), time.Now()
	e.reader.Drain(record)
	e.watch.came(before, time.Since(began))
	if e.watch.places.takeMissing() {
		e.tell(event.Lost, 0, record)
	}
	if e.watch.exec && !e.replaced.Swap(true) {
		_, now := e.clock.Sample()
		e.tell(event.Exec, now, record)
	}
	return e.reader.AllReported()
}

// tell adds a record that the engine itself creates.
func (e *Engine) tell(kind event.Kind, time uint64, record func(raw []byte) bool) {
	r := csrc.Record{Kind: uint8(kind), Time: time, Tid: uint32(e.plan.PID), Lost: e.Lost()}
	record(unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r)))
}

// Warnings implements probe.Engine.
func (e *Engine) Warnings() []event.Warning {
	if e.watch == nil || e.watch.places == nil {
		return nil
	}
	return slices.Concat(e.watch.places.noted(), e.reads.warnings())
}

// DrainAll implements probe.Engine.
func (e *Engine) DrainAll(record func(raw []byte) bool) (all bool) { return e.reader.DrainAll(record) }

// Wait implements probe.Engine.
func (e *Engine) Wait(ctx context.Context) bool { return e.watch.wait(ctx, e.reader) }

// Wake implements probe.Engine.
func (e *Engine) Wake() {
	if e.watch != nil {
		e.watch.woken.Store(true)
	}
}

// Lost implements probe.Engine.
func (e *Engine) Lost() uint32 {
	if e.region == nil {
		return 0
	}
	return e.region.Lost()
}

// InGap implements probe.Engine.
func (e *Engine) InGap() bool { return e.reader != nil && e.reader.gap != lastKey }

// TimeError implements probe.Engine.
func (e *Engine) TimeError() event.TimeError {
	if e.reader == nil || !e.clock.coarse {
		return event.TimeError{}
	}
	return e.reader.doubts.bound()
}

// NewEpoch implements probe.Engine.
func (e *Engine) NewEpoch() { e.region.NewEpoch() }

// Counts implements probe.Engine. Hits that found no free lane are counted with the first kind that their probe reports.
func (e *Engine) Counts() ([event.KindLimit]csrc.Count, error) {
	if e.region == nil {
		return [event.KindLimit]csrc.Count{}, nil
	}
	counts := e.region.Counts()
	if e.replaced.Load() {
		counts[event.Exec].Produced++
	}
	missed := e.region.Missed()
	for i := range e.plan.Probes {
		p := &e.plan.Probes[i]
		n := missed[e.plan.Number(p)]
		if n == 0 {
			continue
		}
		kind := e.plan.Sets[p.Set].Kind
		if kinds := p.Kinds.Intersect(e.plan.Want.Kinds); !kinds.IsEmpty() {
			kind = uint8(kinds.List()[0])
		}
		if kind != 0 {
			c := &counts[kind]
			c.Produced += n
			c.NoRoom += n
		}
	}
	return counts, nil
}

// Totals implements probe.Engine. Hits that found no free lane are among the hits. Which goroutines they created or ended is unknown.
func (e *Engine) Totals() (csrc.Totals, error) {
	if e.region == nil {
		return csrc.Totals{}, nil
	}
	return e.region.Totals(), nil
}

// Used implements probe.Engine.
func (e *Engine) Used() float64 {
	if e.region == nil {
		return 0
	}
	return e.region.Used()
}

// Table implements probe.Engine.
func (e *Engine) Table(set, table int) (probe.Cells, error) {
	if e.region == nil {
		return probe.Cells{}, nil
	}
	s := &e.plan.Sets[set]
	return e.region.Table(s.Tables[table], s.Kept(table)), nil
}
