package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

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
	Bytes     int     `json:"bytes"`
}

// profileEvents observes the target of a command line for a while and writes a profile of its events.
func (a *app) profileEvents(cmd *cobra.Command, args []string, kind stream.ProfileType, flags *profileFlags) error {
	if flags.output != "-" {
		if err := tryWriting(flags.output); err != nil {
			return unwritable(err)
		}
	}
	flags.live.engine = flags.target.engine
	opt := flags.live.options(a)
	opt.Kinds = kind.Kinds
	return a.observe(cmd, args, opt, flags.live.duration, func(ctx context.Context, s session) error {
		return a.profileSession(ctx, s, kind, flags)
	})
}

// tryWriting finds out whether a file can be written, so that nobody waits for a profile in vain. It leaves nothing behind.
func tryWriting(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	isNew := err == nil
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(path, os.O_WRONLY, 0)
	}
	if err != nil {
		return err
	}
	f.Close()
	if isNew {
		return os.Remove(path)
	}
	return nil
}

// profileSession makes a profile of the events of a session and writes it.
func (a *app) profileSession(ctx context.Context, s session, kind stream.ProfileType, flags *profileFlags) error {
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
		doc.Comment(lost + ": what they would have added is missing")
	}
	a.tellLoss(stats)
	size, err := a.writeProfile(doc.Builder, flags.output)
	if err != nil || flags.output == "-" {
		return err
	}
	if a.json {
		return report.WriteJSON(a.Stdout, eventProfileJSON{File: flags.output, Type: kind.Name, Seconds: elapsed.Seconds(), Counted: doc.Counted,
			Uncertain: doc.Uncertain, Lost: stats.Lost, Samples: doc.Samples(), Bytes: size})
	}
	a.note("%d %s in %d distinct stacks written to %s; view them: go tool pprof -top %s", doc.Counted, kind.Values[0].Type, doc.Samples(), flags.output, flags.output)
	return nil
}
