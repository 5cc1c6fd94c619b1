package probe

import (
	"fmt"
	"slices"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/gobin/layout"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/sampling"
)

// configure sets the settings of the probes for a process.
func (pl *planner) configure(p Program) error {
	l, c, minor := p.Layout(), &pl.plan.Config, pl.bin.Version().Minor
	if err := pl.setSecret(c, l); err != nil {
		return fmt.Errorf("%w: %w", goproc.ErrLayout, err)
	}
	if err := setOffsets(c, l); err != nil {
		return fmt.Errorf("%w: %w", goproc.ErrLayout, err)
	}
	if err := setStates(c, l); err != nil {
		return fmt.Errorf("%w: %w", goproc.ErrLayout, err)
	}
	if insn.ArgsInRegs(pl.bin.Arch(), minor) {
		c.RegAbi = 1
	} else if off, ok := pl.bin.TLSOffset(); ok {
		c.G_tls = int32(off)
	}
	for _, a := range selectArgs {
		if minor >= a.since {
			c.SelectCases, c.SelectRecvs = a.cases, a.recvs
		}
	}
	if len(l.Strings("runtime.stwReasonStrings")) > 0 {
		c.StwReason = 1
	}
	if n, ok := l.Const("runtime.waitReasonCoroutine"); ok {
		c.ReasonCoroutine = uint32(n)
	}
	if n, ok := l.Const("runtime.waitReasonPreempted"); ok {
		c.ReasonPreempted = uint32(n)
	}
	if n, ok := l.Const("runtime.traceBlockPreempted"); ok {
		c.TraceReasonPreempted = uint32(n)
	}
	pl.setStops(p)
	pl.setHeap(p)
	pl.setFilters(p)
	return nil
}

// setStops sets the addresses of the functions in which goroutines stop.
func (pl *planner) setStops(p Program) {
	c := &pl.plan.Config
	if f, ok := pl.bin.LookupFunc("runtime.asyncPreempt"); ok && pl.bin.Arch() == insn.AMD64 {
		c.PreemptStart, c.PreemptSize = f.Entry+p.LoadBias(), f.End-f.Entry // arm64 keeps the caller in a register
	}
	if f, ok := pl.bin.LookupFunc("runtime.asyncPreempt2"); ok {
		c.Preempt2Start, c.Preempt2Size = f.Entry+p.LoadBias(), f.End-f.Entry
	}
	if f, ok := pl.bin.LookupFunc("runtime.systemstack"); ok {
		if size, ok := pl.bin.FrameSize(f); ok && size == 0 {
			c.SystemstackFrameless = 1
		}
	}
	end := uint64(0)
	for _, name := range []string{"syscall.Syscall", "syscall.Syscall6"} { // adjacent in one assembly file
		f, ok := pl.bin.LookupFunc(name)
		if !ok {
			continue
		}
		if size, ok := pl.bin.FrameSize(f); !ok || size != 0 || pl.bin.Arch() != insn.AMD64 {
			continue
		}
		if c.SyscallStart == 0 || f.Entry < c.SyscallStart {
			c.SyscallStart = f.Entry
		}
		end = max(end, f.End)
	}
	if end > 0 {
		c.SyscallSize = end - c.SyscallStart
		c.SyscallStart += p.LoadBias()
	}
}

// setOffsets sets the offsets of fields. Fields that a release does not have are not used by its probes.
func setOffsets(c *csrc.Config, l *layout.Layout) error {
	for path, to := range map[string]*uint32{
		"runtime.g.goid": &c.G_goid, "runtime.g.m": &c.G_m, "runtime.g.stack.lo": &c.G_stack,
		"runtime.g.sched.pc": &c.G_schedPc, "runtime.g.sched.sp": &c.G_schedSp, "runtime.g.sched.lr": &c.G_schedLr, "runtime.g.sched.bp": &c.G_schedBp,
		"runtime.g.startpc": &c.G_startpc, "runtime.g.gopc": &c.G_gopc, "runtime.m.curg": &c.M_curg, "runtime.p.m": &c.P_m,
		"runtime.m.p": &c.M_p, "runtime.p.id": &c.P_id,
		"runtime.hchan.dataqsiz": &c.HchanDataqsiz,
	} {
		off, err := l.Offset(path)
		if err != nil {
			return err
		}
		*to = uint32(off)
	}
	for path, to := range map[string]*uint32{
		"runtime.g.parentGoid": &c.G_parent, "runtime.g.coroarg": &c.G_coroarg, "runtime.g.coroexit": &c.G_coroexit,
		"runtime.coro.gp": &c.CoroGp, "runtime.m.procid": &c.M_procid,
	} {
		*to = csrc.NoField
		if f, ok := l.Field(path); ok {
			*to = f.Offset
		}
	}
	if hi, err := l.Offset("runtime.g.stack.hi"); err != nil || hi != uint64(c.G_stack)+8 {
		return fmt.Errorf("runtime.g.stack does not consist of two words")
	}
	for _, offset := range []uint32{c.G_goid, c.G_stack + 8, c.G_schedPc, c.G_schedSp, c.G_schedLr, c.G_schedBp} {
		if int(offset) > csrc.GHead-8 {
			return fmt.Errorf("a field of runtime.g is at offset %d, beyond the part that probes read", offset)
		}
	}
	return nil
}

// setSecret sets the offset of the nesting of secret.Do, if the program calls it (package runtime/secret, Go 1.26).
func (pl *planner) setSecret(c *csrc.Config, l *layout.Layout) error {
	c.G_secret = csrc.NoField
	if _, ok := pl.bin.LookupFunc("runtime/secret.doHelper"); !ok {
		return nil
	}
	off, err := l.Offset("runtime.g.secret")
	c.G_secret = uint32(off)
	return err
}

// noState is a goroutine state that does not exist.
const noState = ^uint32(0)

func setStates(c *csrc.Config, l *layout.Layout) error {
	for name, to := range map[string]*uint32{
		"runtime._Grunnable": &c.StRunnable, "runtime._Gsyscall": &c.StSyscall,
		"runtime._Gwaiting": &c.StWaiting, "runtime._Gdead": &c.StDead,
	} {
		n, ok := l.Const(name)
		if !ok {
			return fmt.Errorf("no constant %s for %s", name, l.GoVersion)
		}
		*to = uint32(n)
	}
	c.StDeadExtra = noState
	if n, ok := l.Const("runtime._Gdeadextra"); ok {
		c.StDeadExtra = uint32(n)
	}
	return nil
}

// setHeap sets the address of the count of live heap bytes (runtime/mgcpacer.go since Go 1.18, runtime/mstats.go before).
func (pl *planner) setHeap(p Program) {
	globals := pl.bin.Globals()
	for _, at := range []struct {
		base uint64
		path string
	}{
		{globals.GCController, "runtime.gcControllerState.heapLive"},
		{globals.Memstats, "runtime.mstats.heap_live"},
	} {
		if f, ok := p.Layout().Field(at.path); ok && at.base != 0 {
			pl.plan.Config.HeapLive = at.base + p.LoadBias() + uint64(f.Offset)
			return
		}
	}
	if pl.plan.Want.Kinds.Has(event.HeapAlloc) {
		pl.plan.Want.Kinds = pl.plan.Want.Kinds.Without(event.KindsOf(event.HeapAlloc))
		pl.warn("the heap size is not reported: the runtime variable was not found in this executable")
	}
}

// setFilters sets the filters.
func (pl *planner) setFilters(p Program) {
	c, w := &pl.plan.Config, &pl.plan.Want
	if w.MinBlock > 0 {
		// Only long waits are reported, so the starts and stops between them are omitted too.
		w.Kinds = w.Kinds.Without(event.KindsOf(event.GoStart, event.GoStop))
		c.MinBlock = uint64(w.MinBlock)
	}
	c.Kinds = w.Kinds.Words()
	c.StackDepth = uint32(min(max(w.StackDepth, 0), csrc.MaxStack))
	pl.plan.Rule = sampling.OneIn(w.SampleOneIn)
	if w.Procs {
		c.Procs = 1
	}
	if w.Allocated != nil {
		c.Allocated = 1
	}
	switch {
	case w.Requests:
		c.OnlyListed, c.Follow = 1, 1
		if w.ProfilerMap != "" { // goroutines of the runtime work for no request
			pl.plan.SystemStarts = p.SystemStarts()
		}
	case len(w.Goroutines) > 0:
		c.OnlyListed = 1
		pl.plan.Goroutines = w.Goroutines
	case !w.System:
		c.SkipListed = 1
		pl.plan.SystemStarts = p.SystemStarts()
	}
}

// setOwn sets the settings that only this set has. It returns the reasons why settings are unknown, by their names.
func (pl *planner) setOwn(p Program) (unknown map[string]error, err error) {
	unknown = map[string]error{}
	var paths []string
	for _, s := range pl.set.Set.Settings {
		paths = append(paths, s.Fields...)
	}
	var offsets map[string]uint64
	if len(paths) > 0 {
		if offsets, err = pl.bin.FieldOffsets(paths); err != nil {
			pl.warn("%s: %v", pl.set.Name, err) // the tables may have them
		}
	}
	for i := range pl.set.Set.Settings {
		s := &pl.set.Set.Settings[i]
		n := slices.Index(pl.set.Code.Settings, s.Name)
		if n < 0 {
			return nil, fmt.Errorf("%s: the C source has no setting %s", pl.set.Name, s.Name)
		}
		v, err := s.of(p, offsets)
		if err != nil {
			unknown[s.Name] = err
			continue
		}
		pl.set.Settings[n] = v
	}
	return unknown, nil
}

// firstUnknown returns the reason why the first unknown setting is unknown, or nil if all are known.
func firstUnknown(names []string, unknown map[string]error) error {
	for _, name := range names {
		if err := unknown[name]; err != nil {
			return err
		}
	}
	return nil
}
