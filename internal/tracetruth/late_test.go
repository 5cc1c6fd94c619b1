package tracetruth

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/trace/raw"
)

// rawEvents returns the events of a trace as they are in its file.
func rawEvents(t *testing.T, trace []byte) (v raw.Version, events []*raw.Event) {
	t.Helper()
	r, err := raw.NewReader(bytes.NewReader(trace))
	if err != nil {
		t.Fatal(err)
	}
	for {
		var ev raw.Event
		switch err := r.ReadEvent(&ev); {
		case errors.Is(err, io.EOF):
			return r.Version(), events
		case err != nil:
			t.Fatal(err)
		}
		events = append(events, ev.Clone())
	}
}

// lateUnit is the unit of times in traces since Go 1.22, in nanoseconds.
const lateUnit = 64

// late returns the trace in which an event has a time that is later, as if its thread had lost the processor between what it
// did and its reading of the clock: by up to a time, and no later than the thread's next event.
func late(t *testing.T, v raw.Version, events []*raw.Event, at int, by time.Duration) []byte {
	t.Helper()
	d := min(uint64(by)/lateUnit, events[at+1].Args[0]-1)
	changed := slices.Clone(events)
	changed[at], changed[at+1] = events[at].Clone(), events[at+1].Clone()
	changed[at].Args[0] += d
	changed[at+1].Args[0] -= d
	var out bytes.Buffer
	w, err := raw.NewWriter(&out, v)
	if err != nil {
		t.Fatal(err)
	}
	w.RecomputeSizes = true
	for _, ev := range changed {
		if err := w.WriteEvent(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// mayBeLate returns the events after which their thread did nothing for some time.
func mayBeLate(events []*raw.Event, idle time.Duration) []int {
	var all []int
	for i, ev := range events[:len(events)-1] {
		next := events[i+1]
		if ev.Spec().Timed && next.Spec().Timed && next.Args[0] > uint64(idle)/lateUnit {
			all = append(all, i)
		}
	}
	return all
}

// TestLateTimes holds a perfect observer against traces in which one event has a late time, after which readers of traces move
// the times of others. The observer must pass, and one whose clock runs fast by as much as the trace's seems to must not.
func TestLateTimes(t *testing.T) {
	const tries, looks = 5, 40 // recordings, and late events of each
	const enough = 100         // moved events that a comparison of times would not survive
	rng := rand.New(rand.NewPCG(7, 8))
	for _, release := range testtarget.Among(t, "1.22.12", testtarget.Latest()) {
		t.Run("go"+release, func(t *testing.T) {
			far := 0
			for try := 0; far == 0; try++ {
				if try == tries {
					t.Fatalf("no late event of %d traces moved %d others", tries, enough)
				}
				r := recordAll(t, release)
				v, events := rawEvents(t, r.raw)
				candidates := mayBeLate(events, 10*time.Millisecond)
				rng.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
				for _, at := range candidates[:min(looks, len(candidates))] {
					truth := parse(t, late(t, v, events, at, 100*time.Millisecond), r.truth.Release)
					if truth.Moved.Events > r.truth.Moved.Events+enough {
						far++
						checkLate(t, r.truth, truth, events[at].String())
					}
				}
			}
			t.Logf("%d late events moved more than %d others", far, enough)
		})
	}
}

// checkLate compares a trace that has late times with two observers of the one that has none.
func checkLate(t *testing.T, punctual, truth *Trace, what string) {
	t.Helper()
	opt := Options{Kinds: event.KindsSyscall, Offset: Bounds{mutatedOffset, mutatedOffset}.Widen(Bounds{mutatedOffset, mutatedOffset}, time.Millisecond)}
	perfect := punctual.Events(event.KindsSyscall, mutatedOffset)
	if report := Compare(truth, perfect, opt); !report.OK() || report.Moved.Events == 0 {
		t.Errorf("%s is late: a perfect observer fails:\n%v", what, report)
	}
	for _, percent := range []int64{5, -5} {
		m := &mutator{truth: punctual, events: slices.Clone(perfect)}
		if report := Compare(truth, faster(m, percent), opt); report.Failed(FailTime)+report.Failed(FailSequence) == 0 {
			t.Errorf("%s is late: an observer whose clock is %d %% fast passes:\n%v", what, percent, report)
		}
	}
}

// faster makes the clock run fast from the first mark on.
func faster(m *mutator, percent int64) []event.Event {
	from := m.truth.Begin + mutatedOffset
	for i := range m.events {
		m.events[i].Time += (m.events[i].Time - from) * percent / 100
	}
	return m.events
}
