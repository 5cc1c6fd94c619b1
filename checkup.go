package loupe

import (
	"context"

	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/internal/doctor"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/inline"
)

// CheckMachine returns what the calling process can observe on this machine. For what it cannot observe, the report has
// the reason and the remedy. CheckMachine tries operations that have no lasting effect, such as loading a BPF program.
func CheckMachine() *checkup.Report { return doctor.Examine(doctor.Gather("/"), nil) }

// CheckProcess returns what the calling process can observe on this machine and in the process with the given ID. If
// that process does not exist or does not run a Go program, a finding of the report says so. If it has a seccomp filter,
// CheckProcess stops it for some microseconds.
func CheckProcess(ctx context.Context, pid int, opt ProcessOptions) *checkup.Report {
	target := doctor.Inspect(ctx, pid, opt.Log)
	return doctor.Examine(doctor.Gather("/"), target)
}

// Repair removes what [EngineInline] has left in a process because the observing process was killed. It returns the
// number of places at which it has restored the code of the process, which may be zero. The result found is false if
// there was nothing to remove. Repair stops the process for a few milliseconds.
func Repair(pid int, opt ProcessOptions) (places int, found bool, err error) {
	p, err := goproc.Open(pid, goproc.Options{Log: opt.Log})
	if err != nil {
		return 0, false, err
	}
	defer p.Close()
	notes, err := inline.Repair(pid, p.SignalStacks)
	if err != nil || notes == nil {
		return 0, false, err
	}
	return len(notes.Edits), true, nil
}
