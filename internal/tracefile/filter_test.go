package tracefile

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/trace"
)

// moment returns the moment of a text.
func moment(t *testing.T, text string) Moment {
	t.Helper()
	m, err := ParseMoment(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestFilterByTime takes most of the second half of traces, with its state at the beginning, which the toolchain's reader
// tells. The end is by the number of events: on a busy machine most of the time can be in a stretch without events.
func TestFilterByTime(t *testing.T) {
	for _, r := range releases(t) {
		path := record(t, r)
		all, wall := eventsOf(t, path)
		first := all[0].Time
		half := secondHalf(t, all)
		from, to := quiet(all, half[0].Time-int64(time.Millisecond)), quiet(all, half[len(half)*9/10].Time)
		sel := &Selection{From: moment(t, time.Duration(from-first).String()), To: moment(t, time.Duration(to-first).String())}
		if wall { // the same by the time of day
			sel.From = moment(t, time.Unix(0, from).Format(time.RFC3339Nano))
		}
		file, done := converted(t, path, as(export.Go), sel)
		if report, err := Validate(t.Context(), open(t, file), trace.ValidateOptions{}); err != nil || !report.Valid() {
			t.Errorf("%v: %v, %v, %v", r, report, err, report.Problems)
		}
		if done.First != from || done.Last > to || done.Last < from {
			t.Errorf("%v: from %d to %d, want %d to %d", r, done.First, done.Last, from, to)
		}
		var want []event.Event
		for _, e := range all {
			if e.Time >= from && e.Time <= to {
				want = append(want, e)
			}
		}
		sink := &listSink{}
		if err := filterInto(t, path, sel, sink); err != nil {
			t.Fatal(err)
		}
		status := sink.list[:len(sink.list)-len(want)]
		if different := firstDifference(sink.list[len(status):], want); different != "" || len(want) == 0 {
			t.Errorf("%v: the events of the time are others: of %d, %s", r, len(want), different)
		}
		compareStatus(t, r, status, statesAt(t, path, from), from)
		after, _ := eventsOf(t, file)
		kinds := map[event.Kind]int{}
		for _, e := range after {
			kinds[e.Kind]++
		}
		for _, e := range want {
			kinds[e.Kind]--
		}
		// Before Go 1.22 a trace does not tell on which P a goroutine goes on after a system call, so the Writer may have to
		// add a few to explain where it is. The start behind one that is added may be the trace's own, and a start is added
		// alone when the call was before the time that is chosen.
		added, calls := kinds[event.GoStart], kinds[event.GoSyscallBegin]
		if r.minor < 22 && added >= 0 && added <= 5 && calls >= 0 && calls <= 5 && kinds[event.GoSyscallEnd] == calls {
			added = 0
		}
		if added != 0 || kinds[event.GoBlock] != 0 || kinds[event.GoUnblock] != 0 || kinds[event.GoCreate] != 0 {
			t.Errorf("%v: the trace that is written has more events than chosen: %v", r, kinds)
		}
	}
}

// secondHalf returns the events after the sleep between the two rounds of the program that record runs.
func secondHalf(t *testing.T, all []event.Event) []event.Event {
	t.Helper()
	asleep := int64(0)
	for i, e := range all {
		switch {
		case e.G != 1:
		case e.Kind == event.GoBlock:
			asleep = e.Time
		case e.Kind == event.GoUnblock && e.Time-asleep >= int64(time.Second):
			return all[i:]
		}
	}
	t.Fatal("goroutine 1 does not sleep for a second")
	return nil
}

// quiet returns a time from at on that no event is near, which another reading might have on its other side.
func quiet(all []event.Event, at int64) int64 {
	before := at
	for _, e := range all {
		if e.Time > before+4*moved && before >= at {
			return (before + e.Time) / 2
		}
		before = max(before, e.Time)
	}
	return at
}

// filterInto filters a file into a sink.
func filterInto(t *testing.T, path string, sel *Selection, sink export.Sink) error {
	in := open(t, path)
	chosen, err := search(t.Context(), in, sel)
	if err != nil {
		return err
	}
	ev, err := in.Events(t.Context())
	if err != nil {
		return err
	}
	out, err := output.Create(t.Context(), Stdout, output.Options{Stdout: io.Discard})
	if err != nil {
		return err
	}
	c := &converter{ev: ev, out: out, sel: sel, chosen: chosen, opt: as(export.CSV)}
	return ev.Each(func(e *event.Event) error {
		if c.sink == nil {
			if err := c.begin(); err != nil {
				return err
			}
			c.sink = sink
		}
		return c.take(e)
	})
}

// firstDifference compares events of different readings of a file, and says what is different; nothing if they are the same.
// Those of old traces that are at the same time come in another order each time.
func firstDifference(a, b []event.Event) string {
	a, b = slices.Clone(a), slices.Clone(b)
	for _, list := range [][]event.Event{a, b} {
		slices.SortStableFunc(list, func(x, y event.Event) int { return cmp.Or(cmp.Compare(x.G, y.G), cmp.Compare(x.Kind, y.Kind)) })
	}
	for i := range min(len(a), len(b)) {
		if !sameEvent(a[i], b[i]) {
			return fmt.Sprintf("%+v, want %+v", a[i], b[i])
		}
	}
	if len(a) != len(b) {
		return fmt.Sprintf("%d, want %d", len(a), len(b))
	}
	return ""
}

// moved is by how much the time of an event can differ between two readings of a file of before Go 1.22: what is at the same
// time may be in another order, and is moved by nanoseconds for that.
const moved = 100

// sameEvent compares events of different readings of a file.
func sameEvent(a, b event.Event) bool {
	if !reflect.DeepEqual(a.Stack, b.Stack) || !reflect.DeepEqual(a.Origin, b.Origin) {
		return false
	}
	a.Stack, b.Stack, a.Origin, b.Origin = nil, nil, nil, nil
	if d := a.Time - b.Time; d < -moved || d > moved {
		return false
	}
	a.Time = b.Time
	return a == b
}

// listSink keeps events.
type listSink struct{ list []event.Event }

func (s *listSink) Write(e *event.Event) error {
	s.list = append(s.list, *e)
	return nil
}

func (s *listSink) Close() error { return nil }

// compareStatus compares the states that are told with those that are true.
func compareStatus(t *testing.T, r release, got []event.Event, want map[uint64]xtrace.GoState, at int64) {
	t.Helper()
	states := map[event.State]xtrace.GoState{event.StateRunnable: xtrace.GoRunnable, event.StateRunning: xtrace.GoRunning,
		event.StateSyscall: xtrace.GoSyscall, event.StateWaiting: xtrace.GoWaiting}
	if len(got) != len(want) || len(got) == 0 {
		t.Errorf("%v: %d states are told, want %d", r, len(got), len(want))
	}
	last := uint64(0)
	for _, e := range got {
		if e.Kind != event.GoStatus || e.Time != at || states[e.State] != want[e.G] || e.G <= last {
			t.Errorf("%v: %v of goroutine %d, %s; want %v", r, e.Kind, e.G, e.State, want[e.G])
		}
		if e.State == event.StateWaiting && (e.Value < 0 || e.Value > int64(time.Minute)) {
			t.Errorf("%v: goroutine %d waits for %d ns", r, e.G, e.Value)
		}
		if e.State == event.StateRunning && (e.P == 0 || e.TID == 0 && r.minor >= 22) {
			t.Errorf("%v: goroutine %d runs on thread %d, P %d", r, e.G, e.TID, e.P)
		}
		last = e.G
	}
}

// statesAt returns the states of goroutines before a time, by the toolchain's reader.
func statesAt(t *testing.T, path string, at int64) map[uint64]xtrace.GoState {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := xtrace.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	states := map[uint64]xtrace.GoState{}
	wall, synced := int64(0), false
	for {
		e, err := r.ReadEvent()
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind() == xtrace.EventSync {
			if c := e.Sync().ClockSnapshot; c != nil && !synced {
				wall = c.Wall.UnixNano() - int64(c.Trace)
			}
			synced = true
		}
		if int64(e.Time())+wall >= at {
			return states
		}
		if e.Kind() != xtrace.EventStateTransition || e.StateTransition().Resource.Kind != xtrace.ResourceGoroutine {
			continue
		}
		st := e.StateTransition()
		id := uint64(st.Resource.Goroutine())
		_, to := st.Goroutine()
		if states[id] = to; to == xtrace.GoNotExist {
			delete(states, id)
		}
	}
}

// TestFilterByGoroutine chooses goroutines in all ways, and compares with what a look at all events finds.
func TestFilterByGoroutine(t *testing.T) {
	for _, r := range releases(t) {
		path := record(t, r)
		all, _ := eventsOf(t, path)
		locks := regexp.MustCompile(`^main\.locks`)
		byFunc, byReason := map[uint64]bool{}, map[uint64]bool{}
		for _, e := range all {
			who := e.G
			switch e.Kind {
			case event.GoCreate:
				who = e.Parent
				if locks.MatchString(e.Origin.Start.Func) {
					byFunc[e.G] = true
				}
			case event.GoUnblock:
				who = e.By
			case event.GoBlock:
				if strings.Contains(e.Reason, "Cond") {
					byReason[e.G] = true
				}
			}
			if e.Stack != nil && slices.ContainsFunc(e.Stack.Frames, func(f event.Frame) bool { return locks.MatchString(f.Func) }) && who != 0 {
				byFunc[who] = true
			}
		}
		if len(byFunc) < 41 || len(byReason) < 10 {
			t.Fatalf("%v: %d goroutines with the function, %d with the reason", r, len(byFunc), len(byReason))
		}
		both := map[uint64]bool{}
		for g := range byReason {
			both[g] = byFunc[g]
		}
		for name, test := range map[string]struct {
			sel  Selection
			want map[uint64]bool
		}{
			"ID":       {Selection{Goroutines: []uint64{1, 6}}, map[uint64]bool{1: true, 6: true}},
			"function": {Selection{Func: locks}, byFunc},
			"reason":   {Selection{Reasons: []string{"nothing", "cond"}}, byReason},
			"both":     {Selection{Func: locks, Reasons: []string{"COND"}}, both},
			"all":      {Selection{Func: locks, Goroutines: []uint64{1, 2}}, map[uint64]bool{1: byFunc[1], 2: byFunc[2]}},
		} {
			sink := &listSink{}
			if err := filterInto(t, path, &test.sel, sink); err != nil {
				t.Fatal(err)
			}
			var want []event.Event
			for _, e := range all {
				whole := gostate.OfProgram().Has(e.Kind)
				if whole || e.G != 0 && test.want[e.G] || e.G == 0 && e.Kind != event.CPUSample {
					want = append(want, e)
				}
			}
			if different := firstDifference(sink.list, want); different != "" || len(want) == len(all) {
				t.Errorf("%v, by %s: of %d events, %s", r, name, len(all), different)
			}
			file, _ := converted(t, path, as(export.Go), &test.sel)
			if report, err := Validate(t.Context(), open(t, file), trace.ValidateOptions{}); err != nil || !report.Valid() {
				t.Errorf("%v, by %s: %v, %v", r, name, report, err)
			}
		}
	}
}

// TestFilterFindsInState chooses by what goroutines are doing already when the time begins.
func TestFilterFindsInState(t *testing.T) {
	path := record(t, latest(t))
	// In the middle of the sleep of a second, which is most of the trace.
	sel := &Selection{From: moment(t, "500ms"), To: moment(t, "510ms"), Reasons: []string{"sleep"}, Func: regexp.MustCompile(`^main\.run$`)}
	sink := &listSink{}
	if err := filterInto(t, path, sel, sink); err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(sink.list, func(e event.Event) bool { return e.G == 1 }); i < 0 || sink.list[i].Kind != event.GoStatus || sink.list[i].Reason != "sleep" {
		t.Errorf("goroutine 1 is not among %d events", len(sink.list))
	}
}

func TestFilterRefuses(t *testing.T) {
	new, old := record(t, latest(t)), record(t, releases(t)[0])
	for _, test := range []struct {
		path string
		sel  Selection
		want string
	}{
		{new, Selection{From: moment(t, "1h")}, "ends before 1h"},
		{new, Selection{To: moment(t, "2001-01-01T00:00:00Z")}, "is before the start"},
		{new, Selection{From: moment(t, "2s"), To: moment(t, "1s")}, "is before the start"},
		{new, Selection{Goroutines: []uint64{1 << 40}}, "matches the filter"},
		{new, Selection{Func: regexp.MustCompile("no such function")}, "matches the filter"},
		{new, Selection{Reasons: []string{"no such reason"}}, "matches the filter"},
		{old, Selection{From: moment(t, "2026-01-01T00:00:00Z")}, "only traces of Go 1.25 and later have"},
		{old, Selection{To: moment(t, "2026-01-01T00:00:00Z"), Reasons: []string{"sleep"}}, "only traces of Go 1.25 and later have"},
	} {
		out, err := output.Create(t.Context(), Stdout, output.Options{Stdout: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Convert(t.Context(), out, open(t, test.path), as(export.Go), &test.sel); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.sel, err, test.want)
		}
	}
	in, err := Open(t.Context(), Stdin, strings.NewReader("go 1.22 trace\x00\x00\x00"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := search(t.Context(), in, &Selection{Reasons: []string{"x"}}); err == nil || !strings.Contains(err.Error(), "the trace is read twice") {
		t.Errorf("standard input: %v", err)
	}
}

func TestParseMoment(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "0s": true, "1.5s": true, "2h": true, "2026-03-01T14:03:05Z": true, "2026-03-01T14:03:05.123456789+02:00": true,
		"-1s": false, "1": false, "soon": false, "14:03": false, "2026-03-01": false, "0001-01-01T00:00:00Z": false, "9999-01-01T00:00:00Z": false,
	} {
		m, err := ParseMoment(text)
		if (err == nil) != ok || err == nil && m.isSet != (text != "") {
			t.Errorf("%q: %+v, %v", text, m, err)
		}
	}
	late := moment(t, "2562047h")
	if at, err := late.in(1<<62, true); err != nil || at != maxTime {
		t.Errorf("a moment beyond all times is %d, %v", at, err)
	}
}
