package trace

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// eventsOf returns the events of a trace, which must be one that can be read to its end.
func eventsOf(t testing.TB, data []byte) ([]event.Event, Stats) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var events []event.Event
	for e, err := range r.Events() {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, *e)
	}
	return events, r.Stats()
}

// expectOracle verifies that a Reader has the events that the toolchain's reader has, and counts the rest as it does.
func expectOracle(t *testing.T, data []byte) {
	t.Helper()
	got, stats := eventsOf(t, data)
	for _, fault := range compareEvents(got, data, stats.Version) {
		t.Error(fault)
	}
	_, want, err := oracle(data, stats.Version)
	if err != nil {
		t.Fatal(err)
	}
	if want.Generations = stats.Generations; stats != want {
		t.Errorf("stats %+v, want %+v", stats, want)
	}
}

func TestReader(t *testing.T) {
	for _, release := range tinyReleases(t) {
		t.Run("go"+release, func(t *testing.T) {
			data := tinyTrace(t, release)
			expectOracle(t, data)
			events, stats := eventsOf(t, data)
			kinds := map[event.Kind]int{}
			last := int64(0)
			for i := range events {
				e := &events[i]
				kinds[e.Kind]++
				if e.Time <= last && stats.Version >= raw.Go122 {
					t.Fatalf("event %d is not later than the one before: %s", i, eventText(e))
				}
				last = e.Time
			}
			all := event.KindsGoroutine.Union(event.KindsSyscall, event.KindsUser, event.KindsGC, event.KindsOf(event.HeapGoal))
			all = all.Without(event.KindsOf(event.GCMarkAssistBegin, event.GCMarkAssistEnd)) // the program allocates too little
			if stats.Version < raw.Go119 {
				all = all.Without(event.KindsOf(event.CPUSample))
			}
			for _, kind := range all.List() {
				if kinds[kind] == 0 {
					t.Errorf("no %v", kind)
				}
			}
			if stats.Events != uint64(len(events)) || stats.Procs == 0 || stats.Generations == 0 {
				t.Errorf("stats %+v", stats)
			}
		})
	}
}

// TestReaderMeaning looks at what the events of a known program say.
func TestReaderMeaning(t *testing.T) {
	for _, release := range tinyReleases(t) {
		t.Run("go"+release, func(t *testing.T) {
			events, stats := eventsOf(t, tinyTrace(t, release))
			expectOnce := map[string]bool{}
			for i := range events {
				for _, text := range meanings(&events[i]) {
					expectOnce[text] = true
				}
			}
			want := []string{
				"main.pingPong starts main.pingPong.func1", "goroutine 1 is main", "Log category message",
				"task", "region", `waits "chan send" in main.pingPong.func1`, `waits "IO wait" in main.pipe`, `waits "sleep" in main.lock`,
			}
			if stats.Version >= raw.Go121 {
				want = append(want, `waits "sync.Mutex.Lock" in main.lock.func1`)
			}
			if stats.Version >= raw.Go122 {
				want = append(want, "system goroutine runtime.gcBgMarkWorker")
			}
			if stats.Version >= raw.Go123 {
				want = append(want, `waits "coroutine" in nothing`, "GoStatus of main.forever")
			}
			for _, text := range want {
				if !expectOnce[text] {
					t.Errorf("no event %q", text)
				}
			}
			if wall := events[0].Time > 1_700_000_000e9; wall != (stats.Version >= raw.Go125) {
				t.Errorf("first time %d", events[0].Time)
			}
		})
	}
}

// meanings says what an event tells that is known of the program.
func meanings(e *event.Event) (all []string) {
	where := "nothing"
	if e.Stack != nil {
		for _, f := range e.Stack.Frames {
			if strings.HasPrefix(f.Func, "main.") {
				where = f.Func
				break
			}
		}
	}
	switch e.Kind {
	case event.GoCreate:
		if o := e.Origin; o != nil {
			all = append(all, o.CreatedBy.Func+" starts "+o.Start.Func)
			if o.System {
				all = append(all, "system goroutine "+o.Start.Func)
			}
		}
	case event.GoStatus:
		if o := e.Origin; o != nil {
			all = append(all, "GoStatus of "+o.Start.Func)
			if e.G == 1 && o.Start.Func == "runtime.main" && !o.System {
				all = append(all, "goroutine 1 is main")
			}
		}
	case event.GoBlock:
		all = append(all, `waits "`+e.Reason+`" in `+where)
	case event.UserLog:
		all = append(all, "Log "+e.Reason+" "+e.Text)
	case event.UserTaskBegin, event.UserRegionBegin:
		all = append(all, e.Text)
	}
	return all
}

// TestReaderSmallReads reads a trace byte by byte.
func TestReaderSmallReads(t *testing.T) {
	data := tinyTrace(t, "1.26.11")
	want, _ := eventsOf(t, data)
	r, err := NewReader(iotest.OneByteReader(bytes.NewReader(data)))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range r.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if !sameEvent(e, &want[n]) {
			t.Fatalf("event %d is %s, want %s", n, eventText(e), eventText(&want[n]))
		}
		n++
	}
	if n != len(want) {
		t.Errorf("%d events, want %d", n, len(want))
	}
}

// TestReaderPointers verifies that the same stack and the same origin are the same pointers, through all generations.
func TestReaderPointers(t *testing.T) {
	for _, release := range tinyReleases(t) {
		events, _ := eventsOf(t, tinyTrace(t, release))
		var stacks []*event.Stack
		origins := map[event.Origin]*event.Origin{}
		same, sameOrigins := 0, 0
		for i := range events {
			if s := events[i].Stack; s != nil {
				known := false
				for _, o := range stacks {
					if slices.Equal(o.Frames, s.Frames) {
						if known = true; o != s {
							t.Fatalf("Go %s: two stacks %+v", release, *s)
						}
						same++
					}
				}
				if !known {
					stacks = append(stacks, s)
				}
			}
			if o := events[i].Origin; o != nil {
				if p := origins[*o]; p != nil && p != o {
					t.Fatalf("Go %s: two origins %+v", release, *o)
				} else if p != nil {
					sameOrigins++
				}
				origins[*o] = o
			}
		}
		if same == 0 || sameOrigins == 0 {
			t.Errorf("Go %s: %d stacks and %d origins come again", release, same, sameOrigins)
		}
	}
}

// TestReaderGoesOn leaves loops early and goes on with others.
func TestReaderGoesOn(t *testing.T) {
	for _, release := range tinyReleases(t) {
		data := tinyTrace(t, release)
		want, _ := eventsOf(t, data)
		r, err := NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		check := func(e *event.Event) {
			t.Helper()
			// Old formats have no order among what is at the same time.
			if n >= len(want) || r.Version() >= raw.Go122 && !sameEvent(e, &want[n]) {
				t.Fatalf("Go %s: event %d is %s", release, n, eventText(e))
			}
			n++
		}
		for range 5 {
			for e, err := range r.Events() {
				if err != nil {
					t.Fatal(err)
				}
				if check(e); n%7 == 0 {
					break
				}
			}
			for events, err := range r.Batches() {
				if err != nil {
					t.Fatal(err)
				}
				for i := range events {
					check(&events[i])
				}
				break
			}
		}
		for e, err := range r.Events() {
			if err != nil {
				t.Fatal(err)
			}
			check(e)
		}
		for range r.Batches() {
			t.Error("events after the end")
		}
		if n != len(want) {
			t.Errorf("Go %s: %d events, want %d", release, n, len(want))
		}
	}
}

func TestReaderErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		data string
		want error
	}{
		{"empty", "", raw.ErrHeader},
		{"short", "go 1.22 tr", raw.ErrHeader},
		{"text", "Trace Go1.22\nEventBatch gen=1", raw.ErrHeader},
		{"no digits", "go 1.x2 trace\x00\x00\x00", raw.ErrHeader},
		{"a version to come", "go 1.99 trace\x00\x00\x00", raw.ErrVersion},
	} {
		if _, err := NewReader(strings.NewReader(tt.data)); !errors.Is(err, tt.want) {
			t.Errorf("%s: NewReader: %v, want %v", tt.name, err, tt.want)
		}
		if _, err := Validate(strings.NewReader(tt.data), ValidateOptions{}); !errors.Is(err, tt.want) {
			t.Errorf("%s: Validate: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// TestReaderFailingInput verifies that the error of the input comes through, with the events before.
func TestReaderFailingInput(t *testing.T) {
	broken := errors.New("broken")
	for _, release := range tinyReleases(t) {
		data := tinyTrace(t, release)
		input := func() io.Reader {
			return io.MultiReader(bytes.NewReader(data[:len(data)-10]), iotest.ErrReader(broken))
		}
		r, err := NewReader(input())
		if err != nil {
			t.Fatal(err)
		}
		var got error
		n := 0
		for _, err := range r.Events() {
			if err != nil {
				got = err
				continue
			}
			n++
		}
		if !errors.Is(got, broken) || r.Version() >= raw.Go122 && n == 0 {
			t.Errorf("Go %s: %v after %d events", release, got, n)
		}
		if report, err := Validate(input(), ValidateOptions{}); !errors.Is(err, broken) || report == nil {
			t.Errorf("Go %s: Validate: %v, %v", release, report, err)
		}
		if _, err := NewReader(iotest.ErrReader(broken)); !errors.Is(err, broken) {
			t.Errorf("NewReader: %v", err)
		}
	}
}

// TestReaderLost reads what a Writer leaves for lost events.
func TestReaderLost(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []event.Event{
		{Kind: event.GoCreate, Time: 1e9, TID: 5, P: event.ProcOf(0), G: 7, Parent: 1},
		{Kind: event.GoStart, Time: 2e9, TID: 5, P: event.ProcOf(0), G: 7},
		{Kind: event.Lost, Time: 3e9, Value: 123},
		{Kind: event.GoStop, Time: 4e9, TID: 5, P: event.ProcOf(0), G: 7, Reason: event.StopPreempted},
		{Kind: event.GoStart, Time: 5e9, TID: 5, P: event.ProcOf(0), G: 7},
		{Kind: event.GoDestroy, Time: 6e9, TID: 5, P: event.ProcOf(0), G: 7},
	} {
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	expectOracle(t, out.Bytes())
	events, _ := eventsOf(t, out.Bytes())
	lost := int64(0)
	for i := range events {
		if e := &events[i]; e.Kind == event.Lost {
			lost += e.Value
		} else if e.Kind == event.UserLog {
			t.Errorf("message %s", eventText(e))
		}
	}
	if lost != 123 {
		t.Errorf("%d lost events, want 123", lost)
	}
}
