package cli

import (
	"context"
	"errors"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/sched"
)

// watchLive observes a process until the context is done. It returns what it has seen, or why it could not observe: the
// report goes on without live events.
func (a *app) watchLive(ctx context.Context, pid int, engine loupe.Engine) *report.Live {
	s, err := a.attach(ctx, watched{pid: pid}, loupe.Options{Log: a.log(), Engine: engine})
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &report.Live{Refused: "attaching took longer than the time between the snapshots"}
	case errors.Is(err, loupe.ErrPermission):
		if missing := engineLacks(engine); missing != "" {
			return &report.Live{Refused: "live events require " + missing}
		}
	}
	if err != nil {
		return &report.Live{Refused: (&targetError{pid: pid, err: err, engine: engine}).Error()}
	}
	defer s.Close()
	live := &report.Live{Machine: sched.New(sched.Options{})}
	elapsed := stopwatch(ctx)
	live.Machine.ApplyAll(s.Events())
	live.Elapsed = elapsed()
	s.Close() // for the final numbers
	stats := s.Stats()
	live.Lost, live.Warnings = stats.Lost, s.Warnings()
	if stats.Err != nil {
		live.Warnings = append(live.Warnings, event.Warnf(event.WarnMissing, "more events may have been lost: %v", stats.Err))
	}
	if err := s.Err(); err != nil {
		live.Warnings = append(live.Warnings, event.Warnf(event.WarnMissing, "%v", err))
	}
	return live
}
