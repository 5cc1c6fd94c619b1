package cli

import (
	"context"
	"io"
	"iter"
	"os/exec"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/live"
)

// process is a process that is opened for reading; *loupe.Process is one.
type process interface {
	Info() event.ProcessInfo
	Snapshot(ctx context.Context, opt loupe.SnapshotOptions) (*event.Snapshot, error)
	Memory(ctx context.Context, opt loupe.MemoryOptions) (*event.Memory, error)
	Profile(snap *event.Snapshot) *profile.Profile
	WallProfile(ctx context.Context, opt loupe.WallOptions) (*loupe.WallProfile, error)
	CPUProfile(ctx context.Context, opt loupe.CPUOptions) (*loupe.CPUProfile, error)
	HeapProfile() (*loupe.RecordedProfile, error)
	BlockProfile() (*loupe.RecordedProfile, error)
	MutexProfile() (*loupe.RecordedProfile, error)
	Close() error
}

// session is an observation of live events under way; *loupe.Session is one.
type session interface {
	live.Source
	live.MemorySource
	Observed() ([]uint64, error)
	Record(w io.Writer, opt loupe.RecordOptions) (loupe.Recording, error)
	FlightRecorder(opt loupe.FlightOptions) (*loupe.FlightRecorder, error)
	Profile(opt loupe.ProfileOptions) (*loupe.EventProfile, error)
	Allocs() (*allocs.Counts, error)
	AllocProfile(c *allocs.Counts) *profile.Profile
	SpanCounts() (loupe.SpanCounts, error)
	Info() event.ProcessInfo
	PID() int
	Detach() error
	ExitStatus() (status int, ok bool)
}

// watched is what a session observes: a process, or a program that the session starts.
type watched struct {
	pid     int
	socket  string    // of the agent in the program, if the target is one
	program *exec.Cmd // nil for a process that runs already
}

// machine is the real system.
type machine struct{}

func (machine) resolve(target string) ([]int, error) { return loupe.Find(target) }

func (machine) open(pid int, opt loupe.ProcessOptions) (process, error) {
	p, err := loupe.OpenProcess(pid, opt)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (machine) attach(ctx context.Context, target watched, opt loupe.Options) (session, error) {
	to := loupe.PID(target.pid)
	switch {
	case target.program != nil:
		to = loupe.Command(target.program)
	case target.socket != "":
		to = loupe.Socket(target.socket)
	}
	s, err := loupe.Attach(ctx, to, opt)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (machine) check(ctx context.Context, pid int, opt loupe.ProcessOptions) *checkup.Report {
	return loupe.CheckProcess(ctx, pid, opt)
}

func (machine) list(ctx context.Context) iter.Seq2[event.ProcessInfo, error] {
	return loupe.Processes(ctx)
}
