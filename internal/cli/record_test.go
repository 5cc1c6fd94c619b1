package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/testcmd"
)

// transitions counts the changes of goroutines' states in a Go execution trace, and those to be run.
func transitions(t *testing.T, file string) (changes, starts int) {
	t.Helper()
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := xtrace.NewReader(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	for {
		ev, err := r.ReadEvent()
		if errors.Is(err, io.EOF) {
			return changes, starts
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind() != xtrace.EventStateTransition || ev.StateTransition().Resource.Kind != xtrace.ResourceGoroutine {
			continue
		}
		from, to := ev.StateTransition().Goroutine()
		if from != to {
			changes++
		}
		if from == xtrace.GoRunnable && to == xtrace.GoRunning {
			starts++
		}
	}
}

func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.trace")
	sys := newStream()
	r := run(t, sys, "record", "app", "-o", file)
	if r.status != exitDone || r.out != "" || !strings.Contains(r.errOut, "of events (2 goroutines, 1 alive at the end) to "+file) || !strings.Contains(r.errOut, "go tool trace "+file) {
		t.Errorf("status %d, %q, stderr %q", r.status, r.out, r.errOut)
	}
	if opt := sys.stream.options; !opt.Procs || opt.Kinds != event.KindsDefault.Union(event.KindsMemory) || opt.StackDepth != loupe.DefaultStackDepth {
		t.Errorf("the engine is asked for %+v", opt)
	}
	if changes, _ := transitions(t, file); changes < 8 {
		t.Errorf("%d changes of state are in the file", changes)
	}

	r = run(t, newStream(), "record", "app", "-o", file, "--json", "--format", "chrome", "-q")
	var done recordJSON
	if err := json.Unmarshal([]byte(r.out), &done); err != nil || r.errOut != "" || done.File != file || done.Format != "chrome" || done.Events != 13 || done.Bytes < 100 {
		t.Errorf("%+v, %v, stderr %q", done, err, r.errOut)
	}
	r = run(t, newStream(), "record", "app", "-o", "-", "--format", "text")
	if r.status != exitDone || !strings.HasPrefix(r.out, "Trace Go1.2") || !strings.Contains(r.out, "\nGoStart dt=") {
		t.Errorf("status %d, %.200q, stderr %q", r.status, r.out, r.errOut)
	}
}

// TestRecordSpans checks what is asked for, and what is reported.
func TestRecordSpans(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.trace")
	sys := newStream()
	sys.stream.spanCounts = loupe.SpanCounts{Counts: join.Counts{Begun: 5, Ended: 4, Open: 1, Unobserved: 2}}
	r := run(t, sys, "record", "app", "-o", file, "--spans")
	if r.status != exitDone || !strings.Contains(r.errOut, "(2 goroutines, 1 alive at the end, 5 spans) to "+file) || !strings.Contains(r.errOut, "loupe: 2 spans with an unknown end\n") {
		t.Errorf("status %d, stderr %q", r.status, r.errOut)
	}
	if opt := sys.stream.options; !opt.Spans.Tasks || opt.Spans.Allocs || opt.Kinds != event.KindsDefault.Union(event.KindsMemory) {
		t.Errorf("the session has %+v", opt)
	}
	run(t, sys, "record", "app", "-o", file, "--spans", "--allocs")
	if opt := sys.stream.options; !opt.Spans.Tasks || !opt.Spans.Allocs {
		t.Errorf("the session has %+v", opt)
	}
	r = run(t, sys, "record", "app", "-o", file, "--spans", "--last", "1s", "--json")
	var done recordJSON
	if err := json.Unmarshal([]byte(r.out), &done); err != nil || done.Spans != 5 {
		t.Errorf("%+v, %v, stderr %q", done, err, r.errOut)
	}
}

func TestRecordUsage(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"record app", "missing -o FILE"},
		{"record app -o f --format svg", "must be one of go, text, perfetto, chrome"},
		{"record app -o f --when-blocked 1s", "conditions require --last"},
		{"record app -o f --last 1s --reason select", "--reason requires --when-blocked"},
		{"record app -o - --last 1s", "--last cannot write to stdout"},
		{"record app -o f --last -1s", "must not be negative"},
		{"record app -o f --last 1s --when-goroutines 5 --kinds GoBlock", "require --kinds with GoStatus,GoCreate"},
		{"record app -o f --kinds nonsense", "nonsense"},
		{"record app -o f --spans --kinds gc", "--spans requires --kinds with GoStatus,GoCreate"},
		{"record app -o f --allocs", "--allocs requires --spans"},
		{"record app -o f --memory-interval 1ms", "--memory-interval 1ms is too short"},
		{"record app -o f --stack 1000", "--stack 1000 is too large"},
	} {
		r := run(t, newStream(), strings.Fields(test.line)...)
		if r.status != exitUsage || !strings.Contains(r.errOut, test.want) {
			t.Errorf("%s: status %d, %q", test.line, r.status, r.errOut)
		}
	}
	r := run(t, newStream(), "record", "app", "-o", "/nonexistent/f")
	if r.status != exitFailed || !strings.Contains(r.errOut, "cannot write /nonexistent/f: no such file or directory") {
		t.Errorf("status %d, %q", r.status, r.errOut)
	}
	r = run(t, newStream(), "record", "app", "-o", "/dev/full")
	if r.status != exitFailed || !strings.Contains(r.errOut, "no space left on device") {
		t.Errorf("status %d, %q", r.status, r.errOut)
	}
}

func TestRecordLast(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "app.trace")
	r := run(t, newStream(), "record", "app", "-o", file, "--last", "1s", "--when-blocked", "1ms", "--reason", "chan receive", "--json")
	var done recordJSON
	if err := json.Unmarshal([]byte(r.out), &done); err != nil || !strings.Contains(done.Why, "goroutine 18 has been blocked for") {
		t.Errorf("%+v, %v, stderr %q", done, err, r.errOut)
	}
	if changes, _ := transitions(t, file); changes < 3 {
		t.Errorf("%d changes of state are in the file", changes)
	}

	// A condition that is met while nothing happens.
	sys := newStream()
	sys.stream.goesOn = true
	now := time.Now().UnixNano()
	sys.stream.events = []event.Event{{Time: now, Kind: event.GoStatus, G: 7, State: event.StateWaiting, Reason: "chan send"},
		{Time: now + 1, Kind: event.GCBegin}}
	r = run(t, sys, "record", "app", "-o", file, "--last", "1s", "--when-blocked", "100ms")
	if r.status != exitDone || !strings.Contains(r.errOut, "goroutine 7 has been blocked for") || !strings.Contains(r.errOut, ": chan send") {
		t.Errorf("status %d, %q", r.status, r.errOut)
	}

	// Asked for by a signal, it writes a file and goes on.
	sys = newStream()
	sys.stream.goesOn = true
	kept := make(chan os.Signal, 1)
	signal.Notify(kept, syscall.SIGUSR1) // a signal that comes too early does not end this process
	defer signal.Stop(kept)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var errOut lockedBuffer
	a := &app{Env: Env{Args: []string{"record", "app", "-o", file, "--last", "1s"}, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &errOut,
		Getenv: func(string) string { return "" }}, system: sys}
	status := make(chan int)
	go func() { status <- a.run(ctx) }()
	await := func(what string, so func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("waiting for %s in vain: %q", what, errOut.String())
				return
			}
		}
	}
	await("the events to be recorded", func() bool { return atomic.LoadUint64(&sys.stream.consumed) == uint64(len(sys.stream.events)) })
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	asked := func() bool { return strings.Contains(errOut.String(), "app-1.trace, ") }
	await("the file that was asked for", asked)
	end()
	if s := <-status; s != exitDone || strings.Count(errOut.String(), "wrote ") != 2 || !asked() {
		t.Errorf("status %d, %q", s, errOut.String())
	}
	for _, name := range []string{file, filepath.Join(dir, "app-1.trace")} {
		if changes, _ := transitions(t, name); changes < 8 {
			t.Errorf("%s: %d changes of state", name, changes)
		}
	}
}

// TestRecordLastAfter sees that a recording goes on after a condition is met, so that it has the end of the wait, and that
// the message names the place.
func TestRecordLastAfter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.trace")
	begin := time.Now().UnixNano()
	at := func(d time.Duration, e event.Event) event.Event {
		e.Time, e.TID, e.P = begin+int64(d), 5, event.ProcOf(0)
		return e
	}
	stack := &event.Stack{Frames: []event.Frame{{Func: "sync.(*Mutex).Lock", File: "/go/src/sync/mutex.go", Line: 1}, {Func: "main.transfer", File: "/src/bank.go", Line: 12}}}
	const ms = time.Millisecond
	events := []event.Event{
		at(0, event.Event{Kind: event.GoStatus, G: 9, State: event.StateRunning}),
		at(1*ms, event.Event{Kind: event.GoBlock, G: 9, Reason: "chan receive"}),
		at(2*ms, event.Event{Kind: event.GoStart, G: 7}),
		at(3*ms, event.Event{Kind: event.GoBlock, G: 7, Reason: "sync.Mutex.Lock", Stack: stack}),
		at(14*ms, event.Event{Kind: event.GCBegin}), // the wait is too long now
		at(15*ms, event.Event{Kind: event.GCEnd}),
		at(500*ms, event.Event{Kind: event.GoUnblock, G: 7, By: 9}),
		at(501*ms, event.Event{Kind: event.GoStart, G: 7}),
		at(2000*ms, event.Event{Kind: event.GoBlock, G: 7, Reason: "chan receive"}),
	}
	for _, test := range []struct {
		flags  string
		starts int // those that the writer adds included
		want   string
	}{
		{"--when-blocked 10ms --after 0s", 2, "goroutine 7 has been blocked for 11ms in main.transfer (/src/bank.go:12): sync.Mutex.Lock"},
		{"--when-blocked 10ms", 5, "goroutine 7 has been blocked for 11ms in main.transfer (/src/bank.go:12): sync.Mutex.Lock"},
		{"--when-blocked 10s --when-goroutines 7", 5, "no condition was met (--when-blocked 10s --when-goroutines 7)"},
	} {
		sys := newStream()
		sys.stream.events = events
		r := run(t, sys, append([]string{"record", "app", "-o", file, "--last", "5s"}, strings.Fields(test.flags)...)...)
		if r.status != exitDone || !strings.Contains(r.errOut, test.want) {
			t.Errorf("%s: status %d, %q", test.flags, r.status, r.errOut)
		}
		if _, starts := transitions(t, file); starts != test.starts {
			t.Errorf("%s: %d starts are in the file, want %d", test.flags, starts, test.starts)
		}
	}
}

// TestRecordCounts compares the numbers of goroutines that record prints with those that stat prints of the file, and of
// what convert makes of it: they are the same, also after losses and of goroutines that no event introduced.
func TestRecordCounts(t *testing.T) {
	lossy := newStream()
	begin := lossy.stream.events[0].Time
	for i, e := range []event.Event{
		{Kind: event.GoStart, G: 70}, {Kind: event.GoCreate, G: 71, Parent: 70}, {Kind: event.Lost, Value: 3}, {Kind: event.GoDestroy, G: 72},
		{Kind: event.GoUnblock, G: 73}, {Kind: event.GCBegin}, {Kind: event.GCEnd}, {Kind: event.GoDestroy, G: 70},
	} {
		e.Time, e.TID = begin+int64(i)*int64(700*time.Millisecond), 5
		lossy.stream.events = append(lossy.stream.events, e)
	}
	type counts struct{ Goroutines, Alive int }
	for _, test := range []struct {
		name   string
		system system
		target string
		flags  string
	}{
		{"made up", newStream(), "app", ""},
		{"with losses", lossy, "app", ""},
		{"with losses, the last of it", lossy, "app", "--last 1s"},
		{"the sample", machine{}, startSample(t), "--duration 500ms"},
		{"the sample, the last of it", machine{}, startSample(t), "--duration 2s --last 500ms"},
	} {
		file := filepath.Join(t.TempDir(), "app.trace")
		r := run(t, test.system, append([]string{"record", test.target, "-o", file, "--json"}, strings.Fields(test.flags)...)...)
		var want counts
		if err := json.Unmarshal([]byte(r.out), &want); err != nil || want.Goroutines == 0 {
			t.Fatalf("%s: %v: status %d, %q, %q", test.name, err, r.status, r.out, r.errOut)
		}
		again := filepath.Join(t.TempDir(), "again.trace")
		if r := run(t, test.system, "tracefile", "convert", file, "-o", again, "--format", "go"); r.status != exitDone {
			t.Errorf("%s: convert: %q", test.name, r.errOut)
		}
		if r := run(t, test.system, "tracefile", "validate", file); r.status != exitDone {
			t.Errorf("%s: validate: %q", test.name, r.out)
		}
		for _, file := range []string{file, again} {
			r := run(t, test.system, "tracefile", "stat", "--json", file)
			var stat struct{ Goroutines struct{ Total, Alive int } }
			if err := json.Unmarshal([]byte(r.out), &stat); err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			if got := (counts{stat.Goroutines.Total, stat.Goroutines.Alive}); got != want {
				t.Errorf("%s: stat of %s: %+v, record: %+v", test.name, filepath.Base(file), got, want)
			}
		}
	}
}

// TestRecordSample records the sample program, once as a whole and once its last second.
func TestRecordSample(t *testing.T) {
	pid := startSample(t)
	file := filepath.Join(t.TempDir(), "sample.trace")
	for _, flags := range []func(time.Duration) string{
		func(d time.Duration) string { return fmt.Sprintf("--duration %v", d) },
		func(d time.Duration) string { return fmt.Sprintf("--duration %v --last %v", 2*d, d) },
		func(d time.Duration) string {
			return fmt.Sprintf("--duration %v --last %v --when-goroutines 120", 10*d, 5*d)
		},
	} {
		testcmd.UntilSeen(t, time.Second, func(d time.Duration) error {
			line := flags(d)
			r := run(t, machine{}, append([]string{"record", pid, "-o", file}, strings.Fields(line)...)...)
			if r.status != exitDone {
				t.Fatalf("%s: status %d, stderr %q", line, r.status, r.errOut)
			}
			changes, starts := transitions(t, file)
			t.Logf("%s: %d changes, %d starts, %q", line, changes, starts, r.errOut)
			if changes < 100 || starts < 30 {
				return fmt.Errorf("%s: %d changes of state, %d starts", line, changes, starts)
			}
			return nil
		})
	}
}
