package loupe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/pprof"
)

// TestWallSampler weights snapshots of different length by the real time, and reports how late they began.
func TestWallSampler(t *testing.T) {
	const late = 50 * time.Millisecond
	n := 0
	s := &wallSampler{pace: pace{wanted: 10 * time.Millisecond}, began: time.Now()}
	s.covered = s.began
	s.snapshot = func() (*event.Snapshot, error) {
		n++
		snap := &event.Snapshot{Time: time.Now().Add(late), Goroutines: []event.Goroutine{{State: event.StateRunning}, {State: event.StateWaiting, Reason: "sleep"}},
			Warnings: []event.Warning{{Text: "same"}}}
		if n == 1 {
			time.Sleep(100 * time.Millisecond) // a slow one
		}
		return snap, nil
	}
	if err := s.run(t.Context(), 400*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	p, err := s.profile(100, pprof.Mapping{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Reduced || len(p.Warnings) != 1 || p.Goroutines != 2 || len(p.Sample) != 2 || p.DurationNanos < 400e6 {
		t.Errorf("%+v", p)
	}
	if comments := strings.Join(p.Comments, "\n"); p.Late < late || p.Late > 10*late || !strings.Contains(comments, "ms late on average: ") {
		t.Errorf("%v late, not %v, or not reported in %q", p.Late, late, comments)
	}
	for _, sample := range p.Sample { // each goroutine was there all the time
		if d := sample.Value[1] - p.DurationNanos; d != 0 || sample.Value[0] != int64(n) {
			t.Errorf("%v in %d snapshots of a goroutine in %v, %d snapshots", time.Duration(sample.Value[1]), sample.Value[0], time.Duration(p.DurationNanos), n)
		}
	}
}

func TestWallSamplerStops(t *testing.T) {
	failed := errors.New("failed")
	ctx, stop := context.WithCancel(t.Context())
	s := &wallSampler{pace: pace{wanted: time.Millisecond}, began: time.Now(), snapshot: func() (*event.Snapshot, error) { return nil, failed }}
	s.covered = s.began
	if err := s.run(ctx, time.Minute); err != failed {
		t.Error(err)
	}
	stop()
	if err := s.run(ctx, time.Minute); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
