package target

import (
	"math"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
)

// TestAlerts raises each alert once, has it resolve, and raises it again.
func TestAlerts(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var target *Target
	short, long := uint64(0), uint64(0) // scheduler latencies so far
	step := func(n int) []string {
		now = now.Add(windowOf)
		target.detect(&event.Scheduler{Time: now, Goroutines: n, TimeToRun: []event.DurationCount{
			{Low: 0, High: time.Microsecond, Count: short}, {Low: 2 * time.Second, High: math.MaxInt64, Count: long}}})
		var names []string
		for _, a := range target.alerts {
			names = append(names, a.Name)
			if a.Text == "" || a.Value <= 0 {
				t.Errorf("%+v", a)
			}
		}
		target.alerts = nil
		return names
	}
	for _, test := range []struct {
		name        string
		raise, calm func() []string
	}{
		{AlertGrowth, func() []string { return step(10_000) }, func() []string { step(10); target.anomalies.sizes = nil; return step(10) }},
		{AlertLeak, func() []string { target.leaks.suspects = map[string]int{"main.f main.go:7": 5}; return step(10) },
			func() []string { target.leaks.suspects = nil; return step(10) }},
		{AlertStall, func() []string { long, short = long+1, short+10_000; return step(10) }, func() []string { short += 1000; return step(10) }},
		{AlertLatency, func() []string { long += 1000; return step(10) }, func() []string { short += 1000; return step(10) }},
		{AlertLoss, func() []string {
			target.sums.events, target.sums.lost = target.sums.events+98, target.sums.lost+2
			return step(10)
		},
			func() []string { target.sums.events += 100; return step(10) }},
	} {
		target = &Target{opt: Options{Alert: func(Alert) {}}, settings: Settings{Alerts: Thresholds{Lost: 0.01}}}
		switch limits := &target.settings.Alerts; test.name {
		case AlertGrowth:
			limits.Growth, limits.For = 100, windowOf
		case AlertStall:
			limits.Stalled = time.Second
		case AlertLatency:
			limits.Latency, limits.For = time.Second, windowOf
		}
		step(10)
		step(10)
		for round := range 2 {
			raised := map[string]int{}
			for range 5 {
				for _, name := range test.raise() {
					raised[name]++
				}
			}
			if len(raised) != 1 || raised[test.name] != 1 {
				t.Errorf("%s: round %d raises %v, want it once", test.name, round, raised)
			}
			for range 2 {
				if names := test.calm(); len(names) > 0 {
					t.Errorf("%s: %v although nothing is unusual", test.name, names)
				}
			}
		}
	}
}

// TestAlarm fires after a time, once.
func TestAlarm(t *testing.T) {
	var a alarm
	now := time.Unix(1_000_000, 0)
	for i, s := range []struct{ holds, fires bool }{{true, false}, {false, false}, {true, false}, {true, false}, {true, true}, {true, false}, {false, false},
		{true, false}, {true, false}, {true, true}} {
		if fires := a.update(s.holds, now.Add(time.Duration(i)*time.Second), 2*time.Second); fires != s.fires {
			t.Errorf("step %d: fires %v, want %v", i, fires, s.fires)
		}
	}
}
