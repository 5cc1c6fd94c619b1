package loupe_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/internal/tracetruth"
	"github.com/loupe-go/loupe/trace"
)

// TestTruthRecorded observes a program that records an execution trace of itself, writes what it saw as an execution
// trace, and compares the two traces goroutine by goroutine: blocks, unblocks and their wakers, order, and times.
func TestTruthRecorded(t *testing.T) {
	for _, release := range testtarget.Versions() {
		minor := minorOf(t, release)
		if minor < 18 {
			continue
		}
		t.Run("go"+release, func(t *testing.T) {
			target := startTraced(t, testtarget.Build(t, testtarget.Spec{Program: "selftrace", Go: release}))
			path := filepath.Join(t.TempDir(), "trace")
			var answer string
			events, offset := observeWhile(t, target.PID(), event.KindsDefault, func() {
				answer = target.Command(fmt.Sprintf("trace %s %d", path, *truthRounds))
			})
			recorded := throughTrace(t, events)
			giveReasons(t, recorded, events)
			report := tracetruth.Compare(readTrace(t, path, release), recorded, tracetruth.Options{Kinds: event.KindsDefault, Offset: offset, Untimed: *untimed})
			t.Log(report)
			if !report.OK() {
				t.Error("the recorded trace and the program's own differ")
			}
			expectFullTrace(t, report, answer, minor, false)
		})
	}
}

// throughTrace writes events as an execution trace, and returns what that says. No error may be found in it.
func throughTrace(t *testing.T, events []event.Event) []event.Event {
	t.Helper()
	var file bytes.Buffer
	w, err := trace.NewWriter(&file, trace.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		if err := w.Write(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	problems, err := trace.Validate(bytes.NewReader(file.Bytes()), trace.ValidateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if problems.Errors > 0 {
		t.Errorf("the trace has problems: %+v", problems.Problems)
	} else if problems.Warnings > 0 {
		t.Logf("warnings: %+v", problems.Problems)
	}
	r, err := trace.NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	var read []event.Event
	for e, err := range r.Events() {
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, *e)
	}
	stats := w.Stats()
	t.Logf("%d events, %d in the trace, %d repaired, %d moved by up to %v", stats.Events, len(read), stats.Repaired, stats.Moved, stats.MaxMove)
	return withoutBridges(t, read, events)
}

// withoutBridges leaves out what the writer had to add for viewers to understand a running goroutine of which no event
// told: that starts again, after a system call that was not observed, or whose P is another's suddenly, since GOMAXPROCS
// has changed. The trace has a system call in these places, in the second case with a start at its end.
func withoutBridges(t *testing.T, read, observed []event.Event) []event.Event {
	t.Helper()
	type move struct {
		kind event.Kind
		time int64
	}
	const near = int64(time.Microsecond) // the writer moves events by some nanoseconds
	seen := map[uint64][]move{}          // by goroutine, in their order
	handsOver := map[uint64]bool{}       // goroutines whose end is before the wake-up that they cause
	for i := range observed {
		e := &observed[i]
		if ownMoves.Has(e.Kind) {
			seen[e.G] = append(seen[e.G], move{e.Kind, e.Time})
		}
		if i > 0 && observed[i-1].Kind == event.GoDestroy && e.Kind == event.GoUnblock && e.By == observed[i-1].G {
			handsOver[e.By] = true
		}
	}
	var kept []event.Event
	called, moved := map[uint64]bool{}, 0
	for _, e := range read {
		if event.KindsSyscall.Has(e.Kind) {
			called[e.G] = true
			continue
		}
		if ownMoves.Has(e.Kind) {
			next := seen[e.G]
			if called[e.G] && e.Kind == event.GoStart && (len(next) == 0 || next[0].kind != event.GoStart || e.Time < next[0].time-near) {
				moved++
				called[e.G] = false
				continue
			}
			called[e.G] = false
			if len(next) > 0 {
				seen[e.G] = next[1:]
			}
		}
		kept = append(kept, e)
		// Of a coroutine that hands over to another, a trace tells first that this one is woken.
		if n := len(kept); n > 1 && (e.Kind == event.GoBlock && e.TraceReason == "coroutine" || e.Kind == event.GoDestroy && handsOver[e.G]) &&
			kept[n-2].Kind == event.GoUnblock && kept[n-2].By == e.G && kept[n-2].TID == e.TID && e.Time-kept[n-2].Time < 20 {
			kept[n-1], kept[n-2] = kept[n-2], kept[n-1]
		}
	}
	const most = 9 * 3 // the program changes GOMAXPROCS nine times, while three of its goroutines may run
	if moved > most {
		t.Errorf("%d starts were added: the program changes GOMAXPROCS less often", moved)
	}
	return kept
}

// ownMoves are the kinds that tell what a goroutine does next.
var ownMoves = event.KindsOf(event.GoCreate, event.GoStart, event.GoStop, event.GoBlock, event.GoUnblock, event.GoDestroy)

// giveReasons gives the waits of a trace the runtime's reasons, for which traces have no room: the comparison has rules for
// some. Where the observed release has no words of the tracer, those that the trace has are taken away.
func giveReasons(t *testing.T, recorded, observed []event.Event) {
	t.Helper()
	waits := map[uint64][]*event.Event{} // by goroutine, in their order
	for i := range observed {
		if e := &observed[i]; isWait(e) {
			waits[e.G] = append(waits[e.G], e)
		}
	}
	for i := range recorded {
		e := &recorded[i]
		if !isWait(e) {
			continue
		}
		if len(waits[e.G]) == 0 {
			t.Errorf("goroutine %d waits in the trace more often than it did: at %d, %q", e.G, e.Time, e.Reason)
			return
		}
		was := waits[e.G][0]
		waits[e.G] = waits[e.G][1:]
		if was.TraceReason != "" && was.TraceReason != e.TraceReason {
			t.Errorf("a wait is %q in the trace, it was %q (%q)", e.TraceReason, was.TraceReason, was.Reason)
		}
		e.Reason, e.TraceReason = was.Reason, was.TraceReason
	}
}

func isWait(e *event.Event) bool {
	return e.Kind == event.GoBlock || e.Kind == event.GoStatus && e.State == event.StateWaiting
}

// TestRecordedLoss drops some of the events of a program: the trace can be read all the same, by the Go project's reader
// too, and tells how many are missing.
func TestRecordedLoss(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "selftrace", Go: testtarget.Latest()}))
	events, _ := observeWhile(t, target.PID(), event.KindsDefault.Union(event.KindsSyscall), func() {
		target.Command(fmt.Sprintf("trace %s %d", filepath.Join(t.TempDir(), "trace"), 3))
	})
	for _, part := range []float64{0, 0.0001, 0.01, 0.2} {
		random := rand.New(rand.NewPCG(1, uint64(part*1e6)))
		var file bytes.Buffer
		w, err := trace.NewWriter(&file, trace.WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		dropped, untold := int64(0), int64(0)
		for i := range events {
			if events[i].Kind != event.GoStatus && random.Float64() < part {
				dropped, untold = dropped+1, untold+1
				continue
			}
			if untold > 0 {
				if err := w.Write(&event.Event{Time: events[i].Time, Kind: event.Lost, Value: untold}); err != nil {
					t.Fatal(err)
				}
				untold = 0
			}
			if err := w.Write(&events[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if report, err := trace.Validate(bytes.NewReader(file.Bytes()), trace.ValidateOptions{}); err != nil || report.Errors > 0 {
			t.Errorf("%v lost: %v, %+v", part, err, report.Problems)
		}
		told, changes := int64(0), 0
		r, err := xtrace.NewReader(bytes.NewReader(file.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		for {
			ev, err := r.ReadEvent()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%v lost: %v", part, err)
			}
			switch {
			case ev.Kind() == xtrace.EventStateTransition:
				changes++
			case ev.Kind() == xtrace.EventLog && ev.Log().Category == "loupe":
				n := int64(0)
				if _, err := fmt.Sscan(ev.Log().Message, &n); err != nil {
					t.Fatalf("%v lost: %q", part, ev.Log().Message)
				}
				told += n
			}
		}
		t.Logf("%d of %d events lost, %d changes of state are in the trace, %d were repaired", dropped, len(events), changes, w.Stats().Repaired)
		if told != dropped-untold || changes < len(events)/2 {
			t.Errorf("%v lost: the trace tells of %d lost events, %d were; it has %d changes of state", part, told, dropped-untold, changes)
		}
	}
}

// TestRecordedProcs compares the Ps of a recording, and how long each goroutine runs in it, with the trace that the program
// has made of itself meanwhile. In its system calls a goroutine runs or not, as the program's own trace says.
func TestRecordedProcs(t *testing.T) {
	for _, release := range testtarget.Among(t, "1.22.12", testtarget.Latest()) {
		t.Run("go"+release, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "selftrace", Go: release}))
			path := filepath.Join(t.TempDir(), "trace")
			opt := truthOptions(event.KindsDefault)
			opt.Procs = true
			events, _, _ := observeEach(t, target.PID(), opt, func() {}, func() { target.Command(fmt.Sprintf("trace %s %d", path, 1)) })
			var file bytes.Buffer
			w, err := trace.NewWriter(&file, trace.WriterOptions{Procs: runtime.NumCPU()})
			if err != nil {
				t.Fatal(err)
			}
			for i := range events {
				if err := w.Write(&events[i]); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			own, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer own.Close()
			truth, recorded := timesOf(t, own), timesOf(t, &file)
			for p := range recorded.procs {
				if !truth.procs[p] {
					t.Errorf("P %d is in the recording; the program has %v", p, truth.procs)
				}
			}
			compareTimes(t, recorded, truth)
		})
	}
}

// traceTimes is what a trace says of Ps, and of goroutines.
type traceTimes struct {
	procs map[int32]bool
	runs  map[uint64][]int64 // how long each goroutine was running or in system calls, time by time
	// whole has the goroutines that the trace has from their creation to their end.
	whole map[uint64]bool
}

func timesOf(t *testing.T, file io.Reader) traceTimes {
	t.Helper()
	r, err := trace.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	times := traceTimes{map[int32]bool{}, map[uint64][]int64{}, map[uint64]bool{}}
	created, since := map[uint64]bool{}, map[uint64]int64{} // since is when a goroutine that runs began to
	for e, err := range r.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if id, ok := e.P.ID(); ok {
			times.procs[id] = true
		}
		switch e.Kind {
		case event.GoCreate:
			created[e.G] = true
		case event.GoStart:
			if _, runs := since[e.G]; !runs {
				since[e.G] = e.Time
			}
		case event.GoStop, event.GoBlock, event.GoDestroy:
			if began, runs := since[e.G]; runs {
				times.runs[e.G] = append(times.runs[e.G], e.Time-began)
				delete(since, e.G)
			}
			times.whole[e.G] = created[e.G] && e.Kind == event.GoDestroy
		}
	}
	return times
}

// compareTimes compares how long goroutines were running or in system calls, those that both traces have from their creation to
// their end. Runs that differ by more than lateLook do not count: between the two looks at the clock the thread had lost the
// processor. They must be few. Of the others each goroutine's sum may differ by 5 %, 5 µs a run, and two looks that are just not
// late.
func compareTimes(t *testing.T, recorded, truth traceTimes) {
	t.Helper()
	const (
		lateLook = 500_000 // ns
		perRun   = 5_000   // ns
	)
	var off []float64
	var total, sum, late, runs int64
	for g, want := range truth.runs {
		if !truth.whole[g] || !recorded.whole[g] {
			continue
		}
		got := recorded.runs[g]
		if len(got) != len(want) {
			t.Errorf("goroutine %d ran %d times, in its own trace %d times", g, len(got), len(want))
			continue
		}
		seen, is := int64(0), int64(0)
		for i := range want {
			runs++
			if d := got[i] - want[i]; d > lateLook || d < -lateLook {
				late++
				continue
			}
			seen, is = seen+got[i], is+want[i]
		}
		sum, total = sum+seen, total+is
		differs := seen - is
		if differs < 0 {
			differs = -differs
		}
		if bound := is/20 + perRun*int64(len(want)) + 2*lateLook; differs > bound {
			t.Errorf("goroutine %d ran for %d ns in %d runs, in its own trace for %d ns", g, seen, len(want), is)
		}
		if is > 1e6 {
			off = append(off, float64(differs)/float64(is))
		}
	}
	slices.Sort(off)
	if len(off) < 3 {
		t.Fatalf("only %d goroutines ran for a millisecond", len(off))
	}
	t.Logf("Ps %v, in its own trace %v; %d runs, %d of them with a late look at the clock; running time is %.4f of that of its own trace; of %d goroutines that ran for a millisecond, off by p50 %.2f %%, p99 %.2f %%",
		recorded.procs, truth.procs, runs, late, float64(sum)/float64(total), len(off), 100*off[len(off)/2], 100*off[(len(off)-1)*99/100])
	if late > 10+runs/50 {
		t.Errorf("%d of %d runs differ by more than 500 µs", late, runs)
	}
}
