package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testcmd"
)

// newStream returns a system whose processes do what sampleEvents tells.
func newStream() *fakeSystem {
	sys := newFake()
	sys.stream.events = sampleEvents()
	return sys
}

// traceLine is what the tests look at in a line of loupe trace --json.
type traceLine struct {
	Kind                             string
	G, By, Parent                    uint64
	Reason                           string
	Stack                            []event.Frame
	Events, Shown, Lost              uint64
	LostByKind                       map[string]uint64
	Created, Ended, Goroutines, Line *int
	GoroutinesUncertain              bool
	Seconds                          *float64
}

func parseTrace(t *testing.T, out string) []traceLine {
	t.Helper()
	var lines []traceLine
	for line := range strings.Lines(out) {
		var l traceLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		lines = append(lines, l)
	}
	return lines
}

func TestTraceText(t *testing.T) {
	r := run(t, newStream(), "trace", "app")
	if r.status != exitDone || r.errOut != "loupe: process 42 has exited\n" {
		t.Errorf("status %d, stderr %q", r.status, r.errOut)
	}
	for _, want := range []string{
		"g 1       GoStatus   running\n",
		"g 18      GoCreate   by g 1, main.worker           main.send main.go:30\n",
		"g 18      GoBlock    chan receive                  main.worker worker.go:12\n",
		"g 18      GoUnblock  by g 1, blocked 1.2ms         main.send main.go:30\n",
		"g 18      GoStart    runnable 5µs\n",
		"g 18      GoUnblock  by g 1, blocked 2ms           main.free main.go:44\n",
		"g 18      GoUnblock  by the runtime, blocked 6ms\n",
		"g 18      GoDestroy\n",
		"13 events in ", "0 lost, 1 goroutine created, 1 ended, 1 alive\n",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
}

func TestTraceJSON(t *testing.T) {
	r := run(t, newStream(), "trace", "app", "--json", "-q")
	lines := parseTrace(t, r.out)
	if r.status != exitDone || r.errOut != "" || len(lines) != 14 {
		t.Fatalf("status %d, stderr %q, %d lines", r.status, r.errOut, len(lines))
	}
	if l := lines[4]; l.Kind != "GoUnblock" || l.G != 18 || l.By != 1 || len(l.Stack) != 1 || l.Stack[0].Line != 30 {
		t.Errorf("%+v", l)
	}
	sum := lines[13]
	if sum.Kind != "Summary" || sum.Events != 13 || *sum.Created != 1 || *sum.Ended != 1 || *sum.Goroutines != 1 || sum.Seconds == nil {
		t.Errorf("%+v", sum)
	}
	if !strings.Contains(r.out, `"lost":0,`) || strings.Contains(r.out, "lostByKind") || strings.Contains(r.out, "shown") {
		t.Errorf("%s", r.out)
	}
}

// TestTraceOptions looks at what the engine is asked for.
func TestTraceOptions(t *testing.T) {
	for _, test := range []struct {
		line string
		want loupe.Options
	}{
		{"", loupe.Options{MemoryInterval: loupe.DefaultMemoryInterval, Kinds: event.KindsDefault, StackDepth: loupe.DefaultStackDepth, SampleOneIn: 1, BufferBytes: loupe.DefaultBufferBytes, Engine: "auto", Clock: "auto"}},
		{"--kinds goBlock,GC --stack 0 --buffer 1GiB --engine uprobe --clock coarse", loupe.Options{MemoryInterval: loupe.DefaultMemoryInterval, Kinds: event.KindsGC.Union(event.KindsOf(event.GoBlock)),
			StackDepth: -1, SampleOneIn: 1, BufferBytes: 1 << 30, Engine: loupe.EngineUprobe, Clock: loupe.ClockCoarse}},
		{"--kinds all --stack 3 --buffer 65536 --min-block 2ms --g 7,9 --system --sample 10 --buffer 512k", loupe.Options{MemoryInterval: loupe.DefaultMemoryInterval, Kinds: event.KindsAll.Union(event.KindsMemory),
			StackDepth: 3, MinBlock: 2 * time.Millisecond, Goroutines: []uint64{7, 9}, System: true, SampleOneIn: 10, BufferBytes: 512 << 10, Engine: "auto", Clock: "auto"}},
	} {
		sys := newStream()
		r := run(t, sys, append([]string{"trace", "42"}, strings.Fields(test.line)...)...)
		got := sys.stream.options
		if got.Log == nil {
			t.Errorf("%s: no log", test.line)
		}
		got.Log = nil
		if fmt.Sprint(got) != fmt.Sprint(test.want) || r.status != exitDone || sys.stream.target.pid != 42 || !sys.stream.closed {
			t.Errorf("%s: options %+v, want %+v; %+v", test.line, got, test.want, r)
		}
	}
}

func TestTraceFilters(t *testing.T) {
	for _, test := range []struct {
		line string
		want []string // kinds
	}{
		{"--kinds GoCreate,GoDestroy", []string{"GoCreate", "GoDestroy"}},
		{"--reason MUTEX", []string{"GoBlock", "GoUnblock"}},
		{"--reason io --reason receive --kinds GoUnblock,GoBlock", []string{"GoBlock", "GoUnblock", "GoBlock", "GoUnblock"}},
		{"--func main\\.send", []string{"GoCreate", "GoUnblock"}},
		{"--func worker$ --kinds GoCreate", []string{"GoCreate"}},
		{"--func nobody", nil},
	} {
		r := run(t, newStream(), append([]string{"trace", "app", "--json"}, strings.Fields(test.line)...)...)
		lines := parseTrace(t, r.out)
		var got []string
		for _, l := range lines[:len(lines)-1] {
			got = append(got, l.Kind)
		}
		sum := lines[len(lines)-1]
		if !slices.Equal(got, test.want) || sum.Events != 13 || sum.Shown != uint64(len(got)) {
			t.Errorf("%s: %v, want %v; %+v", test.line, got, test.want, sum)
		}
	}
	r := run(t, newStream(), "trace", "app", "--json", "--kinds", "GoBlock")
	if sum := parseTrace(t, r.out)[3]; sum.Created != nil || sum.Ended != nil || sum.Goroutines != nil {
		t.Errorf("what was not observed is told: %+v", sum)
	}
}

// TestTimeError reports how exact the times of a coarse clock are, for every command with live events.
func TestTimeError(t *testing.T) {
	sys := newStream()
	sys.stream.stats.TimeError = event.TimeError{P99: 1900 * time.Microsecond, Max: 14 * time.Millisecond}
	const note = "loupe: note: times are exact to 1.9ms for 99 % of the events and to 14ms for all (coarse clock)\n"
	for _, line := range [][]string{
		{"trace", "app", "--json"}, {"top", "app", "-n", "1"}, {"record", "app", "-o", filepath.Join(t.TempDir(), "trace")},
		{"profile", "app", "--type", "block", "-o", filepath.Join(t.TempDir(), "profile")},
	} {
		r := run(t, sys, line...)
		if r.status != exitDone || !strings.Contains(r.errOut, note) {
			t.Errorf("%q: status %d, stderr %q", line, r.status, r.errOut)
		}
		if line[0] == "trace" && !strings.Contains(r.out, `"timeError":{"p99Seconds":0.0019,"maxSeconds":0.014}`) {
			t.Errorf("the summary is\n%s", r.out)
		}
		sys.stream = fakeStream{stats: sys.stream.stats, events: newStream().stream.events}
	}
}

func TestTraceTellsLoss(t *testing.T) {
	sys := newStream()
	sys.stream.events = append(sys.stream.events, event.Event{Kind: event.Lost, PID: 42, Value: 1234})
	sys.stream.stats = event.Stats{Lost: 1234, Unreadable: 30, Kinds: map[event.Kind]event.Counts{event.GoStart: {Lost: 234}, event.GoBlock: {Lost: 1000, Unreadable: 30}, event.GoStop: {Received: 1}}}
	if r := run(t, &fakeSystem{pids: sys.pids, stream: fakeStream{stats: event.Stats{Err: errors.New("no\x1b numbers")}}}, "trace", "app", "-q"); r.errOut != "loupe: more events may have been lost: no\\x1b numbers\n" {
		t.Errorf("%+v", r)
	}
	sys.stream.warnings, sys.stream.late = []string{"a kernel\x1b feature is missing"}, "a probe failed"
	r := run(t, sys, "trace", "app", "--reason", "nothing", "-q")
	if r.status != exitDone || r.errOut != "loupe: 1,204 events were lost (GoBlock 970, GoStart 234): the buffer was full; increase --buffer or select fewer events\n"+
		"loupe: 30 events were lost (GoBlock 30): could not read the target's memory; a larger --buffer does not help\n" ||
		!strings.Contains(r.out, "13 events in ") ||
		!strings.Contains(r.out, "1,234 events before this one are missing\n") || !strings.Contains(r.out, ", 1,234 lost,") {
		t.Errorf("%+v", r)
	}
	r = run(t, sys, "trace", "app", "--json")
	lines := parseTrace(t, r.out)
	if sum := lines[len(lines)-1]; sum.Lost != 1234 || sum.LostByKind["GoBlock"] != 1000 || len(sum.LostByKind) != 2 {
		t.Errorf("%+v", sum)
	}
	sys.stream.observed = []uint64{7, 8, 9}
	for _, test := range []struct {
		err       error
		count     int
		uncertain bool
		text      string
	}{
		{nil, 3, false, ", 3 alive\n"}, // they are counted in the target
		{errors.New("it has ended"), 1, true, ", about 1 alive\n"},
	} {
		sys.stream.observedErr = test.err
		lines := parseTrace(t, run(t, sys, "trace", "app", "--json").out)
		if sum := lines[len(lines)-1]; *sum.Goroutines != test.count || sum.GoroutinesUncertain != test.uncertain {
			t.Errorf("%v: %d goroutines, uncertain %v", test.err, *sum.Goroutines, sum.GoroutinesUncertain)
		}
		if r := run(t, sys, "trace", "app", "-q"); !strings.HasSuffix(r.out, test.text) {
			t.Errorf("%v: no %q at the end of %q", test.err, test.text, r.out)
		}
	}
	for _, want := range []string{`a kernel\x1b feature`, "a probe failed", "1,204 events were lost"} {
		if strings.Count(r.errOut, want) != 1 {
			t.Errorf("%q is not told once: %q", want, r.errOut)
		}
	}
}

// TestTraceEnds holds that the duration ends an endless stream, and the summary comes.
func TestTraceEnds(t *testing.T) {
	sys := newStream()
	sys.stream.goesOn = true
	r := run(t, sys, "trace", "app", "--json", "--duration", "20ms")
	lines := parseTrace(t, r.out)
	if r.status != exitDone || r.errOut != "" || len(lines) != 14 || lines[13].Events != 13 || *lines[13].Seconds <= 0 {
		t.Errorf("%+v", r)
	}
	sys = newStream()
	sys.stream.err = errors.New("the ring is gone")
	r = run(t, sys, "trace", "app", "--json", "-q")
	if r.status != exitFailed || !strings.Contains(r.out, "Summary") || r.errOut != "loupe: stopped observing process 42: the ring is gone\n" {
		t.Errorf("%+v", r)
	}
}

// TestTraceIsFlushed reads the events while the stream goes on, and then ends it.
func TestTraceIsFlushed(t *testing.T) {
	sys := newStream()
	sys.stream.goesOn = true
	in, out := io.Pipe()
	a := &app{Env: Env{Args: []string{"trace", "app", "--json"}, Stdin: strings.NewReader(""), Stdout: out, Stderr: io.Discard, Getenv: os.Getenv}, system: sys}
	ctx, stop := context.WithCancel(t.Context())
	status := make(chan int)
	go func() { status <- a.run(ctx) }()
	lines := json.NewDecoder(in)
	for range sys.stream.events {
		var l traceLine
		if err := lines.Decode(&l); err != nil || l.Kind == "Summary" {
			t.Errorf("%v: %+v", err, l)
		}
	}
	stop() // as Ctrl-C does
	var sum traceLine
	if err := lines.Decode(&sum); err != nil || sum.Kind != "Summary" || sum.Events != 13 {
		t.Errorf("%v: %+v", err, sum)
	}
	go io.Copy(io.Discard, in)
	if s := <-status; s != exitDone {
		t.Errorf("status %d", s)
	}
}

// TestTraceToClosedPipe writes an endless stream to a reader that has read enough.
func TestTraceToClosedPipe(t *testing.T) {
	for _, args := range [][]string{{"trace", "app", "--json"}, {"trace", "--", "sleep", "0.1"}} {
		sys := newStream()
		sys.stream.repeat = true
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		in.Close()
		var errOut lockedBuffer
		a := &app{Env: Env{Args: args, Stdin: strings.NewReader(""), Stdout: out, Stderr: &errOut, Getenv: os.Getenv}, system: sys}
		if status := a.run(t.Context()); status != exitDone || errOut.String() != "" || !sys.stream.closed {
			t.Errorf("%v: status %d, stderr %q", args, status, errOut.String())
		}
		out.Close()
	}
}

func TestTraceProgram(t *testing.T) {
	for _, test := range []struct {
		name   string
		argv   []string
		status int
		errOut string
	}{
		{"ends well", []string{"sh", "-c", "echo hello"}, exitDone, "hello\n"},
		{"its status is passed on", []string{"sh", "-c", "exit 7"}, 7, ""},
		{"its signal too", []string{"sh", "-c", "kill -TERM $$"}, 128 + 15, ""},
		{"is not in PATH", []string{"no-such-program"}, exitUnobservable, "cannot start no-such-program: no executable of this name in PATH; "},
		{"is not there", []string{"/no/such/program"}, exitUnobservable, "cannot start /no/such/program: no such file"},
	} {
		sys := newStream()
		sys.stream.goesOn = true
		r := run(t, sys, append([]string{"trace", "-q", "--json", "--"}, test.argv...)...)
		if r.status != test.status || !strings.Contains(r.errOut, test.errOut) || strings.Count(r.errOut, "\n") > 1 {
			t.Errorf("%s: status %d, stderr %q", test.name, r.status, r.errOut)
		}
		if started := sys.stream.target.program != nil && sys.stream.target.program.Process != nil; started != strings.Contains(r.out, "Summary") {
			t.Errorf("%s: started %v, stdout %q", test.name, started, r.out)
		}
	}
	// Loupe stays with a program that goes on after the observation.
	sys := newStream()
	sys.stream.goesOn = true
	r := run(t, sys, "trace", "-q", "--json", "--duration", "1ms", "--", "sh", "-c", "sleep 0.3; exit 5")
	if r.status != 5 || !strings.Contains(r.out, "Summary") {
		t.Errorf("%+v", r)
	}
	sys = newStream()
	sys.stream.err = errors.New("the ring is gone")
	if r := run(t, sys, "trace", "-q", "--", "true"); r.status != exitFailed || strings.Count(r.errOut, "the ring is gone") != 1 {
		t.Errorf("%+v", r)
	}
}

func TestTraceRefused(t *testing.T) {
	sys := newStream()
	sys.stream.attachErr = fmt.Errorf("process 42: loading the probes: %w", syscall.EPERM)
	r := run(t, sys, "trace", "app")
	if r.status != exitUnobservable || strings.Count(r.errOut, "\n") != 1 || !strings.Contains(r.errOut, "operation not permitted") {
		t.Errorf("%+v", r)
	}
	sys.stream.attachErr = fmt.Errorf("engine inline: %w by this Loupe", loupe.ErrUnsupported)
	r = run(t, sys, "trace", "--", "true")
	if r.status != exitUnobservable || strings.Count(r.errOut, "\n") != 1 || !strings.Contains(r.errOut, "not supported by this Loupe; ") {
		t.Errorf("%+v", r)
	}
}

func TestProfileOfEvents(t *testing.T) {
	dir := t.TempDir()
	waits := event.KindsOf(event.GoStatus, event.GoBlock, event.GoUnblock, event.GoDestroy)
	for _, test := range []struct {
		kind  string
		args  []string
		kinds event.Kinds
		want  []string // in pprof -top
	}{
		{"create", nil, event.KindsOf(event.GoCreate, event.GoDestroy), []string{"Type: goroutines", "Showing nodes accounting for 1, 100% of 1 total", " main.worker", " main.send"}},
		{"block", nil, waits, []string{"Type: delay", "3.20ms, 100%", " main.worker"}},
		{"block", []string{"--reason", "IO"}, waits, []string{"6ms, 100%"}},
		{"mutex", nil, waits, []string{"Type: delay", "2ms, 100%", "sync.(*Mutex).Unlock", " main.free"}},
		{"sched", nil, event.KindsGoroutine, []string{"Type: latency", "165us, 100%", " main.worker"}},
	} {
		file := filepath.Join(dir, "p.pb.gz")
		sys := newStream()
		sys.stream.stats.Lost = 3
		args := append([]string{"profile", "app", "--type", test.kind, "-o", file, "--json"}, test.args...)
		r := run(t, sys, args...)
		var done eventProfileJSON
		if err := json.Unmarshal([]byte(r.out), &done); err != nil || r.status != exitDone || done.Type != test.kind || done.Lost != 3 || done.Bytes == 0 ||
			done.Counted == 0 || r.errOut != "loupe: 3 events were lost: the buffer was full; increase --buffer or select fewer events\n" {
			t.Errorf("%s: %v: %+v", test.kind, err, r)
		}
		if sys.stream.options.Kinds != test.kinds {
			t.Errorf("%s observes %v", test.kind, sys.stream.options.Kinds.List())
		}
		top, err := testcmd.Combined(testcmd.Command(t, "go", "tool", "pprof", "-top", "-symbolize=none", file))
		if err != nil {
			t.Fatalf("%s: %v: %s", test.kind, err, top)
		}
		comments, err := testcmd.Combined(testcmd.Command(t, "go", "tool", "pprof", "-comments", file))
		if err != nil || !strings.Contains(string(comments), "3 events were lost") || !strings.Contains(string(comments), test.kind+" profile of process 42") {
			t.Errorf("%s: %v: comments %s", test.kind, err, comments)
		}
		for _, want := range test.want {
			if !strings.Contains(string(top), want) {
				t.Errorf("%s: no %q in\n%s", test.kind, want, top)
			}
		}
	}
}

func TestProfileOfEventsFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p")
	r := run(t, newStream(), "profile", "app", "--type", "block", "-o", file)
	if r.status != exitDone || !strings.Contains(r.errOut, "wrote 2 waits in 2 distinct stacks to "+file) || r.out != "" {
		t.Errorf("%+v", r)
	}
	if r := run(t, newStream(), "profile", "app", "--type", "block", "-o", "-"); r.status != exitDone || !strings.HasPrefix(r.out, "\x1f\x8b") {
		t.Errorf("status %d, stderr %q", r.status, r.errOut)
	}
	sys := newStream()
	bad := filepath.Join(t.TempDir(), "no", "such", "dir")
	if r := run(t, sys, "profile", "app", "--type", "block", "-o", bad); r.status != exitFailed || !strings.Contains(r.errOut, "cannot write ") || sys.stream.closed {
		t.Errorf("an unwritable file is found out too late: %+v", r)
	}
	sys = newStream()
	sys.stream.attachErr = errors.New("no")
	gone := filepath.Join(t.TempDir(), "p")
	run(t, sys, "profile", "app", "--type", "block", "-o", gone)
	if _, err := os.Stat(gone); err == nil {
		t.Error("an empty file is left behind")
	}
	sys = newStream()
	sys.stream.goesOn = true
	if r := run(t, sys, "profile", "--type", "create", "-o", file, "-q", "--", "sh", "-c", "exit 6"); r.status != 6 {
		t.Errorf("a program's exit status: %+v", r)
	}
}

func TestTraceCompletion(t *testing.T) {
	r := run(t, newFake(), "__complete", "trace", "--kinds", "GoBlock,")
	if !strings.Contains(r.out, "GoBlock,GoCreate\n") || strings.Contains(r.out, "GoBlock,GoBlock\n") {
		t.Errorf("%s", r.out)
	}
	if r := run(t, newFake(), "__complete", "profile", "--type", ""); !strings.Contains(r.out, "sched\n") {
		t.Errorf("%s", r.out)
	}
	if r := run(t, newFake(), "__complete", "trace", "--engine", ""); !strings.Contains(r.out, "uprobe\n") {
		t.Errorf("%s", r.out)
	}
}

// TestOneOfEach writes texts about none, one and two things.
func TestOneOfEach(t *testing.T) {
	for lost, want := range map[int64][]string{
		1: {"1 event before this one is missing\n", "1 event was lost"},
		2: {"2 events before this one are missing\n", "2 events were lost"},
	} {
		sys := newStream()
		sys.stream.events = []event.Event{{Kind: event.Lost, PID: 42, Value: lost}}
		sys.stream.stats = event.Stats{Lost: uint64(lost), Kinds: map[event.Kind]event.Counts{event.GoStart: {Lost: uint64(lost)}}}
		r := run(t, sys, "trace", "app")
		for _, text := range want {
			if !strings.Contains(r.out+r.errOut, text) {
				t.Errorf("no %q in %+v", text, r)
			}
		}
	}
	one := regexp.MustCompile(`\b1 (?:more )?(events|goroutines|processes|stacks|waits|distinct stacks|errors|warnings|threads)\b`)
	for _, args := range [][]string{{"trace", "app"}, {"profile", "--type", "block", "-o", "-", "app"}, {"goroutines", "app"}, {"ps"}, {"report", "--interval", "1ms", "app"}} {
		for n := range 3 {
			sys := newStream()
			sys.stream.events = sys.stream.events[:n]
			r := run(t, sys, args...)
			if found := one.FindString(r.out + r.errOut); found != "" {
				t.Errorf("%q with %d events: %q in %+v", args, n, found, r)
			}
		}
	}
}
