package target

import (
	"context"
	"slices"
	"time"

	"github.com/loupe-go/loupe"
)

// The kinds of profiles, as the configuration has them.
const (
	ProfileCPU   = "cpu"
	ProfileHeap  = "heap"
	ProfileBlock = "block"
	ProfileMutex = "mutex"
)

// cpuRate is the number of samples per second of processor time of profiles that are taken all the time. It is a prime number, so that
// programs with a period are sampled evenly.
const cpuRate = 19

// profiles takes profiles until the context is done.
func (t *Target) profiles(ctx context.Context) {
	off := map[string]bool{} // kinds that the program does not record, as was reported
	for ctx.Err() == nil {
		t.mu.Lock()
		kinds, interval := t.settings.Profiles, t.settings.ProfileInterval
		t.mu.Unlock()
		if len(kinds) == 0 || interval <= 0 {
			if !sleep(ctx, stepEvery) {
				return
			}
			continue
		}
		end := time.Now().Add(interval)
		if slices.Contains(kinds, ProfileCPU) {
			p, err := t.proc.CPUProfile(ctx, loupe.CPUOptions{Duration: interval, Rate: cpuRate})
			if err == nil {
				t.opt.Profile(ProfileCPU, p.Profile)
			}
			t.profileError(ProfileCPU, err, off)
		}
		if !sleep(ctx, time.Until(end)) {
			return
		}
		for _, kind := range kinds {
			if read := t.recorded(kind); read != nil {
				p, err := read()
				if err == nil {
					t.opt.Profile(kind, p.Profile)
				}
				t.profileError(kind, err, off)
			}
		}
	}
}

// recorded returns what reads a profile that the runtime of the process keeps, or nil.
func (t *Target) recorded(kind string) func() (*loupe.RecordedProfile, error) {
	switch kind {
	case ProfileHeap:
		return t.proc.HeapProfile
	case ProfileBlock:
		return t.proc.BlockProfile
	case ProfileMutex:
		return t.proc.MutexProfile
	}
	return nil
}

// profileError reports why there is no profile, once.
func (t *Target) profileError(kind string, err error, off map[string]bool) {
	switch {
	case err == nil:
		delete(off, kind)
	case isGone(err) || off[kind]:
	default:
		off[kind] = true
		t.log.Warn("there is no profile of the process", "pid", t.opt.PID, "profile", kind, "err", err)
	}
}

// sleep waits, and reports whether the context is still valid.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
