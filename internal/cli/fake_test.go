package cli

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/doctor"
	"github.com/loupe-go/loupe/internal/export/pprof"
)

// fakeSystem is a machine with made-up processes.
type fakeSystem struct {
	pids       map[string][]int
	openErr    error
	snap       *event.Snapshot
	snapErr    error
	cpu        *loupe.CPUProfile // nil: CPUProfile fails with snapErr
	cpuOptions loupe.CPUOptions
	infos      []event.ProcessInfo
	denied     []int
	failed     []error
	paused     bool
	notGo      map[int]bool
	opened     int
	stream     fakeStream
	wall       loupe.WallOptions
	ended      error

	memErr      error
	readings    int   // of memory statistics
	exits       int   // the reading at which the process has exited; 0 never
	recordedErr error // of reading a profile that the program records
}

// recorded returns a profile that the program records.
func (f *fakeSystem) recorded() (*loupe.RecordedProfile, error) {
	if f.recordedErr != nil {
		return nil, f.recordedErr
	}
	b := pprof.NewHeap(time.Unix(1, 0), pprof.Mapping{}, 1)
	b.AddHeap(&pprof.HeapRecord{Stack: f.snap.Goroutines[0].Stack, Size: 8, Allocs: 3, AllocBytes: 24})
	return &loupe.RecordedProfile{Profile: b.Profile(), Notes: []string{"half of it is missing"}}, nil
}

func (f *fakeSystem) resolve(target string) ([]int, error) {
	if pids, ok := f.pids[target]; ok {
		return pids, nil
	}
	return nil, fmt.Errorf("%s: %w", target, loupe.ErrNoProcess)
}

func (f *fakeSystem) open(pid int, _ loupe.ProcessOptions) (process, error) {
	if f.openErr != nil {
		return nil, f.openErr
	}
	if f.notGo[pid] {
		return nil, fmt.Errorf("process %d: %w", pid, loupe.ErrNotGo)
	}
	f.opened = pid
	return &fakeProcess{f}, nil
}

func (f *fakeSystem) check(_ context.Context, pid int, _ loupe.ProcessOptions) *checkup.Report {
	return doctor.Examine(doctor.Gather("/"), &doctor.Target{PID: pid, Info: event.ProcessInfo{PID: pid, Exe: "/bin/app", Arch: "amd64"}, Err: f.openErr})
}

func (f *fakeSystem) list(context.Context) iter.Seq2[event.ProcessInfo, error] {
	return func(yield func(event.ProcessInfo, error) bool) {
		for _, info := range f.infos {
			yield(info, nil)
		}
		for _, pid := range f.denied {
			yield(event.ProcessInfo{PID: pid}, fmt.Errorf("process %d: %w", pid, loupe.ErrPermission))
		}
		for _, err := range f.failed {
			yield(event.ProcessInfo{PID: 43}, err)
		}
	}
}

type fakeProcess struct{ f *fakeSystem }

func (p *fakeProcess) Info() event.ProcessInfo {
	return event.ProcessInfo{PID: p.f.opened, Exe: "/bin/app", Arch: "amd64"}
}
func (p *fakeProcess) Profile(snap *event.Snapshot) *profile.Profile {
	return pprof.Goroutines(snap, pprof.Mapping{Start: 1, End: 1 << 40, File: "/bin/app"})
}
func (p *fakeProcess) CPUProfile(_ context.Context, opt loupe.CPUOptions) (*loupe.CPUProfile, error) {
	p.f.cpuOptions = opt
	if p.f.cpu == nil {
		return nil, p.f.snapErr
	}
	return p.f.cpu, nil
}
func (p *fakeProcess) HeapProfile() (*loupe.RecordedProfile, error)  { return p.f.recorded() }
func (p *fakeProcess) BlockProfile() (*loupe.RecordedProfile, error) { return p.f.recorded() }
func (p *fakeProcess) MutexProfile() (*loupe.RecordedProfile, error) { return p.f.recorded() }
func (p *fakeProcess) Close() error                                  { return nil }

func (p *fakeProcess) WallProfile(_ context.Context, opt loupe.WallOptions) (*loupe.WallProfile, error) {
	if p.f.snapErr != nil {
		return nil, p.f.snapErr
	}
	p.f.paused, p.f.wall = opt.Pause, opt
	var w pprof.Wall
	w.Add(p.f.snap, 50*time.Millisecond)
	w.Add(p.f.snap, 50*time.Millisecond)
	b := w.Build(time.Unix(1, 0), 100*time.Millisecond, 20, pprof.Mapping{})
	return &loupe.WallProfile{Profile: b.Profile(), Snapshots: 2, Goroutines: 3, Rate: 5, Reduced: opt.Rate > 5, Snapshot: 40 * time.Millisecond, Late: time.Duration(opt.Rate) * time.Millisecond / 10,
		Warnings: p.f.snap.Warnings, Ended: p.f.ended}, nil
}

func (p *fakeProcess) Memory(_ context.Context, opt loupe.MemoryOptions) (*event.Memory, error) {
	m := &event.Memory{Time: time.Unix(int64(p.f.readings), 0)}
	p.f.readings++
	m.Heap.TotalAlloc, m.Process.RSS, m.GC.Percent = uint64(p.f.readings)<<20, 3<<20, 100
	if opt.Parts {
		m.Process.Parts = &event.MemoryParts{Arenas: 2 << 20, Executable: 1 << 20}
	}
	if p.f.readings == p.f.exits {
		return nil, fmt.Errorf("process 42: %w", loupe.ErrExited)
	}
	return m, p.f.memErr
}

func (p *fakeProcess) Snapshot(_ context.Context, opt loupe.SnapshotOptions) (*event.Snapshot, error) {
	p.f.paused = opt.Pause
	return p.f.snap, p.f.snapErr
}

func newFake() *fakeSystem {
	stack := []event.StackFrame{
		{Frame: event.Frame{Func: "runtime.gopark", File: "proc.go", Line: 1}, PC: 0x10, Hidden: true},
		{Frame: event.Frame{Func: "main.worker", File: "main.go", Line: 7}, PC: 0x20},
	}
	return &fakeSystem{
		pids: map[string][]int{"app": {42}, "42": {42}, "many": {5, 6, 7}},
		snap: &event.Snapshot{Time: time.Unix(1, 0), PID: 42, GoVersion: "go1.22.1", Warnings: []event.Warning{{Text: "odd\x1b thing"}}, Goroutines: []event.Goroutine{
			{ID: 1, State: event.StateRunning, Stack: stack, BestEffort: true},
			{ID: 2, State: event.StateWaiting, Reason: "GC worker (idle)", System: true, Stack: stack},
			{ID: 3, State: event.StateWaiting, Reason: "chan receive", Stack: stack, Wait: time.Minute, WaitKnown: true, Labels: map[string]string{"k": "v"}},
			{ID: 4, State: event.StateWaiting, Reason: "chan receive", Stack: stack, Wait: time.Hour, WaitKnown: true},
		}},
	}
}

// result is what a command line did.
type result struct {
	status      int
	out, errOut string
}

func run(t *testing.T, sys system, args ...string) result {
	t.Helper()
	var out, errOut lockedBuffer
	a := &app{Env: Env{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errOut, Getenv: func(string) string { return "" }}, system: sys}
	status := a.run(t.Context())
	return result{status, out.String(), errOut.String()}
}

// lockedBuffer takes what Loupe and a program that it started write at the same time.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
