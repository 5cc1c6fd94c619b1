package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/output"
)

// heapProfile is the type of profile that is read from the memory of the runtime.
const heapProfile = "heap"

// heapProfileType is that type.
var heapProfileType = profileType{name: heapProfile, flags: []string{"after"}, run: (*app).profileRecorded,
	help: `objects allocated since the program started and objects in
use, by the stack that allocated them: the runtime's own
samples as of the last complete garbage collection cycle.
The program is not stopped and does no work for it`}

// sinceStartFlag selects the profiles of type block and mutex that the program itself records.
const sinceStartFlag = "since-start"

// recordedProfileJSON is the document for --json of a profile that the program itself records.
type recordedProfileJSON struct {
	profileFile
	Notes []string `json:"notes"` // limits of the profile
}

// recordedProfiles are the methods that read profiles that a program itself records, by type.
var recordedProfiles = map[string]func(process) (*loupe.RecordedProfile, error){
	heapProfile:                process.HeapProfile,
	string(loupe.ProfileBlock): process.BlockProfile,
	string(loupe.ProfileMutex): process.MutexProfile,
}

// profileRecorded writes a profile that the target of a command line itself records.
func (a *app) profileRecorded(cmd *cobra.Command, args []string, flags *profileFlags, out *output.File) error {
	return a.onTarget(cmd, args, &flags.target, func(_ context.Context, pid int) error {
		return a.withProcess(pid, func(p process) error {
			prof, err := recordedProfiles[flags.kind](p)
			if err != nil {
				return &targetError{pid: pid, err: err}
			}
			return a.writeRecorded(p.Info(), prof, flags, out)
		})
	})
}

func (a *app) writeRecorded(info event.ProcessInfo, prof *loupe.RecordedProfile, flags *profileFlags, out *output.File) error {
	for _, note := range prof.Notes {
		a.note("%s", note)
	}
	return a.writeProfile(out, flags, profileResult{
		profile: prof.Profile, process: info.PID, exe: info.Exe,
		json: func(file profileFile) any {
			return recordedProfileJSON{file, append([]string{}, prof.Notes...)}
		},
	})
}
