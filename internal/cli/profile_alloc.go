package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/report"
)

// allocProfile is the type of profile of allocations.
const allocProfile = "alloc"

// allocProfileJSON is the document for --json of a profile of allocations.
type allocProfileJSON struct {
	profileFile
	Seconds float64 `json:"seconds"`
	Objects uint64  `json:"objects"`
	Bytes   uint64  `json:"allocated"` // bytes that the objects take
	Lost    uint64  `json:"lost"`
}

// profileAllocs counts the allocations of the target of a command line for a while and writes them as a profile.
func (a *app) profileAllocs(cmd *cobra.Command, args []string, flags *profileFlags, out *output.File) error {
	flags.live.engine = flags.target.engine
	opt := flags.live.options(a)
	opt.Allocs.By = loupe.AllocsByPlace
	return a.observe(cmd, args, opt, flags.live.duration, func(ctx context.Context, s session) error {
		return a.profileAllocSession(ctx, s, flags, out)
	})
}

// profileAllocSession writes the allocations until a session ends.
func (a *app) profileAllocSession(ctx context.Context, s session, flags *profileFlags, out *output.File) error {
	defer context.AfterFunc(ctx, out.End)()
	progress := a.progress(fmt.Sprintf("counting the allocations of process %d", s.PID()))
	for range s.Events() { // stacks arrive with them
	}
	progress.Stop()
	s.Close() // for the final numbers; an error comes again when the session is ended
	counts, err := s.Allocs()
	if err != nil {
		return err
	}
	prof := s.AllocProfile(counts)
	elapsed := counts.Ended.Sub(counts.Began)
	prof.Comments = append(prof.Comments, fmt.Sprintf("%s profile of process %d by Loupe, of %s", allocProfile, s.PID(), report.ShortTime(elapsed)))
	a.tellUncounted(counts)
	return a.writeProfile(out, flags, profileResult{
		profile: prof, process: s.PID(), counted: fmt.Sprintf("%s (%s)", english.Size(int64(counts.Total.Bytes)), english.Count(counts.Total.Objects, "object")),
		json: func(file profileFile) any {
			return allocProfileJSON{file, elapsed.Seconds(), counts.Total.Objects, counts.Total.Bytes, counts.Lost}
		},
	})
}
