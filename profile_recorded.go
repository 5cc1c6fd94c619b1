package loupe

import (
	"fmt"
	"math"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/export/pprof"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/inline"
)

// A RecordedProfile is a profile that the runtime of a process keeps by itself.
type RecordedProfile struct {
	*profile.Profile

	// Notes are the limits of this profile, as sentences without a period. They are among its comments, too.
	Notes []string
}

// HeapProfile reads the heap profile that the runtime of the process keeps. The process is not stopped and does no work for
// it. The profile has the same samples as the one that runtime/pprof would write in the process: the objects that have been
// allocated since the program started and those that are in use, by the stack that allocated them. The counts are those at
// the end of the last garbage collection cycle that is complete. The period of the profile is runtime.MemProfileRate.
//
// All samples are of the same cycle. If the program collects garbage so often that they cannot be read between two cycles,
// some are of a later one, and a note has their number. Until the first cycle is complete, the counts are those of now; if
// they change too fast to be read at once, a note has the number of moments that they are of.
//
// The error wraps [ErrProfileOff] if the program has no heap profile. This is the case if runtime.MemProfileRate is 0, and
// in programs of Go 1.17 and later that do not refer to runtime.MemProfile, as the packages runtime/pprof and net/http/pprof
// do: the linker then disables the profile.
func (p *Process) HeapProfile() (*RecordedProfile, error) {
	heap, err := p.proc.MemProfile()
	if err != nil {
		return nil, err
	}
	if len(heap.Records) == 0 && heap.Unsettled > 0 {
		return nil, fmt.Errorf("process %d: its heap profile changes too fast to be read", p.proc.PID())
	}
	b := pprof.NewHeap(time.Now(), p.code(), heap.Rate)
	for i := range heap.Records {
		record := pprof.HeapRecord(heap.Records[i])
		b.AddHeap(&record)
	}
	prof := &RecordedProfile{Profile: b.Profile(), Notes: heapNotes(heap)}
	sampled := "every allocation is recorded"
	if heap.Rate > 1 {
		sampled = fmt.Sprintf("one allocation is recorded for each %d bytes on average, and the values are estimates of all allocations", heap.Rate)
	}
	comments := []string{fmt.Sprintf("runtime.MemProfileRate is %d: %s", heap.Rate, sampled)}
	if heap.Published {
		comments = append(comments, "the counts are those at the end of the last complete garbage collection cycle")
	}
	return prof, p.comment(prof, "heap", comments...)
}

// heapNotes describes the limits of a heap profile.
func heapNotes(heap *goproc.MemProfile) []string {
	var notes []string
	switch {
	case len(heap.Records) == 0:
		notes = append(notes, "the profile is empty: no allocation has been recorded yet")
	case !heap.Published:
		notes = append(notes, "no garbage collection cycle is complete: the profile has everything that has happened since the program started")
	}
	if heap.Started != heap.Rate {
		notes = append(notes, fmt.Sprintf("runtime.MemProfileRate was %d when the program started: values of allocations before the change are wrong", heap.Started))
	}
	if heap.Later > 0 {
		notes = append(notes, fmt.Sprintf("%d of %s are of a later garbage collection cycle than the others", heap.Later, english.Count(len(heap.Records), "record")))
	}
	return append(notes, changingNotes(heap.Moments, heap.Unsettled)...)
}

// changingNotes describes the limits of records that changed while they were read: they are of several moments, or missing.
func changingNotes(moments, unsettled int) []string {
	var notes []string
	if moments > 1 {
		notes = append(notes, "the records are of "+english.Count(moments, "different moment")+": they changed too fast to be read at once")
	}
	if unsettled > 0 {
		notes = append(notes, english.Count(unsettled, "record")+" missing: changed too fast to be read")
	}
	return notes
}

// BlockProfile reads the block profile that the runtime of the process keeps if the program has called
// runtime.SetBlockProfileRate. It has the same samples as the one that runtime/pprof would write in the process. The process
// is not stopped and does no work for it. The error wraps [ErrProfileOff] if the program has not enabled the profile.
func (p *Process) BlockProfile() (*RecordedProfile, error) {
	waits, err := p.proc.BlockProfile()
	if err != nil {
		return nil, err
	}
	rate := fmt.Sprintf("waits are recorded at a rate of one for each %s of waiting", english.Count(waits.Rate, "tick"))
	return p.contention("block", waits, rate, "SetBlockProfileRate")
}

// MutexProfile reads the mutex profile that the runtime of the process keeps if the program has called
// runtime.SetMutexProfileFraction. It has the same samples as the one that runtime/pprof would write in the process. The
// process is not stopped and does no work for it. The error wraps [ErrProfileOff] if the program has not enabled the profile.
func (p *Process) MutexProfile() (*RecordedProfile, error) {
	waits, err := p.proc.MutexProfile()
	if err != nil {
		return nil, err
	}
	rate := fmt.Sprintf("of the contended unlocks, one in %d is recorded", waits.Rate)
	return p.contention("mutex", waits, rate, "SetMutexProfileFraction")
}

// contention converts a block or mutex profile. rate describes its rate, and setter is the function that sets it.
func (p *Process) contention(name string, waits *goproc.ContentionProfile, rate, setter string) (*RecordedProfile, error) {
	perSecond, measured := float64(waits.TicksPerSecond), ""
	if perSecond <= 0 {
		perSecond, measured = p.measureTicks(), ", measured by Loupe"
	}
	b := pprof.NewContention(time.Now(), p.code())
	for i := range waits.Records {
		r := &waits.Records[i]
		delay := r.Ticks / (perSecond / 1e9)
		if delay > math.MaxInt64 {
			return nil, fmt.Errorf("process %d: %w: a wait of %g ns", p.proc.PID(), ErrLayout, delay)
		}
		b.AddContention(r.Stack, r.Count, time.Duration(delay))
	}
	prof := &RecordedProfile{Profile: b.Profile()}
	switch {
	case waits.Rate <= 0:
		rate = "the program has disabled the profile since with runtime." + setter
		prof.Notes = append(prof.Notes, rate)
	case len(waits.Records) == 0 && waits.Unsettled == 0:
		prof.Notes = append(prof.Notes, "the profile is empty: no wait has been recorded yet")
	}
	prof.Notes = append(prof.Notes, changingNotes(waits.Moments, waits.Unsettled)...)
	return prof, p.comment(prof, name, rate, fmt.Sprintf("the clock has %.0f ticks per second%s", perSecond, measured))
}

// measureTicks returns the rate of the runtime's clock of profiles, runtime.cputicks: on arm64 it is nanotime.
func (p *Process) measureTicks() float64 {
	if p.proc.Binary().Arch() == "arm64" {
		return 1e9
	}
	return inline.CounterRate()
}

// comment adds comments to a profile, and checks it.
func (p *Process) comment(prof *RecordedProfile, name string, comments ...string) error {
	prof.Comments = append([]string{fmt.Sprintf("%s profile of process %d by Loupe, from the memory of its runtime", name, p.proc.PID())}, comments...)
	for _, note := range prof.Notes {
		if len(comments) == 0 || note != comments[0] {
			prof.Comments = append(prof.Comments, note)
		}
	}
	return prof.CheckValid()
}
