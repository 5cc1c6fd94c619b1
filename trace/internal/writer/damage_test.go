package writer

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
)

// A damage changes a stream. rate says how many of its events are affected.
type damage struct {
	name   string
	change func(rng *rand.Rand, events []event.Event, rate float64) []event.Event
}

// hostileStacks are stacks that a trace cannot have as they are.
var hostileStacks = []*event.Stack{
	{}, {Frames: []event.Frame{{}}}, {Truncated: true},
	{Frames: []event.Frame{{Func: strings.Repeat("f", 5000), File: strings.Repeat("\xff", 2000), Line: -7}, {Line: math.MaxInt}}},
	{Frames: make([]event.Frame, 1000), Truncated: true},
}

var hostileTimes = []int64{0, -1, math.MinInt64, math.MaxInt64, 1, 1 << 53, 1 << 62}

var damages = []damage{
	{"lost", func(rng *rand.Rand, events []event.Event, rate float64) []event.Event {
		return drop(rng, events, rate, true)
	}},
	{"missing", func(rng *rand.Rand, events []event.Event, rate float64) []event.Event {
		return drop(rng, events, rate, false)
	}},
	{"twice", func(rng *rand.Rand, events []event.Event, rate float64) (out []event.Event) {
		for _, e := range events {
			if out = append(out, e); rng.Float64() < rate {
				out = append(out, e)
			}
		}
		return out
	}},
	{"swapped", func(rng *rand.Rand, events []event.Event, rate float64) []event.Event {
		for i := range events[1:] {
			if rng.Float64() < rate {
				events[i], events[i+1] = events[i+1], events[i]
			}
		}
		return events
	}},
	{"changed", func(rng *rand.Rand, events []event.Event, rate float64) []event.Event {
		for i := range events {
			if rng.Float64() < rate {
				change(rng, &events[i])
			}
		}
		return events
	}},
}

// drop drops runs of events, and may tell of it.
func drop(rng *rand.Rand, events []event.Event, rate float64, tell bool) (out []event.Event) {
	lost := int64(0)
	for _, e := range events {
		if rng.Float64() < rate || lost > 0 && rng.IntN(4) > 0 {
			lost++
			continue
		}
		if lost > 0 && tell {
			out = append(out, event.Event{Kind: event.Lost, Time: e.Time, Value: lost})
		}
		lost = 0
		out = append(out, e)
	}
	return out
}

// change changes a field of an event.
func change(rng *rand.Rand, e *event.Event) {
	switch rng.IntN(12) {
	case 0:
		e.TID = 5000 + rng.Int32N(40)
	case 1:
		e.TID = []int32{-1, math.MinInt32, math.MaxInt32, 0, 1 << 30}[rng.IntN(5)]
	case 2:
		e.Time = hostileTimes[rng.IntN(len(hostileTimes))]
	case 3:
		e.P = event.Proc(rng.IntN(9) - 1)
	case 4:
		e.P = []event.Proc{math.MaxInt32, math.MinInt32, maxProc, maxProc + 1}[rng.IntN(4)]
	case 5:
		e.G = []uint64{0, 1, 37, guestID, math.MaxUint64, 1 << 63, rng.Uint64N(2000)}[rng.IntN(7)]
	case 6:
		e.By, e.Parent = rng.Uint64N(600), rng.Uint64N(600)
	case 7:
		e.Kind = event.Kind(rng.IntN(40))
	case 8:
		e.Stack = hostileStacks[rng.IntN(len(hostileStacks))]
		e.Origin = &event.Origin{Start: event.Frame{Func: "x", Line: -1}}
	case 9:
		e.Reason, e.Text = strings.Repeat("世", 500), strings.Repeat("t", 1023)+"é"
	case 10:
		e.Value, e.Object = []int64{-1, math.MinInt64, math.MaxInt64, 7}[rng.IntN(4)], rng.Uint64()
	case 11:
		e.State = []event.State{event.StateWaiting, event.StateRunning, event.StateSyscall, "?"}[rng.IntN(4)]
	}
}

// TestWriterDamaged writes streams with which something is wrong, and expects that a reader reads them to the end.
func TestWriterDamaged(t *testing.T) {
	for _, d := range damages {
		for _, rate := range []float64{0.0001, 0.01, 0.2} {
			t.Run(fmt.Sprintf("%s/%v", d.name, rate), func(t *testing.T) {
				for i, opt := range simulations {
					seed := uint64(i)
					v := versions[(i+int(rate*10000))%len(versions)]
					rng := rand.New(rand.NewPCG(seed, 5))
					events := newSimulation(seed, opt).run(1400).events
					events = d.change(rng, events, rate)
					data, stats := writeAll(t, events, Options{Version: v, Generation: 10 * time.Millisecond})
					read := readSteps(t, data)
					verifyMarks(t, read, stats)
					if d.name == "lost" || d.name == "missing" {
						verifyStates(t, events, read)
					}
				}
			})
		}
	}
}

// verifyMarks verifies that the trace tells of all events that were lost.
func verifyMarks(t *testing.T, read *recording, stats Stats) {
	t.Helper()
	told := uint64(0)
	for _, m := range read.marks {
		var n uint64
		if _, err := fmt.Sscanf(m, "%d events lost", &n); err == nil {
			told += n
		}
	}
	if told != stats.Lost {
		t.Errorf("the trace tells of %d lost events, %d were", told, stats.Lost)
	}
}

// after has what a goroutine does after its last event.
var after = map[event.Kind]xtrace.GoState{
	event.GoCreate: xRunnable, event.GoStart: xRunning, event.GoStop: xRunnable, event.GoBlock: xWaiting,
	event.GoUnblock: xRunnable, event.GoDestroy: xNone, event.GoSyscallBegin: xSyscall,
}

// verifyStates verifies that goroutines get to do what their last events say.
func verifyStates(t *testing.T, events []event.Event, read *recording) {
	t.Helper()
	last := map[uint64]*event.Event{}
	for i := range events {
		if e := &events[i]; after[e.Kind] != 0 || e.Kind == event.GoSyscallEnd {
			last[e.G] = e
			if e.By != 0 {
				delete(last, e.By) // it ran then
			}
			if e.Parent != 0 {
				delete(last, e.Parent)
			}
		} else if e.G != 0 {
			delete(last, e.G)
		}
	}
	compared := 0
	for g, e := range last {
		steps := read.steps[g]
		if len(steps) == 0 {
			t.Fatalf("nothing of G%d", g)
		}
		want, ok := after[e.Kind]
		if !ok || e.State == event.StateWaiting {
			continue
		}
		compared++
		if !slices.ContainsFunc(steps, func(s step) bool { return s.to == want && s.time >= e.Time && s.time < e.Time+1000 }) {
			t.Errorf("G%d is never %v after %+v: %+v", g, want, *e, steps)
		}
	}
	if compared < 20 {
		t.Errorf("%d goroutines compared", compared)
	}
}

// TestWriterExec expects everything to end with the program.
func TestWriterExec(t *testing.T) {
	for i, opt := range simulations {
		s := newSimulation(3, opt).run(700)
		first := len(s.events)
		s.emit(event.Event{Kind: event.Exec}, nil)
		next := newSimulation(4, opt)
		for _, e := range next.run(700).events {
			e.Time += s.now - 1_700_000_000_000_000_000
			s.events = append(s.events, e)
		}
		for _, v := range versions {
			data, stats := writeAll(t, s.events, Options{Version: v, Generation: 10 * time.Millisecond})
			at := s.events[first].Time
			read := readSteps(t, data)
			for g, steps := range read.steps {
				alive := false
				for _, step := range steps {
					if step.time > at+1e6 {
						break
					}
					alive = step.to != xNone
				}
				if alive && steps[0].time < at {
					t.Errorf("simulation %d: G%d outlives the program: %+v", i, g, steps)
				}
			}
			if len(read.marks) != 1 || stats.Repaired > 0 {
				t.Errorf("marks %q, stats %+v", read.marks, stats)
			}
		}
	}
}

// FuzzWriter writes events made of arbitrary bytes, and expects that a reader reads the trace to its end.
func FuzzWriter(f *testing.F) {
	f.Add(uint8(0), []byte{1, 1, 0, 10, 2, 2, 1, 10, 3, 2, 0, 1, 9, 2, 7, 7, 10, 2, 0, 0})
	f.Add(uint8(1), []byte{5, 1, 200, 3, 22, 0, 0, 1, 6, 1, 0, 9, 7, 1, 0, 9, 23, 1, 1, 1, 1, 1, 1, 1})
	f.Add(uint8(2), []byte{3, 1, 9, 255, 9, 1, 9, 1, 3, 2, 9, 9, 10, 1, 9, 9, 3, 1, 17, 9, 20, 3, 3, 3, 4, 4, 4, 4, 21, 0, 3, 3})
	f.Add(uint8(3), []byte{18, 1, 1, 1, 20, 1, 1, 1, 19, 0, 1, 1, 21, 0, 1, 1, 24, 1, 2, 3, 26, 1, 2, 3, 27, 1, 2, 3, 29, 1, 2, 3, 24, 1, 2, 3})
	f.Fuzz(func(t *testing.T, mode uint8, data []byte) {
		opt := Options{Version: versions[mode%4], Generation: time.Duration(1 + int(mode>>4)*40), OmitOperations: mode&8 != 0}
		var out bytes.Buffer
		w, err := New(&out, opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range fuzzEvents(mode, data) {
			if err := w.Write(&e); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		readSteps(t, out.Bytes())
		head, parts := generations(t, out.Bytes())
		rest := parts[len(data)%len(parts):] // a trace by themselves
		readSteps(t, bytes.Join(append([][]byte{head}, rest...), nil))
	})
}

// fuzzEvents makes events of arbitrary bytes.
func fuzzEvents(mode uint8, data []byte) (events []event.Event) {
	reasons := []string{"", "chan receive", "coroutine", event.StopPreempted, "chan receive (nil chan)"}
	states := []event.State{"", event.StateWaiting, event.StateRunning, event.StateSyscall, event.StateRunnable}
	origins := []*event.Origin{nil, {}, {Start: event.Frame{Func: "a"}}, {Start: event.Frame{Func: "a"}}, {Start: event.Frame{Func: "b"}}}
	now := int64(1) << (mode % 63)
	for ; len(data) >= 4; data = data[4:] {
		kind, g, pick, dt := data[0], data[1], data[2], data[3]
		now += int64(dt)
		e := event.Event{Kind: event.Kind(kind % 32), G: uint64(g % 12), TID: int32(pick % 5), P: event.Proc(dt % 5), Time: now,
			By: uint64(pick % 7), Parent: uint64(pick % 6), Reason: reasons[int(pick)%len(reasons)], State: states[int(pick/4)%len(states)],
			Stack: hostileStacks[int(pick/2)%3], Origin: origins[int(pick/3)%len(origins)], Value: int64(dt % 4), Text: reasons[dt%5]}
		if kind > 200 {
			change(rand.New(rand.NewPCG(uint64(pick), uint64(dt))), &e)
		}
		events = append(events, e)
	}
	return events
}
