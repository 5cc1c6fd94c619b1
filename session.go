package loupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"os/exec"
	"slices"
	"sync/atomic"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/probe/uprobe"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/sampling"
)

// Reasons why a process cannot be observed. The errors of this package wrap one of these where one applies.
var (
	ErrNoProcess   = goproc.ErrNoProcess   // the process does not exist
	ErrNotGo       = goproc.ErrNotGo       // the process does not run a Go program
	ErrPermission  = goproc.ErrPermission  // the user is not permitted to observe the process
	ErrTraced      = ptrace.ErrTraced      // another process traces the process, such as a debugger; also matches ErrPermission
	ErrUnreadable  = goproc.ErrUnreadable  // the user is not permitted to read the executable; also matches ErrPermission
	ErrUnsupported = goproc.ErrUnsupported // the program, the kernel or the machine is not supported
	ErrLayout      = goproc.ErrLayout      // the runtime's data structures are not laid out as expected
	ErrExited      = goproc.ErrExited      // the process has exited
	ErrExec        = goproc.ErrReplaced    // the process has executed another program (execve(2))
	ErrProfileOff  = goproc.ErrProfileOff  // the program does not record the profile
)

// A Session is an observation of one process. It must be closed with [Session.Close].
type Session struct {
	source    source         // of events
	probes    *probe.Session // nil if the source is the agent in the program
	allocs    *allocSet      // nil unless Options.Allocs is set
	spans     *spanSets      // nil unless Options.Spans is set
	memory    *memorySampler // nil unless Options.Kinds includes one of event.KindsMemory
	opt       Options
	began     time.Time
	program   *program                  // nil when the target was running already
	unwatched func() bool               // the context no longer ends the session
	detached  atomic.Pointer[time.Time] // when Detach or Close was first called; nil if it was not
}

// Attach starts to observe the target. It returns when the probes are in place and the existing goroutines have been
// read.
//
// When the context is done, the session ends: the probes are removed at once, even if the consumer of [Session.Events] is
// blocked, and Events returns after it has yielded what is already in the buffer.
//
// The error wraps one of the package's errors, such as [ErrPermission], where one applies. If the target is a [Command]
// and the error is not nil, the command has been killed or was never started.
func Attach(ctx context.Context, target Target, opt Options) (*Session, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	open := running
	switch {
	case target.cmd != nil:
		open = start
	case target.socket != "":
		open = connected
	}
	s, err := open(ctx, target, opt)
	if err != nil {
		return nil, err
	}
	s.opt, s.began = opt, time.Now()
	if s.probes != nil {
		s.source, s.opt = probed{s.probes}, opt.withSpanKinds(s.probes.Engine())
	}
	s.memory = newMemorySampler(s)
	s.unwatched = context.AfterFunc(ctx, func() { s.Detach() })
	return s, nil
}

// running begins to observe a program that runs already.
func running(ctx context.Context, target Target, opt Options) (*Session, error) {
	s, refused, err := attended(ctx, target, opt)
	if s != nil || err != nil {
		return s, err
	}
	s, err = opt.withEngine(func(engine probe.Engine) (*Session, error) {
		p, err := goproc.Open(target.pid, goproc.Options{Log: opt.Log})
		if err != nil {
			return nil, err
		}
		want, sets, err := opt.observed(p, engine, true)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		s, err := probe.OpenRunning(ctx, p, engine, want)
		return opened(s, sets, err)
	})
	if err == nil && refused != nil {
		s.probes.Warn(event.Warnf(event.WarnEngine, "using another engine than the agent in the program: %v", refused))
	}
	return s, err
}

// withEngine opens a session with the engine that the options want. That is eBPF's unless they say otherwise: the kernel
// answers for it. The other one is for where this one is not permitted, or not there. For allocations it is the reverse,
// because they are too frequent, unless it cannot observe a function that is selected.
func (o Options) withEngine(open func(probe.Engine) (*Session, error)) (*Session, error) {
	engines := []namedEngine{
		{EngineUprobe, func() probe.Engine { return uprobe.New(uprobe.Options{Log: o.Log, SingleUprobes: o.singleUprobes}) }},
		{EngineInline, func() probe.Engine { return inline.New(o.Log, inline.Source(o.Clock)) }},
	}
	if o.Spans.ProfilerMap != "" {
		return open(uprobe.New(uprobe.Options{Log: o.Log, SingleUprobes: o.singleUprobes}))
	}
	each := o.Allocs.By != 0 || o.Spans.Allocs // each allocation is counted
	if o.Engine == EngineInline || each && o.Engine != EngineUprobe {
		slices.Reverse(engines)
	}
	if each && len(o.Spans.Functions) > 0 && o.Engine != EngineInline && o.Engine != EngineUprobe {
		if s, done, err := o.withSelected(engines, open); done {
			return s, err
		}
	}
	first, second := engines[0], engines[1]
	s, err := open(first.of())
	if err == nil && each {
		s.warnAllocs(first.name, o.Engine)
	}
	if err == nil || o.Engine == first.name || !errors.Is(err, probe.ErrPermission) && !errors.Is(err, probe.ErrUnsupported) {
		return s, err
	}
	s, secondErr := open(second.of())
	if errors.Is(secondErr, ErrExited) || errors.Is(secondErr, ErrNoProcess) || errors.Is(secondErr, ErrExec) {
		return nil, secondErr // whatever the first engine requires
	}
	if secondErr != nil {
		return nil, fmt.Errorf("%w; engine %s: %w", err, second.name, secondErr)
	}
	if second.name == EngineInline {
		s.probes.Warn(event.Warnf(event.WarnEngine, "using engine inline (patches the process): engine uprobe is unavailable: %v", err))
	} else {
		s.probes.Warn(event.Warnf(event.WarnEngine, "using engine uprobe (1 µs or more for each allocation): engine inline is unavailable: %v", err))
	}
	return s, nil
}

// namedEngine makes an engine.
type namedEngine struct {
	name Engine
	of   func() probe.Engine
}

// withSelected opens a session with engine inline if that can observe all functions that are selected, or else with engine uprobe. done is
// false if neither can be used like this.
func (o Options) withSelected(engines []namedEngine, open func(probe.Engine) (*Session, error)) (s *Session, done bool, err error) {
	all := inline.New(o.Log, inline.Source(o.Clock))
	all.RequireSelected()
	s, err = open(all)
	if err == nil {
		s.warnAllocs(EngineInline, o.Engine)
		return s, true, nil
	}
	if !errors.Is(err, probe.ErrUnsupported) {
		return nil, !errors.Is(err, probe.ErrPermission), err
	}
	s, secondErr := open(engines[1].of())
	if secondErr != nil {
		return nil, false, nil
	}
	s.probes.Warn(event.Warnf(event.WarnEngine, "using engine uprobe (1 µs or more for each allocation): engine inline cannot observe all selected functions: %v", err))
	return s, true, nil
}

// check refuses options that make no sense.
func (o Options) check() error {
	switch {
	case o.StackDepth > MaxStackDepth:
		return fmt.Errorf("stack depth %d is too large: the maximum is %d", o.StackDepth, MaxStackDepth)
	case o.MinBlock < 0:
		return fmt.Errorf("MinBlock is %v: must not be negative", o.MinBlock)
	case o.MemoryInterval < 0:
		return fmt.Errorf("MemoryInterval is %v: must not be negative", o.MemoryInterval)
	case o.SampleOneIn < 0:
		return fmt.Errorf("SampleOneIn is %d: must not be negative", o.SampleOneIn)
	case o.Spans.Allocs && (o.Allocs.By != 0 || o.Allocs.Sample):
		return errors.New("Spans.Allocs and Allocs exclude each other")
	case o.Allocs.Sample && o.Allocs.By != 0:
		return errors.New("Allocs.Sample and Allocs.By exclude each other")
	case o.Allocs.By&^(AllocsByGoroutine|AllocsByPlace) != 0:
		return fmt.Errorf("Allocs.By is %d: must be AllocsByGoroutine, AllocsByPlace or both", o.Allocs.By)
	case o.Allocs.Goroutines < 0 || o.Allocs.Places < 0 || o.Allocs.Goroutines > maxAllocKeys || o.Allocs.Places > maxAllocKeys:
		return fmt.Errorf("Allocs has room for %d goroutines and %d places: must be between 0 and %d", o.Allocs.Goroutines, o.Allocs.Places, maxAllocKeys)
	case o.BufferBytes < 0 || o.BufferBytes > maxBufferBytes:
		return fmt.Errorf("BufferBytes is %d: must be between 0 and %d", o.BufferBytes, maxBufferBytes)
	case o.Engine != "" && o.Engine != EngineAuto && o.Engine != EngineUprobe && o.Engine != EngineInline && o.Engine != EngineAgent:
		return fmt.Errorf("unknown engine %q: must be one of auto, uprobe, inline, agent", o.Engine)
	case o.Spans.ProfilerMap != "" && o.Engine == EngineInline:
		return errors.New("Spans.ProfilerMap requires engine uprobe: machine code in the target cannot fill a BPF map")
	case o.Spans.ProfilerMap != "" && o.MinBlock > 0:
		return errors.New("Spans.ProfilerMap and MinBlock exclude each other")
	case o.Clock != "" && o.Clock != ClockAuto && o.Clock != ClockPrecise && o.Clock != ClockCoarse:
		return fmt.Errorf("unknown clock %q: must be one of auto, precise, coarse", o.Clock)
	}
	return o.Spans.problem(o.Kinds)
}

// Bounds of the buffer. The kernel wants whole pages.
const (
	minBufferBytes = 64 << 10
	maxBufferBytes = 1 << 30
)

// want returns what probes observe, with the defaults filled in.
func (o Options) want() probe.Want {
	kinds := o.Kinds.Without(event.KindsMemory)
	if kinds.IsEmpty() && !o.Kinds.IsEmpty() {
		kinds = event.KindsOf(event.GCEnd) // causes a sample
	}
	w := probe.Want{
		Kinds: kinds, StackDepth: o.StackDepth, MinBlock: o.MinBlock, Goroutines: o.Goroutines, System: o.System,
		SampleOneIn: o.SampleOneIn, BufferBytes: o.BufferBytes, Procs: o.Procs,
	}
	switch {
	case !w.Kinds.IsEmpty():
	case o.Allocs.By == 0 && !o.Allocs.Sample:
		w.Kinds = event.KindsDefault
	}
	if w.StackDepth == 0 {
		w.StackDepth = DefaultStackDepth
	}
	if w.Kinds.IsEmpty() && o.Allocs.By&AllocsByPlace == 0 && !o.Allocs.Sample {
		w.StackDepth = 0
	}
	w.BufferBytes = bufferBytes(w.BufferBytes)
	return w
}

// bufferBytes returns the size of a buffer for which a size was requested: a power of two. Zero selects the default.
func bufferBytes(requested int) int {
	return 1 << bits.Len(uint(max(cmp.Or(requested, DefaultBufferBytes), minBufferBytes)-1))
}

// Events returns an iterator over the events of the target. The iteration ends when the target exits, when the context
// is done, or when [Session.Detach] or [Session.Close] is called. Breaking out of the loop ends the session as well.
//
// The first events are a GoStatus for every observed goroutine that was alive when the session started: see [Session.Sample] for others. They are followed
// by all other events, in the order that [event.Event] documents. An event is only valid until the next one is yielded;
// copy it to keep it. The events can be iterated only once.
//
// After the loop, [Session.Err] reports whether the events ended early, and [Session.Stats] how many were lost.
func (s *Session) Events() iter.Seq[*event.Event] {
	events := s.source.Events()
	if s.spans != nil {
		events = s.spans.events(events)
	}
	if s.memory == nil {
		return events
	}
	return s.memory.events(events, func() { s.Detach() })
}

// Err returns the error that ended the events. It returns nil if they ended because the target exited, the context was
// done or the session was closed.
func (s *Session) Err() error { return s.source.Err() }

// Stats returns the event counts so far. It is safe to call at any time and from any goroutine.
func (s *Session) Stats() event.Stats {
	stats := s.source.Stats()
	if s.memory != nil {
		s.memory.count(&stats)
	}
	if s.spans != nil {
		s.spans.count(&stats)
	}
	return stats
}

// Sample changes the part of the goroutines that are sampled: see [Options].SampleOneIn. ratio is between 0.000001 and 1. A goroutine that
// is sampled at one ratio is also sampled at a higher one. It may be called at any time and from any goroutine.
//
// A lower ratio applies at once, even if the consumer of Events is blocked. [Session.Events] then yields a Resample event with the time of
// the change, and no further events of goroutines that are no longer sampled. A higher ratio applies when Events comes to it, within a
// second. Events yields a Resample event and, if GoStatus is observed, a GoStatus of each goroutine that begins to be sampled. For these
// it takes a snapshot, as [Attach] does, which takes time in proportion to the number of all goroutines. If the ratio has been changed
// again meanwhile, only the last change applies.
//
// Stats.Created and Stats.Ended count all goroutines at any ratio. Sessions with Options.Spans that follow requests and those with
// [EngineAgent] cannot change the ratio; the error wraps [ErrUnsupported].
func (s *Session) Sample(ratio float64) error {
	if s.probes == nil {
		return fmt.Errorf("%w: the agent in the program cannot change which goroutines are sampled", ErrUnsupported)
	}
	return s.probes.Sample(ratio)
}

// SampleRatio returns the part of the goroutines that are sampled now, from 0 to 1.
func (s *Session) SampleRatio() float64 {
	if s.probes == nil {
		return sampling.OneIn(s.opt.SampleOneIn).Ratio()
	}
	return s.probes.Ratio()
}

// BufferPeak returns the largest part of the buffer that was in use since the last call, from 0 to 1: see event.Stats.BufferUsed. It is 0
// with [EngineAgent].
func (s *Session) BufferPeak() float64 {
	if s.probes == nil {
		return 0
	}
	return s.probes.BufferPeak()
}

// Alive returns the IDs of all goroutines that are currently alive, including those of the runtime itself, in no
// particular order. Use it after a loss of events to find out which goroutines have ended unobserved.
func (s *Session) Alive() ([]uint64, error) { return s.source.Alive() }

// Observed returns the IDs of the goroutines that are currently alive and match the options, in no particular order.
func (s *Session) Observed() ([]uint64, error) { return s.source.Observed() }

// Usage returns the current resource usage of the target, and the goroutines that currently have a P. With [EngineAgent] it does not have
// these goroutines.
func (s *Session) Usage() (event.Usage, error) { return s.source.Usage() }

// Warnings returns messages for the user about this session. Use errors.Is to match a warning with its kind, such as
// event.WarnMissing. For example, a probe could not be attached,
// or the kernel lacks a feature. Warnings can be added until the session is closed: [EngineInline] reports breakpoints of
// other tracers at its probe sites.
func (s *Session) Warnings() []event.Warning {
	if s.memory == nil {
		return s.source.Warnings()
	}
	return append(s.source.Warnings(), s.memory.warnings()...)
}

// Info returns what is known about the target.
func (s *Session) Info() event.ProcessInfo { return s.source.Info() }

// PID returns the process ID of the target.
func (s *Session) PID() int { return s.source.PID() }

// Detach removes the probes and restores the target to its original state. [Session.Events] still yields what is in the
// buffer, so Detach may be called while the consumer of Events is blocked. It may be called more than once. A program
// that [Attach] started continues to run.
func (s *Session) Detach() error {
	s.ends()
	return s.source.Detach()
}

// Close detaches from the target, as [Session.Detach] does, and releases the session's resources. Events that are still
// in the buffer are discarded, unless [Session.Events] is being iterated at the time. Close may be called more than
// once. If the session uses [EngineInline] and a debugger is attached to the target, or its cgroup is frozen, Close fails after
// some seconds and can be called again.
func (s *Session) Close() error {
	s.ends()
	s.unwatched()
	return s.source.Close()
}

// ends notes that no events follow but those in the buffer.
func (s *Session) ends() {
	now := time.Now()
	s.detached.CompareAndSwap(nil, &now)
}

// ExitStatus waits for a program that [Attach] started to exit, and returns its exit status as a shell reports it: for a
// program that was killed by a signal, the status is 128 plus the number of the signal. If Attach did not start the
// program, ExitStatus returns at once and ok is false.
func (s *Session) ExitStatus() (status int, ok bool) {
	if s.program == nil {
		return 0, false
	}
	return s.program.wait(), true
}

// A Target is a process to observe. Use [PID], [Command] or [Socket] to create one.
type Target struct {
	pid    int
	cmd    *exec.Cmd
	socket string
}

// PID returns a target for the running process with the given ID.
func PID(pid int) Target { return Target{pid: pid} }

// Command returns a target for a program that [Attach] starts and observes from its first goroutine on. Attach calls
// the command's Start method; the caller must not.
func Command(cmd *exec.Cmd) Target { return Target{cmd: cmd} }
