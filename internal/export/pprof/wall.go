package pprof

import (
	"cmp"
	"fmt"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
)

// StateLabel is the label of the samples of a [Wall]: "running", "runnable", "syscall", or "waiting: " and the wait reason.
const StateLabel = "state"

// programStateLabel is the name under which a label of the program named StateLabel is kept.
const programStateLabel = "program.state"

// maxWallPlaces is the number of distinct stacks, states and labels after which a Wall adds further ones up by their state.
const maxWallPlaces = 1 << 18

// A Wall is a profile of where goroutines spend their time, from repeated snapshots. The goroutines of the runtime are left out.
type Wall struct {
	Snapshots int
	Samples   uint64 // goroutines seen, in all snapshots

	limit      int // number of places; set by the first Add
	places     map[wallPlace]*wallTime
	order      []wallPlace // so that the same snapshots result in the same profile
	bestEffort uint64      // samples whose stack was read while the goroutine ran
	truncated  uint64      // other samples whose stack lacks outer frames
	other      uint64      // samples that are only counted by state
	key        []byte
}

// A wallPlace identifies what goroutines have in common. Goroutines with equal stacks share them, so most equal stacks have the
// same first frame in memory. The others are merged later.
type wallPlace struct {
	stack  *event.StackFrame
	frames int
	state  string
	labels string
}

type wallTime struct {
	stack  []event.StackFrame
	labels map[string]string
	count  int64
	time   time.Duration
}

// Add adds the goroutines of a snapshot. Each goroutine counts for a time.
func (w *Wall) Add(snap *event.Snapshot, each time.Duration) {
	if w.places == nil {
		w.places = map[wallPlace]*wallTime{}
		w.limit = cmp.Or(w.limit, maxWallPlaces)
	}
	w.Snapshots++
	for i := range snap.Goroutines {
		g := &snap.Goroutines[i]
		if g.System {
			continue
		}
		w.Samples++
		switch {
		case g.BestEffort:
			w.bestEffort++
		case g.Truncated:
			w.truncated++
		}
		at := w.place(g)
		at.count++
		at.time += each
	}
}

// place returns the sums for goroutines like g.
func (w *Wall) place(g *event.Goroutine) *wallTime {
	stack := g.Stack
	if len(stack) == 0 {
		stack = nil
		if !g.Start.IsZero() {
			stack = []event.StackFrame{{Frame: g.Start}}
		}
	}
	key := wallPlace{frames: len(g.Stack), state: wallState(g)}
	if len(g.Stack) > 0 {
		key.stack = &g.Stack[0]
	} else {
		w.key = appendText(w.key[:0], g.Start.Func)
		key.labels = string(w.key)
	}
	if len(g.Labels) > 0 {
		w.key = appendLabels(append(w.key[:0], key.labels...), g.Labels)
		key.labels = string(w.key)
	}
	at, ok := w.places[key]
	if ok {
		return at
	}
	at = &wallTime{stack: stack, labels: g.Labels}
	if len(w.places) >= w.limit {
		w.other++
		key = wallPlace{state: key.state, labels: "other"} // no encoding of labels
		if at, ok = w.places[key]; ok {
			return at
		}
		at = &wallTime{stack: []event.StackFrame{{Frame: event.Frame{Func: "(other stacks)"}}}}
	}
	w.places[key] = at
	w.order = append(w.order, key)
	return at
}

// wallState returns the value of StateLabel for a goroutine.
func wallState(g *event.Goroutine) string {
	switch {
	case g.State == event.StateWaiting && g.SystemStack: // it works for the runtime
		return string(event.StateRunning)
	case (g.State == event.StateWaiting || g.State == event.StateLeaked) && g.Reason != "":
		return string(event.StateWaiting) + ": " + g.Reason
	}
	return string(g.State)
}

// Build returns the profile of the snapshots that were added. They were taken at a rate per second, for a duration.
func (w *Wall) Build(began time.Time, length time.Duration, rate float64, mapping Mapping) *Builder {
	b := NewBuilder(began, mapping, ValueType{Type: "samples", Unit: "count"}, ValueType{Type: "time", Unit: "nanoseconds"})
	b.Prefer("time")
	b.Lasted(length)
	b.prof.PeriodType.Type, b.prof.PeriodType.Unit = "wall", "nanoseconds"
	b.prof.Period = max(1, int64(float64(time.Second)/rate))
	for _, key := range w.order {
		at := w.places[key]
		labels := map[string]string{StateLabel: key.state}
		for k, v := range at.labels {
			if k == StateLabel {
				k = programStateLabel
			}
			labels[k] = v
		}
		where := Locations(at.stack)
		if len(where) == 0 {
			where = []Location{{Lines: []event.Frame{{Func: "(stack not recorded)"}}}}
		}
		b.Add(where, labels, at.count, int64(at.time))
	}
	b.Comment(fmt.Sprintf("%s in %s", english.Count(w.Samples, "sample"), english.Count(w.Snapshots, "snapshot")))
	for _, c := range []struct {
		n    uint64
		text string
	}{
		{w.bestEffort, "samples of goroutines that ran while they were read, whose innermost frames may be missing (exact with --pause)"},
		{w.truncated, "samples whose outermost frames are missing"},
		{w.other, fmt.Sprintf("samples counted by state only, because there were more than %d distinct stacks and labels", w.limit)},
	} {
		if c.n > 0 {
			b.Comment(fmt.Sprintf("%s: %d", c.text, c.n))
		}
	}
	return b
}
