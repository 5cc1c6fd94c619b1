package tracetruth

import (
	"time"

	"golang.org/x/sys/unix"
)

// ClockOffset returns between which values the wall clock minus CLOCK_MONOTONIC was a moment ago.
func ClockOffset() (Bounds, error) {
	var best Bounds
	for i := range 10 {
		before, err := monotonic()
		if err != nil {
			return Bounds{}, err
		}
		wall := time.Now().UnixNano()
		after, err := monotonic()
		if err != nil {
			return Bounds{}, err
		}
		if b := (Bounds{wall - after, wall - before}); i == 0 || b.Max-b.Min < best.Max-best.Min {
			best = b
		}
	}
	return best, nil
}

func monotonic() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, err
	}
	return ts.Nano(), nil
}

func (b Bounds) middle() int64 { return b.Min + (b.Max-b.Min)/2 }

// Widen returns bounds that hold both and are wider by some time on both sides.
func (b Bounds) Widen(other Bounds, by time.Duration) Bounds {
	return Bounds{min(b.Min, other.Min) - int64(by), max(b.Max, other.Max) + int64(by)}
}
