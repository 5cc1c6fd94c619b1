package writer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// streamStart is when the streams of these tests begin.
const streamStart = 1_800_000_000_000_000_000

// stream gives events times of 1 µs distance, unless they have one, which is then added to the begin.
func stream(events ...event.Event) []event.Event {
	for i := range events {
		if events[i].Time == 0 {
			events[i].Time = int64(i) * 1000
		}
		events[i].Time += streamStart
	}
	return events
}

// lines writes events and returns what a reader sees of the goroutines, one line each.
func lines(t *testing.T, opt Options, events ...event.Event) (text []string, stats Stats) {
	t.Helper()
	data, stats := writeAll(t, events, opt)
	readAll(t, data, func(ev xtrace.Event) {
		switch ev.Kind() {
		case xtrace.EventStateTransition:
			tr := ev.StateTransition()
			if tr.Resource.Kind != xtrace.ResourceGoroutine {
				return
			}
			from, to := tr.Goroutine()
			if from == to {
				return
			}
			text = append(text, strings.TrimSpace(fmt.Sprintf("%d G%d %v->%v %s", int64(ev.Time())-streamStart, tr.Resource.Goroutine(), from, to, tr.Reason)))
		case xtrace.EventRangeBegin, xtrace.EventRangeEnd, xtrace.EventRangeActive:
			text = append(text, fmt.Sprintf("%d G%d %v %s", int64(ev.Time())-streamStart, ev.Goroutine(), ev.Kind(), ev.Range().Name))
		case xtrace.EventRegionBegin, xtrace.EventRegionEnd:
			text = append(text, fmt.Sprintf("%d G%d %v %s", int64(ev.Time())-streamStart, ev.Goroutine(), ev.Kind(), ev.Region().Type))
		case xtrace.EventTaskBegin, xtrace.EventTaskEnd:
			text = append(text, fmt.Sprintf("%d G%d %v %s", int64(ev.Time())-streamStart, ev.Goroutine(), ev.Kind(), ev.Task().Type))
		case xtrace.EventLog:
			text = append(text, fmt.Sprintf("%d G%d %s: %s", int64(ev.Time())-streamStart, ev.Goroutine(), ev.Log().Category, ev.Log().Message))
		}
	})
	return text, stats
}

func expectLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func status(g uint64, state event.State, tid int32) event.Event {
	return event.Event{Kind: event.GoStatus, G: g, State: state, TID: tid}
}

func on(tid int32, kind event.Kind, g uint64) event.Event {
	return event.Event{Kind: kind, G: g, TID: tid}
}

func TestWriterRepairs(t *testing.T) {
	lost := event.Event{Kind: event.Lost, Value: 7}
	for _, test := range []struct {
		name   string
		events []event.Event
		want   []string
		stats  Stats
	}{
		{"a status is told with the first event", []event.Event{
			status(1, event.StateRunning, 99), status(2, event.StateSyscall, 98), on(5, event.GoBlock, 1), on(6, event.GoStart, 2),
		}, []string{
			"2001 G1 Undetermined->Running", "2002 G1 Running->Waiting",
			"3000 G2 Undetermined->Syscall", "3001 G2 Syscall->Runnable", "3004 G2 Runnable->Running",
		}, Stats{}},
		{"a start after a start is the end of a system call", []event.Event{
			status(1, event.StateRunnable, 0), on(5, event.GoStart, 1), on(6, event.GoStart, 1), on(6, event.GoBlock, 1),
		}, []string{
			"0 G1 Undetermined->Runnable", "1002 G1 Runnable->Running", "2000 G1 Running->Syscall",
			"2002 G1 Syscall->Runnable", "2004 G1 Runnable->Running", "3000 G1 Running->Waiting",
		}, Stats{Bridged: 1}},
		{"a thread that goes on with another goroutine ends a system call", []event.Event{
			status(1, event.StateRunnable, 0), status(2, event.StateRunnable, 0), on(5, event.GoStart, 1), on(5, event.GoStart, 2),
		}, []string{
			"0 G1 Undetermined->Runnable", "1000 G2 Undetermined->Runnable", "2002 G1 Runnable->Running",
			"3000 G1 Running->Syscall", "3002 G1 Syscall->Runnable", "3004 G2 Runnable->Running",
		}, Stats{Bridged: 1}},
		{"after a loss nobody knows what it does", []event.Event{
			status(1, event.StateRunnable, 0), status(2, event.StateRunnable, 0), on(5, event.GoStart, 1), lost, on(5, event.GoStart, 2),
		}, []string{
			"0 G1 Undetermined->Runnable", "1000 G2 Undetermined->Runnable", "2002 G1 Runnable->Running",
			"3000 G1 loupe: 7 events lost", "4000 G1 Running->Waiting not observed", "4001 G2 Runnable->Running",
		}, Stats{Lost: 7, Repaired: 1}},
		{"a loss that nothing follows is told", []event.Event{lost}, []string{
			"2 G4611686018427387904 NotExist->Runnable", "3 G4611686018427387904 Runnable->Running",
			"4 G4611686018427387904 loupe: 7 events lost", "5 G4611686018427387904 Running->Waiting system goroutine wait",
		}, Stats{Lost: 7}},
		{"a goroutine is found when it is woken", []event.Event{
			status(1, event.StateRunning, 5), {Kind: event.GoUnblock, G: 9, By: 1, TID: 5}, on(6, event.GoStart, 9),
		}, []string{
			"1000 G9 Undetermined->Waiting", "1002 G1 Undetermined->Running", "1003 G9 Waiting->Runnable", "2002 G9 Runnable->Running",
		}, Stats{Found: 1}},
		{"what is not observed but collects garbage is shown while it does", []event.Event{
			status(1, event.StateRunning, 5),
			{Kind: event.STWBegin, G: 9, TID: 6, Reason: "GC mark termination"}, {Kind: event.GCEnd, TID: 6}, on(6, event.STWEnd, 0),
		}, []string{
			"1000 G9 Undetermined->Waiting", "1001 G9 Waiting->Runnable", "1004 G9 Runnable->Running",
			"1005 G9 RangeBegin stop-the-world (GC mark termination)",
			"2000 G9 RangeActive GC concurrent mark phase", "2001 G9 RangeEnd GC concurrent mark phase",
			"3000 G9 RangeEnd stop-the-world (GC mark termination)", "3001 G9 Running->Waiting system goroutine wait",
			"3003 G1 Undetermined->Running",
		}, Stats{Found: 1}},
		{"regions end in their order", []event.Event{
			{Kind: event.UserRegionBegin, G: 1, TID: 5, Text: "outer"}, {Kind: event.UserRegionBegin, G: 1, TID: 5, Text: "inner"},
			{Kind: event.UserRegionEnd, G: 1, TID: 5, Text: "other"}, {Kind: event.UserRegionEnd, G: 1, TID: 5, Text: "outer"},
			{Kind: event.UserRegionEnd, G: 1, TID: 5, Text: "before"},
		}, []string{
			"1 G1 Undetermined->Running", "2 G1 RegionBegin outer", "1000 G1 RegionBegin inner",
			"3000 G1 RegionEnd inner", "3001 G1 RegionEnd outer", "4000 G1 RegionEnd before",
		}, Stats{Found: 1, Repaired: 1, Skipped: map[event.Kind]uint64{event.UserRegionEnd: 1}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, stats := lines(t, Options{}, stream(test.events...)...)
			expectLines(t, got, test.want...)
			if stats.Bridged != test.stats.Bridged || stats.Repaired != test.stats.Repaired || stats.Found != test.stats.Found ||
				stats.Lost != test.stats.Lost || stats.Skipped[event.UserRegionEnd] != test.stats.Skipped[event.UserRegionEnd] {
				t.Errorf("stats %+v", stats)
			}
		})
	}
}

// TestWriterLate expects goroutines that are found after the first generation to be created on a thread of their own.
func TestWriterLate(t *testing.T) {
	events := stream(status(1, event.StateRunning, 5), on(5, event.GoBlock, 1),
		event.Event{Time: 2e9, Kind: event.GoUnblock, G: 9, TID: 6},
		event.Event{Time: 2e9 + 1000, Kind: event.GoBlock, G: 8, TID: 7, Reason: "semacquire",
			Stack: &event.Stack{Frames: []event.Frame{{Func: "main.f"}, {Func: "main.root"}, {Func: stackEnd}}}})
	for v, created := range map[raw.Version][]string{
		raw.Go122: {"2000000004 G9 NotExist->Runnable", "2000000005 G9 Runnable->Running", "2000000006 G9 Running->Waiting", "2000000007 G9 Waiting->Runnable"},
		raw.Go123: {"2000000004 G9 NotExist->Waiting", "2000000005 G9 Waiting->Runnable"},
	} {
		got, stats := lines(t, Options{Version: v}, events...)
		want := append([]string{"1001 G1 Undetermined->Running", "1002 G1 Running->Waiting"}, created...)
		expectLines(t, got, append(want, "2000001000 G8 NotExist->Runnable", "2000001003 G8 Runnable->Running",
			"2000001004 G8 Running->Waiting sync")...)
		if stats.Found != 2 || stats.Generations != 2 {
			t.Errorf("stats %+v", stats)
		}
	}
	data, _ := writeAll(t, events, Options{})
	if steps := readSteps(t, data).steps[8]; steps[0].start != "main.root :0\n" || steps[2].stack != "main.f :0\nmain.root :0\n" || steps[0].m < maxThread {
		t.Errorf("steps %+v", steps)
	}
}

// TestWriterProcs expects Ps to be where events tell that they are.
func TestWriterProcs(t *testing.T) {
	p := func(e event.Event, id int32) event.Event { e.P = event.ProcOf(id); return e }
	data, stats := writeAll(t, stream(
		status(1, event.StateRunning, 5), status(2, event.StateRunnable, 0), status(3, event.StateRunnable, 0),
		p(on(5, event.GoStop, 1), 3), p(on(5, event.GoStart, 2), 3), // idle Ps move
		p(on(6, event.GoStart, 3), 1), p(on(6, event.GoBlock, 3), 1), p(on(6, event.GoStart, 1), 0),
		p(on(7, event.GoUnblock, 3), 3), // the P of G2, which must be in a system call
		p(on(5, event.GoBlock, 2), 1),   // from which it comes back with another one
		p(on(6, event.GoBlock, 1), 2),   // and so does G1, without anything to tell before
	), Options{})
	var got []string
	readAll(t, data, func(ev xtrace.Event) {
		if ev.Kind() != xtrace.EventStateTransition {
			return
		}
		tr := ev.StateTransition()
		if tr.Resource.Kind == xtrace.ResourceProc {
			if from, to := tr.Proc(); from != to {
				got = append(got, fmt.Sprintf("M%d P%d %v->%v", ev.Thread(), tr.Resource.Proc(), from, to))
			}
		} else if from, to := tr.Goroutine(); from != xtrace.GoUndetermined {
			got = append(got, fmt.Sprintf("M%d P%d G%d %v->%v", ev.Thread(), ev.Proc(), tr.Resource.Goroutine(), from, to))
		}
	})
	expectLines(t, got,
		"M5 P3 Undetermined->Running", "M5 P3 G1 Running->Runnable", "M5 P3 G2 Runnable->Running",
		"M6 P1 Undetermined->Idle", "M6 P1 Idle->Running", "M6 P1 G3 Runnable->Running", "M6 P1 G3 Running->Waiting",
		"M6 P1 Running->Idle", "M6 P0 Undetermined->Idle", "M6 P0 Idle->Running", "M6 P0 G1 Runnable->Running",
		"M5 P3 G2 Running->Syscall", "M7 P3 Running->Idle", "M7 P3 Idle->Running", "M7 P3 G3 Waiting->Runnable",
		"M5 P-1 G2 Syscall->Runnable", "M5 P1 Idle->Running", "M5 P1 G2 Runnable->Running", "M5 P1 G2 Running->Waiting",
		"M6 P0 G1 Running->Syscall", "M6 P0 Running->Idle", "M6 P-1 G1 Syscall->Runnable",
		"M6 P2 Undetermined->Idle", "M6 P2 Idle->Running", "M6 P2 G1 Runnable->Running", "M6 P2 G1 Running->Waiting")
	if stats.Bridged != 3 || stats.Repaired != 0 {
		t.Errorf("stats %+v", stats)
	}
}

// TestWriterStopTheWorld expects a generation to go on while the world is stopped, but not for ever.
func TestWriterStopTheWorld(t *testing.T) {
	say := func(at int64, text string) event.Event {
		return event.Event{Time: at, Kind: event.UserLog, G: 1, TID: 5, Reason: "a", Text: text}
	}
	stop := event.Event{Kind: event.STWBegin, G: 1, TID: 5, Reason: "r"}
	end := event.Event{Time: 2.2e9, Kind: event.STWEnd, TID: 5}
	for _, v := range versions {
		got, stats := lines(t, Options{Version: v}, stream(say(1, "b"), stop, say(1.5e9, "c"), say(2.1e9, "d"), end)...)
		expectLines(t, got, "2 G1 Undetermined->Running", "3 G1 a: b", "1000 G1 RangeBegin stop-the-world (r)", "1500000000 G1 a: c",
			"2100000000 G1 RangeEnd stop-the-world (r)", "2100000007 G1 a: d")
		if stats.Skipped[event.STWEnd] != 1 || stats.Generations != 2 {
			t.Errorf("stats %+v", stats)
		}
		end.Time = 1.6e9
		got, stats = lines(t, Options{Version: v}, stream(say(1, "b"), stop, say(1.5e9, "c"), end, say(1.7e9, "d"))...)
		expectLines(t, got, "2 G1 Undetermined->Running", "3 G1 a: b", "1000 G1 RangeBegin stop-the-world (r)", "1500000000 G1 a: c",
			"1600000000 G1 RangeEnd stop-the-world (r)", "1700000002 G1 a: d")
		if len(stats.Skipped) != 0 || stats.Generations != 2 {
			t.Errorf("stats %+v", stats)
		}
		end.Time = 2.2e9
	}
}

// TestWriterStrings expects long strings and stacks to be cut, at the end of a character, and frames that differ to have
// program counters of their own, the same in all generations.
func TestWriterStrings(t *testing.T) {
	inlined := &event.Stack{Frames: []event.Frame{
		{Func: "a.inlined", File: "a.go", Line: 3}, {Func: "a.outer", File: "a.go", Line: 3}, {Func: "a.outer", File: "a.go", Line: 4}}}
	long := &event.Stack{Frames: slices.Repeat(inlined.Frames, 100)}
	say := func(at int64, text string, s *event.Stack) event.Event {
		return event.Event{Time: at, Kind: event.UserLog, G: 1, TID: 5, Reason: "r", Text: text, Stack: s}
	}
	data, stats := writeAll(t, stream(say(1, strings.Repeat("世", 342), inlined), say(2, strings.Repeat("x", 1024), long), say(2e9, "", inlined)), Options{})
	pcs := map[uint64]xtrace.StackFrame{}
	var sizes, depths []int
	readAll(t, data, func(ev xtrace.Event) {
		if ev.Kind() != xtrace.EventLog {
			return
		}
		sizes = append(sizes, len(ev.Log().Message))
		depth := 0
		for f := range ev.Stack().Frames() {
			if old, ok := pcs[f.PC]; ok && old != f {
				t.Errorf("%v and %v", old, f)
			}
			pcs[f.PC] = f
			depth++
		}
		depths = append(depths, depth)
	})
	if !slices.Equal(sizes, []int{1023, 1024, 0}) || !slices.Equal(depths, []int{3, 128, 3}) || len(pcs) != 3 || stats.Cut != 2 {
		t.Errorf("messages of %v bytes, stacks of %v frames, %d pcs, stats %+v", sizes, depths, len(pcs), stats)
	}
}

// TestWriterBounds expects a generation to end early when it has many strings or threads, and threads to be forgotten.
func TestWriterBounds(t *testing.T) {
	w, err := New(io.Discard, Options{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(e event.Event) {
		e.Time = streamStart
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 * maxNewThreads {
		write(on(int32(i+1), event.GoBlock, 1))
	}
	if n := len(w.threads); n > maxNewThreads+10 || len(w.order) != n || w.Stats().Generations < 2 {
		t.Errorf("%d threads, %+v", n, w.Stats())
	}
	before := w.Stats().Generations
	for i := range 3 * maxTables / maxString {
		write(event.Event{Kind: event.UserLog, G: 1, TID: 5, Text: fmt.Sprintf("%01000d", i)})
		if w.tables.size > maxTables+2*maxString {
			t.Fatalf("%d bytes of strings", w.tables.size)
		}
	}
	if n := w.Stats().Generations - before; n < 2 {
		t.Errorf("%d generations", n)
	}
}

// TestWriterTimes expects times to increase however they come, and events not to be reordered.
func TestWriterTimes(t *testing.T) {
	var events []event.Event
	for i, at := range []int64{1000, 999, 999, 5000, -1 << 62, 5001} {
		e := event.Event{Kind: event.UserLog, G: 1, TID: int32(5 + i%2), Text: fmt.Sprint(i)}
		e.Time = streamStart + at
		events = append(events, e)
	}
	data, stats := writeAll(t, events, Options{Version: raw.Go125})
	var text string
	last := xtrace.Time(0)
	readAll(t, data, func(ev xtrace.Event) {
		if ev.Time() <= last {
			t.Errorf("%d after %d", ev.Time(), last)
		}
		if last = ev.Time(); ev.Kind() == xtrace.EventLog {
			text += ev.Log().Message
		}
	})
	if text != "012345" || stats.Moved != 1 || stats.MaxMove < streamStart {
		t.Errorf("order %q, stats %+v", text, stats)
	}
}

func TestWriterOptions(t *testing.T) {
	for _, opt := range []Options{{Version: raw.Go121}, {Version: 99}, {Generation: -1}} {
		if _, err := New(io.Discard, opt); err == nil {
			t.Errorf("%+v is accepted", opt)
		}
	}
	if _, err := New(io.Discard, Options{Version: raw.Go111}); !errors.Is(err, raw.ErrVersion) {
		t.Errorf("error %v", err)
	}
	send := on(5, event.ChanSend, 1)
	send.Object, send.Value = 0xbeef, 3
	got, stats := lines(t, Options{}, stream(send)...)
	expectLines(t, got, "1 G1 Undetermined->Running", "2 G1 ChanSend: 0xbeef 3")
	if stats.Logged[event.ChanSend] != 1 || len(stats.Skipped) != 0 {
		t.Errorf("stats %+v", stats)
	}
	strange := event.Event{Kind: 200, G: 1}
	got, stats = lines(t, Options{OmitOperations: true}, stream(send, strange, on(5, event.GoBlock, 0))...)
	expectLines(t, got)
	if stats.Skipped[event.ChanSend] != 1 || stats.Skipped[200] != 1 || stats.Skipped[event.GoBlock] != 1 {
		t.Errorf("stats %+v", stats)
	}
}

// TestWriterEmpty expects a trace without events to be one.
func TestWriterEmpty(t *testing.T) {
	for _, v := range versions {
		data, stats := writeAll(t, nil, Options{Version: v})
		n := 0
		readAll(t, data, func(ev xtrace.Event) {
			if ev.Kind() != xtrace.EventSync {
				t.Errorf("event %v", ev)
			}
			n++
		})
		if n == 0 || stats.Generations != 1 {
			t.Errorf("%d events, stats %+v", n, stats)
		}
	}
}

// A failingWriter fails after some bytes.
type failingWriter struct{ left int }

var errFull = errors.New("full")

func (f *failingWriter) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriterErrors(t *testing.T) {
	s := newSimulation(1, simulations[0]).run(1000)
	for _, left := range []int{10, 20, 5000} {
		w, err := New(&failingWriter{left}, Options{Generation: time.Millisecond})
		for i := 0; i < len(s.events) && err == nil; i++ {
			err = w.Write(&s.events[i])
		}
		if !errors.Is(err, errFull) {
			t.Errorf("%d bytes: error %v", left, err)
		}
		if w != nil && !errors.Is(w.Close(), errFull) && !errors.Is(w.Write(&s.events[0]), errFull) {
			t.Error("the error is forgotten")
		}
	}
	w, err := New(new(bytes.Buffer), Options{})
	if err != nil || w.Close() != nil || w.Close() != nil {
		t.Fatal("cannot close")
	}
	if err := w.Write(&s.events[0]); !errors.Is(err, errClosed) {
		t.Errorf("error %v", err)
	}
}

// TestWriterSyscallEnd writes system calls of which it is told that the goroutine has to wait for a P afterwards.
func TestWriterSyscallEnd(t *testing.T) {
	waits := on(5, event.GoSyscallEnd, 1)
	waits.State = event.StateRunnable
	for _, last := range [][]event.Event{nil, {on(5, event.GoStart, 1)}} {
		events := append([]event.Event{status(1, event.StateRunnable, 0), on(5, event.GoStart, 1), on(5, event.GoSyscallBegin, 1), waits}, last...)
		got, stats := lines(t, Options{}, stream(events...)...)
		want := []string{"0 G1 Undetermined->Runnable", "1002 G1 Runnable->Running", "2000 G1 Running->Syscall", "3001 G1 Syscall->Runnable"}
		if last != nil {
			want = append(want, "4001 G1 Runnable->Running")
		}
		expectLines(t, got, want...)
		if stats.Repaired != 0 {
			t.Errorf("stats %+v", stats)
		}
	}
}

// TestWriterCoroutineEnds has a coroutine that ends and so hands over to the goroutine that called it. The stream tells the
// end first; in a trace, whatever wakes a goroutine is running.
func TestWriterCoroutineEnds(t *testing.T) {
	wake := on(5, event.GoUnblock, 1)
	wake.By = 2
	got, stats := lines(t, Options{}, stream(status(1, event.StateWaiting, 0), status(2, event.StateRunnable, 0),
		on(5, event.GoStart, 2), on(5, event.GoDestroy, 2), wake, on(5, event.GoStart, 1))...)
	expectLines(t, got, "0 G1 Undetermined->Waiting", "1000 G2 Undetermined->Runnable", "2002 G2 Runnable->Running",
		"4000 G1 Waiting->Runnable", "4001 G2 Running->NotExist", "5000 G1 Runnable->Running")
	if stats.Repaired != 0 || stats.Bridged != 0 {
		t.Errorf("stats %+v", stats)
	}
}

// TestWriterTasks ends tasks of which the goroutine is unknown: on one that runs, or else on one of the Writer's own.
func TestWriterTasks(t *testing.T) {
	task := func(kind event.Kind, id int64, g uint64, tid int32) event.Event {
		return event.Event{Kind: kind, Value: id, G: g, TID: tid, Text: "task"}
	}
	text, stats := lines(t, Options{}, stream(status(7, event.StateRunning, 1),
		task(event.UserTaskBegin, 1, 7, 1), task(event.UserTaskBegin, 2, 7, 1), task(event.UserTaskEnd, 1, 0, 0), on(1, event.GoBlock, 7),
		event.Event{Kind: event.UserLog, Value: 2, Reason: "status", Text: "ok"}, task(event.UserTaskEnd, 2, 0, 0))...)
	const own = "G4611686018427387904"
	expectLines(t, text, "1001 G7 Undetermined->Running", "1002 G7 TaskBegin task", "2000 G7 TaskBegin task", "3000 G7 TaskEnd task", "4000 G7 Running->Waiting",
		"5002 "+own+" NotExist->Runnable", "5003 "+own+" Runnable->Running", "5004 "+own+" status: ok", "5005 "+own+" Running->Waiting system goroutine wait",
		"6000 "+own+" Waiting->Runnable", "6001 "+own+" Runnable->Running", "6002 "+own+" TaskEnd task", "6003 "+own+" Running->Waiting system goroutine wait")
	if stats.Repaired != 0 || len(stats.Skipped) != 0 {
		t.Errorf("%+v", stats)
	}
}
