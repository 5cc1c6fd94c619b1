package loupe_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/internal/overlay"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/internal/tracetruth"
)

// buildWithAgent builds a program of package testtarget with the patched runtime and the agent of package glti/observe.
func buildWithAgent(t *testing.T, program, release string) string {
	t.Helper()
	dir := t.TempDir()
	for _, from := range []string{"common", program} {
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("internal/testtarget/testdata/src", from))); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod":       fmt.Sprintf("module example.com/%s\n\ngo 1.21\n\nrequire github.com/loupe-go/loupe/glti v0.1.0\n\nreplace github.com/loupe-go/loupe/glti => %s\n", program, filepath.Join(root, "glti")),
		"withagent.go": "package main\n\nimport _ \"github.com/loupe-go/loupe/glti/observe\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"GOTOOLCHAIN": "go" + release, "GOFLAGS": "", "GOWORK": "off", "CGO_ENABLED": "0"} {
		t.Setenv(name, value)
	}
	cache, err := overlay.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "built-"+program)
	c, err := overlay.Prepare(t.Context(), "build", []string{"-C", dir, "-o", exe, "."}, cache)
	if err != nil {
		t.Fatal(err)
	}
	cmd := testcmd.Command(t, c.Path, c.Args[1:]...)
	cmd.Env = c.Env
	if out, err := testcmd.Combined(cmd); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return exe
}

// startWithAgent starts a program with the agent, and returns its socket.
func startWithAgent(t *testing.T, exe string) (*testtarget.Process, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "loupe-agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := testcmd.Within(t, 0, exe)
	cmd.Env = append(os.Environ(), "GLTI_OBSERVE="+socket)
	return testtarget.StartCmd(t, cmd), socket
}

// agentRelease is the release with which tests of the agent build programs.
func agentRelease() string { return testtarget.Latest() }

// TestAgentTruth compares the events of the agent with the trace that the program records of itself, goroutine by goroutine.
func TestAgentTruth(t *testing.T) {
	release := agentRelease()
	exe := buildWithAgent(t, "selftrace", release)
	for attempt := 1; ; attempt++ { // on a busy machine the buffers of the program can overflow
		target, socket := startWithAgent(t, exe)
		path := filepath.Join(t.TempDir(), "trace")
		kinds := event.KindsDefault.Union(event.KindsSyscall)
		opt := truthOptions(kinds)
		opt.Engine, opt.System = loupe.EngineAgent, false
		events, offset, stats := observed(t, loupe.Socket(socket), opt, func() {}, func() {
			target.Command(fmt.Sprintf("trace %s %d", path, *truthRounds))
		})
		if stats.Lost > 0 && attempt < 10 {
			continue
		}
		truth := readTrace(t, path, release)
		dropUnobserved(t, truth, events)
		report := tracetruth.Compare(truth, events, tracetruth.Options{Kinds: kinds, Offset: offset, Untimed: *untimed})
		t.Log(report)
		if !report.OK() {
			t.Error("Loupe and the trace differ")
		}
		if got := report.Matched[event.GoCreate]; got < 500 {
			t.Errorf("%d creations of goroutines were compared", got)
		}
		return
	}
}

// dropUnobserved removes the goroutines of the runtime, and those of the agent, which wake others without being named.
func dropUnobserved(t *testing.T, truth *tracetruth.Trace, events []event.Event) {
	t.Helper()
	observed, wakers := map[uint64]bool{}, map[uint64]bool{}
	for i := range events {
		if k := events[i].Kind; k == event.GoStatus || k == event.GoCreate {
			observed[events[i].G] = true
		}
		wakers[events[i].By] = true
		if gostate.OfProgram().Has(events[i].Kind) {
			wakers[events[i].G] = true
		}
	}
	created, dropped, agent := map[uint64]bool{}, map[uint64]bool{}, map[uint64]bool{}
	for i := range truth.Records {
		if r := &truth.Records[i]; r.Kind == event.GoCreate {
			created[r.G] = true
			agent[r.G] = strings.HasPrefix(r.Start, "github.com/loupe-go/loupe/glti")
			dropped[r.G] = agent[r.G] || strings.HasPrefix(r.Start, "runtime.") && r.Start != "runtime.corostart"
		}
	}
	for i := range truth.Records { // the agent has no stacks of preempted goroutines
		if r := &truth.Records[i]; r.TraceReason == event.StopPreempted {
			r.Stack = nil
		}
	}
	for i := range events {
		if e := &events[i]; e.Reason == event.StopPreempted {
			e.Stack = nil
		}
	}
	old := func(g uint64) bool { return !created[g] && !observed[g] }                 // of the runtime or the agent
	truth.Records = slices.DeleteFunc(truth.Records, func(r tracetruth.Record) bool { // the agent has no other pauses
		return r.Kind == event.STWBegin && !strings.HasPrefix(r.TraceReason, "GC ")
	})
	if !observed[1] || dropped[1] {
		t.Error("goroutine 1 is not observed")
	}
	truth.Drop(func(g uint64) bool { return dropped[g] || old(g) }, func(g uint64) bool { return agent[g] || old(g) && !wakers[g] })
}

// TestAgentEngine observes a program by its agent and by engine uprobe at the same time. The goroutines that it creates meanwhile have the
// same lives and the same waits.
func TestAgentEngine(t *testing.T) {
	exe := buildWithAgent(t, "selftrace", agentRelease())
	for attempt := 1; ; attempt++ {
		target, socket := startWithAgent(t, exe)
		opt := loupe.Options{Kinds: event.KindsGoroutine, BufferBytes: 256 << 20, StackDepth: -1}
		var byAgent, byProbes []event.Event
		var lost, lostToo event.Stats
		opt.Engine = loupe.EngineUprobe
		byProbes, _, lost = observed(t, loupe.PID(target.PID()), opt, func() {}, func() {
			opt.Engine = loupe.EngineAgent
			byAgent, _, lostToo = observed(t, loupe.Socket(socket), opt, func() {}, func() {
				target.Command(fmt.Sprintf("trace %s 1", filepath.Join(t.TempDir(), "trace")))
			})
		})
		if lost.Lost+lostToo.Lost > 0 && attempt < 10 {
			continue
		}
		compareLives(t, livesOf(byAgent), livesOf(byProbes))
		return
	}
}

// A life is what a goroutine did that was created during the observation.
type life struct {
	parent  uint64
	start   string
	ended   bool
	waits   map[string]int           // by reason
	blocked map[string]time.Duration // by reason, of waits that have ended
}

// livesOf returns the lives of the goroutines of the program.
func livesOf(events []event.Event) map[uint64]*life {
	lives, since := map[uint64]*life{}, map[uint64]*event.Event{}
	for i := range events {
		e := &events[i]
		l := lives[e.G]
		switch {
		case e.Kind == event.GoCreate && strings.HasPrefix(e.Origin.Start.Func, "main."):
			lives[e.G] = &life{parent: e.Parent, start: e.Origin.Start.Func, waits: map[string]int{}, blocked: map[string]time.Duration{}}
		case l == nil:
		case e.Kind == event.GoBlock:
			l.waits[e.Reason]++
			since[e.G] = e
		case e.Kind == event.GoUnblock && since[e.G] != nil:
			l.blocked[since[e.G].Reason] += time.Duration(e.Time - since[e.G].Time)
			delete(since, e.G)
		case e.Kind == event.GoDestroy:
			l.ended = true
		}
	}
	return lives
}

// compareLives compares what two engines saw. Their times differ by the time that a probe takes, for each end of a wait.
func compareLives(t *testing.T, agent, probes map[uint64]*life) {
	t.Helper()
	waits := 0
	for g, a := range agent {
		p := probes[g]
		if p == nil {
			t.Errorf("goroutine %d (%s): unknown to engine uprobe", g, a.start)
			continue
		}
		if a.parent != p.parent || a.start != p.start || a.ended != p.ended || !maps.Equal(a.waits, p.waits) {
			t.Errorf("goroutine %d: %+v; engine uprobe: %+v", g, *a, *p)
		}
		for reason, n := range a.waits {
			waits += n
			if off := (a.blocked[reason] - p.blocked[reason]).Abs(); off > time.Duration(n)*100*time.Microsecond+20*time.Millisecond {
				t.Errorf("goroutine %d: %v of %s in %d waits; engine uprobe: %v", g, a.blocked[reason], reason, n, p.blocked[reason])
			}
		}
	}
	if len(agent) < 100 || waits < 500 {
		t.Errorf("%d goroutines with %d waits were compared", len(agent), waits)
	}
	t.Logf("%d goroutines, %d waits", len(agent), waits)
}

// agentVariable is the ID of the process that TestAgentUnprivileged observes without privileges.
const agentVariable = "LOUPE_TEST_AGENT"

// TestAgentUnprivileged observes a program. Neither it nor the observer has a capability, or can get one.
func TestAgentUnprivileged(t *testing.T) {
	if pid, err := strconv.Atoi(os.Getenv(agentVariable)); err == nil {
		observeUnprivileged(t, pid)
		return
	}
	testtarget.Needs(t, "setpriv", "util-linux")
	dir := t.TempDir()
	without := func(start func(testing.TB, string, ...string) *exec.Cmd, path string, args ...string) *exec.Cmd {
		list := []string{"--inh-caps=-all", "--no-new-privs", path}
		if os.Getuid() == 0 {
			list = append([]string{"--bounding-set=-all"}, list...)
		}
		cmd := start(t, "setpriv", append(list, args...)...)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
		return cmd
	}
	forever := func(t testing.TB, path string, args ...string) *exec.Cmd { return testcmd.Within(t, 0, path, args...) }
	target := testtarget.StartCmd(t, without(forever, buildWithAgent(t, "churn", agentRelease())))
	child := without(testcmd.Command, os.Args[0], "-test.run=^TestAgentUnprivileged$", "-test.v")
	child.Env = append(child.Env, agentVariable+"="+strconv.Itoa(target.PID()))
	if out, err := testcmd.Combined(child); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	if answer := target.Command("sum"); !strings.HasPrefix(answer, "sum ok") {
		t.Errorf("afterwards the program answers %q", answer)
	}
}

// observeUnprivileged observes a process with more events than anyone can read.
func observeUnprivileged(t *testing.T, pid int) {
	for _, id := range []string{"self", strconv.Itoa(pid)} {
		if status, err := os.ReadFile("/proc/" + id + "/status"); err != nil || !strings.Contains(string(status), "\nCapPrm:\t0000000000000000\n") {
			t.Fatalf("process %s has capabilities: %v\n%s", id, err, status)
		}
	}
	s, err := loupe.Attach(t.Context(), loupe.PID(pid), loupe.Options{Kinds: event.KindsDefault, BufferBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if path, ok := loupe.AgentSocket(pid); !ok || !strings.HasSuffix(path, strconv.Itoa(pid)+".sock") {
		t.Errorf("socket %q, %v", path, ok)
	}
	var counts [event.KindLimit]uint64
	marks, seen, n := uint64(0), uint64(0), 0
	for e := range s.Events() {
		if counts[e.Kind]++; e.Kind == event.Lost {
			marks += uint64(e.Value)
		} else {
			seen++
		}
		if n++; n == 20_000 {
			checkAgentBooks(t, s)
			s.Detach()
		}
	}
	stats := s.Stats()
	if err := s.Err(); err != nil || stats.Events != seen {
		t.Errorf("%v; %d events, counted %d", err, seen, stats.Events)
	}
	for kind, c := range stats.Kinds {
		if c.Produced != c.Received+c.Lost {
			t.Errorf("%v: %+v", kind, c)
		}
	}
	if stats.Lost == 0 || marks > stats.Lost || counts[event.GoCreate] == 0 || counts[event.GoDestroy] == 0 {
		t.Errorf("%d events lost, marks tell of %d; %v", stats.Lost, marks, counts)
	}
	t.Logf("%d events, %d lost", seen, stats.Lost)
}

// checkAgentBooks checks what a session knows of the process, apart from events.
func checkAgentBooks(t *testing.T, s *loupe.Session) {
	t.Helper()
	alive, err := s.Alive()
	if err != nil || !slices.Contains(alive, 1) {
		t.Errorf("alive: %v, %v", alive, err)
	}
	m, err := s.Memory(t.Context())
	if err != nil || m.Heap.TotalAlloc == 0 || m.Heap.Sys < m.Heap.Inuse || m.Runtime.Sys < m.Heap.Sys || m.Heap.Current == 0 || m.GC.Percent != 100 || m.Process.RSS == 0 {
		t.Errorf("memory: %+v, %v", m, err)
	}
	u, err := s.Usage()
	if err != nil || u.CPU == 0 || len(u.Threads) == 0 || u.Procs == 0 {
		t.Errorf("usage: %+v, %v", u, err)
	}
	if info := s.Info(); !strings.HasPrefix(info.GoVersion, "go1.") || info.PID != s.PID() {
		t.Errorf("info: %+v", info)
	}
}

// TestAgentBusy: engine auto uses another engine if the agent has its maximum of clients, and says why.
func TestAgentBusy(t *testing.T) {
	exe := buildWithAgent(t, "churn", agentRelease())
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	target := testtarget.StartCmd(t, testcmd.Within(t, 0, exe))
	opt := loupe.Options{Kinds: event.KindsGC}
	for range 4 {
		s, err := loupe.Attach(t.Context(), loupe.PID(target.PID()), opt)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if warnings := fmt.Sprint(s.Warnings()); strings.Contains(warnings, "another engine") {
			t.Fatalf("warnings %s", warnings)
		}
	}
	s, err := loupe.Attach(t.Context(), loupe.PID(target.PID()), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if warnings := fmt.Sprint(s.Warnings()); !strings.Contains(warnings, "another engine than the agent in the program") || !strings.Contains(warnings, "maximum") {
		t.Errorf("warnings %s", warnings)
	}
}

// TestAgentRefuses has clients that do not speak the protocol, and options that the agent does not have. The program goes on, and the agent
// serves the next client.
func TestAgentRefuses(t *testing.T) {
	target, socket := startWithAgent(t, buildWithAgent(t, "churn", agentRelease()))
	open := func(opt loupe.Options) error {
		s, err := loupe.Attach(t.Context(), loupe.Socket(socket), opt)
		if err == nil {
			s.Close()
		}
		return err
	}
	for _, opt := range []loupe.Options{{Kinds: event.KindsChannel}, {MinBlock: 1}, {Allocs: loupe.AllocOptions{By: loupe.AllocsByGoroutine}}} {
		if err := open(opt); !errors.Is(err, loupe.ErrUnsupported) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
	if err := open(loupe.Options{Engine: loupe.EngineUprobe}); err == nil {
		t.Error("engine uprobe has used the socket")
	}
	for _, text := range []string{"", "GET / HTTP/1.0\r\n\r\n", strings.Repeat("\xff", 100), "\x02\x00\x00\x00h\x00"} {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, text) // the agent may have gone
		c.Close()
	}
	// The earlier clients may not be gone yet.
	again := func(try func() error) {
		testcmd.UntilSeen(t, time.Second, func(d time.Duration) error {
			for end := time.Now().Add(d); ; time.Sleep(10 * time.Millisecond) {
				if err := try(); err == nil || time.Now().After(end) {
					return err
				}
			}
		})
	}
	again(func() error { return open(loupe.Options{}) })
	var many []*loupe.Session
	attach := func() error {
		s, err := loupe.Attach(t.Context(), loupe.Socket(socket), loupe.Options{Kinds: event.KindsGC})
		if err == nil {
			many = append(many, s)
		}
		return err
	}
	for range 4 {
		again(attach)
	}
	if err := attach(); err == nil || !strings.Contains(err.Error(), "maximum") {
		t.Errorf("a fifth client: %v", err)
	}
	for _, s := range many {
		s.Close()
	}
	if answer := target.Command("sum"); !strings.HasPrefix(answer, "sum ok") {
		t.Errorf("the program answers %q", answer)
	}
}
