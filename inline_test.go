package loupe_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/internal/tracetruth"
	"github.com/loupe-go/loupe/sched"
)

// TestInlineKilled kills a Loupe with engine inline: the program goes on, nobody else attaches to what is left, and it can
// be repaired.
func TestInlineKilled(t *testing.T) {
	if pid := os.Getenv("LOUPE_TEST_INLINE"); pid != "" {
		n, _ := strconv.Atoi(pid)
		s, err := loupe.Attach(context.Background(), loupe.PID(n), loupe.Options{Engine: loupe.EngineInline})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("attached")
		for range s.Events() {
		}
		return
	}
	p := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mixer"}))
	code, maps := textOf(t, p.PID()), foreignMaps(t, p.PID())
	observer := testcmd.Command(t, os.Args[0], "-test.run=^TestInlineKilled$")
	observer.Env = append(os.Environ(), "LOUPE_TEST_INLINE="+strconv.Itoa(p.PID()))
	out := &lines{}
	observer.Stdout = out
	if err := observer.Start(); err != nil {
		t.Fatal(err)
	}
	out.await(t, "attached", 1)
	refused := func(what string) {
		t.Helper()
		for _, engine := range []loupe.Engine{loupe.EngineInline, loupe.EngineUprobe, loupe.EngineAuto} {
			_, err := loupe.Attach(context.Background(), loupe.PID(p.PID()), loupe.Options{Engine: engine})
			if !errors.Is(err, loupe.ErrUnsupported) || !strings.Contains(err.Error(), "loupe doctor") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, engine %s: %v", what, engine, err)
			}
		}
	}
	refused("while another one observes")
	process, err := goproc.Open(p.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	if _, err := inline.Repair(p.PID(), process.SignalStacks); err == nil || !strings.Contains(err.Error(), "observes it") {
		t.Errorf("repaired while it is observed: %v", err)
	}
	observer.Process.Kill()
	observer.Wait()
	if textOf(t, p.PID()) == code {
		t.Fatal("nothing was left")
	}
	refused("after that one was killed")
	if sum := p.Command("sum"); !strings.HasPrefix(sum, "sum ok") {
		t.Errorf("the program says %q", sum)
	}
	notes, err := inline.Look(p.PID())
	if err != nil || notes == nil || len(notes.Edits) < 10 {
		t.Fatalf("%+v, %v", notes, err)
	}
	for deadline := time.Now().Add(20 * time.Second); notes.Alive(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the engine is taken for alive")
		}
	}
	if _, err := inline.Repair(p.PID(), process.SignalStacks); err != nil {
		t.Fatal(err)
	}
	if textOf(t, p.PID()) != code {
		t.Error("the program's code has changed")
	}
	if now := foreignMaps(t, p.PID()); now != maps {
		t.Errorf("mappings\n%s, before\n%s", now, maps)
	}
	if notes, err := inline.Repair(p.PID(), process.SignalStacks); notes != nil || err != nil {
		t.Errorf("repaired once more: %v, %v", notes, err)
	}
	c := observe(t, p.PID(), 50*time.Millisecond, loupe.Options{Engine: loupe.EngineInline})
	if c.kinds[event.GoBlock] == 0 {
		t.Error("nothing was seen afterwards")
	}
	if sum := p.Command("sum"); !strings.HasPrefix(sum, "sum ok") {
		t.Errorf("the program says %q", sum)
	}
}

// TestInlineBesideProbes attaches engine inline while probes of the kernel are at the same places, which it cannot be: nothing
// of it stays, and those probes go on.
func TestInlineBesideProbes(t *testing.T) {
	p := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mixer"}))
	s, err := loupe.Attach(context.Background(), loupe.PID(p.PID()), loupe.Options{Engine: loupe.EngineUprobe})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	maps := foreignMaps(t, p.PID())
	_, err = loupe.Attach(context.Background(), loupe.PID(p.PID()), loupe.Options{Engine: loupe.EngineInline})
	if !errors.Is(err, loupe.ErrUnsupported) || !strings.Contains(err.Error(), "another tracer has a breakpoint at runtime.") {
		t.Errorf("attached beside probes: %v", err)
	}
	if now := foreignMaps(t, p.PID()); now != maps {
		t.Errorf("mappings\n%s, before\n%s", now, maps)
	}
	waits := 0
	for e := range s.Events() {
		if e.Kind == event.GoBlock {
			if waits++; waits == 1000 {
				break
			}
		}
	}
	if sum := p.Command("sum"); !strings.HasPrefix(sum, "sum ok") {
		t.Errorf("the program says %q", sum)
	}
}

// TestCoarseClock: without a look at the processor's counter no event is missing, their order still is that of causes, and
// their times are those of the moment.
func TestCoarseClock(t *testing.T) {
	p := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mixer"}))
	opt := loupe.Options{Engine: loupe.EngineInline, Clock: loupe.ClockCoarse, BufferBytes: 64 << 20}
	begin := time.Now().UnixNano()
	s, err := loupe.Attach(context.Background(), loupe.PID(p.PID()), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	time.AfterFunc(300*time.Millisecond, func() {
		for end := time.Now().Add(20 * time.Second); s.Stats().Events < 1000 && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		s.Close()
	})
	machine := sched.New(sched.Options{})
	var last, slack int64 = 0, int64(time.Second)
	late := uint64(0) // events of a hit that the kernel has put aside come when they come, as with each clock
	for e := range s.Events() {
		machine.Apply(e)
		if now := time.Now().UnixNano(); e.Kind != event.GoStatus && (e.Time < begin-slack || e.Time > now+slack) {
			t.Fatalf("%v at %d; it is %d", e.Kind, e.Time, now)
		}
		if e.Time < last {
			late++
		}
		last = max(last, e.Time)
	}
	s.Close()
	stats := s.Stats()
	if totals := machine.Totals(); stats.Events < 1000 || late > stats.Events/100 || stats.Lost == 0 && late == 0 && totals.Repairs > 0 {
		t.Errorf("%d events, %d lost, %d late; %d events did not fit what was known; warnings %q", stats.Events, stats.Lost, late, totals.Repairs, s.Warnings())
	}
	for kind, c := range stats.Kinds {
		if c.Produced != c.Received+c.Lost {
			t.Errorf("%v: produced %d, received %d, lost %d", kind, c.Produced, c.Received, c.Lost)
		}
	}
	opt.MinBlock = time.Millisecond
	if _, err := loupe.Attach(context.Background(), loupe.PID(p.PID()), opt); !errors.Is(err, loupe.ErrUnsupported) || !strings.Contains(err.Error(), "counter") {
		t.Errorf("long waits by a coarse clock: %v", err)
	}
	if _, err := loupe.Attach(context.Background(), loupe.PID(p.PID()), loupe.Options{Clock: "sundial"}); err == nil || !strings.Contains(err.Error(), "must be one of auto, precise, coarse") {
		t.Errorf("an unknown clock: %v", err)
	}
}

// TestCoarseTimes compares coarse times with those that a program writes into its own trace, while the reader does not get a
// processor for half of the time, 15 ms and more at a time. No time may be further off than the session says.
func TestCoarseTimes(t *testing.T) {
	release := testtarget.Latest()
	target := startTraced(t, testtarget.Build(t, testtarget.Spec{Program: "selftrace", Go: release}))
	path := filepath.Join(t.TempDir(), "trace")
	opt := truthOptions(event.KindsGoroutine)
	opt.Engine, opt.Clock = loupe.EngineInline, loupe.ClockCoarse
	const delay = 15 * time.Millisecond
	slept := time.Now()
	delayed := func() {
		if time.Since(slept) > delay {
			time.Sleep(delay)
			slept = time.Now()
		}
	}
	events, offset, stats := observeEach(t, target.PID(), opt, delayed, func() { target.Command("trace " + path + " 1") })
	if stats.TimeError.P99 <= 0 || stats.TimeError.Max < delay || stats.TimeError.P99 > stats.TimeError.Max {
		t.Fatalf("the session says that its times are off by at most %+v", stats.TimeError)
	}
	truth := readTrace(t, path, release)
	compare := func(bound time.Duration) *tracetruth.Report {
		return tracetruth.Compare(truth, events, tracetruth.Options{Offset: offset, TimeError: bound})
	}
	report := compare(stats.TimeError.Max)
	t.Logf("%+v\n%v", stats.TimeError, report)
	if !report.OK() {
		t.Error("times are further off than the session says")
	}
	// The bound is needed: times are not exact to a millisecond.
	if report := compare(time.Millisecond); report.Failed(tracetruth.FailTime) == 0 {
		t.Errorf("the times are exact to a millisecond:\n%v", report)
	}
	// As many may be further off than P99 as that says, besides those that the trace has late.
	if report := compare(stats.TimeError.P99); report.Failed(tracetruth.FailTime) > 0 {
		t.Errorf("more times than 1 %% are further off than %v:\n%v", stats.TimeError.P99, report)
	}
}

// TestLibrary observes the Go runtime in a shared library that a program of C has loaded. Before Go 1.17 it keeps the current
// goroutine where only the loader knows: engine inline, which cannot do without it, leaves events out and says so, and engine
// uprobe leaves out the starts of mark assists.
func TestLibrary(t *testing.T) {
	for _, release := range append(testtarget.Rare(t, "1.12.17"), testtarget.Latest()) { // building the old library compiles the standard library once more
		spec := testtarget.Spec{Program: "mixer", Go: release, Library: true}
		for _, engine := range []loupe.Engine{loupe.EngineInline, loupe.EngineUprobe} {
			t.Run(spec.String()+"/"+string(engine), func(t *testing.T) {
				p := testtarget.Start(t, testtarget.Build(t, spec))
				s, err := loupe.Attach(context.Background(), loupe.PID(p.PID()), loupe.Options{Engine: engine})
				if err != nil {
					t.Fatal(err)
				}
				kinds := map[event.Kind]int{}
				for e := range s.Events() {
					if kinds[e.Kind]++; kinds[event.GoBlock] > 100 && kinds[event.GoUnblock] > 100 {
						break
					}
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				warned := strings.Contains(strings.Join(event.WarningTexts(s.Warnings()), "\n"), "the location of the current goroutine is unknown in runtime.")
				if want := release != testtarget.Latest(); warned != want {
					t.Errorf("warnings: %q", s.Warnings())
				}
				if sum := p.Command("sum"); !strings.HasPrefix(sum, "sum ok") {
					t.Errorf("the program says %q", sum)
				}
			})
		}
	}
}

// TestFixedStub has other memory where the only stub of makechan's place could be: the making of channels is left out, with a
// warning, and the other events come.
func TestFixedStub(t *testing.T) {
	if runtime.GOARCH != testtarget.AMD64 {
		t.Skip("on arm64 no stub has a fixed address")
	}
	p := startMill(t, testtarget.Latest())
	opt := loupe.Options{Engine: loupe.EngineInline, Kinds: event.KindsChannel}
	s := attach(t, p.PID(), opt)
	notes, err := inline.Look(p.PID())
	if err != nil || len(besidesTimes(s.Warnings())) > 0 {
		t.Fatal(err, s.Warnings())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	trial, err := ptrace.NewTrial(context.Background(), p.PID())
	if err == nil {
		err = ptrace.Run(context.Background(), p.PID(), ptrace.Options{One: true, Trial: trial}, func(s *ptrace.Stopped) error {
			return s.MapProgram(notes.Base, os.Getpagesize(), 0)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	c := during(t, p, opt, "chans 300")
	if c.kinds[event.ChanMake] != 0 {
		t.Errorf("%d channels are made", c.kinds[event.ChanMake])
	}
	c.expect(t, event.ChanClose, 300, 5)
	if t.Failed() {
		t.Logf("events %v, %+v", c.kinds, c.stats)
	}
	if w := strings.Join(event.WarningTexts(attach(t, p.PID(), opt).Warnings()), "\n"); !strings.Contains(w, "channel creation is not reported") {
		t.Errorf("warnings %q", w)
	}
}
