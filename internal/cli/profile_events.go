package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/report"
)

// eventProfileJSON is the document for --json of a profile that is computed from events.
type eventProfileJSON struct {
	profileFile
	Seconds   float64 `json:"seconds"`
	Counted   uint64  `json:"counted"`   // goroutines, waits or starts that the profile counts
	Uncertain uint64  `json:"uncertain"` // waits during which events were lost: not counted
	Lost      uint64  `json:"lost"`
}

// eventProfileHelp describes the types of profiles that are computed from events.
var eventProfileHelp = map[loupe.ProfileType]string{
	loupe.ProfileCreate: `goroutines created during --duration, by the stack that created
them; the leaf is the function that the goroutine starts`,
	loupe.ProfileBlock: `how often and how long goroutines waited for channels, locks and
other types of package sync, by the stack that waited; --reason
selects other waits`,
	loupe.ProfileMutex: `how long goroutines waited for locks, by the stack that unlocked`,
	loupe.ProfileSched: `how long runnable goroutines waited for a processor, by the stack
at which they resumed`,
}

// profileEvents observes the target of a command line for a while and writes a profile of its events.
func (a *app) profileEvents(cmd *cobra.Command, args []string, flags *profileFlags, out *output.File) error {
	kind := loupe.ProfileType(flags.kind)
	flags.live.engine = flags.target.engine
	opt := flags.live.options(a)
	opt.Kinds = kind.Kinds()
	return a.observe(cmd, args, opt, flags.live.duration, func(ctx context.Context, s session) error {
		return a.profileSession(ctx, s, kind, flags, out)
	})
}

// profileSession makes a profile of the events of a session and writes it.
func (a *app) profileSession(ctx context.Context, s session, kind loupe.ProfileType, flags *profileFlags, out *output.File) error {
	defer context.AfterFunc(ctx, out.End)()
	meanwhile := fmt.Sprintf("observing process %d", s.PID())
	if flags.live.duration > 0 {
		meanwhile += " for " + report.Duration(flags.live.duration)
	}
	progress := a.progress(meanwhile)
	prof, err := s.Profile(loupe.ProfileOptions{Type: kind, Reasons: flags.reasons})
	progress.Stop()
	if err != nil {
		return err
	}
	elapsed := time.Duration(prof.DurationNanos)
	s.Close() // for the final numbers; an error comes again when the session is ended
	stats := s.Stats()
	prof.Comments = append(prof.Comments, fmt.Sprintf("%s profile of process %d by Loupe, from the events of %s", kind, s.PID(), report.ShortTime(elapsed)))
	if stats.Lost > 0 {
		lost := report.LossWords(stats.Lost, lostByKind(stats))
		prof.Comments = append(prof.Comments, lost+"; this profile does not include them")
	}
	a.tellLoss(stats)
	return a.writeProfile(out, flags, profileResult{
		profile: prof.Profile, process: s.PID(), counted: english.Count(prof.Counted, strings.TrimSuffix(prof.SampleType[0].Type, "s")),
		json: func(file profileFile) any {
			return eventProfileJSON{file, elapsed.Seconds(), prof.Counted, prof.Uncertain, stats.Lost}
		},
	})
}
