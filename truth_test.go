package loupe_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/internal/tracetruth"
)

// truthRounds is how often the program goes through all that it does. More rounds find what is rare:
//
//	go test -run Truth -count 20 -truth.rounds 20 .
var truthRounds = flag.Int("truth.rounds", 1, "rounds of the program that the truth tests observe")

// untimed is for emulated machines; see tracetruth.Options.
var untimed = flag.Bool("truth.untimed", false, "let no difference of times fail the truth tests")

// TestTruth observes a program that records an execution trace of itself, and compares both, goroutine by goroutine.
func TestTruth(t *testing.T) {
	for _, release := range testtarget.Versions() {
		for _, syscalls := range []bool{false, true} {
			name := "go" + release
			if syscalls {
				name += "/syscalls"
			}
			t.Run(name, func(t *testing.T) {
				compareWithTrace(t, testtarget.Build(t, testtarget.Spec{Program: "selftrace", Go: release}), release, syscalls)
			})
		}
	}
}

// TestSendsOfTimers observes the sends on the channels of a program's timers and tickers, which no goroutine does: they come from
// the scheduler. They are events without a goroutine, and none is lost.
func TestSendsOfTimers(t *testing.T) {
	oneEngine(t)
	for _, release := range testtarget.Versions() {
		t.Run("go"+release, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "selftrace", Go: release}))
			events, _ := observeWhile(t, target.PID(), event.KindsChannel.Union(event.KindsLock), func() {
				target.Command(fmt.Sprintf("trace %s 1", filepath.Join(t.TempDir(), "trace")))
			})
			timers, others := 0, 0
			for i := range events {
				switch e := &events[i]; {
				case e.Kind != event.ChanSend:
				case e.G != 0:
					others++
				case e.Object == 0 || e.Stack != nil:
					t.Errorf("a send without a goroutine: %+v", *e)
				default:
					timers++
				}
			}
			t.Logf("%d sends by timers, %d by goroutines", timers, others)
			if minor := minorOf(t, release); others == 0 || timers == 0 && minor >= minorTimersInScheduler {
				t.Errorf("%d sends by timers, %d by goroutines", timers, others)
			}
		})
	}
}

// minorTimersInScheduler is the first release in which timers have no goroutine of their own.
const minorTimersInScheduler = 14

// compareWithTrace observes an executable of selftrace and compares what Loupe reports with the trace that it records.
func compareWithTrace(t *testing.T, exe, release string, syscalls bool) {
	t.Helper()
	kinds := event.KindsDefault
	if syscalls {
		kinds = kinds.Union(event.KindsSyscall)
	}
	target := startTraced(t, exe)
	path := filepath.Join(t.TempDir(), "trace")
	var answer string
	events, offset := observeWhile(t, target.PID(), kinds, func() {
		answer = target.Command(fmt.Sprintf("trace %s %d", path, *truthRounds))
	})
	truth := readTrace(t, path, release)
	report := tracetruth.Compare(truth, events, tracetruth.Options{Kinds: kinds, Offset: offset, Untimed: *untimed})
	t.Log(report)
	if !report.OK() {
		t.Error("Loupe and the trace differ")
	}
	expectFullTrace(t, report, answer, minorOf(t, release), syscalls)
}

// startTraced starts a program whose tracer unwinds stacks as a traceback does. From Go 1.21 on it follows frame pointers unless
// told otherwise, and misses the callers of functions that have no frame at that moment.
func startTraced(t *testing.T, exe string) *testtarget.Process {
	t.Helper()
	cmd := testcmd.Within(t, 0, exe)
	cmd.Env = append(os.Environ(), "GODEBUG=tracefpunwindoff=1")
	return testtarget.StartCmd(t, cmd)
}

// TestTruthBuilds is TestTruth for programs that are built in other ways: their functions have other prologues, frames and
// calls. Each way builds the standard library anew.
func TestTruthBuilds(t *testing.T) {
	specs := []testtarget.Spec{
		{Flags: "-gcflags=all=-N -l"},
		{Flags: "-race", Cgo: true},
		{Flags: "-gcflags=all=-N -l", Go: "1.18.10"},
		{Experiment: "staticlockranking,nogreenteagc,nosizespecializedmalloc"},
		{Flags: "-gcflags=all=-d=maymorestack=runtime.mayMoreStackPreempt"},
		{Flags: "-gcflags=all=-d=maymorestack=runtime.mayMoreStackMove"},
		{Go: "1.22.12", Experiment: "noexectracer2"},
	}
	for i := range specs {
		specs[i].Program = "selftrace"
	}
	for _, spec := range testtarget.Rare(t, specs...) { // for each the standard library is compiled once more
		t.Run(spec.String(), func(t *testing.T) {
			path := testtarget.Build(t, spec)
			release := cmp.Or(spec.Go, testtarget.Latest())
			compareWithTrace(t, path, release, true)
		})
	}
}

// TestNoRegisterABI refuses programs whose release passes arguments in registers, and which were built not to.
func TestNoRegisterABI(t *testing.T) {
	if runtime.GOARCH != testtarget.AMD64 {
		t.Skip("Go 1.17 passes arguments in registers on amd64 alone")
	}
	testtarget.Whole(t, "a build with GOEXPERIMENT=noregabi")
	p := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "tiny", Go: "1.17.13", Experiment: "noregabi"}))
	for _, engine := range []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline, loupe.EngineAuto} {
		_, err := loupe.Attach(context.Background(), loupe.PID(p.PID()), loupe.Options{Engine: engine})
		if !errors.Is(err, loupe.ErrUnsupported) || !strings.Contains(err.Error(), "noregabi") {
			t.Errorf("engine %s: %v", engine, err)
		}
	}
}

// TestTruthScript observes a program whose every step is known, because it looks before it goes on. It is for the
// releases whose traces are least like today's.
func TestTruthScript(t *testing.T) {
	for _, release := range testtarget.Versions() {
		minor := minorOf(t, release)
		if minor >= 18 {
			break
		}
		t.Run("go"+release, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "selftrace", Go: release}))
			var script *tracetruth.Script
			events, _ := observeWhile(t, target.PID(), event.KindsGoroutine, func() {
				var err error
				if script, err = tracetruth.ParseScript(target.Command(fmt.Sprintf("script 8 %d", 25**truthRounds))); err != nil {
					t.Fatal(err)
				}
			})
			if wrong := script.Check(events, minor); len(wrong) > 0 {
				t.Errorf("%d differences from the script:\n%s", len(wrong), strings.Join(wrong[:min(20, len(wrong))], "\n"))
			}
		})
	}
}

// truthOptions observe all goroutines of a process, those of the system included.
func truthOptions(kinds event.Kinds) loupe.Options {
	return loupe.Options{Kinds: kinds, System: true, BufferBytes: 256 << 20, Procs: true, StackDepth: loupe.MaxStackDepth}
}

// observeWhile is observeEach for all goroutines and a reader that does nothing but read.
func observeWhile(t *testing.T, pid int, kinds event.Kinds, do func()) ([]event.Event, tracetruth.Bounds) {
	t.Helper()
	events, offset, _ := observeEach(t, pid, truthOptions(kinds), func() {}, do)
	return events, offset
}

// observeEach returns all events of a process while something is done, bounds for what has to be subtracted from their times
// to have those of CLOCK_MONOTONIC, and the session's numbers. It calls each after each event.
func observeEach(t *testing.T, pid int, opt loupe.Options, each func(), do func()) ([]event.Event, tracetruth.Bounds, event.Stats) {
	t.Helper()
	events, offset, stats := observed(t, loupe.PID(pid), opt, each, do)
	if stats.Lost > 0 {
		t.Errorf("%d events lost: %v", stats.Lost, stats.Kinds)
	}
	return events, offset, stats
}

// observed is observeEach for any target. Events may be lost.
func observed(t *testing.T, target loupe.Target, opt loupe.Options, each func(), do func()) ([]event.Event, tracetruth.Bounds, event.Stats) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	before, err := tracetruth.ClockOffset()
	if err != nil {
		t.Fatal(err)
	}
	s, err := attachTo(ctx, target, opt)
	if errors.Is(err, loupe.ErrPermission) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	after, err := tracetruth.ClockOffset()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range s.Warnings() {
		t.Log(w)
	}
	var events []event.Event
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev := range s.Events() {
			events = append(events, *ev)
			each()
		}
	}()
	do()
	if err := s.Detach(); err != nil {
		t.Error(err)
	}
	<-done
	if err := s.Err(); err != nil {
		t.Error(err)
	}
	// The constant is the difference of two looks at the clocks, between which the machine may do something else.
	return events, before.Widen(after, 20*time.Millisecond), s.Stats()
}

func readTrace(t *testing.T, path, release string) *tracetruth.Trace {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	truth, err := tracetruth.Parse(file, minorOf(t, release))
	if err != nil {
		t.Fatal(err)
	}
	return truth
}

// wantedWaits are waits that the program is sure to enter, by the releases that have them: from since on, before until.
var wantedWaits = []struct {
	reason       string
	since, until int
}{
	{reason: "chan receive"}, {reason: "chan send"}, {reason: "select"}, {reason: "select (no cases)"},
	{reason: "chan receive (nil chan)"}, {reason: "chan send (nil chan)"}, {reason: "sleep"}, {reason: "IO wait"},
	{reason: "sync.Cond.Wait"}, {reason: "semacquire", until: 24}, {reason: "sync.Mutex.Lock", since: 20},
	{reason: "sync.RWMutex.RLock", since: 20}, {reason: "sync.RWMutex.Lock", since: 20},
	{reason: "sync.WaitGroup.Wait", since: 24}, {reason: "GC worker (idle)"}, {reason: "GC sweep wait"},
	{reason: "finalizer wait"}, {reason: "cleanup wait", since: 25}, {reason: "coroutine", since: 23},
}

// stackKinds are the kinds of which traces of all releases have stacks, beside GoSyscallBegin.
var stackKinds = event.KindsOf(event.GoCreate, event.GoStop, event.GoBlock, event.GoUnblock, event.GCBegin)

// expectFullTrace fails the test when what was compared is less than the program did.
func expectFullTrace(t *testing.T, report *tracetruth.Report, answer string, minor int, syscalls bool) {
	t.Helper()
	var begin, end int64
	var did struct {
		Rounds int
		Phases []struct{ Creates int }
	}
	text := answer[max(0, strings.IndexByte(answer, '{')):]
	if _, err := fmt.Sscanf(answer, "traced %d %d", &begin, &end); err != nil {
		t.Fatalf("answer %q: %v", answer, err)
	}
	if err := json.Unmarshal([]byte(text), &did); err != nil {
		t.Fatalf("answer %q: %v", answer, err)
	}
	creates := 0
	for _, p := range did.Phases {
		creates += p.Creates * did.Rounds
	}
	if got := report.Matched[event.GoCreate]; creates == 0 || got < creates {
		t.Errorf("%d creations of goroutines were compared, the program made at least %d", got, creates)
	}
	kinds, stacks := event.KindsGoroutine.Union(event.KindsOf(event.GCBegin)), stackKinds
	if syscalls {
		kinds = kinds.Union(event.KindsSyscall)
		stacks = stacks.Union(event.KindsOf(event.GoSyscallBegin))
	}
	if report.Release >= 22 { // the old format has no stacks of STWBegin
		kinds = kinds.Union(event.KindsOf(event.STWBegin))
		stacks = stacks.Union(event.KindsOf(event.STWBegin))
	}
	for _, k := range kinds.List() {
		if k != event.GoStatus && report.Matched[k] == 0 {
			t.Errorf("no %v was compared", k)
		}
		if n := report.Stacks[k]; stacks.Has(k) && (n == nil || n.Compared() == 0 || n.Compared() < (report.Matched[k]-n.None)*7/10) {
			t.Errorf("of %d %v too few stacks were compared: %+v", report.Matched[k], k, n)
		}
	}
	if len(report.Works) == 0 {
		t.Error("no wait for the garbage collector was compared")
	}
	for _, w := range wantedWaits {
		if minor >= w.since && (w.until == 0 || minor < w.until) && report.Reasons[w.reason] == 0 {
			t.Errorf("no wait for %q was compared", w.reason)
		}
	}
}

// minorOf returns 18 for "1.18.10".
func minorOf(t *testing.T, release string) int {
	t.Helper()
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		t.Fatalf("release %q: %v", release, err)
	}
	return minor
}
