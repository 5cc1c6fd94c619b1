package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/report"
)

// cpuProfile is the type of profile of processor time.
const cpuProfile = "cpu"

// cpuProfileType is the type of profile of processor time.
var cpuProfileType = profileType{name: cpuProfile, flags: []string{"after", "duration", "buffer", "rate", "tag"}, maxRate: loupe.MaxCPURate,
	run: (*app).profileCPU,
	help: `the processor time of the program by stack, as its own CPU profiler
shows it, with its time in the kernel and the labels of goroutines;
by eBPF where permitted, else by perf events, for the user's own
processes only`}

// cpuTags are the values of --tag.
var cpuTags = []string{"goroutine", "gc"}

// cpuFlags are the flags of profiles of processor time.
type cpuFlags struct {
	tags []string
}

func (f *cpuFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.tags, "tag", nil, "cpu: label each sample with `NAME`: goroutine, its ID and the function that it was started with; or gc, the phase of a garbage collection")
}

// problem returns what is wrong with the flags, or the empty string.
func (f *cpuFlags) problem() string {
	for _, tag := range f.tags {
		if !slices.Contains(cpuTags, tag) {
			return fmt.Sprintf("unknown tag %q: must be one of %s", tag, strings.Join(cpuTags, ", "))
		}
	}
	return ""
}

// cpuProfileJSON is the document for --json of a CPU profile.
type cpuProfileJSON struct {
	profileFile
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"` // processor time of the program, as accounted by the kernel
	Counted    uint64  `json:"counted"`    // samples of processor time
	Period     int64   `json:"period"`     // processor time of each, in nanoseconds
	Kernel     uint64  `json:"kernel"`     // of the samples, those in the kernel
	Unknown    uint64  `json:"unknown"`    // those whose callers are unknown
	Truncated  uint64  `json:"truncated"`  // those with a truncated stack
	Lost       uint64  `json:"lost"`
	Late       uint64  `json:"late"`     // those whose goroutine is unknown, without eBPF
	UserOnly   bool    `json:"userOnly"` // time in the kernel was not sampled
}

// profileCPU writes a profile of the processor time of the target.
func (a *app) profileCPU(cmd *cobra.Command, args []string, flags *profileFlags, out *output.File) error {
	return a.onTarget(cmd, args, &flags.target, func(ctx context.Context, pid int) error {
		defer context.AfterFunc(ctx, out.End)()
		return a.withProcess(pid, func(p process) error { return a.sampleCPU(ctx, pid, p, flags, out) })
	})
}

func (a *app) sampleCPU(ctx context.Context, pid int, p process, flags *profileFlags, out *output.File) error {
	meanwhile := fmt.Sprintf("sampling process %d", pid)
	if d := flags.live.duration; d > 0 {
		meanwhile += " for " + report.Duration(d)
	}
	progress := a.progress(meanwhile)
	prof, err := p.CPUProfile(ctx, loupe.CPUOptions{Duration: flags.live.duration, Rate: int(math.Ceil(flags.rate)),
		Goroutines: slices.Contains(flags.cpu.tags, "goroutine"), GC: slices.Contains(flags.cpu.tags, "gc"), BufferBytes: int(flags.live.buffer)})
	progress.Stop()
	if err != nil {
		return fmt.Errorf("cannot profile: %w", &targetError{pid: pid, err: err})
	}
	seconds := time.Duration(prof.DurationNanos)
	if prof.Samples == 0 {
		err := fmt.Errorf("no samples: process %d used %s of processor time in %s", pid, report.ShortTime(prof.CPU), report.ShortTime(seconds))
		if prof.Ended != nil {
			return &targetError{pid: pid, err: fmt.Errorf("%w: %w", err, prof.Ended)}
		}
		return &advisedError{err, "use a longer --duration or a higher --rate"}
	}
	a.notes(prof.Missing())
	info := p.Info()
	return a.writeProfile(out, flags, profileResult{
		profile: prof.Profile, process: info.PID, exe: info.Exe,
		counted: fmt.Sprintf("%s (%.2f s of processor time)", english.Count(prof.Samples, "sample"), prof.CPU.Seconds()),
		json: func(file profileFile) any {
			return cpuProfileJSON{profileFile: file, Seconds: seconds.Seconds(), CPUSeconds: prof.CPU.Seconds(), Counted: prof.Samples, Period: prof.Period,
				Kernel: prof.Kernel, Unknown: prof.Unknown, Truncated: prof.Cut, Lost: prof.Lost, Late: prof.Late, UserOnly: prof.UserOnly}
		},
	})
}
