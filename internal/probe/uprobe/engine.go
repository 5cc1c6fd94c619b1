package uprobe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/ptrace"
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
	coll     *ebpf.Collection
	control  *controlPage
	ring     *ring
	waker    *waker
	warnings []string
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
func (e *Engine) Attach(plan *probe.Plan) ([]string, error) {
	e.plan = plan
	steps := []func() error{e.prepare, e.load, e.open, e.attachAll}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, fmt.Errorf("process %d: attaching eBPF probes: %w", plan.PID, e.explain(err))
		}
	}
	return e.warnings, nil
}

func (e *Engine) warn(format string, args ...any) {
	e.warnings = append(e.warnings, fmt.Sprintf(format, args...))
}

// prepare checks the preconditions and raises limits before programs are loaded.
func (e *Engine) prepare() error {
	if err := checkCapabilities(); err != nil {
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
	ns, err := pidNamespace(e.plan.PID)
	if err != nil {
		return err
	}
	e.plan.Config.Tgid = ns.pid
	e.plan.Config.NsDev, e.plan.Config.NsIno = ns.dev, ns.ino
	return nil
}

// load loads the programs. It drops programs that the kernel refuses.
func (e *Engine) load() error {
	if !e.opt.SingleUprobes {
		err := MultiUsable()
		if e.multi = err == nil; err != nil {
			e.opt.Log.Debug("no uprobe_multi", "err", err)
			e.warn("this kernel attaches uprobes one by one (uprobe_multi requires Linux %v here): attaching and detaching take longer", MultiKernel)
		}
	}
	for {
		spec, err := e.spec()
		if err != nil {
			return err
		}
		coll, err := ebpf.NewCollection(spec)
		if err == nil {
			e.coll = coll
			return nil
		}
		if !e.dropProgram(err) {
			return err
		}
	}
}

// dropProgram drops the program that caused a load error. It returns false if the program is unknown, or the
// reason concerns all programs.
func (e *Engine) dropProgram(err error) bool {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) && !isVerifier(err) {
		return false
	}
	name, ok := failedProgram(err)
	if !ok {
		return false
	}
	for i, p := range e.plan.Probes {
		if "probe_"+p.Program == name {
			e.warn("%s: the kernel does not accept probe %s: %v", p.Without, p.Program, oneLine{err})
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
	if e.control, err = newControlPage(e.coll.Maps[".data.control"]); err != nil {
		return err
	}
	if e.ring, err = newRing(e.coll.Maps[csrc.ProbesMapEvents]); err != nil {
		return err
	}
	if e.waker, err = newWaker(e.plan.PID, e.coll.Maps[csrc.ProbesMapEvents].FD()); err != nil {
		return err
	}
	if err := addAll(e.coll.Maps[csrc.ProbesMapSystemStarts], e.plan.SystemStarts); err != nil {
		return err
	}
	return e.List(e.plan.Goroutines)
}

// List implements probe.Engine.
func (e *Engine) List(goroutines []uint64) error {
	var large []uint64
	for _, g := range goroutines {
		if g >= csrc.SmallIDs {
			large = append(large, g)
		}
	}
	if err := addAll(e.coll.Maps[csrc.ProbesMapListed], large); err != nil {
		return err
	}
	for _, g := range goroutines {
		e.control.c.List(g)
	}
	return nil
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
func (e *Engine) Drain(record func([]byte) bool) {
	if e.ring != nil {
		e.ring.drain(record)
	}
}

// DrainAll implements probe.Engine. A record is there as soon as its probe is done.
func (e *Engine) DrainAll(record func([]byte) bool) { e.Drain(record) }

// Wait implements probe.Engine.
func (e *Engine) Wait(ctx context.Context) bool { return e.waker.wait(ctx, e.ring, e.control) }

// Lost implements probe.Engine.
func (e *Engine) Lost() uint32 {
	if e.control == nil {
		return 0
	}
	return e.control.lost()
}

// TimeError implements probe.Engine. The kernel reads its clock for each event.
func (e *Engine) TimeError() probe.TimeError { return probe.TimeError{} }

// Warnings implements probe.Engine.
func (e *Engine) Warnings() []string { return nil }

// NewEpoch implements probe.Engine.
func (e *Engine) NewEpoch() { e.control.newEpoch() }

// Counts implements probe.Engine.
func (e *Engine) Counts() ([event.KindLimit]csrc.Count, error) {
	var counts [event.KindLimit]csrc.Count
	if e.coll == nil {
		return counts, nil
	}
	m := e.coll.Maps[csrc.ProbesMapCounts]
	var cpus []csrc.Count
	for k := range counts {
		if k >= event.NumKinds && k != int(csrc.KindSwitch) {
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
	return closeLinks(e.links)
}

// Release implements probe.Engine.
func (e *Engine) Release() error {
	var errs []error
	if e.ring != nil {
		errs = append(errs, e.ring.close())
	}
	if e.control != nil {
		errs = append(errs, e.control.close())
	}
	if e.waker != nil {
		errs = append(errs, e.waker.close())
	}
	if e.coll != nil {
		e.coll.Close()
	}
	e.ring, e.control, e.coll = nil, nil, nil
	return errors.Join(errs...)
}

// namespaceIDs are the IDs by which the programs recognize the target's threads.
type namespaceIDs struct {
	pid      uint32
	dev, ino uint64 // of this process's PID namespace; 0 if it is the initial one
}

// initialPIDNamespace is the inode of the initial PID namespace (include/linux/proc_ns.h, PROC_PID_INIT_INO).
const initialPIDNamespace = 0xEFFFFFFC

func pidNamespace(pid int) (namespaceIDs, error) {
	ids := namespaceIDs{pid: uint32(pid)}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return ids, nil // a kernel without PID namespaces
		}
		return ids, fmt.Errorf("the PID namespace of this process: %w", err)
	}
	if st.Ino != initialPIDNamespace {
		ids.dev, ids.ino = st.Dev, st.Ino
	}
	return ids, nil
}
