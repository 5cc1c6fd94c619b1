package loupe_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// shiftBooks are the answer to the command books of program shift.
type shiftBooks struct{ sleeps, sleeping, computations, computing, goroutines int64 }

func readShiftBooks(t *testing.T, p *testtarget.Process) (b shiftBooks) {
	t.Helper()
	if _, err := fmt.Sscanf(p.Command("books"), "books %d %d %d %d %d", &b.sleeps, &b.sleeping, &b.computations, &b.computing, &b.goroutines); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWallProfile compares wall profiles with the books of the target: the time that its goroutines sleep and compute, and the
// number of goroutines multiplied by the time.
func TestWallProfile(t *testing.T) {
	for i, release := range testtarget.Last(t, testtarget.Among(t, "1.12.17", "1.17.13", "1.21.13", testtarget.Latest())) {
		spec := testtarget.Spec{Program: "shift", Go: release, Stripped: i%2 == 0, PIE: i%3 == 1}
		t.Run(spec.String(), func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, spec), "3", "20", "14000", "6000")
			p, err := loupe.OpenProcess(target.PID(), loupe.ProcessOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			for _, pause := range []bool{false, true} {
				before, began := readShiftBooks(t, target), time.Now()
				prof, err := p.WallProfile(t.Context(), loupe.WallOptions{Duration: 4 * time.Second, Rate: 100, Pause: pause})
				if err != nil {
					t.Fatal(err)
				}
				elapsed := time.Since(began)
				checkWall(t, prof, before, readShiftBooks(t, target), elapsed, 14*time.Millisecond, pause)
			}
		})
	}
}

// checkWall compares a profile with the books before and after it.
func checkWall(t *testing.T, prof *loupe.WallProfile, before, after shiftBooks, elapsed, sleep time.Duration, exact bool) {
	t.Helper()
	length := float64(prof.DurationNanos)
	states, labelled, computing := map[string]float64{}, 0.0, 0.0
	sum, count, unknown := 0.0, int64(0), 0.0
	for _, s := range prof.Sample {
		v := float64(s.Value[1])
		sum, count = sum+v, count+s.Value[0]
		if len(s.Label["state"]) != 1 || len(s.Location) == 0 {
			t.Fatalf("a sample with labels %v and %d locations", s.Label, len(s.Location))
		}
		state, napper := s.Label["state"][0], false
		for _, l := range s.Location {
			for _, line := range l.Line {
				napper = napper || line.Function.Name == "main.napper"
				if line.Function.Name == "main.compute" {
					computing += v
				}
			}
		}
		if len(s.Label["job"]) == 1 && s.Label["job"][0] == "nap" {
			labelled += v
			states[state] += v
			if !napper && (exact || state != "running") {
				unknown += v
			}
		}
	}
	if unknown > 0.03*labelled {
		t.Errorf("%v of %v of the nappers is without their functions", time.Duration(unknown), time.Duration(labelled))
	}
	if length < 3.9e9 || length > float64(elapsed) || int64(prof.Snapshots) == 0 {
		t.Errorf("%d snapshots in %v; it took %v", prof.Snapshots, time.Duration(length), elapsed)
	}
	// The number of goroutines is constant, so the sums are exact.
	if want := float64(after.goroutines) * length; math.Abs(sum-want) > 1e-6*want || count != after.goroutines*int64(prof.Snapshots) {
		t.Errorf("%d goroutines in %d snapshots: %d samples, %v, want %v", after.goroutines, prof.Snapshots, count, time.Duration(sum), time.Duration(want))
	}
	if math.Abs(labelled-3*length) > 1e-6*length {
		t.Errorf("label job=nap has %v of %v", time.Duration(labelled), 3*time.Duration(length))
	}
	// The books cover a little more than the profile: compare shares. A goroutine is runnable for a moment after its sleep, so
	// it sleeps at least the time that it asked for, and at most the time in its books. A late snapshot can miss the end of one
	// computation a period.
	whole := float64(after.sleeping - before.sleeping + after.computing - before.computing)
	least := float64(after.sleeps-before.sleeps) * float64(sleep) / whole
	most := float64(after.sleeping-before.sleeping) / whole
	slept := states["waiting: sleep"] / labelled
	n := float64(3 * prof.Snapshots)
	period := whole / float64(after.sleeps-before.sleeps)
	slack := 4*math.Sqrt(slept*(1-slept)/n) + float64(prof.Late)/period
	t.Logf("pause %v: %d snapshots of %v, %v late, %.1f per second; sleeping %.3f, books %.3f to %.3f, slack %.3f; %v; in compute %.3f", exact, prof.Snapshots,
		prof.Snapshot, prof.Late, prof.Rate, slept, least, most, slack, states, computing/labelled)
	if slept < least-slack || slept > most+slack {
		t.Errorf("sleeping %.3f of the time, the target's books say %.3f to %.3f, the sampling error is at most %.3f", slept, least, most, slack)
	}
	if others := states["running"] + states["runnable"] + states["waiting: sleep"]; others < 0.98*labelled {
		t.Errorf("nappers are in other states: %v", states)
	}
	if share := computing / labelled; exact && math.Abs(share-(1-slept)) > slack {
		t.Errorf("%.3f of the time is in main.compute, %.3f is not asleep", share, 1-slept)
	}
}

// TestWallProfileOfBursts profiles a program whose goroutines run for less time than a snapshot takes.
func TestWallProfileOfBursts(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "shift"}), "3", "20", "600", "300")
	p, err := loupe.OpenProcess(target.PID(), loupe.ProcessOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	before, began := readShiftBooks(t, target), time.Now()
	prof, err := p.WallProfile(t.Context(), loupe.WallOptions{Duration: 8 * time.Second, Rate: 100})
	if err != nil {
		t.Fatal(err)
	}
	elapsed := time.Since(began)
	checkWall(t, prof, before, readShiftBooks(t, target), elapsed, 600*time.Microsecond, false)
}

// TestWallProfileEnds ends profiles early: by the context, and by the exit of the target.
func TestWallProfileEnds(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "shift"}), "1", "1", "1000", "1000")
	p, err := loupe.OpenProcess(target.PID(), loupe.ProcessOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	testcmd.UntilSeen(t, time.Second, func(d time.Duration) error {
		ctx, stop := context.WithTimeout(t.Context(), d)
		defer stop()
		prof, err := p.WallProfile(ctx, loupe.WallOptions{})
		if err != nil || prof.Ended != nil || prof.DurationNanos > int64(time.Since(time.Unix(0, prof.TimeNanos))) {
			t.Fatalf("%+v, %v", prof, err)
		}
		if _, err := p.WallProfile(ctx, loupe.WallOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a snapshot: %v", err)
		}
		if prof.Snapshots < 3 { // after a snapshot that took long the next one is far away
			return fmt.Errorf("%d snapshots in %v", prof.Snapshots, d)
		}
		return nil
	})
	time.AfterFunc(time.Second, func() { target.Kill() })
	prof, err := p.WallProfile(t.Context(), loupe.WallOptions{Duration: time.Minute})
	if err != nil || !errors.Is(prof.Ended, loupe.ErrExited) || !strings.Contains(strings.Join(prof.Comments, "\n"), "ended early: ") || prof.DurationNanos > 20e9 {
		t.Errorf("%+v, %v", prof, err)
	}
	if _, err := p.WallProfile(t.Context(), loupe.WallOptions{}); !errors.Is(err, loupe.ErrExited) {
		t.Errorf("of an exited process: %v", err)
	}
	for _, opt := range []loupe.WallOptions{{Rate: -1}, {Rate: math.NaN()}, {Rate: math.Inf(1)}, {Rate: loupe.MaxWallRate + 1}, {Duration: -1}} {
		if _, err := p.WallProfile(t.Context(), opt); err == nil || errors.Is(err, loupe.ErrExited) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
}

// TestWallProfileBacksOff profiles a program whose snapshots take longer than their share at the rate.
func TestWallProfileBacksOff(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "flood"}), "5000", "0")
	p, err := loupe.OpenProcess(target.PID(), loupe.ProcessOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	prof, err := p.WallProfile(t.Context(), loupe.WallOptions{Duration: 4 * time.Second, Rate: loupe.MaxWallRate})
	if err != nil {
		t.Fatal(err)
	}
	share := float64(prof.Snapshots) * float64(prof.Snapshot) / float64(prof.DurationNanos)
	t.Logf("%d snapshots of %v in %v: %.2f of the time", prof.Snapshots, prof.Snapshot, time.Duration(prof.DurationNanos), share)
	if !prof.Reduced || prof.Snapshots > 10 && share > 0.4 || prof.Rate > 500 || prof.Goroutines < 5000 || !strings.Contains(strings.Join(prof.Comments, "\n"), "rate reduced from 1000 to ") {
		t.Errorf("reduced %v to %.1f, %.0f goroutines, %q", prof.Reduced, prof.Rate, prof.Goroutines, prof.Comments)
	}
}
