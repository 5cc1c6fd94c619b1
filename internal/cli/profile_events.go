package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/stream"
)

// eventProfileJSON tells programs what was written of a profile that was made from events.
type eventProfileJSON struct {
	File      string  `json:"file"`
	Type      string  `json:"type"`
	Seconds   float64 `json:"seconds"`
	Counted   uint64  `json:"counted"`   // goroutines, waits or starts that the profile counts
	Uncertain uint64  `json:"uncertain"` // waits during which events were lost: not counted
	Lost      uint64  `json:"lost"`
	Samples   int     `json:"samples"` // distinct stacks and labels
	Bytes     int64   `json:"bytes"`
}

// profileEvents observes the target of a command line for a while and writes a profile of its events.
func (a *app) profileEvents(cmd *cobra.Command, args []string, kind stream.ProfileType, flags *profileFlags, out *output.File) error {
	flags.live.engine = flags.target.engine
	opt := flags.live.options(a)
	opt.Kinds = kind.Kinds
	return a.observe(cmd, args, opt, flags.live.duration, func(ctx context.Context, s session) error {
		return a.profileSession(ctx, s, kind, flags, out)
	})
}

// profileSession makes a profile of the events of a session and writes it.
func (a *app) profileSession(ctx context.Context, s session, kind stream.ProfileType, flags *profileFlags, out *output.File) error {
	defer context.AfterFunc(ctx, out.End)()
	prof := stream.NewProfile(kind, flags.reasons)
	began, watch := time.Now(), stopwatch(ctx)
	meanwhile := fmt.Sprintf("observing process %d", s.PID())
	if flags.live.duration > 0 {
		meanwhile += " for " + report.Duration(flags.live.duration)
	}
	progress := a.progress(meanwhile)
	for e := range s.Events() {
		prof.Add(e)
	}
	progress.Stop()
	elapsed := watch()
	s.Close() // for the final numbers; an error comes again when the session is ended
	stats := s.Stats()
	doc := prof.Build(began, elapsed)
	doc.Comment(fmt.Sprintf("%s profile of process %d by Loupe, from the events of %s", kind.Name, s.PID(), report.ShortTime(elapsed)))
	if stats.Lost > 0 {
		lost := report.LossWords(stats.Lost, lostByKind(stats))
		doc.Comment(lost + "; this profile does not include them")
	}
	a.tellLoss(stats)
	if err := finish(out, doc.Write(out)); err != nil || flags.output == output.Stdout {
		return err
	}
	if a.json {
		return report.WriteJSON(a.Stdout, eventProfileJSON{File: flags.output, Type: kind.Name, Seconds: elapsed.Seconds(), Counted: doc.Counted,
			Uncertain: doc.Uncertain, Lost: stats.Lost, Samples: doc.Samples(), Bytes: out.Bytes()})
	}
	a.note("wrote %s in %s to %s; view with: go tool pprof -top %s", english.Count(doc.Counted, strings.TrimSuffix(kind.Values[0].Type, "s")), english.Count(doc.Samples(), "distinct stack"), flags.output, flags.output)
	return nil
}
