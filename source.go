package loupe

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/observe"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/sampling"
)

// source is what a session observes a program by. The methods of [Session] document those of the same names.
type source interface {
	Events() iter.Seq[*event.Event]
	Err() error
	Stats() event.Stats
	Warnings() []event.Warning
	Alive() ([]uint64, error)
	Observed() ([]uint64, error)
	Usage() (event.Usage, error)
	Memory(ctx context.Context) (*event.Memory, error)
	Info() event.ProcessInfo
	PID() int
	Detach() error
	Close() error
}

// probed is the source of a session of probes.
type probed struct{ *probe.Session }

func (p probed) Alive() ([]uint64, error) { return p.Process().Alive() }
func (p probed) Info() event.ProcessInfo  { return p.Process().Info() }

func (p probed) Memory(ctx context.Context) (*event.Memory, error) {
	return p.Process().Memory(ctx, goproc.MemoryOptions{})
}

func (p probed) Usage() (event.Usage, error) {
	_, inner := p.Engine().(*inline.Engine) // it has the numbers of threads that the runtime knows
	return usageOf(p.Process(), inner)
}

// usageOf returns the usage of a process. The IDs of threads are those in its own PID namespace if inner is set.
func usageOf(p *goproc.Process, inner bool) (event.Usage, error) {
	u, err := p.Usage()
	if err != nil {
		return event.Usage{}, err
	}
	usage := event.Usage{CPU: u.CPU, RSS: u.RSS, Procs: u.Procs, Err: u.Err}
	for _, t := range u.Threads {
		id := t.ID
		if inner {
			id = t.Inner
		}
		usage.Threads = append(usage.Threads, event.ThreadUsage{TID: int32(id), CPU: t.CPU, Wait: t.Wait})
	}
	if u.Running != nil {
		usage.Running = map[uint64]event.Proc{}
		for _, on := range u.Running {
			usage.Running[on.G] = event.ProcOf(on.P)
		}
	}
	return usage, nil
}

// Socket returns a target for the program whose agent (package glti/observe) listens on a Unix socket.
func Socket(path string) Target { return Target{socket: path} }

// AgentSocket returns the socket on which the agent in a process listens. It returns false if the program has no agent, or this user may not
// see it.
func AgentSocket(pid int) (path string, ok bool) {
	path, err := observe.Find(pid)
	return path, err == nil
}

// ErrNoAgent reports that [EngineAgent] was selected for a program without the agent.
var ErrNoAgent = observe.ErrNoAgent

// attended begins to observe a process by its agent, if the options select the agent, or if they leave the choice and the program has an
// agent that can do what they ask for. It returns neither a session nor an error if the agent is not to be used. refused says why an
// agent that could be used was not.
func attended(ctx context.Context, target Target, opt Options) (s *Session, refused, err error) {
	if opt.Engine != EngineAgent && (opt.Engine != "" && opt.Engine != EngineAuto || opt.beyondAgent(observe.Kinds()) != nil) {
		return nil, nil, nil
	}
	path, err := observe.Find(target.pid)
	if err == nil {
		target.socket = path
		s, err = connected(ctx, target, opt)
		refused = err
	}
	if err == nil || opt.Engine == EngineAgent || errors.Is(err, context.Canceled) {
		return s, nil, err
	}
	return nil, refused, nil // what else may be wrong, the other engines report
}

// connected begins to observe a program by the agent at a socket.
func connected(ctx context.Context, target Target, opt Options) (*Session, error) {
	if opt.Engine == EngineUprobe || opt.Engine == EngineInline {
		return nil, fmt.Errorf("engine %s cannot use the socket of an agent; give the PID instead", opt.Engine)
	}
	want := opt.want()
	depth := max(want.StackDepth, 0)
	s, err := observe.Open(ctx, target.socket, target.pid, observe.Options{Kinds: want.Kinds, StackDepth: depth, Goroutines: want.Goroutines, System: want.System,
		Sample: sampling.OneIn(want.SampleOneIn), BufferBytes: want.BufferBytes})
	if err != nil {
		return nil, err
	}
	if err := opt.beyondAgent(s.Available()); err != nil {
		s.Close()
		return nil, err
	}
	return &Session{source: s}, nil
}

// beyondAgent returns an error if the options ask for something that an agent with these kinds of events cannot do.
func (o Options) beyondAgent(has event.Kinds) error {
	missing := o.want().Kinds.Without(has.Union(event.KindsOf(event.Lost, event.Exec, event.GoSwitch)))
	switch {
	case !missing.IsEmpty():
		return fmt.Errorf("%w: the agent in the program has no events of kind %s", ErrUnsupported, missing)
	case o.MinBlock > 0:
		return fmt.Errorf("%w: the agent in the program cannot select waits by their duration", ErrUnsupported)
	case o.Allocs.By != 0 || o.Allocs.Sample:
		return fmt.Errorf("%w: the agent in the program does not report allocations", ErrUnsupported)
	case o.Spans.made():
		return fmt.Errorf("%w: the agent in the program does not report requests", ErrUnsupported)
	}
	return nil
}
