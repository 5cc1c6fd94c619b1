package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/report"
)

// wallProfileType is the type of profile that is computed from repeated snapshots.
var wallProfileType = profileType{name: "wall", flags: []string{"after", "duration", "pause", "rate"}, maxRate: loupe.MaxWallRate, run: (*app).profileWall,
	help: `where goroutines spend their time, running and waiting together,
from repeated snapshots (--rate). Label state is running, runnable,
syscall, or waiting: REASON. Functions that a running goroutine
calls may be missing from its stack, except with --pause`}

// wallProfileJSON is the document for --json of a wall profile.
type wallProfileJSON struct {
	profileFile
	Seconds    float64 `json:"seconds"`
	Snapshots  int     `json:"snapshots"`
	Rate       float64 `json:"rate"`       // snapshots per second
	Goroutines float64 `json:"goroutines"` // average number
}

// profileWall writes a wall profile of the target of a command line.
func (a *app) profileWall(cmd *cobra.Command, args []string, flags *profileFlags, out *output.File) error {
	return a.onTarget(cmd, args, &flags.target, func(ctx context.Context, pid int) error {
		return a.withProcess(pid, func(p process) error { return a.wall(ctx, p, flags, out) })
	})
}

// wall takes a wall profile and writes it.
func (a *app) wall(ctx context.Context, p process, flags *profileFlags, out *output.File) error {
	defer context.AfterFunc(ctx, out.End)()
	info := p.Info()
	meanwhile := fmt.Sprintf("sampling process %d", info.PID)
	if flags.live.duration > 0 {
		meanwhile += " for " + report.Duration(flags.live.duration)
	}
	opt := loupe.WallOptions{Duration: flags.live.duration, Rate: flags.rate, Pause: flags.pause}
	progress := a.progress(meanwhile)
	var prof *loupe.WallProfile
	sample := func() (err error) {
		prof, err = p.WallProfile(ctx, opt)
		return err
	}
	var err error
	if opt.Pause {
		err = a.state.hold.stopping(sample)
	} else {
		err = sample()
	}
	progress.Stop()
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case err != nil:
		return fmt.Errorf("cannot read goroutines: %w", &targetError{pid: info.PID, err: err})
	}
	a.notes(event.WarningTexts(prof.Warnings))
	length := time.Duration(prof.DurationNanos)
	if prof.Reduced {
		a.note("note: reduced the rate from %g to %.3g snapshots per second: a snapshot takes %s", cmp.Or(flags.rate, loupe.DefaultWallRate), prof.Rate, report.ShortTime(prof.Snapshot))
	}
	if prof.Late > loupe.NotableLate {
		a.note("note: snapshots were %s late on average, because the machine is busy: running goroutines may be seen less often than they run", report.ShortTime(prof.Late))
	}
	if prof.Ended != nil {
		a.note("note: the profile ends after %s: %v", report.ShortTime(length), prof.Ended)
	}
	prof.Comments = append(prof.Comments, fmt.Sprintf("wall profile of process %d by Loupe, from snapshots during %s", info.PID, report.ShortTime(length)))
	return a.writeProfile(out, flags, profileResult{
		profile: prof.Profile, process: info.PID, exe: info.Exe,
		counted: fmt.Sprintf("%s of %.4g goroutines in %s", report.ShortTime(length), prof.Goroutines, english.Count(prof.Snapshots, "snapshot")),
		json: func(file profileFile) any {
			return wallProfileJSON{file, length.Seconds(), prof.Snapshots, prof.Rate, prof.Goroutines}
		},
	})
}
