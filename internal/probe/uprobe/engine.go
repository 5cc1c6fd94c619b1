package uprobe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/probe/ring"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/sampling"
)

// Options says how to attach. The zero value uses the best that the kernel has.
type Options struct {
	// SingleUprobes attaches every place by itself even where the kernel can attach all places of a program at once.
	SingleUprobes bool

	// Log receives details for debugging; nil discards them.
	Log *slog.Logger

	lockdown string // the file with the kernel's lockdown mode; empty means lockdownFile
}

// Engine observes one process.
type Engine struct {
	opt      Options
	plan     *probe.Plan
	colls    []*ebpf.Collection // by set
	control  *controlPage
	filter   *filterPages
	ring     *ring.Ring
	waker    *waker
	profiler *ebpf.Map // that of Want.ProfilerMap; nil: none
	warnings []event.Warning
	multi    bool // the programs are loaded for uprobe_multi links

	mu     sync.Mutex // guards links
	links  []link.Link
	closed bool
}

var _ probe.Engine = (*Engine)(nil)

// New returns an engine that is not attached yet.
func New(opt Options) *Engine {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{opt: opt}
}

// Attach implements probe.Engine.
func (e *Engine) Attach(plan *probe.Plan) ([]event.Warning, error) {
	e.plan = plan
	plan.Probes = slices.DeleteFunc(plan.Probes, func(p probe.Probe) bool { return p.Only() == probe.NativeEngines })
	steps := []func() error{e.prepare, e.openProfiler, e.load, e.open, e.attachAll, e.checkProfiler}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, fmt.Errorf("process %d: attaching eBPF probes: %w", plan.PID, e.explain(err))
		}
	}
	return e.warnings, nil
}

func (e *Engine) warn(kind event.WarningKind, format string, args ...any) {
	e.warnings = append(e.warnings, event.Warnf(kind, format, args...))
}

// prepare checks the preconditions and raises limits before programs are loaded.
func (e *Engine) prepare() error {
	if err := probe.CheckBPF(); err != nil {
		return err
	}
	// The kernel executes the instruction that the file has under a probe and continues after it, which would be in the middle
	// of a jump that engine inline wrote there.
	at, ok, err := ptrace.OccupiedBy(e.plan.PID)
	if err != nil {
		return err
	}
	if ok {
		return fmt.Errorf("%w: another Loupe observes it with engine inline, or left data at %#x: see loupe doctor %d",
			probe.ErrUnsupported, at, e.plan.PID)
	}
	// Kernels before 5.11 count maps as locked memory. Newer ones need no limit raised, nor the right to do so.
	if err := rlimit.RemoveMemlock(); err != nil {
		e.opt.Log.Debug("limit of locked memory not raised", "err", err)
	}
	ns, err := probe.IDsOf(e.plan.PID)
	if err != nil {
		return err
	}
	e.plan.Config.Tgid = ns.PID
	e.plan.Config.NsDev, e.plan.Config.NsIno = ns.Dev, ns.Ino
	return nil
}

// load loads the programs. It drops programs that the kernel refuses.
func (e *Engine) load() error {
	if !e.opt.SingleUprobes {
		err := MultiUsable()
		if e.multi = err == nil; err != nil {
			e.opt.Log.Debug("no uprobe_multi", "err", err)
			e.warn(event.WarnCost, "this kernel attaches uprobes one by one (uprobe_multi requires Linux %v here): attaching and detaching take longer", MultiKernel)
		}
	}
	for set := range e.plan.Sets {
		if err := e.loadSet(set); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) loadSet(set int) error {
	for {
		spec, err := e.spec(set)
		if err != nil {
			return err
		}
		coll, err := ebpf.NewCollectionWithOptions(spec, e.options())
		if err == nil {
			e.colls = append(e.colls, coll)
			return nil
		}
		if !e.dropProgram(set, err) {
			return err
		}
	}
}

// maps returns the maps that all sets use.
func (e *Engine) maps() map[string]*ebpf.Map { return e.colls[0].Maps }

// dropProgram drops the program that caused a load error. It returns false if the program is unknown, or the
// reason concerns all programs.
func (e *Engine) dropProgram(set int, err error) bool {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) && !isVerifier(err) {
		return false
	}
	name, ok := failedProgram(err)
	if !ok {
		return false
	}
	for i, p := range e.plan.Probes {
		if p.Set == set && "probe_"+p.Program == name {
			e.warn(event.WarnMissing, "%s: the kernel does not accept probe %s: %v", p.Without, p.Program, oneLine{err})
			e.opt.Log.Debug("program refused", "program", p.Program, "err", fmt.Sprintf("%+v", err))
			e.plan.Probes = append(e.plan.Probes[:i], e.plan.Probes[i+1:]...)
			return len(e.plan.Probes) > 0
		}
	}
	return false
}

// open maps the shared memory and fills the filters.
func (e *Engine) open() error {
	var err error
	if e.control, err = newControlPage(e.maps()[".data.control"]); err != nil {
		return err
	}
	e.Sample(e.plan.Rule)
	if e.filter, err = newFilterPages(e.maps()[".data.filter"]); err != nil {
		return err
	}
	if e.ring, err = ring.New(e.maps()[csrc.ProbesMapEvents]); err != nil {
		return err
	}
	if e.waker, err = newWaker(e.plan.PID, e.maps()[csrc.ProbesMapEvents].FD()); err != nil {
		return err
	}
	if e.plan.Config.Follow != 0 {
		e.waker.most = pauseMost
	}
	if err := addAll(e.maps()[csrc.ProbesMapSystemStarts], e.plan.SystemStarts); err != nil {
		return err
	}
	return e.List(e.plan.Goroutines)
}

// Sample implements probe.Engine.
func (e *Engine) Sample(rule sampling.Rule) {
	if e.control != nil {
		atomic.StoreUint32(&e.control.c.Skip, uint32(rule))
	}
}

// List implements probe.Engine.
func (e *Engine) List(goroutines []uint64) error {
	var large []uint64
	for _, g := range goroutines {
		if g >= csrc.SmallIDs {
			large = append(large, g)
			e.filter.f.Add(g, 1)
		}
	}
	if err := addAll(e.maps()[csrc.ProbesMapListed], large); err != nil {
		return err
	}
	for _, g := range goroutines {
		e.control.c.List(g)
	}
	return nil
}

// Unlist implements probe.Engine.
func (e *Engine) Unlist(goroutine uint64) error {
	e.control.c.Unlist(goroutine)
	var maps []string
	if goroutine >= csrc.SmallIDs {
		maps = append(maps, csrc.ProbesMapListed)
	}
	if e.plan.Want.Allocated != nil {
		maps = append(maps, csrc.ProbesMapAllocated)
	}
	if e.profiler != nil {
		maps = append(maps, csrc.ProbesMapIdentities)
	}
	for _, name := range maps {
		switch err := e.maps()[name].Delete(goroutine); {
		case errors.Is(err, ebpf.ErrKeyNotExist):
		case err != nil:
			return fmt.Errorf("removing goroutine %d from the filter: %w", goroutine, err)
		case name == csrc.ProbesMapListed:
			e.filter.f.Add(goroutine, -1)
		}
	}
	return nil
}

// Disown implements probe.Engine. The probes send no contexts.
func (e *Engine) Disown(uint64) {}

// Unlisted implements probe.Engine.
func (e *Engine) Unlisted() uint64 {
	if e.control == nil {
		return 0
	}
	return atomic.LoadUint64(&e.control.c.Unlisted)
}

// addAll puts keys into a set.
func addAll(set *ebpf.Map, keys []uint64) error {
	if len(keys) == 0 {
		return nil
	}
	ones := make([]uint8, len(keys))
	for i := range ones {
		ones[i] = 1
	}
	if _, err := set.BatchUpdate(keys, ones, nil); err == nil {
		return nil
	}
	for _, k := range keys { // kernels before 5.6, and duplicate keys
		if err := set.Put(k, uint8(1)); err != nil {
			return fmt.Errorf("filling a filter of %d: %w", len(keys), err)
		}
	}
	return nil
}

// Enable implements probe.Engine.
func (e *Engine) Enable() { e.control.enable(true) }

// Drain implements probe.Engine.
func (e *Engine) Drain(record func([]byte) bool) (all bool) {
	return e.ring == nil || e.ring.Drain(record)
}

// drainPatience is how long DrainAll waits for a thread that the kernel does not run in the middle of a probe.
const drainPatience = time.Second

// DrainAll implements probe.Engine.
func (e *Engine) DrainAll(record func([]byte) bool) (all bool) {
	goOn := true
	deliver := func(raw []byte) bool {
		goOn = record(raw)
		return goOn
	}
	for end := time.Now().Add(drainPatience); ; time.Sleep(50 * time.Microsecond) {
		if all := e.Drain(deliver); all || !goOn || time.Now().After(end) {
			return all
		}
	}
}

// InGap implements probe.Engine. A loss is between the records before and after it.
func (e *Engine) InGap() bool { return false }

// Wait implements probe.Engine.
func (e *Engine) Wait(ctx context.Context) bool { return e.waker.wait(ctx, e.ring, e.control) }

// Wake implements probe.Engine.
func (e *Engine) Wake() {
	if e.waker != nil {
		e.waker.wake()
	}
}

// Lost implements probe.Engine.
func (e *Engine) Lost() uint32 {
	if e.control == nil {
		return 0
	}
	return e.control.lost()
}

// TimeError implements probe.Engine. The kernel reads its clock for each event.
func (e *Engine) TimeError() event.TimeError { return event.TimeError{} }

// Warnings implements probe.Engine.
func (e *Engine) Warnings() []event.Warning { return nil }

// NewEpoch implements probe.Engine.
func (e *Engine) NewEpoch() { e.control.newEpoch() }

// Counts implements probe.Engine.
func (e *Engine) Counts() ([event.KindLimit]csrc.Count, error) {
	var counts [event.KindLimit]csrc.Count
	if e.colls == nil {
		return counts, nil
	}
	m := e.maps()[csrc.ProbesMapCounts]
	var cpus []csrc.Count
	for k := range counts {
		if note := k - int(csrc.KindSet); k >= event.NumKinds && k != int(csrc.KindSwitch) && (note < 0 || note >= len(e.plan.Want.Sets)) {
			continue
		}
		if err := m.Lookup(uint32(k), &cpus); err != nil {
			return counts, fmt.Errorf("reading the counters: %w", err)
		}
		for _, c := range cpus {
			counts[k].Produced += c.Produced
			counts[k].NoRoom += c.NoRoom
			counts[k].Unreadable += c.Unreadable
		}
	}
	return counts, nil
}

// Totals implements probe.Engine.
func (e *Engine) Totals() (csrc.Totals, error) {
	var sum csrc.Totals
	if e.colls == nil {
		return sum, nil
	}
	var cpus []csrc.Totals
	if err := e.maps()[csrc.ProbesMapTotals].Lookup(uint32(0), &cpus); err != nil {
		return sum, fmt.Errorf("reading the totals: %w", err)
	}
	for _, c := range cpus {
		sum.Hits += c.Hits
		sum.Created += c.Created
		sum.Ended += c.Ended
	}
	return sum, nil
}

// Used implements probe.Engine.
func (e *Engine) Used() float64 {
	if e.ring == nil {
		return 0
	}
	return float64(e.ring.Used()) / float64(e.ring.Size())
}

// Table implements probe.Engine.
func (e *Engine) Table(set, table int) (probe.Cells, error) {
	if len(e.colls) <= set { // Attach has failed
		return probe.Cells{}, nil
	}
	c := probe.NewCells(e.plan.Sets[set].Kept(table))
	name := e.plan.Sets[set].Code.Tables[table]
	maps := e.colls[set].Maps
	var full []uint64
	if err := maps[overflowMap].Lookup(uint32(table), &full); err != nil {
		return c, fmt.Errorf("reading what did not fit into table %s: %w", name, err)
	}
	for _, n := range full {
		c.Overflow += n
	}
	var key uint64
	var cpus [][]byte
	words := make([]uint64, maps[tableMap(name)].ValueSize()/8)
	entries := maps[tableMap(name)].Iterate()
	for entries.Next(&key, &cpus) {
		for _, raw := range cpus {
			for i := range words {
				words[i] = binary.NativeEndian.Uint64(raw[8*i:])
			}
			c.Add(key, words[0], words[1:])
		}
	}
	if err := entries.Err(); err != nil {
		return c, fmt.Errorf("reading table %s: %w", name, err)
	}
	return c, nil
}

// Stop implements probe.Engine.
func (e *Engine) Stop() {
	if e.waker != nil {
		e.waker.stop()
	}
}

// Close implements probe.Engine.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	if e.control != nil {
		e.control.enable(false)
	}
	return errors.Join(closeLinks(e.links), e.closeProfiler())
}

// Release implements probe.Engine.
func (e *Engine) Release() error {
	var errs []error
	if e.ring != nil {
		errs = append(errs, e.ring.Close())
	}
	if e.control != nil {
		errs = append(errs, e.control.close())
	}
	if e.filter != nil {
		errs = append(errs, e.filter.close())
	}
	if e.waker != nil {
		errs = append(errs, e.waker.close())
	}
	for _, c := range e.colls {
		c.Close()
	}
	e.ring, e.control, e.filter, e.colls = nil, nil, nil, nil
	return errors.Join(errs...)
}
