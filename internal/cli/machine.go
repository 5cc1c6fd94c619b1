package cli

import (
	"context"
	"iter"
	"os/exec"
	"strings"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/pprof"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/procmap"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// process is one Go process under observation.
type process interface {
	Info() goproc.Info
	Warnings() []string
	Snapshot(ctx context.Context, opt goproc.SnapshotOptions) (*goproc.Snapshot, error)
	Breakpoints(known []ptrace.Edit) ([]goproc.Breakpoint, error)
	Close() error
	Mapping() pprof.Mapping // of its executable
}

// session is an observation of live events under way; *loupe.Session is one.
type session interface {
	Events() iter.Seq[*event.Event]
	Err() error
	Stats() event.Stats
	Warnings() []event.Warning
	Alive() ([]uint64, error)
	Observed() ([]uint64, error)
	Usage() (event.Usage, error)
	PID() int
	Detach() error
	Close() error
	ExitStatus() (status int, ok bool)
}

// watched is what a session observes: a process, or a program that the session starts.
type watched struct {
	pid     int
	program *exec.Cmd // nil for a process that runs already
}

// machine is the real system.
type machine struct{}

func (machine) resolve(target string) ([]int, error) { return goproc.Resolve(target) }

func (machine) open(pid int, opt goproc.Options) (process, error) {
	p, err := goproc.Open(pid, opt)
	if err != nil {
		return nil, err
	}
	return observed{p}, nil
}

// observed is a process of package goproc.
type observed struct{ *goproc.Process }

// Mapping returns where the executable's machine code is in the process's memory. It is zero when that cannot be told;
// a profile does without.
func (o observed) Mapping() pprof.Mapping {
	maps, err := procmap.Read(o.PID())
	if err != nil {
		return pprof.Mapping{}
	}
	return mappingAt(maps, o.Binary().Module().Text+o.LoadBias())
}

// mappingAt returns the mapping that contains an address, or the zero Mapping.
func mappingAt(maps []procmap.Mapping, addr uint64) pprof.Mapping {
	m, ok := procmap.Of(maps, addr)
	if !ok {
		return pprof.Mapping{}
	}
	found := pprof.Mapping{Start: m.Start, End: m.End, Offset: m.Offset}
	if strings.HasPrefix(m.Path, "/") { // else it is not a file
		found.File = strings.TrimSuffix(m.Path, " (deleted)")
	}
	return found
}

func (machine) attach(ctx context.Context, target watched, opt loupe.Options) (session, error) {
	to := loupe.PID(target.pid)
	if target.program != nil {
		to = loupe.Command(target.program)
	}
	s, err := loupe.Attach(ctx, to, opt)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (machine) checkInline(ctx context.Context, pid int) error { return inline.Check(ctx, pid) }

// A listError is the reason why a process is not in the list.
type listError struct {
	pid int
	err error
}

func (e *listError) Error() string { return e.err.Error() }
func (e *listError) Unwrap() error { return e.err }

func (machine) list(ctx context.Context) (list []goproc.Info, errs []error) {
	for info, err := range goproc.List(ctx) {
		if err != nil {
			errs = append(errs, &listError{info.PID, err})
			continue
		}
		list = append(list, info)
	}
	return list, errs
}

// Warnings returns the texts of the process's warnings.
func (o observed) Warnings() []string { return event.WarningTexts(o.Process.Warnings()) }
