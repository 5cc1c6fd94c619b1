package target

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/trace"
)

// TestResample changes the sampling ratio only if that matters, and never below its bounds.
func TestResample(t *testing.T) {
	program := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "colony", Stripped: true}))
	w, err := newWatch(t.Context(), program.PID(), Waits, watchOptions{engine: loupe.EngineUprobe, stackDepth: -1, buffer: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var to sums
	for _, s := range []struct {
		what              string
		rate, want, least float64
		live              int
		ratio             float64
	}{
		{"few events", 100, 1000, 0.01, 100_000, 1},
		{"slightly more", 1200, 1000, 0.01, 100_000, 1},
		{"many more", 10_000, 1000, 0.01, 100_000, 0.1},
		{"about as many", 1100, 1000, 0.01, 100_000, 0.1},
		{"the least part", 1e9, 1000, 0.05, 100_000, 0.05},
		{"few goroutines", 1e9, 1000, 0.01, 400, 0.5},
		{"very few goroutines", 1e9, 1000, 0.01, 3, 1},
		{"far too many", 1e9, 1000, 0.01, 100_000, 0.01},
		{"no events", 0, 1000, 0.01, 100_000, 1},
	} {
		if err := w.resample(Rates{All: s.want}.room(Rates{All: s.rate}), s.least, s.live, &to); err != nil {
			t.Fatal(err)
		}
		if got := w.sampled(); got < s.ratio*0.999 || got > s.ratio*1.001 {
			t.Errorf("%s: ratio %v, want %v", s.what, got, s.ratio)
		}
	}
	if err := w.close(&to); err != nil {
		t.Error(err)
	}
}

// TestFlight keeps the newest events, and reports the first that it cannot keep.
func TestFlight(t *testing.T) {
	f, err := newFlight(time.Second, export.Options{Kinds: kinds[Lifecycle], Version: export.VersionFor("go1.27")})
	if err != nil {
		t.Fatal(err)
	}
	f.err = errors.New("no room")
	f.add(&event.Event{})
	if _, err := f.take(); !errors.Is(err, f.err) {
		t.Errorf("%v, want %v", err, f.err)
	}
}

// TestFlightReads writes a recording that is a Go execution trace.
func TestFlightReads(t *testing.T) {
	program := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "colony", Stripped: true}))
	w, err := newWatch(t.Context(), program.PID(), Runs, watchOptions{engine: loupe.EngineUprobe, stackDepth: -1, buffer: 1 << 20, record: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	program.Command("hold 77")
	var to sums
	if err := w.close(&to); err != nil {
		t.Error(err)
	}
	data, err := w.flight.take()
	if err != nil {
		t.Fatal(err)
	}
	r, err := trace.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	created := 0
	for e, err := range r.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == event.GoCreate {
			created++
		}
	}
	if created < 77 {
		t.Errorf("%d goroutines are created in the recording, want 77", created)
	}
}

// TestSleep ends with its context.
func TestSleep(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if !sleep(ctx, 0) {
		t.Error("sleep ends early")
	}
	cancel()
	if sleep(ctx, time.Hour) {
		t.Error("sleep does not end with its context")
	}
}
