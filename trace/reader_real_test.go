package trace

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/sched"
	"github.com/loupe-go/loupe/trace/raw"
)

// realReleases returns the releases whose traces are tested: those from Go 1.18 on, which is the oldest that builds the
// recorder without a change. Go 1.19 is left out: it writes the format of Go 1.20.
func realReleases(t *testing.T) []string {
	var all []string
	for _, v := range testtarget.Versions() {
		if minor := minorRelease(t, v); minor >= 18 && minor != 19 {
			all = append(all, v)
		}
	}
	return all
}

func minorRelease(t *testing.T, release string) int {
	t.Helper()
	minor, err := strconv.Atoi(strings.Split(release, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return minor
}

// buildRecorder builds a program that records traces of itself, with a release.
func buildRecorder(t *testing.T, source, release string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(source, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no program in %s: %v", source, err)
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	mod := fmt.Sprintf("module recorder\n\ngo 1.%d\n", minorRelease(t, release))
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o666); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "recorder.exe")
	cmd := testcmd.Command(t, "go", "build", "-o", program, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=go"+release, "GOFLAGS=", "GOWORK=off", "GO111MODULE=on", "CGO_ENABLED=0", "GODEBUG=")
	if out, err := testcmd.Combined(cmd); err != nil {
		t.Fatalf("build the recorder with Go %s: %v\n%s", release, err, out)
	}
	return program
}

// recordTrace runs a program that records a trace, and returns the trace.
func recordTrace(t *testing.T, godebug, program string, args ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace")
	cmd := testcmd.Command(t, program, append([]string{path}, args...)...)
	cmd.Env = append(os.Environ(), "GODEBUG="+godebug)
	if out, err := testcmd.Combined(cmd); err != nil {
		t.Fatalf("record a trace: %v\n%s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestReal reads and validates real traces of all releases.
func TestReal(t *testing.T) {
	for _, release := range testtarget.Ends(t, realReleases(t)) {
		t.Run("go"+release, func(t *testing.T) {
			program := buildRecorder(t, "internal/rawtruth/testdata/recorder", release)
			expectReal(t, recordTrace(t, "", program, "4", "1100ms"))
			if minorRelease(t, release) < 23 {
				return
			}
			t.Run("allocfree", func(t *testing.T) {
				data := recordTrace(t, "traceallocfree=1", program, "1", "0s")
				expectReal(t, data)
				if _, stats := eventsOf(t, data); stats.Experiments == 0 {
					t.Errorf("no events of the experiment: %+v", stats)
				}
			})
		})
	}
}

// expectReal verifies that a trace of the runtime has no problem, that a Reader reads it as the toolchain's reader does,
// and that the meaning of its events is that of the trace.
func expectReal(t *testing.T, data []byte) {
	t.Helper()
	report, err := Validate(bytes.NewReader(data), ValidateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range report.Problems {
		t.Errorf("%v %s: %v", report.Problems[i].Severity, report.Problems[i].Code, &report.Problems[i])
	}
	if report.Errors+report.Warnings+report.Unchecked > 0 || report.Bytes != int64(len(data)) || report.Events == 0 || report.Batches == 0 {
		t.Errorf("%v, %d bytes of %d", report, report.Bytes, len(data))
	}
	// The toolchain's reader itself is not deterministic for old traces.
	if !report.Version.V1() {
		expectOracle(t, data)
	}
	expectTotals(t, data)
}

// expectTotals verifies that package sched understands the events of a trace, and that the time that goroutines spend in
// each state is what the transitions of the toolchain's reader sum up to.
func expectTotals(t *testing.T, data []byte) {
	t.Helper()
	m := sched.New(sched.Options{Kinds: event.KindsDefault.Union(event.KindsSyscall)})
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for events, err := range r.Batches() {
		if err != nil {
			t.Fatal(err)
		}
		m.ApplyBatch(events)
	}
	got := m.Totals()
	if got.Repairs != 0 || got.Found != 0 || got.EndedUnseen != 0 || got.Ignored != 0 || got.UnknownKinds != 0 {
		t.Errorf("%d repairs, %d found, %d ended unseen, %d ignored, %d of unknown kinds", got.Repairs, got.Found, got.EndedUnseen, got.Ignored, got.UnknownKinds)
	}
	want, live := stateTimes(t, data, r.Version(), got.Now)
	times := got.Time()
	t.Logf("%d mark assists, %v", got.Kinds[event.GCMarkAssistBegin], got.GCAssist.Duration())
	if got.Live != live {
		t.Errorf("%d goroutines live, want %d", got.Live, live)
	}
	if r.Version().V1() {
		return // what is at the same time may be in another order, which moves times by nanoseconds
	}
	for _, c := range []struct {
		name      string
		got, want sched.Nanos
	}{
		{"running", times.Running, want[event.StateRunning]},
		{"waiting", times.Blocked, want[event.StateWaiting]},
		{"in syscalls", times.Syscall, want[event.StateSyscall]},
		{"runnable", times.Runnable.Add(times.Uncertain), want[event.StateRunnable]},
		{"assisting", got.GCAssist, want[assisting]},
	} {
		if c.got != c.want {
			t.Errorf("time %s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

// updateTiny makes TestTiny record the traces in testdata/tiny again.
var updateTiny = flag.Bool("update", false, "record the traces in testdata/tiny again")

// tinyMax bounds the size of the traces in testdata/tiny. Now and then the runtime's sweeper fills one.
const tinyMax = 30 << 10

func TestTiny(t *testing.T) {
	for _, release := range tinyReleases(t) {
		if *updateTiny {
			program := buildRecorder(t, "testdata/tiny", release)
			data := recordTrace(t, "", program)
			for len(data) > tinyMax {
				data = recordTrace(t, "", program)
			}
			writeTiny(t, release, data)
		}
		expectReal(t, tinyTrace(t, release))
	}
}

// writeTiny replaces a trace in testdata/tiny.
func writeTiny(t *testing.T, release string, data []byte) {
	t.Helper()
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", "tiny", "go"+release+".trace.gz"), packed.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

// assisting is the state of a running goroutine that marks for the garbage collector.
const assisting event.State = "assisting"

// stateTimes sums up the time in each state by the transitions of the toolchain's reader, until a time, and counts the
// goroutines that live then.
func stateTimes(t *testing.T, data []byte, v raw.Version, now int64) (times map[event.State]sched.Nanos, live uint64) {
	t.Helper()
	events, _, err := oracle(data, v)
	if err != nil {
		t.Fatal(err)
	}
	type since struct {
		state event.State
		at    int64
	}
	states := map[uint64]since{}
	times = map[event.State]sched.Nanos{}
	assists := map[uint64]int64{} // since when they assist
	leave := func(g uint64, at int64) {
		if s, ok := states[g]; ok {
			times[s.state] = times[s.state].Add(sched.NanosOf(time.Duration(at - s.at)))
			if since, ok := assists[g]; ok && s.state == event.StateRunning {
				times[assisting] = times[assisting].Add(sched.NanosOf(time.Duration(at - max(since, s.at))))
			}
		}
	}
	for i := range events {
		e := &events[i]
		next := e.State
		switch e.Kind {
		case event.GoCreate:
			if next == "" {
				next = event.StateRunnable
			}
		case event.GoSyscallEnd:
			if next == "" {
				next = event.StateRunning
			}
		case event.GoStart:
			next = event.StateRunning
		case event.GoStop, event.GoUnblock:
			next = event.StateRunnable
		case event.GoBlock:
			next = event.StateWaiting
		case event.GoSyscallBegin:
			next = event.StateSyscall
		case event.GoStatus:
		case event.GoDestroy:
			leave(e.G, e.Time)
			delete(states, e.G)
			continue
		case event.GCMarkAssistBegin:
			assists[e.G] = e.Time
			continue
		case event.GCMarkAssistEnd:
			leave(e.G, e.Time)
			states[e.G] = since{event.StateRunning, e.Time}
			delete(assists, e.G)
			continue
		default:
			continue
		}
		leave(e.G, e.Time)
		states[e.G] = since{next, e.Time}
	}
	for g := range states {
		leave(g, now)
	}
	return times, uint64(len(states))
}
