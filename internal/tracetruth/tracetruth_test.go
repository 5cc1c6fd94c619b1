package tracetruth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// recording is a trace with what the program said that it did.
type recording struct {
	truth      *Trace
	raw        []byte
	begin, end int64 // of the program's own marks
	rounds     int
	creates    map[string]int // by phase, goroutines made in one round
}

// record has the program record a trace.
func record(t *testing.T, release, command string) (raw []byte, answer string) {
	t.Helper()
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "selftrace", Go: release}))
	path := filepath.Join(t.TempDir(), "trace")
	answer = target.Command(fmt.Sprintf(command, path))
	target.Stop()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw, answer
}

// recordAll has the program do all that it can.
func recordAll(t *testing.T, release string) *recording {
	t.Helper()
	r := &recording{creates: make(map[string]int)}
	var answer string
	r.raw, answer = record(t, release, "trace %s 1")
	if _, err := fmt.Sscanf(answer, "traced %d %d", &r.begin, &r.end); err != nil {
		t.Fatalf("answer %q: %v", answer, err)
	}
	var did struct {
		Rounds int
		Phases []struct {
			Name    string
			Creates int
		}
	}
	if err := json.Unmarshal([]byte(answer[strings.IndexByte(answer, '{'):]), &did); err != nil {
		t.Fatalf("answer %q: %v", answer, err)
	}
	r.rounds = did.Rounds
	for _, p := range did.Phases {
		r.creates[p.Name] = p.Creates
	}
	r.truth = parse(t, r.raw, minorOf(t, release))
	return r
}

func parse(t *testing.T, raw []byte, minor int) *Trace {
	t.Helper()
	truth, err := Parse(bytes.NewReader(raw), minor)
	if err != nil {
		t.Fatal(err)
	}
	return truth
}

func minorOf(t *testing.T, release string) int {
	t.Helper()
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		t.Fatalf("release %q: %v", release, err)
	}
	return minor
}

// TestReleases reads traces of every release, looks for what the program did, and has the comparison accept an observer
// who sees all of it.
func TestReleases(t *testing.T) {
	for _, release := range testtarget.Versions() {
		t.Run("go"+release, func(t *testing.T) {
			r := recordAll(t, release)
			checkWindow(t, r)
			checkCreates(t, r)
			for _, kinds := range []event.Kinds{event.KindsGoroutine, event.KindsDefault.Union(event.KindsSyscall)} {
				checkPerfect(t, r.truth, kinds)
			}
		})
	}
}

// checkWindow holds the first and last moment that count against the program's own clock.
func checkWindow(t *testing.T, r *recording) {
	t.Helper()
	const step = int64(time.Microsecond) // of a trace's clock and of the line through its marks
	if r.truth.Begin < r.begin-step || r.truth.End < r.end-step || r.truth.Begin >= r.truth.End {
		t.Errorf("it counts from %d to %d, the marks are at %d and %d", r.truth.Begin, r.truth.End, r.begin, r.end)
	}
	if first := r.truth.Phases[0].Begin; first < r.truth.Begin || first > r.truth.End {
		t.Errorf("the first phase begins at %d, outside of %d to %d", first, r.truth.Begin, r.truth.End)
	}
}

// checkCreates counts the goroutines of each phase.
func checkCreates(t *testing.T, r *recording) {
	t.Helper()
	got := make(map[string]int)
	for i := range r.truth.Records {
		c := &r.truth.Records[i]
		// The compiler may call the goroutines of `go all.Done()` by the function of the statement or by that of the
		// call. Other packages make some of their own.
		if c.Kind == event.GoCreate && (strings.HasPrefix(c.Start, "main.") || strings.HasPrefix(c.Start, "sync.")) {
			got[r.truth.phaseAt(c.Time)]++
		}
	}
	for name, creates := range r.creates {
		if got[name] != creates*r.rounds {
			t.Errorf("phase %q made %d goroutines, not %d", name, got[name], creates*r.rounds)
		}
		delete(got, name)
	}
	if len(got) != 0 {
		t.Errorf("goroutines were made outside of all phases: %v", got)
	}
}

// checkPerfect compares a trace with an observer who sees all of it, and with one whose looks at the clock differ a little.
func checkPerfect(t *testing.T, truth *Trace, kinds event.Kinds) {
	t.Helper()
	const offset = 1_700_000_000_000_000_000
	events := truth.Events(kinds, offset)
	opt := Options{Kinds: kinds, Offset: Bounds{offset - 1000, offset + 1000}}
	report := Compare(truth, events, opt)
	if !report.OK() {
		t.Fatalf("a perfect observer fails (%v):\n%v", kinds.List(), report)
	}
	records := truth.canonical(kinds, make(RuleCounts))
	want := make(map[event.Kind]int)
	for i := range records {
		if r := &records[i]; r.Time >= truth.Begin && r.Time <= truth.End && !r.optional {
			want[r.Kind]++
		}
	}
	for kind, n := range want {
		if report.Matched[kind] < n {
			t.Errorf("%d of %d %v were compared", report.Matched[kind], n, kind)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range events {
		events[i].Time += rng.Int64N(6000) - 3000
	}
	if report := Compare(truth, events, opt); !report.OK() {
		t.Fatalf("an observer whose clock differs by microseconds fails:\n%v", report)
	}
}

// TestScripts holds what programs say of their script against the traces that they recorded meanwhile.
func TestScripts(t *testing.T) {
	for _, release := range testtarget.Versions() {
		t.Run("go"+release, func(t *testing.T) {
			raw, answer := record(t, release, "scripttrace %s 4 6")
			script, err := ParseScript(answer)
			if err != nil {
				t.Fatal(err)
			}
			if script.Rounds != 6 || len(script.Phases) < 10 {
				t.Fatalf("it ran %d phases of %d rounds", len(script.Phases), script.Rounds)
			}
			minor := minorOf(t, release)
			truth := parse(t, raw, minor)
			events := truth.Events(event.KindsGoroutine, 0)
			useScriptReasons(script, events)
			if wrong := script.Check(events, minor); len(wrong) > 0 {
				t.Fatalf("the trace differs from the script:\n%s", strings.Join(wrong, "\n"))
			}
			checkScriptMutations(t, script, events, minor)
		})
	}
}

// useScriptReasons gives blocks the wait reasons of the script where those are among the ones that a trace stands for: a
// trace alone does not tell all of them.
func useScriptReasons(s *Script, events []event.Event) {
	waits := make(map[uint64]string)
	for _, p := range s.Phases {
		for _, g := range p.Workers {
			waits[g] = p.Wait
		}
	}
	for i := range events {
		ev := &events[i]
		if wait := waits[ev.G]; ev.Kind == event.GoBlock && wait != "" {
			a, okA := traceReason(wait, minorTraceV2+10)
			b, okB := traceReason(ev.Reason, minorTraceV2+10)
			if okA && okB && a == b {
				ev.Reason = wait
			}
		}
	}
}

// checkScriptMutations changes single events of workers. Each change must be found.
func checkScriptMutations(t *testing.T, s *Script, events []event.Event, minor int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	isWorker := make(map[uint64]bool)
	for _, p := range s.Phases {
		for _, g := range p.Workers {
			isWorker[g] = true
		}
	}
	for _, m := range []struct {
		name   string
		kind   event.Kind
		change func(ev *event.Event) bool // false drops it
	}{
		{"no GoCreate", event.GoCreate, func(*event.Event) bool { return false }},
		{"no GoStart", event.GoStart, func(*event.Event) bool { return false }},
		{"no GoBlock", event.GoBlock, func(*event.Event) bool { return false }},
		{"no GoUnblock", event.GoUnblock, func(*event.Event) bool { return false }},
		{"no GoDestroy", event.GoDestroy, func(*event.Event) bool { return false }},
		{"other reason", event.GoBlock, func(ev *event.Event) bool { ev.Reason += "?"; return true }},
		{"other parent", event.GoCreate, func(ev *event.Event) bool { ev.Parent++; return true }},
		{"other start", event.GoCreate, func(ev *event.Event) bool {
			ev.Origin = &event.Origin{Start: event.Frame{Func: "main.other"}}
			return true
		}},
	} {
		changed := append([]event.Event{}, events...)
		i := pick(rng, changed, func(ev *event.Event) bool { return ev.Kind == m.kind && isWorker[ev.G] })
		if i < 0 {
			t.Fatalf("%s: there is no such event", m.name)
		}
		if isRestart(changed, i) {
			continue
		}
		if !m.change(&changed[i]) {
			changed = append(changed[:i], changed[i+1:]...)
		}
		if wrong := s.Check(changed, minor); len(wrong) == 0 {
			t.Errorf("%s of event %d (%v of goroutine %d) is not found", m.name, i, m.kind, events[i].G)
		}
	}
}

// pick returns the index of one of the events that fit, or -1.
func pick(rng *rand.Rand, events []event.Event, fits func(*event.Event) bool) int {
	var all []int
	for i := range events {
		if fits(&events[i]) {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		return -1
	}
	return all[rng.IntN(len(all))]
}

// TestParseRefuses reads what is no trace, or not one of the program.
func TestParseRefuses(t *testing.T) {
	raw, _ := record(t, testtarget.Latest(), "idle %s")
	old, _ := record(t, "1.21.13", "idle %s")
	for name, text := range map[string][]byte{
		"nothing":         nil,
		"text":            []byte("not a trace of any kind"),
		"another version": []byte("go 1.99 trace\x00\x00\x00"),
		"half":            raw[:len(raw)/2],
		"half an old one": old[:len(old)/2],
		"without marks":   bytes.ReplaceAll(raw, []byte("loupe."), []byte("other.")),
	} {
		if _, err := Parse(bytes.NewReader(text), 22); err == nil {
			t.Errorf("%s: read without an error", name)
		} else if !strings.Contains(err.Error(), "read trace") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if truth := parse(t, raw, minorOf(t, testtarget.Latest())); len(truth.Records) == 0 {
		t.Error("the idle trace has no records")
	}
}
