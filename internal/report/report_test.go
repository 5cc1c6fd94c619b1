package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/census"
	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/term"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares an output with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s\nwant:\n%s", path, got, want)
	}
}

func frame(function, file string, line int) event.StackFrame {
	return event.StackFrame{Frame: event.Frame{Func: function, File: file, Line: line}}
}

func hidden(function string) event.StackFrame {
	f := frame(function, "/go/src/runtime/proc.go", 435)
	f.Hidden = true
	return f
}

// sampleInfo and sampleSnapshot are a program with something of everything, hostile names included.
func sampleInfo() event.ProcessInfo {
	return event.ProcessInfo{PID: 4711, PPID: 1, User: "www", Exe: "/srv/or\x1b[31mders", GoVersion: "go1.22.12", Module: "example.com/orders",
		ModuleVersion: "v1.4.0", Arch: "amd64", Linkage: "static", Symbols: "stripped", CGO: true, Goroutines: 12,
		Engines: []string{"uprobe", "inline"}}
}

func sampleSnapshot() *event.Snapshot {
	send := []event.StackFrame{hidden("runtime.gopark"), hidden("runtime.chansend1"),
		frame("example.com/orders.ask", "/src/orders/search.go", 41)}
	creator := event.Frame{Func: "example.com/orders.search", File: "/src/orders/search.go", Line: 33}
	start := event.Frame{Func: "example.com/orders.ask", File: "/src/orders/search.go", Line: 38}
	snap := &event.Snapshot{Time: time.Date(2026, 3, 1, 14, 3, 22, 123456789, time.UTC), Elapsed: 3210 * time.Microsecond, PID: 4711,
		GoVersion: "go1.22.12", Unsettled: 1, Incomplete: 1, Warnings: []event.Warning{{Text: "one thing is uncertain"}}}
	add := func(g event.Goroutine) { snap.Goroutines = append(snap.Goroutines, g) }
	add(event.Goroutine{ID: 1, State: event.StateRunning, BestEffort: true, TID: 4711,
		Stack: []event.StackFrame{frame("main.main", "/src/orders/main.go", 12)}})
	add(event.Goroutine{ID: 2, State: event.StateWaiting, Reason: "force gc (idle)", System: true,
		Stack: []event.StackFrame{hidden("runtime.gopark"), hidden("runtime.forcegchelper")}, WaitMax: time.Hour})
	for i := range 10 {
		add(event.Goroutine{ID: uint64(18 + i), Parent: 1, State: event.StateWaiting, Reason: "chan send", Stack: send,
			Wait: time.Duration(i*80) * time.Second, WaitKnown: i > 0, WaitMax: 35 * time.Second, CreatedBy: creator, Start: start,
			Labels: map[string]string{"tenant": "acme", "note": "bad\u202etxt"}})
	}
	add(event.Goroutine{ID: 40, State: event.StateSyscall, Locked: true, TID: 4714, Truncated: true, WaitMax: 500 * time.Millisecond,
		CreatedBy: creator, Stack: []event.StackFrame{frame("evil.\x1b]0;owned\x07", "/src/\u2066evil.go", 1)}})
	add(event.Goroutine{ID: 41, State: event.StateLeaked, Reason: "chan receive", Wait: 26 * time.Hour, WaitKnown: true})
	return snap
}

func listing(filter census.Filter) *Goroutines {
	snap := sampleSnapshot()
	return &Goroutines{Info: sampleInfo(), Snapshot: snap, Selection: filter.Select(snap)}
}

func TestGoroutinesText(t *testing.T) {
	for name, change := range map[string]func(*Goroutines){
		"goroutines_groups.txt":  func(l *Goroutines) { l.Group = true },
		"goroutines_each.txt":    func(l *Goroutines) { l.Limit = 4 },
		"goroutines_hidden.txt":  func(l *Goroutines) { l.Group, l.HiddenFrames = true, true },
		"goroutines_limited.txt": func(l *Goroutines) { l.Group, l.Limit = true, 1 },
	} {
		l := listing(census.Filter{})
		change(l)
		var b bytes.Buffer
		if err := l.Text(&b, term.Style{}); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.Bytes())
	}
	l := listing(census.Filter{MinWait: 10 * time.Minute})
	l.Snapshot.Paused = true
	l.Group = true
	var b bytes.Buffer
	if err := l.Text(&b, term.Style{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "goroutines_filtered.txt", b.Bytes())
}

func TestGoroutinesJSON(t *testing.T) {
	for name, group := range map[string]bool{"goroutines.json": false, "groups.json": true} {
		l := listing(census.Filter{System: true})
		l.Group = group
		var b bytes.Buffer
		if err := l.JSON(&b); err != nil {
			t.Fatal(err)
		}
		if !json.Valid(b.Bytes()) {
			t.Errorf("%s is not JSON", name)
		}
		golden(t, name, b.Bytes())
	}
	l := listing(census.Filter{})
	l.Selection.Goroutines = nil
	var b bytes.Buffer
	if err := l.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var doc struct{ Goroutines []any }
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil || doc.Goroutines == nil {
		t.Errorf("no goroutines: %v, %s", err, b.Bytes())
	}
}

func TestProcesses(t *testing.T) {
	other := event.ProcessInfo{PID: 7, User: "root", Exe: "/usr/bin/x", GoVersion: "go1.26.8", Linkage: "pie", Symbols: "full", Goroutines: -1,
		Container: "4f2a9c0d1e2b3a4f2a9c0d1e2b3a4f2a9c0d1e2b3a4f2a9c0d1e2b3a4f2a9c0d"}
	list := []event.ProcessInfo{sampleInfo(), other}
	for name, width := range map[string]int{"ps.txt": 0, "ps_80.txt": 80} {
		var b bytes.Buffer
		if err := Processes(&b, term.Style{}, width, list); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.Bytes())
	}
	var b bytes.Buffer
	if err := ProcessesJSON(&b, list); err != nil {
		t.Fatal(err)
	}
	golden(t, "ps.json", b.Bytes())
	b.Reset()
	if err := ProcessesJSON(&b, nil); err != nil || b.String() != "[]\n" {
		t.Errorf("no process: %v, %q, want an empty array", err, b.String())
	}
}

func TestCheckUp(t *testing.T) {
	r := &checkup.Report{
		Machine: []checkup.Finding{
			{Name: "kernel", Status: checkup.OK, Found: "Linux 6.1.0 on amd64"},
			{Name: "Yama ptrace_scope", Status: checkup.Warn, Found: "1", Means: "without CAP_SYS_PTRACE only programs that Loupe itself started can be read",
				Remedy: "sudo loupe ..., or start the program with loupe ... -- PROG, or sudo sysctl kernel.yama.ptrace_scope=0"},
		},
		Target:    []checkup.Finding{{Name: "process", Status: checkup.Fail, Found: "process 1: not a \x1b[1mGo program"}},
		Abilities: []checkup.Ability{{Name: "snapshot", Does: "goroutines", Available: true}, {Name: "uprobe", Does: "events", Missing: []string{"CAP_BPF: sudo loupe ..."}}},
	}
	var b bytes.Buffer
	if err := CheckUp(&b, term.Style{}, 80, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "doctor_80.txt", b.Bytes())
}

func sampleComparison() *Comparison {
	first := sampleSnapshot()
	second := sampleSnapshot()
	second.Time = first.Time.Add(3 * time.Second)
	for i := range second.Goroutines {
		if g := &second.Goroutines[i]; g.WaitKnown {
			g.Wait += 3 * time.Second
		}
	}
	first.Goroutines = first.Goroutines[:8] // more of them join, and 40 is new
	return &Comparison{Info: sampleInfo(), Census: census.Compare(first, second)}
}

func TestComparison(t *testing.T) {
	var b bytes.Buffer
	if err := sampleComparison().Text(&b, term.Style{}, 80); err != nil {
		t.Fatal(err)
	}
	golden(t, "comparison_80.txt", b.Bytes())
	b.Reset()
	if err := sampleComparison().JSON(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "comparison.json", b.Bytes())
	b.Reset()
	snap := sampleSnapshot()
	snap.Goroutines = snap.Goroutines[:1]
	same := &Comparison{Info: sampleInfo(), Census: census.Compare(snap, snap)}
	if err := same.Text(&b, term.Style{}, 0); err != nil {
		t.Fatal(err)
	}
	golden(t, "comparison_no_leak.txt", b.Bytes())
}

// TestSlowGrowth checks that a growth of less than one goroutine a minute is not shown as 0.
func TestSlowGrowth(t *testing.T) {
	c := sampleComparison()
	s := c.Census.Suspects()
	if len(s) == 0 || s[0].Grown() <= 0 {
		t.Fatalf("suspects %+v", s)
	}
	grown := time.Duration(s[0].Grown())
	for interval, want := range map[time.Duration]string{
		grown * 2 * time.Minute:   "goroutines, +0.5 a minute\n",
		grown * time.Minute * 5:   "goroutines, +0.2 a minute\n",
		grown * time.Minute / 250: "goroutines, +250 a minute\n",
		grown * time.Minute * 500: "goroutines, +<0.1 a minute\n",
	} {
		c.Census.Interval = interval
		var b bytes.Buffer
		if err := c.Text(&b, term.Style{}, 0); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 730 * time.Microsecond: "730µs", 350 * time.Millisecond: "350ms", 12*time.Second + 900*time.Millisecond: "12s", 3*time.Minute + 12*time.Second: "3m12s",
		2 * time.Hour: "2h", 2*time.Hour + 5*time.Minute: "2h5m", 76 * time.Hour: "3d4h", -time.Second: "0s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%d) = %q, want %q", d, got, want)
		}
	}
}
