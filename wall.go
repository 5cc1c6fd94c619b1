package loupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/pprof"
	"github.com/loupe-go/loupe/internal/goproc"
)

// Defaults and limits of WallOptions.
const (
	DefaultWallRate = 20   // snapshots per second
	MaxWallRate     = 1000 // snapshots per second
)

// NotableLate is the value of [WallProfile].Late above which a comment of the profile reports it.
const NotableLate = 2 * time.Millisecond

// WallOptions configures [Process.WallProfile]. The zero value samples until the context is done.
type WallOptions struct {
	// Duration is the time to sample. Zero means until the context is done or the process exits.
	Duration time.Duration

	// Rate is the number of snapshots per second, at most MaxWallRate. Zero means DefaultWallRate. The rate is reduced if
	// snapshots would take more than a fifth of the time. [WallProfile] reports the rate that was achieved.
	Rate float64

	// Pause stops all threads of the process during each snapshot, see [SnapshotOptions]. The stacks of running goroutines
	// are then exact. The process stands still for some milliseconds each time.
	Pause bool
}

// A WallProfile is a profile of where the goroutines of a process spend their time, running and waiting together.
//
// A sample has two values: the number of times that a goroutine was seen at the stack, and the time in nanoseconds that
// goroutines spent there. The sum of the times is the number of goroutines multiplied by the duration. Label "state" is
// "running", "runnable", "syscall", or "waiting: " and the wait reason, for example "waiting: chan receive". The other labels
// are those that the program has set; its own label "state" is named "program.state". The comments of the profile report
// stacks that may be incomplete.
type WallProfile struct {
	*profile.Profile

	Snapshots  int           // number of snapshots
	Goroutines float64       // average number of goroutines, without those of the runtime
	Rate       float64       // snapshots per second
	Reduced    bool          // the rate was reduced, because snapshots took too long
	Snapshot   time.Duration // average time that a snapshot took

	// Late is the average time by which snapshots began later than the random moments chosen for them. On a busy machine
	// Loupe gets a processor late, often when a goroutine has just stopped running. So running goroutines are seen less
	// often than they run, by at most Late each time that they run.
	Late time.Duration

	Warnings []event.Warning

	// Ended is the reason why the profile ended before Duration, if the process exited or executed another program:
	// it wraps [ErrExited] or [ErrExec].
	Ended error
}

// WallProfile takes snapshots of the goroutines for a while, and computes from them where goroutines spend their time. The
// moments of the snapshots are random, one in each interval, so that programs with a period are sampled evenly. Each goroutine
// of a snapshot counts for the interval that the snapshot represents, in real time.
//
// If the context is done, WallProfile returns the profile of the time before. The error wraps one of the package's errors where
// one applies, or the error of the context if there is no snapshot yet.
func (p *Process) WallProfile(ctx context.Context, opt WallOptions) (*WallProfile, error) {
	rate := cmp.Or(opt.Rate, DefaultWallRate)
	switch {
	case !(rate > 0) || rate > MaxWallRate:
		return nil, fmt.Errorf("wall profile: rate %g: must be more than 0 and at most %d snapshots per second", rate, MaxWallRate)
	case opt.Duration < 0:
		return nil, fmt.Errorf("wall profile: duration %v is negative", opt.Duration)
	}
	s := &wallSampler{pace: pace{wanted: time.Duration(float64(time.Second) / rate)}, began: time.Now()}
	s.covered = s.began
	s.snapshot = func() (*event.Snapshot, error) {
		return p.proc.Snapshot(ctx, goproc.SnapshotOptions{Pause: opt.Pause, Running: true})
	}
	err := s.run(ctx, opt.Duration)
	switch {
	case err != nil && s.wall.Snapshots == 0:
		return nil, err
	case err != nil && !errors.Is(err, ErrExited) && !errors.Is(err, ErrExec) && ctx.Err() == nil:
		return nil, err
	case ctx.Err() != nil:
		err = nil
	}
	return s.profile(rate, p.code(), err)
}

// wallSampler takes the snapshots of a wall profile.
type wallSampler struct {
	snapshot func() (*event.Snapshot, error)
	wall     pprof.Wall
	pace     pace
	began    time.Time
	covered  time.Time // the end of the last interval that has a snapshot
	reading  time.Duration
	late     time.Duration // sum over the snapshots
	warnings []event.Warning
}

// run takes snapshots until the duration is over or the context is done. The error is that of a snapshot, or that of the context if
// it was done before the first snapshot.
func (s *wallSampler) run(ctx context.Context, duration time.Duration) error {
	for {
		begin, interval := s.covered, s.pace.interval()
		if duration > 0 {
			left := duration - begin.Sub(s.began)
			if left <= 0 {
				return nil
			}
			if left < interval+interval/2 { // instead of a short interval at the end
				interval = left
			}
		}
		moment := begin.Add(rand.N(interval))
		if !sleepUntil(ctx, moment) {
			return ctx.Err()
		}
		start := time.Now()
		snap, err := s.snapshot()
		if err != nil {
			return err
		}
		elapsed := time.Since(start)
		s.pace.took(elapsed)
		s.reading += elapsed
		s.late += snap.Time.Sub(moment)
		for _, w := range snap.Warnings {
			if len(s.warnings) < maxWallWarnings && !slices.Contains(s.warnings, w) {
				s.warnings = append(s.warnings, w)
			}
		}
		sleepUntil(ctx, begin.Add(interval))
		s.covered = time.Now()
		s.wall.Add(snap, s.covered.Sub(begin))
	}
}

// maxWallWarnings is the maximum number of distinct warnings of the snapshots that are kept.
const maxWallWarnings = 20

// profile returns the profile of the snapshots. ended is the reason why they ended early.
func (s *wallSampler) profile(rate float64, code pprof.Mapping, ended error) (*WallProfile, error) {
	length := s.covered.Sub(s.began)
	b := s.wall.Build(s.began, length, rate, code)
	result := &WallProfile{Profile: b.Profile(), Snapshots: s.wall.Snapshots, Reduced: s.pace.reduced, Warnings: s.warnings, Ended: ended,
		Goroutines: float64(s.wall.Samples) / float64(s.wall.Snapshots),
		Rate:       float64(s.wall.Snapshots) / length.Seconds(), Snapshot: s.reading / time.Duration(s.wall.Snapshots),
		Late: s.late / time.Duration(s.wall.Snapshots)}
	if result.Reduced {
		b.Comment(fmt.Sprintf("rate reduced from %g to %.3g snapshots per second: a snapshot takes %v", rate, result.Rate, result.Snapshot.Round(10*time.Microsecond)))
	}
	if result.Late > NotableLate {
		b.Comment(fmt.Sprintf("snapshots were %v late on average: running goroutines may be seen less often than they run", result.Late.Round(10*time.Microsecond)))
	}
	if ended != nil {
		b.Comment(fmt.Sprintf("ended early: %v", ended))
	}
	return result, result.CheckValid()
}

// timerError is more than the time by which a timer of the runtime is late on an idle machine: where the runtime waits in
// epoll_wait, it is up to a millisecond.
const timerError = 2 * time.Millisecond

// sleepUntil waits until a time. It returns false if the context is done. The last part is a system call, because that ends
// on time.
func sleepUntil(ctx context.Context, t time.Time) bool {
	if early := time.Until(t) - timerError; early > 0 {
		timer := time.NewTimer(early)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
	}
	if left := time.Until(t); left > 0 {
		ts := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&ts, nil) // a signal ends it early, which does no harm
	}
	return ctx.Err() == nil
}

// pace determines the interval between snapshots.
type pace struct {
	wanted  time.Duration
	average time.Duration // time that recent snapshots took; 0 before the first one
	reduced bool          // an interval was longer than wanted
}

// paceShare is the share of the time that snapshots may take: one in paceShare.
const paceShare = 5

// took takes account of a snapshot.
func (p *pace) took(d time.Duration) {
	if p.average == 0 {
		p.average = d
		return
	}
	p.average += (d - p.average) / 4
}

// interval returns the length of the next interval.
func (p *pace) interval() time.Duration {
	if least := paceShare * p.average; least > p.wanted {
		p.reduced = true
		return least
	}
	return p.wanted
}
