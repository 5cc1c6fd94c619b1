package timeline_test

import (
	"flag"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/exporttest"
	"github.com/loupe-go/loupe/internal/export/timeline"
)

var update = flag.Bool("update", false, "write testdata anew")

var everything = timeline.Options{Kinds: exporttest.AllKinds, Threads: true, CounterInterval: -1}

func draw(t *testing.T, events []event.Event, opt timeline.Options) (string, timeline.Stats) {
	t.Helper()
	d, stats := exporttest.Record(events, opt, false, 0)
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	return d.String(), stats
}

// expect compares a drawing of events, whose times are nanoseconds since the first event, without names of tracks and counters.
func expect(t *testing.T, opt timeline.Options, events []event.Event, want string) timeline.Stats {
	t.Helper()
	for i := range events {
		events[i].Time += exporttest.Start
	}
	drawn, stats := draw(t, events, opt)
	var got []string
	for line := range strings.Lines(drawn) {
		if line[0] != 'C' && line[0] != 'T' {
			got = append(got, line)
		}
	}
	var wanted []string
	for line := range strings.Lines(want) {
		if line = strings.TrimLeft(line, "\t"); line != "\n" {
			wanted = append(wanted, line)
		}
	}
	if g, w := strings.Join(got, ""), strings.Join(wanted, ""); g != w {
		t.Errorf("drawn:\n%swant:\n%s", g, w)
	}
	return stats
}

func TestScript(t *testing.T) {
	got, stats := draw(t, exporttest.Script(), everything)
	const file = "testdata/script.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("drawn:\n%swant:\n%s", got, want)
	}
	if stats != (timeline.Stats{Events: 42, Losses: 1, Lost: 4, Tracks: 14, Slices: 33, Instants: 11, Flows: 6, Counters: 37, Cut: 6,
		Uncertain: 2, Unknown: 2}) {
		t.Errorf("stats %+v", stats)
	}
}

// TestLossIsAGap has goroutines for which events were lost: one whose next event fits, one whose does not, one without a next one.
func TestLossIsAGap(t *testing.T) {
	stats := expect(t, timeline.Options{}, []event.Event{
		{Kind: event.GoStatus, G: 1, State: event.StateWaiting, Reason: "select"},
		{Kind: event.GoStatus, G: 2, State: event.StateWaiting, Reason: "sleep"},
		{Kind: event.GoStatus, G: 3, State: event.StateWaiting, Reason: "IO wait"},
		{Kind: event.Lost, Time: 100, Value: 7},
		{Kind: event.Lost, Time: 200, Value: 2},
		{Kind: event.GoUnblock, G: 1, Time: 300},
		{Kind: event.GoBlock, G: 2, Reason: "select", Time: 400},
		{Kind: event.GCBegin, Time: 500},
	}, `
		B 0 g 1: select [blocked]
		B 0 g 2: sleep [blocked]
		B 0 g 3: IO wait [blocked]
		B 0 lost events: lost [lost] lost_events=7
		I 100 lost events: lost [lost] lost_events=7
		E 100 lost events
		B 100 lost events: lost [lost] lost_events=2
		I 200 lost events: lost [lost] lost_events=2
		E 200 lost events
		E 300 g 1 uncertain=events in between were lost or are not observed
		B 300 g 1: runnable [runnable]
		E 0 g 2 cut=the events that follow were lost
		B 0 g 2: unknown [unknown]
		E 400 g 2
		B 400 g 2: select [blocked]
		B 500 GC: GC [gc]
		E 500 g 1 cut=the observation ended
		E 500 g 2 cut=the observation ended
		E 0 g 3 cut=the events that follow were lost
		B 0 g 3: unknown [unknown]
		E 500 g 3
		E 500 GC cut=the observation ended
	`)
	if stats.Losses != 2 || stats.Lost != 9 || stats.Unknown != 2 || stats.Uncertain != 1 || stats.Cut != 5 {
		t.Errorf("%+v", stats)
	}
}

// TestMissedWithoutLoss has transitions that no Lost event explains, and one that is confirmed by another after a loss.
func TestMissedWithoutLoss(t *testing.T) {
	expect(t, timeline.Options{Kinds: exporttest.AllKinds}, []event.Event{
		{Kind: event.GoStatus, G: 1, State: event.StateWaiting, Reason: "select"},
		{Kind: event.GoBlock, G: 1, Reason: "sleep", Time: 100},
		{Kind: event.GoStart, G: 2, Time: 100},
		{Kind: event.Lost, Time: 150, Value: 1},
		{Kind: event.ChanClose, G: 2, Time: 200},
		{Kind: event.GoBlock, G: 2, Reason: "sleep", Time: 300},
		{Kind: event.GoDestroy, G: 9, Time: 300},
		{Kind: event.GoDestroy, G: 2, Time: 400},
		{Kind: event.GoDestroy, G: 1, Time: 400},
	}, `
		B 0 g 1: select [blocked]
		E 100 g 1 cut=its end was not seen
		B 100 g 1: sleep [blocked]
		B 100 g 2: running [running]
		B 100 lost events: lost [lost] lost_events=1
		I 150 lost events: lost [lost] lost_events=1
		E 150 lost events
		I 200 g 2: ChanClose [channel]
		E 300 g 2 uncertain=events in between were lost or are not observed
		B 300 g 2: sleep [blocked]
		E 400 g 2 cut=its end was not seen
		E 100 g 1 cut=the events that follow were lost
		B 100 g 1: unknown [unknown]
		E 400 g 1
	`)
}

// TestTimesGoBackwards has an event earlier than the one before on its track, and one earlier than all.
func TestTimesGoBackwards(t *testing.T) {
	expect(t, timeline.Options{}, []event.Event{
		{Kind: event.GoStatus, G: 1, State: event.StateRunning, Time: 100},
		{Kind: event.GoStatus, G: 2, State: event.StateWaiting, Reason: "sleep", Time: 50},
		{Kind: event.GoStop, G: 1, Reason: "x", Time: 300},
		{Kind: event.GoUnblock, G: 2, By: 1, Time: 200},
		{Kind: event.GoStart, G: 2, Time: 250},
	}, `
		B 0 g 1: running [running]
		B 0 g 2: sleep [blocked]
		E 200 g 1
		B 200 g 1: runnable [runnable] reason=x
		I 200 g 1: unblock [wake] > 1 goroutine=2
		E 200 g 2
		B 200 g 2: runnable [runnable] by_goroutine=1
		E 200 g 2
		B 200 g 2: running [running] < 1
		E 200 g 1 cut=the observation ended
		E 200 g 2 cut=the observation ended
	`)
}

// TestOnlyWhatIsObserved has kinds that leave out what ends states: those states are not drawn.
func TestOnlyWhatIsObserved(t *testing.T) {
	expect(t, timeline.Options{Kinds: event.KindsOf(event.GoStatus, event.GoBlock, event.GoUnblock)}, []event.Event{
		{Kind: event.GoStatus, G: 1, State: event.StateRunning},
		{Kind: event.GoStatus, G: 2, State: event.StateWaiting, Reason: "sleep"},
		{Kind: event.GoUnblock, G: 2, By: 1, Time: 100},
		{Kind: event.GoBlock, G: 1, Reason: "select", Time: 200},
	}, `
		B 0 g 2: sleep [blocked]
		I 100 g 1: unblock [wake] > 1 goroutine=2
		E 100 g 2
		B 200 g 1: select [blocked]
		E 200 g 1 cut=the observation ended
	`)
}

// TestLongWaitsOnly has waits that are told when they are over.
func TestLongWaitsOnly(t *testing.T) {
	expect(t, timeline.Options{MinBlock: time.Millisecond}, []event.Event{
		{Kind: event.GoStatus, G: 1, State: event.StateWaiting, Reason: "select"},
		{Kind: event.GoCreate, G: 2, Parent: 1, Time: 10},
		{Kind: event.GoBlock, G: 2, Reason: "sleep", Time: 100, Value: 900},
		{Kind: event.GoUnblock, G: 2, By: 1, Time: 1000},
		{Kind: event.GoBlock, G: 1, Reason: "select", Time: 20, Value: 2000},
		{Kind: event.GoUnblock, G: 1, Time: 2020},
	}, `
		I 10 g 1: go [create] > 1 goroutine=2
		B 100 g 2: sleep [blocked]
		E 1000 g 2
		I 1000 g 1: unblock [wake] > 2 goroutine=2
		I 1000 g 2: unblocked [wake] < 2 by_goroutine=1
		B 1000 g 1: select [blocked]
		E 2020 g 1
	`)
}

// TestSyscallsThatAreNotObserved has a goroutine that starts anew after a long call.
func TestSyscallsThatAreNotObserved(t *testing.T) {
	expect(t, timeline.Options{Threads: true}, []event.Event{
		{Kind: event.GoStatus, G: 1, State: event.StateSyscall, TID: 4},
		{Kind: event.GoStart, G: 1, TID: 5, Time: 100},
		{Kind: event.GoStart, G: 1, TID: 6, Time: 200},
		{Kind: event.GoStart, G: 2, TID: 6, Time: 300},
	}, `
		B 0 g 1: syscall [syscall]
		B 0 thread 4: g 1 [thread] goroutine=1
		E 100 g 1 uncertain=events in between were lost or are not observed
		E 100 thread 4 uncertain=events in between were lost or are not observed
		B 100 g 1: running [running] thread=5
		B 100 thread 5: g 1 [thread] goroutine=1
		E 200 g 1
		E 200 thread 5
		B 200 g 1: running [running] thread=6
		B 200 thread 6: g 1 [thread] goroutine=1
		B 300 g 2: running [running] thread=6
		E 300 thread 6 cut=its end was not seen
		B 300 thread 6: g 2 [thread] goroutine=2
		E 300 g 1 cut=the observation ended
		E 300 g 2 cut=the observation ended
		E 300 thread 6 cut=the observation ended
	`)
}

// TestThreadsDuringSyscalls has a call that ends on the thread where it began, and one that does not.
func TestThreadsDuringSyscalls(t *testing.T) {
	expect(t, timeline.Options{Threads: true, Kinds: exporttest.AllKinds}, []event.Event{
		{Kind: event.GoStart, G: 1, TID: 5},
		{Kind: event.GoSyscallBegin, G: 1, TID: 5, Time: 100},
		{Kind: event.GoSyscallEnd, G: 1, TID: 5, Time: 200},
		{Kind: event.GoSyscallBegin, G: 1, TID: 5, Time: 300},
		{Kind: event.GoSyscallEnd, G: 1, TID: 6, Time: 400},
	}, `
		B 0 g 1: running [running] thread=5
		B 0 thread 5: g 1 [thread] goroutine=1
		E 100 g 1
		B 100 g 1: syscall [syscall]
		E 200 g 1
		B 200 g 1: running [running] thread=5
		E 300 g 1
		B 300 g 1: syscall [syscall]
		E 400 g 1
		E 400 thread 5
		B 400 g 1: running [running] thread=6
		B 400 thread 6: g 1 [thread] goroutine=1
		E 400 g 1 cut=the observation ended
		E 400 thread 6 cut=the observation ended
	`)
}

// TestDeepRegions has regions that are nested more deeply than is drawn, with the same type all: what is drawn ends where it should.
func TestDeepRegions(t *testing.T) {
	const deep = 1000
	var events []event.Event
	for i := range int64(2 * deep) {
		e := event.Event{Kind: event.UserRegionBegin, G: 1, Text: "x", Time: exporttest.Start + i}
		if i >= deep {
			e.Kind = event.UserRegionEnd
		}
		events = append(events, e)
	}
	got, stats := draw(t, events, timeline.Options{})
	if stats.Slices != 500 || stats.Ignored != 1000 || stats.Cut != 0 || !strings.HasSuffix(got, "\nE 1999 g 1 regions\n") {
		t.Errorf("%+v\n%s", stats, got[len(got)-100:])
	}
}

// TestRegions has regions that end out of order, with their goroutine, or without having begun; and a task's ID that comes twice.
func TestRegions(t *testing.T) {
	stats := expect(t, timeline.Options{}, []event.Event{
		{Kind: event.UserRegionBegin, G: 1, Text: "a"},
		{Kind: event.UserRegionBegin, G: 1, Text: "b", Time: 100},
		{Kind: event.UserRegionEnd, G: 1, Text: "c", Time: 200},
		{Kind: event.UserRegionEnd, G: 1, Text: "a", Time: 300},
		{Kind: event.UserRegionBegin, G: 1, Text: "d", Time: 400},
		{Kind: event.GoDestroy, G: 1, Time: 500},
		{Kind: event.UserTaskBegin, G: 2, Text: "x", Value: 5, Time: 600},
		{Kind: event.UserTaskBegin, G: 2, Text: "y", Value: 5, Time: 700},
		{Kind: event.UserTaskEnd, G: 2, Value: 5, Time: 800},
		{Kind: event.UserTaskEnd, G: 2, Value: 5, Time: 900},
		{Kind: event.UserRegionBegin, Text: "of no goroutine", Time: 1000},
	}, `
		B 0 g 1 regions: a [region]
		B 100 g 1 regions: b [region]
		E 300 g 1 regions cut=the region around it ended
		E 300 g 1 regions
		B 400 g 1 regions: d [region]
		E 500 g 1 regions cut=the goroutine ended
		B 600 task 5: x [task] by_goroutine=2 task=5
		E 700 task 5 cut=its end was not seen
		B 700 task 5: y [task] by_goroutine=2 task=5
		E 800 task 5
	`)
	if stats.Ignored != 3 {
		t.Errorf("%d events ignored, want 3", stats.Ignored)
	}
}

// TestOriginComesLater has a goroutine whose origin is told after its first event: its track is named again.
func TestOriginComesLater(t *testing.T) {
	o := &event.Origin{Start: event.Frame{Func: "main.late"}}
	got, _ := draw(t, []event.Event{
		{Kind: event.GoStart, G: 1, Time: 1},
		{Kind: event.GoStatus, G: 1, State: event.StateRunning, Origin: o, Time: 2},
	}, timeline.Options{})
	if !strings.Contains(got, "T g 1: g 1\n") || !strings.Contains(got, "T g 1: g 1 main.late\n") || strings.Count(got, "\nB ") != 1 {
		t.Errorf("drawn:\n%s", got)
	}
}

// TestCounters has many changes within the shortest time between two values: the last of a burst is drawn at its time.
func TestCounters(t *testing.T) {
	var events []event.Event
	for i := range int64(10) {
		events = append(events, event.Event{Kind: event.HeapAlloc, Time: exporttest.Start + i*100, Value: i})
	}
	events = append(events, event.Event{Kind: event.HeapAlloc, Time: exporttest.Start + 5000, Value: 50})
	got, stats := draw(t, events, timeline.Options{CounterInterval: time.Microsecond})
	for i := range events {
		events[i].Time = exporttest.Start
	}
	if got, _ := draw(t, events, everything); got != "C 0 heap: 50\n" {
		t.Errorf("of several values at one time:\n%s", got)
	}
	if want := "C 0 heap: 0\nC 900 heap: 9\nC 5000 heap: 50\n"; got != want || stats.Counters != 3 {
		t.Errorf("drawn:\n%swant:\n%s", got, want)
	}
}

// TestManyLosses has more losses than are kept: what was open for longer is cut at its last event.
func TestManyLosses(t *testing.T) {
	events := []event.Event{
		{Kind: event.GoStatus, G: 1, State: event.StateRunning, Time: exporttest.Start + 100},
		{Kind: event.GoStatus, G: 2, State: event.StateRunning, Time: exporttest.Start + 100},
	}
	for i := range int64(20_000) {
		events = append(events, event.Event{Kind: event.Lost, Value: 1, Time: exporttest.Start + 200 + i})
	}
	events = append(events, event.Event{Kind: event.GoStart, G: 2, Time: exporttest.Start + 30_000},
		event.Event{Kind: event.Lost, Value: 1, Time: exporttest.Start + 40_000},
		event.Event{Kind: event.GoUnblock, G: 2, Time: exporttest.Start + 50_000})
	got, _ := draw(t, events, timeline.Options{})
	for _, want := range []string{"E 0 g 1 cut=the events that follow", "E 29900 g 2 cut=the events that follow"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not drawn", want)
		}
	}
}

// TestAnyStream holds streams with and without sense against what must hold for all drawings.
func TestAnyStream(t *testing.T) {
	options := []timeline.Options{{}, everything, {Kinds: event.KindsOf(event.GoBlock, event.GoUnblock)}, {MinBlock: 1, Threads: true}}
	for seed := range uint64(4) {
		whole := exporttest.Random(seed, 1500)
		streams := map[string][]event.Event{"whole": whole, "20 % lost": exporttest.Lose(seed, whole, 5), "noise": exporttest.Noise(seed, 1500)}
		for name, events := range streams {
			for i, opt := range options {
				for _, flowsNeedSlices := range []bool{false, true} {
					d, stats := exporttest.Record(events, opt, flowsNeedSlices, 0)
					if err := d.Check(); err != nil {
						t.Fatalf("%s, seed %d, options %d: %v", name, seed, i, err)
					}
					if stats.Events != uint64(len(events)) {
						t.Fatalf("%s: %d events of %d", name, stats.Events, len(events))
					}
				}
			}
		}
	}
}

// TestWholeStreamsAreWithoutDoubt draws streams in which nothing is missing: nothing is cut before the end, nothing unknown.
func TestWholeStreamsAreWithoutDoubt(t *testing.T) {
	for seed := range uint64(3) {
		events := exporttest.Random(seed, 5000)
		got, stats := draw(t, events, everything)
		if stats.Unknown+stats.Uncertain+stats.Losses > 0 || strings.Contains(got, "was not seen") {
			t.Errorf("seed %d: %+v", seed, stats)
		}
		lossy := exporttest.Lose(seed, events, 5)
		if share := 1 - float64(len(lossy))/float64(len(events)); math.Abs(share-0.1) > 0.05 {
			t.Errorf("seed %d: %.2f of the events are replaced", seed, share)
		}
		if _, stats := draw(t, lossy, everything); stats.Unknown == 0 || stats.Uncertain == 0 || stats.Losses == 0 {
			t.Errorf("seed %d with losses: %+v", seed, stats)
		}
	}
}

// TestRunnableAfterSyscall has a call after which the goroutine has to wait for a P.
func TestRunnableAfterSyscall(t *testing.T) {
	expect(t, timeline.Options{Kinds: exporttest.AllKinds}, []event.Event{
		{Kind: event.GoStart, G: 1, TID: 5},
		{Kind: event.GoSyscallBegin, G: 1, TID: 5, Time: 100},
		{Kind: event.GoSyscallEnd, G: 1, TID: 5, Time: 200, State: event.StateRunnable},
		{Kind: event.GoStart, G: 1, TID: 6, Time: 300},
	}, `
		B 0 g 1: running [running] thread=5
		E 100 g 1
		B 100 g 1: syscall [syscall]
		E 200 g 1
		B 200 g 1: runnable [runnable]
		E 300 g 1
		B 300 g 1: running [running] thread=6
		E 300 g 1 cut=the observation ended
	`)
}
