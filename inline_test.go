package loupe_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/sched"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// torture is how long each program is tortured. `make torture` takes minutes.
var torture = flag.Duration("torture", 600*time.Millisecond, "how long TestTorture goes on with each program")

// TestTorture attaches engine inline to busy programs and detaches it, again and again: with all that a program can do
// meanwhile (package testtarget, mixer), its results stay right, and its code and its mappings are what they were.
func TestTorture(t *testing.T) {
	specs := []testtarget.Spec{{Cgo: true}, {PIE: true}, {Stripped: true}}
	for _, v := range testtarget.Versions() {
		specs = append(specs, testtarget.Spec{Go: v})
	}
	const delays = 7 // after which it is detached; without the longer ones there may be nothing to see
	for _, spec := range specs {
		spec.Program = "mixer"
		if strings.HasPrefix(spec.Go, "1.12.") {
			spec.Program = "churn" // mixer does not get on there, with nobody looking
		}
		t.Run(spec.String(), func(t *testing.T) {
			p := testtarget.Start(t, testtarget.Build(t, spec))
			code, maps := textOf(t, p.PID()), foreignMaps(t, p.PID())
			kinds := []event.Kinds{event.KindsDefault, event.KindsDefault | event.KindsSyscall, event.KindsAll &^ event.KindsOf(event.ChanMake)}
			cycles, events, longest := 0, 0, time.Duration(0)
			for end := time.Now().Add(*torture); cycles < delays || time.Now().Before(end); cycles++ {
				s, err := loupe.Attach(context.Background(), loupe.PID(p.PID()),
					loupe.Options{Engine: loupe.EngineInline, Kinds: kinds[cycles%len(kinds)], BufferBytes: 1 << 20})
				if err != nil {
					t.Fatalf("attaching for the %d. time: %v", cycles+1, err)
				}
				time.AfterFunc(time.Duration(cycles%delays)*3*time.Millisecond, func() {
					begin := time.Now()
					if err := s.Close(); err != nil {
						t.Errorf("detaching for the %d. time: %v", cycles+1, err)
					}
					longest = max(longest, time.Since(begin))
				})
				for range s.Events() {
					events++
				}
				if err := errors.Join(s.Err(), s.Close()); err != nil {
					t.Fatalf("detaching for the %d. time: %v", cycles+1, err)
				}
			}
			t.Logf("%d times, %d events", cycles, events)
			if cycles == 0 || events == 0 {
				t.Error("nothing was observed")
			}
			if sum := p.Command("sum"); !strings.HasPrefix(sum, "sum ok") {
				t.Errorf("the program says %q", sum)
			}
			if !bytes.Equal(textOf(t, p.PID()), code) {
				t.Error("the program's code has changed")
			}
			if now := foreignMaps(t, p.PID()); now != maps {
				t.Errorf("mappings\n%s, before\n%s", now, maps)
			}
		})
	}
}

// textOf returns the code of a process, as it is in memory.
func textOf(t *testing.T, pid int) []byte {
	t.Helper()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	for _, line := range mapLines(t, pid) {
		var lo, hi int64
		if _, err := fmt.Sscanf(line, "%x-%x r-xp", &lo, &hi); err != nil || !strings.Contains(line, "loupe-testtarget") {
			continue
		}
		code := make([]byte, hi-lo)
		if _, err := mem.ReadAt(code, lo); err != nil {
			t.Fatal(err)
		}
		return code
	}
	t.Fatal("no code")
	return nil
}

func mapLines(t *testing.T, pid int) []string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(b), "\n")
}

// foreignMaps returns the mappings of a process that an engine could have left: shared ones, and those with code.
func foreignMaps(t *testing.T, pid int) string {
	t.Helper()
	var list []string
	for _, line := range mapLines(t, pid) {
		if f := strings.Fields(line); len(f) > 1 && (strings.Contains(f[1], "x") || strings.Contains(f[1], "s")) {
			list = append(list, line)
		}
	}
	return strings.Join(list, "\n")
}

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
	observer := exec.Command(os.Args[0], "-test.run=^TestInlineKilled$")
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
	if bytes.Equal(textOf(t, p.PID()), code) {
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
	if !bytes.Equal(textOf(t, p.PID()), code) {
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
	if !errors.Is(err, loupe.ErrUnsupported) || !strings.Contains(err.Error(), "something else has changed it") {
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
	s, err := loupe.Attach(context.Background(), loupe.PID(p.PID()), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	time.AfterFunc(300*time.Millisecond, func() { s.Close() })
	machine, begin := sched.New(sched.Options{}), time.Now().UnixNano()
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
		t.Errorf("%d events, %d lost, %d late; %d events did not fit what was known", stats.Events, stats.Lost, late, totals.Repairs)
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
	if _, err := loupe.Attach(context.Background(), loupe.PID(p.PID()), loupe.Options{Clock: "sundial"}); err == nil || !strings.Contains(err.Error(), "there are auto, precise, coarse") {
		t.Errorf("an unknown clock: %v", err)
	}
}
