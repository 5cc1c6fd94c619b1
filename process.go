package loupe

import (
	"context"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/pprof"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/procmap"
)

// Processes returns an iterator over the processes on this machine that run Go programs, in increasing order of their
// PIDs, without the calling process. For a process that could not be read, it yields an error and a ProcessInfo that has
// only the PID. Whether such a process runs a Go program is unknown. If the error wraps [ErrPermission], a user with
// CAP_SYS_PTRACE could read it. The iteration ends early if the context is done.
func Processes(ctx context.Context) iter.Seq2[event.ProcessInfo, error] {
	return func(yield func(event.ProcessInfo, error) bool) {
		for p, err := range goproc.List(ctx) {
			if _, ok := AgentSocket(p.PID); ok && err == nil {
				p.Engines = append(p.Engines, string(EngineAgent))
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

// Find returns the IDs of the processes that match name, in increasing order. The name is a process ID, the path of an
// executable, the base name of an executable, the name of a process in /proc/PID/comm, or one of these:
//   - "container:ID", or just the ID: the ID of a container, or at least its first 12 digits
//   - "pod:NAME" or "pod:NAMESPACE/NAME": the name of a Kubernetes pod that has logs in /var/log/pods
//
// Find does not check whether the processes run Go programs. If no process matches, the error wraps [ErrNoProcess].
func Find(name string) ([]int, error) { return goproc.Resolve(name) }

// ProcessOptions configures [OpenProcess], [CheckProcess] and [Repair]. The zero value is usable.
type ProcessOptions struct {
	// Log receives debug messages. If it is nil, they are discarded.
	Log *slog.Logger
}

// A Process is a Go process that is opened for reading. Reading attaches no probes, and does not stop the process unless
// [SnapshotOptions.Pause] is set. The methods may be called from several goroutines at the same time.
type Process struct {
	proc *goproc.Process
}

// OpenProcess opens the process with the given ID. It verifies that the runtime's data structures in the memory of the
// process are laid out as expected. The Process must be closed with [Process.Close].
//
// The error wraps one of the package's errors, such as [ErrNotGo], where one applies.
func OpenProcess(pid int, opt ProcessOptions) (*Process, error) {
	p, err := goproc.Open(pid, goproc.Options{Log: opt.Log})
	if err != nil {
		return nil, err
	}
	return &Process{p}, nil
}

// Info returns a description of the process.
func (p *Process) Info() event.ProcessInfo { return p.proc.Info() }

// SnapshotOptions configures [Process.Snapshot]. The zero value is usable.
type SnapshotOptions struct {
	// Pause stops all threads of the process with ptrace for a few milliseconds, so that all goroutines are seen at the
	// same moment and the stacks of running goroutines are exact.
	Pause bool
}

// Snapshot reads all goroutines of the process. Package [github.com/loupe-go/loupe/census] selects, groups and compares
// them.
//
// The error wraps one of the package's errors where one applies: [ErrExited] if the process has exited, [ErrPermission]
// if it may not be stopped, [ErrExec] if it has executed another program.
func (p *Process) Snapshot(ctx context.Context, opt SnapshotOptions) (*event.Snapshot, error) {
	return p.proc.Snapshot(ctx, goproc.SnapshotOptions{Pause: opt.Pause})
}

// Tallies counts the live goroutines by origin, state and wait reason, without their stacks. That takes much less time than a
// snapshot: about a microsecond for each goroutine.
//
// The error wraps one of the package's errors where one applies.
func (p *Process) Tallies(ctx context.Context) ([]event.Tally, error) { return p.proc.Tallies(ctx) }

// Scheduler reads the numbers that the scheduler of the process keeps by itself: of goroutines, and histograms. It takes some microseconds.
func (p *Process) Scheduler() (*event.Scheduler, error) { return p.proc.Scheduler() }

// ProcessorTime returns the processor time of the process so far, in user mode and in the kernel. The sum is exact. The kernel divides it by
// samples, as it does for utime and stime in proc_pid_stat(5).
func (p *Process) ProcessorTime() (user, system time.Duration, err error) {
	return p.proc.ProcessorTime()
}

// Usage returns the current resource usage of the process, and the goroutines that currently have a P.
func (p *Process) Usage() (event.Usage, error) { return usageOf(p.proc, false) }

// MemoryOptions configures [Process.Memory]. The zero value is usable.
type MemoryOptions struct {
	// Parts also explains the resident memory by mappings (event.ProcessMemory.Parts). The kernel then walks the page tables of
	// the process. That takes about a millisecond for each GiB of resident memory, and delays changes of the address space of
	// the process by up to that time.
	Parts bool
}

// Memory reads the memory statistics of the process: those of its runtime, equal to what runtime.ReadMemStats and
// runtime/metrics would return in the process, and those of the kernel. The process is not stopped.
//
// The error wraps one of the package's errors where one applies: [ErrExited] if the process has exited, [ErrLayout] if the
// statistics contradict each other or the runtime's variables cannot be found.
func (p *Process) Memory(ctx context.Context, opt MemoryOptions) (*event.Memory, error) {
	return p.proc.Memory(ctx, goproc.MemoryOptions{Parts: opt.Parts})
}

// Profile converts a snapshot of the process to a goroutine profile like that of runtime/pprof, with one sample for each
// distinct stack and set of labels. The first value of a sample is the number of goroutines, the second is the time in
// nanoseconds for which they have been blocked, as far as it is known. The goroutines of the runtime are left out.
func (p *Process) Profile(snap *event.Snapshot) *profile.Profile {
	return pprof.Goroutines(snap, p.code())
}

// code returns the mapping of the program's machine code, or the zero Mapping.
func (p *Process) code() pprof.Mapping { return codeOf(p.proc) }

// codeOf returns the mapping of the machine code of a process, or the zero Mapping.
func codeOf(p *goproc.Process) pprof.Mapping {
	maps, err := procmap.Read(p.PID())
	if err != nil {
		return pprof.Mapping{}
	}
	return mappingAt(maps, p.Binary().Module().Text+p.LoadBias())
}

// Close releases the resources of p. The process itself is not affected.
func (p *Process) Close() error { return p.proc.Close() }

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
