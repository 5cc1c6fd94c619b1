package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testcmd"
)

func TestTopUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"42", "--interval", "10ms"}, "--interval 10ms is too short"},
		{[]string{"42", "-n", "-1"}, "--iterations -1 is negative"},
		{[]string{"42", "--history", "-1"}, "--history -1"},
		{[]string{"42", "--history", "99999999"}, "is out of range: 0 to 16777216"},
		{[]string{"42", "--rows", "-1"}, "--rows -1 is negative"},
		{[]string{"42", "--duration", "-1s"}, "--duration -1s is negative"},
		{[]string{"42", "--stack", "500"}, "--stack 500 is too large"},
		{[]string{}, "missing TARGET"},
	} {
		r := run(t, newFake(), append([]string{"top"}, test.args...)...)
		if r.status != exitUsage || !strings.Contains(r.errOut, test.want) || strings.Count(r.errOut, "\n") != 1 {
			t.Errorf("%q: %+v", test.args, r)
		}
	}
}

// TestTopUncounted checks that an incomplete number of lost events is reported with the reason, in every picture.
func TestTopUncounted(t *testing.T) {
	sys := newStream()
	sys.stream.goesOn = true
	sys.stream.stats = event.Stats{Lost: 7, Err: errors.New("no counters")}
	r := run(t, sys, "top", "app", "-n", "1", "--json")
	if r.status != exitDone || !strings.Contains(r.out, `"warnings":["more events may have been lost: no counters"]`) || !strings.Contains(r.out, `"lost":7`) {
		t.Errorf("%+v", r)
	}
}

// topLine is what the tests look at in a line of loupe top --json.
type topLine struct {
	Time            time.Time
	PID             int
	GoVersion       string
	IntervalSeconds float64
	Events          uint64
	Lost            *uint64
	Goroutines      uint64
	Created, Ended  uint64
	States          struct{ Running, Runnable, Waiting uint64 }
	GrowthPerMinute *float64
	Sites           []struct {
		Goroutines, Created uint64
		CreatedPerSecond    float64
		CreatedBy, Start    *event.Frame
	}
	Groups []struct {
		State, Reason string
		Count         uint64
	}
	Contention []struct {
		Reason      string
		Count       uint64
		WaitSeconds float64
		Stack       []event.Frame
	}
	SchedulerLatency struct {
		Interval, Overall struct{ Count, P99Nanoseconds uint64 }
	}
	End string
}

func parseTop(t *testing.T, out string) []topLine {
	t.Helper()
	var lines []topLine
	for line := range strings.Lines(out) {
		var l topLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		lines = append(lines, l)
	}
	return lines
}

// livelier is a fake process that goes on after some events.
func livelier() *fakeSystem {
	sys := newFake()
	sys.stream.events, sys.stream.goesOn = sampleEvents()[:10], true
	return sys
}

func TestTopJSON(t *testing.T) {
	sys := livelier()
	sys.stream.stats = event.Stats{Lost: 7}
	r := run(t, sys, "top", "42", "--json", "--interval", "100ms", "-n", "2", "--history", "0", "--stack", "5")
	lines := parseTop(t, r.out)
	if r.status != exitDone || len(lines) != 2 || !strings.Contains(r.errOut, "7 events were lost") {
		t.Fatalf("%+v", r)
	}
	if !sys.stream.closed || sys.stream.options.StackDepth != 5 || sys.stream.options.Kinds != event.KindsDefault {
		t.Errorf("%+v", sys.stream)
	}
	l := lines[1]
	if l.PID != 42 || l.Goroutines != 2 || l.States.Waiting != 1 || l.Created != 1 || l.Events != 10 || *l.Lost != 7 ||
		l.End != "" || l.IntervalSeconds <= 0 {
		t.Errorf("%+v", l)
	}
	if len(l.Sites) != 2 || l.Sites[1].Start.Func != "main.worker" || len(l.Groups) != 2 || len(l.Contention) != 1 ||
		l.Contention[0].Count != 1 || l.Contention[0].Stack[1].Func != "main.main" || l.SchedulerLatency.Overall.Count != 3 {
		t.Errorf("%+v", l)
	}
}

// TestTopEnds watches a target until it ends.
func TestTopEnds(t *testing.T) {
	sys := livelier()
	sys.stream.goesOn = false
	r := run(t, sys, "top", "42", "--json", "--interval", "1h")
	lines := parseTop(t, r.out)
	if r.status != exitDone || len(lines) != 1 || lines[0].End != "process 42 has exited" || lines[0].Goroutines != 2 {
		t.Errorf("%+v", r)
	}
	testcmd.UntilSeen(t, 250*time.Millisecond, func(d time.Duration) error {
		r := run(t, livelier(), "top", "42", "--json", "--interval", "100ms", "--duration", d.String())
		if r.status != exitDone || strings.Contains(r.out, `"end"`) {
			t.Errorf("%+v", r)
		}
		if len(parseTop(t, r.out)) == 0 {
			return fmt.Errorf("no picture in %v", d)
		}
		return nil
	})
	sys = livelier()
	sys.stream.goesOn, sys.stream.err = false, loupe.ErrExec
	r = run(t, sys, "top", "42", "--interval", "100ms")
	if r.status != exitFailed || !strings.Contains(r.out, "observation stopped") || !strings.Contains(r.errOut, "executed another program") {
		t.Errorf("%+v", r)
	}
	sys = livelier()
	sys.stream.attachErr = loupe.ErrNotGo
	if r := run(t, sys, "top", "42"); r.status != exitUnobservable || r.out != "" {
		t.Errorf("%+v", r)
	}
}

func TestTopText(t *testing.T) {
	sys := livelier()
	sys.stream.warnings = []string{"a probe is missing"}
	r := run(t, sys, "top", "42", "--interval", "100ms", "-n", "1", "--syscalls", "--system")
	for _, want := range []string{
		"pid 42", "2 live", "1 waiting", "created/s", "main.worker", "main.main main.go:7", "sync.Mutex.Lock", "worker.go:12", "p99",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	if !strings.Contains(r.errOut, "a probe is missing") || strings.Contains(r.out, "note") {
		t.Errorf("a note belongs on stderr: %q, and not in\n%s", r.errOut, r.out)
	}
	opt := sys.stream.options
	if strings.Contains(r.out, "\x1b") || r.status != exitDone || !opt.System || !opt.Kinds.Has(event.GoSyscallBegin) {
		t.Errorf("%+v, %+v", r, opt)
	}
}

// TestTopAllocs counts allocations only if it is asked to.
func TestTopAllocs(t *testing.T) {
	sys := livelier()
	origin := sampleEvents()[1].Origin
	sys.stream.allocs = allocs.Counts{Total: allocs.Sums{Objects: 30, Bytes: 3000}, Goroutines: []allocs.Goroutine{{ID: 18, Origin: *origin, Sums: allocs.Sums{Objects: 20, Bytes: 2000}},
		{Sums: allocs.Sums{Objects: 10, Bytes: 1000}}}}
	r := run(t, sys, "top", "42", "--json", "--interval", "100ms", "-n", "1", "--allocs")
	if r.status != exitDone || sys.stream.options.Allocs.By != loupe.AllocsByGoroutine || sys.stream.options.Kinds != event.KindsDefault {
		t.Fatalf("%+v, %+v", r, sys.stream.options)
	}
	for _, want := range []string{`"allocs":{"bytes":3000,"objects":30,`, `"elsewhereBytes":1000,"lost":0}`, `"allocBytes":2000,"allocObjects":20,`} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in %s", want, r.out)
		}
	}
	sys = livelier()
	r = run(t, sys, "top", "42", "--json", "--interval", "100ms", "-n", "1")
	if r.status != exitDone || sys.stream.options.Allocs.By != 0 || strings.Contains(r.out, "alloc") {
		t.Errorf("%+v, %+v", r, sys.stream.options)
	}
	sys = livelier()
	sys.stream.allocsErr = errors.New("no counters")
	r = run(t, sys, "top", "42", "--json", "--interval", "100ms", "-n", "1", "--allocs")
	if !strings.Contains(r.out, `"allocations are unavailable: no counters"`) || strings.Contains(r.out, `"allocs":`) {
		t.Errorf("%+v", r)
	}
}

// TestTopMemory shows memory statistics, or why there are none.
func TestTopMemory(t *testing.T) {
	sys := livelier()
	sys.stream.memory = &event.Memory{Time: time.Unix(1, 0)}
	sys.stream.memory.Heap = event.HeapMemory{Alloc: 5 << 20, Live: 3 << 20, Goal: 8 << 20}
	sys.stream.memory.GC.Cycles = 17
	r := run(t, sys, "top", "42", "--interval", "100ms", "-n", "1")
	if r.status != exitDone || !strings.Contains(r.out, "memory     heap 5.0 MiB  goal 8.0 MiB  live 3.0 MiB  GC cycles 17") {
		t.Errorf("%+v", r)
	}
	r = run(t, sys, "top", "42", "--interval", "100ms", "-n", "1", "--json")
	if !strings.Contains(r.out, `"memory":{"heapBytes":5242880,"liveBytes":3145728,"goalBytes":8388608,"gcCycles":17}`) {
		t.Errorf("%+v", r)
	}
	sys.stream.memory, sys.stream.memoryErr = nil, errors.New("the counters contradict\x1b each other")
	r = run(t, sys, "top", "42", "--interval", "100ms", "-n", "1")
	if r.status != exitDone || !strings.Contains(r.out, `memory     unavailable  the counters contradict\x1b each other`) {
		t.Errorf("%+v", r)
	}
	r = run(t, sys, "top", "42", "--interval", "100ms", "-n", "1", "--json")
	if !strings.Contains(r.out, "memory statistics are unavailable: the counters contradict") || strings.Contains(r.out, `"memory":`) {
		t.Errorf("%+v", r)
	}
}

// onTerminal runs a command line on a terminal. The result comes when it is over.
func onTerminal(t *testing.T, m *terminal, sys system, env map[string]string, args ...string) <-chan result {
	t.Helper()
	t.Setenv("TERM", "xterm-256color")
	var errOut lockedBuffer
	getenv := func(name string) string { return env[name] }
	a := &app{Env: Env{Args: args, Stdin: m.stdio, Stdout: m.stdio, Stderr: &errOut, Getenv: getenv}, system: sys}
	over := make(chan result, 1)
	go func() {
		status := a.run(t.Context())
		over <- result{status: status, errOut: errOut.String()}
	}()
	return over
}

func TestTopOnTerminal(t *testing.T) {
	m := newTerminal(t, 100, 30)
	sys := livelier()
	sys.stream.warnings = []string{"a probe is missing"}
	over := onTerminal(t, m, sys, nil, "top", "42", "--interval", "200ms")
	m.await("app", "pid 42", "LIVE▼", "main.worker", "none lost", "1 note", "every 200ms", "? help")
	m.press("2")
	m.await("COUNT▼", "IO wait")
	m.press("\t")
	m.await("sync.Mutex.Lock", "main.worker worker.go:12")
	m.press("\x1b[B\r") // down, enter
	m.await("contention ›", "esc back")
	m.press("\x1b")
	m.await("5 latency")
	m.press("4/18\r")
	m.await("/18 ", "▸      18")
	m.press("\r")
	m.await("goroutine 18", "CREATED", "main.send", "HISTORY", "blocked after")
	m.press("w")
	m.await("a probe is missing")
	m.press("\x1b")
	m.await("HISTORY")
	m.press("p")
	m.await("PAUSED")
	m.resize(40, 10)
	m.await("PAUSED", "goroutine 18")
	m.press("pq")
	r := <-over
	if r.status != exitDone || !sys.stream.closed {
		t.Errorf("%+v", r)
	}
	m.understood()
}

// TestTopStays shows the last picture of a target that has ended until the user leaves.
func TestTopStays(t *testing.T) {
	m := newTerminal(t, 80, 24)
	sys := livelier()
	sys.stream.goesOn = false
	over := onTerminal(t, m, sys, nil, "top", "42")
	m.await("ENDED", "process 42 has exited", "main.worker")
	m.press("4")
	m.await("ID", "IO wait")
	select {
	case r := <-over:
		t.Fatalf("it has left by itself: %+v", r)
	default:
	}
	m.press("\x03")
	if r := <-over; r.status != exitDone {
		t.Errorf("%+v", r)
	}
}

// TestTopProgram shows a program, keeps its output from the screen, and passes on its exit status.
func TestTopProgram(t *testing.T) {
	m := newTerminal(t, 80, 24)
	t.Setenv("TERM", "xterm-256color")
	sys := livelier()
	begun := filepath.Join(t.TempDir(), "begun")
	a := &app{Env: Env{Args: []string{"top", "--", "sh", "-c", "trap 'echo interrupted; exit 7' INT; echo begun; : >$0; while :; do sleep 0.05; done", begun},
		Stdin: m.stdio, Stdout: m.stdio, Stderr: m.stdio, Getenv: func(string) string { return "" }}, system: sys}
	over := make(chan int, 1)
	go func() { over <- a.run(t.Context()) }()
	if screen := m.await("main.worker", "created/s"); strings.Contains(screen, "begun") && strings.Contains(screen, "LIVE") {
		t.Errorf("the program writes on the view:\n%s", screen)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(begun); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the program does not begin")
		}
	}
	m.press("q")
	if status := <-over; status != 7 {
		t.Errorf("status %d", status)
	}
	m.await("interrupted")
}

func TestTopNoColour(t *testing.T) {
	for noColour, want := range map[string]bool{"yes": false, "": true} {
		m := newTerminal(t, 80, 24)
		over := onTerminal(t, m, livelier(), map[string]string{"NO_COLOR": noColour}, "top", "42")
		m.await("main.worker", "created/s")
		m.press("q")
		if r := <-over; r.status != exitDone {
			t.Errorf("%+v", r)
		}
		m.mu.Lock()
		if coloured := m.colours != ""; coloured != want {
			t.Errorf("NO_COLOR=%q: colours %q", noColour, m.colours)
		}
		m.mu.Unlock()
	}
}

func TestHeldOutput(t *testing.T) {
	var to lockedBuffer
	h := heldOutput{to: &to}
	h.Write([]byte("a"))
	h.hold()
	h.Write([]byte("b"))
	if to.String() != "a" {
		t.Errorf("%q", to.String())
	}
	h.release()
	h.Write([]byte("c"))
	if to.String() != "abc" {
		t.Errorf("%q", to.String())
	}
	h.hold()
	for range maxHeldOutput {
		h.Write([]byte("xyz"))
	}
	h.release()
	out := to.String()
	if len(out) > maxHeldOutput+200 || !strings.Contains(out, "the last 65536 of 196608 bytes") || !strings.HasSuffix(out, "xyz") {
		t.Errorf("%d bytes: %.100q", len(out), out)
	}
	var unset heldOutput
	unset.hold()
	unset.release()
}
