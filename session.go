package loupe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"os/exec"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/probe/uprobe"
)

// Reasons why a process cannot be observed. Errors returned by [Attach], and by [Session.Err], wrap one of these where
// one applies.
var (
	ErrNoProcess   = goproc.ErrNoProcess   // the process does not exist
	ErrNotGo       = goproc.ErrNotGo       // the process does not run a Go program
	ErrPermission  = goproc.ErrPermission  // the user is not permitted to observe the process
	ErrUnsupported = goproc.ErrUnsupported // the program, the kernel or the machine is not supported
	ErrLayout      = goproc.ErrLayout      // the runtime's data structures are not laid out as expected
	ErrExited      = goproc.ErrExited      // the process has exited
	ErrExec        = goproc.ErrReplaced    // the process has executed another program (execve(2))
)

// A Session is an observation of one process. It must be closed with [Session.Close].
type Session struct {
	probes    *probe.Session
	program   *program    // nil when the target was running already
	unwatched func() bool // the context no longer ends the session
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
	if target.cmd != nil {
		open = start
	}
	s, err := open(ctx, target, opt)
	if err != nil {
		return nil, err
	}
	s.unwatched = context.AfterFunc(ctx, func() { s.Detach() })
	return s, nil
}

// running begins to observe a program that runs already.
func running(ctx context.Context, target Target, opt Options) (*Session, error) {
	probes, err := opt.withEngine(func(engine probe.Engine) (*probe.Session, error) {
		p, err := goproc.Open(target.pid, goproc.Options{Log: opt.Log})
		if err != nil {
			return nil, err
		}
		return probe.OpenRunning(ctx, p, engine, opt.want())
	})
	if err != nil {
		return nil, err
	}
	return &Session{probes: probes}, nil
}

// withEngine opens a session with the engine that the options want. That is eBPF's unless they say otherwise: the kernel
// answers for it. The other one is for where this one is not permitted, or not there.
func (o Options) withEngine(open func(probe.Engine) (*probe.Session, error)) (*probe.Session, error) {
	if o.Engine == EngineInline {
		s, err := open(o.inline())
		return s, sentinel(err)
	}
	s, err := open(uprobe.New(uprobe.Options{Log: o.Log, SingleUprobes: o.singleUprobes}))
	if err == nil || o.Engine == EngineUprobe || !errors.Is(err, probe.ErrPermission) && !errors.Is(err, probe.ErrUnsupported) {
		return s, sentinel(err)
	}
	s, inlineErr := open(o.inline())
	if errors.Is(inlineErr, ErrExited) || errors.Is(inlineErr, ErrNoProcess) || errors.Is(inlineErr, ErrExec) {
		return nil, inlineErr // whatever engine uprobe requires
	}
	if inlineErr != nil {
		return nil, sentinel(fmt.Errorf("%w; engine inline: %w", err, inlineErr))
	}
	s.Warn(event.Warnf(event.WarnEngine, "using engine inline (patches the process): engine uprobe is unavailable: %v", err))
	return s, nil
}

// inline returns engine inline.
func (o Options) inline() probe.Engine { return inline.New(o.Log, inline.Source(o.Clock)) }

// sentinel adds this package's sentinel to an engine's error.
func sentinel(err error) error {
	switch {
	case errors.Is(err, probe.ErrPermission):
		return reasonError{ErrPermission, err}
	case errors.Is(err, probe.ErrUnsupported), errors.Is(err, probe.ErrNothing):
		return reasonError{ErrUnsupported, err}
	}
	return err
}

// reasonError is an error that counts as one of the package's reasons, without saying more.
type reasonError struct{ reason, err error }

func (e reasonError) Error() string   { return e.err.Error() }
func (e reasonError) Unwrap() []error { return []error{e.reason, e.err} }

// check refuses options that make no sense.
func (o Options) check() error {
	switch {
	case o.StackDepth > MaxStackDepth:
		return fmt.Errorf("stack depth %d is too large: the maximum is %d", o.StackDepth, MaxStackDepth)
	case o.MinBlock < 0:
		return fmt.Errorf("MinBlock is %v: must not be negative", o.MinBlock)
	case o.SampleOneIn < 0:
		return fmt.Errorf("SampleOneIn is %d: must not be negative", o.SampleOneIn)
	case o.BufferBytes < 0 || o.BufferBytes > maxBufferBytes:
		return fmt.Errorf("BufferBytes is %d: must be between 0 and %d", o.BufferBytes, maxBufferBytes)
	case o.Engine != "" && o.Engine != EngineAuto && o.Engine != EngineUprobe && o.Engine != EngineInline:
		return fmt.Errorf("unknown engine %q: must be one of auto, uprobe, inline", o.Engine)
	case o.Clock != "" && o.Clock != ClockAuto && o.Clock != ClockPrecise && o.Clock != ClockCoarse:
		return fmt.Errorf("unknown clock %q: must be one of auto, precise, coarse", o.Clock)
	}
	return nil
}

// Bounds of the buffer. The kernel wants whole pages.
const (
	minBufferBytes = 64 << 10
	maxBufferBytes = 1 << 30
)

// want returns the options with the defaults filled in.
func (o Options) want() probe.Want {
	w := probe.Want{
		Kinds: o.Kinds, StackDepth: o.StackDepth, MinBlock: o.MinBlock, Goroutines: o.Goroutines, System: o.System,
		SampleOneIn: o.SampleOneIn, BufferBytes: o.BufferBytes, Procs: o.Procs,
	}
	if w.Kinds.IsEmpty() {
		w.Kinds = event.KindsDefault
	}
	if w.StackDepth == 0 {
		w.StackDepth = DefaultStackDepth
	}
	if w.BufferBytes == 0 {
		w.BufferBytes = DefaultBufferBytes
	}
	w.BufferBytes = 1 << bits.Len(uint(max(w.BufferBytes, minBufferBytes)-1))
	return w
}

// Events returns an iterator over the events of the target. The iteration ends when the target exits, when the context
// is done, or when [Session.Detach] or [Session.Close] is called. Breaking out of the loop ends the session as well.
//
// The first events are a GoStatus for every observed goroutine that was alive when the session started. They are followed
// by all other events, in the order that [event.Event] documents. An event is only valid until the next one is yielded;
// copy it to keep it. The events can be iterated only once.
//
// After the loop, [Session.Err] reports whether the events ended early, and [Session.Stats] how many were lost.
func (s *Session) Events() iter.Seq[*event.Event] { return s.probes.Events() }

// Err returns the error that ended the events. It returns nil if they ended because the target exited, the context was
// done or the session was closed.
func (s *Session) Err() error { return s.probes.Err() }

// Stats returns the event counts so far. It is safe to call at any time and from any goroutine.
func (s *Session) Stats() Stats {
	n := s.probes.Stats()
	stats := Stats{Events: n.Events, Lost: n.Lost, Kinds: map[event.Kind]Counts{}, Err: n.Err, Unreadable: n.Unreadable, TimeError: TimeError(n.TimeError)}
	for k, c := range n.Kinds {
		stats.Kinds[k] = Counts(c)
	}
	return stats
}

// Alive returns the IDs of all goroutines that are currently alive, including those of the runtime itself, in no
// particular order. Use it after a loss of events to find out which goroutines have ended unobserved.
func (s *Session) Alive() ([]uint64, error) { return s.probes.Process().Alive() }

// Observed returns the IDs of the goroutines that are currently alive and match the options, in no particular order.
func (s *Session) Observed() ([]uint64, error) { return s.probes.Observed() }

// Usage returns the current resource usage of the target, and the goroutines that currently have a P.
func (s *Session) Usage() (Usage, error) {
	u, err := s.probes.Process().Usage()
	if err != nil {
		return Usage{}, sentinel(err)
	}
	usage := Usage{CPU: u.CPU, RSS: u.RSS, Procs: u.Procs, Err: u.Err}
	_, inner := s.probes.Engine().(*inline.Engine) // it has the numbers that the runtime knows
	for _, t := range u.Threads {
		id := t.ID
		if inner {
			id = t.Inner
		}
		usage.Threads = append(usage.Threads, ThreadUsage{TID: int32(id), CPU: t.CPU, Wait: t.Wait})
	}
	if u.Running != nil {
		usage.Running = map[uint64]event.Proc{}
		for _, on := range u.Running {
			usage.Running[on.G] = event.ProcOf(on.P)
		}
	}
	return usage, nil
}

// Warnings returns messages for the user about this session, one line each. For example, a probe could not be attached,
// or the kernel lacks a feature. Warnings can be added until the session is closed: [EngineInline] reports breakpoints of
// other tracers at its probe sites.
func (s *Session) Warnings() []string { return event.WarningTexts(s.probes.Warnings()) }

// PID returns the process ID of the target.
func (s *Session) PID() int { return s.probes.PID() }

// Detach removes the probes and restores the target to its original state. [Session.Events] still yields what is in the
// buffer, so Detach may be called while the consumer of Events is blocked. It may be called more than once. A program
// that [Attach] started continues to run.
func (s *Session) Detach() error { return s.probes.Detach() }

// Close detaches from the target, as [Session.Detach] does, and releases the session's resources. Events that are still
// in the buffer are discarded, unless [Session.Events] is being iterated at the time. Close may be called more than
// once. If the session uses [EngineInline] and a debugger is attached to the target, or its cgroup is frozen, Close fails after
// some seconds and can be called again.
func (s *Session) Close() error {
	s.unwatched()
	return s.probes.Close()
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

// A Target is a process to observe. Use [PID] or [Command] to create one.
type Target struct {
	pid int
	cmd *exec.Cmd
}

// PID returns a target for the running process with the given ID.
func PID(pid int) Target { return Target{pid: pid} }

// Command returns a target for a program that [Attach] starts and observes from its first goroutine on. Attach calls
// the command's Start method; the caller must not.
func Command(cmd *exec.Cmd) Target { return Target{cmd: cmd} }
