package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/version"
)

// TestMain lets this test executable be the sample program that loupe demo starts, and loupe tracefile.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == demoProgram || os.Args[1] == "tracefile") {
		status := Main(Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv})
		if os.Getenv(peakVariable) != "" {
			writePeak()
		}
		os.Exit(status)
	}
	os.Exit(m.Run())
}

func TestUsageErrors(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"nonsense", `unknown command "nonsense"`},
		{"pss", "did you mean ps?"},
		{"--nonsense", "unknown flag: --nonsense"},
		{"ps --nonsense", "see loupe ps --help"},
		{"ps extra", `unexpected argument "extra"`},
		{"ps --log-level loud", "debug, info, warn, error"},
		{"version 1", "unexpected argument"},
		{"help nonsense", "no help for"},
		{"completion nonsense", "unexpected argument"},
		{"goroutines", "missing TARGET"},
		{"goroutines app 42", "expected one TARGET"},
		{"goroutines many", "many matches 3 processes: use one of the PIDs 5 6 7"},
		{"goroutines app -- prog", "either a TARGET or -- PROG"},
		{"goroutines --", "missing program after --"},
		{"goroutines --after 1s app", "--after applies only to programs that Loupe starts"},
		{"goroutines --state sleeping app", `unknown state "sleeping"`},
		{"goroutines --func ( app", "missing closing"},
		{"goroutines --created-by ( app", "missing closing"},
		{"goroutines --label =v app", "has no key"},
		{"goroutines --limit -1 app", "negative"},
		{"goroutines --min-wait soon app", "invalid argument"},
		{"profile app", "missing -o FILE"},
		{"profile app -o x --type nonsense", `unknown profile type "nonsense": must be one of goroutine, cpu, heap, create, block, mutex, sched, wall`},
		{"profile app -o x --duration 1s", "--duration does not apply to profiles of type goroutine"},
		{"profile app -o x --type block --pause", "--pause does not apply to profiles of type block"},
		{"profile app -o x --type sched --reason sleep", "--reason does not apply to profiles of type sched"},
		{"profile -o x --type sched --after 1s -- true", "--after does not apply to profiles of type sched"},
		{"profile app -o x --type sched --duration -1s", "negative"},
		{"profile app -o x --type heap --pause", "--pause does not apply to profiles of type heap"},
		{"profile app -o x --since-start", "--since-start does not apply to profiles of type goroutine"},
		{"profile app -o x --type mutex --since-start --duration 1s", "--duration does not apply with --since-start"},
		{"profile -o x --type mutex --since-start -- true", "requires a program that is running already"},
		{"trace", "missing TARGET"},
		{"trace app --kinds GoBlock,GoJump", `unknown kind "GoJump": must be one of default, all, goroutine`},
		{"trace app --stack -1", "negative"},
		{"trace app --duration -1s", "negative"},
		{"trace app --min-block -1s", "negative"},
		{"trace app --sample 0", "less than 1"},
		{"trace app --g 1,x", `--g "x" is not a goroutine ID`},
		{"trace app --g 0", `--g "0" is not`},
		{"trace app --func (", "missing closing"},
		{"trace app --buffer 0", "such as 16MiB"},
		{"trace app --buffer 3GiB", "such as 16MiB"},
		{"trace app --buffer much", "such as 16MiB"},
		{"trace app --engine magic", "must be one of auto, uprobe, inline"},
		{"trace app --after 1s", "unknown flag"},
		{"profile app -o - --json", "both write to stdout"},
		{"profile app -o x --rate 5", "--rate does not apply to profiles of type goroutine"},
		{"profile app -o x --type wall --rate 0", "--rate 0: must be more than 0 and at most 1000"},
		{"profile app -o x --type wall --rate NaN", "must be more than 0"},
		{"profile app -o x --type wall --reason sleep", "--reason does not apply to profiles of type wall"},
		{"profile app -o x --type block --rate 5", "--rate does not apply to profiles of type block"},
		{"profile app -o x --format svg", "must be one of pprof, flamegraph, folded"},
		{"profile app -o x --diff=", "--diff requires the name of a file"},
		{"profile app --type cpu --rate 1000 -o x", "--rate 1000: must be more than 0 and at most 999"},
		{"profile app --type cpu --rate 0 -o x", "--rate 0: must be more than 0 and at most 999"},
		{"profile app --type cpu --tag color -o x", "unknown tag \"color\": must be one of goroutine, gc"},
		{"profile app --type cpu --pause -o x", "--pause does not apply to profiles of type cpu"},
		{"demo --duration 0s", "not positive"},
		{"demo app", "unexpected argument"},
		{"report", "missing TARGET"},
		{"report --interval 0s app", "not positive"},
		{"report --after 1s app", "--after applies only to programs"},
		{"doctor 1 2", "expected one TARGET"},
	} {
		r := run(t, newFake(), strings.Fields(test.line)...)
		if r.status != exitUsage || r.out != "" || !strings.Contains(r.errOut, test.want) {
			t.Errorf("loupe %s: status %d, stdout %q, stderr %q; want %q", test.line, r.status, r.out, r.errOut, test.want)
		}
		if strings.Count(r.errOut, "\n") != 1 || !strings.HasPrefix(r.errOut, "loupe: ") || !strings.Contains(r.errOut, "--help") {
			t.Errorf("loupe %s: not one line with a hint: %q", test.line, r.errOut)
		}
	}
}

func TestTargetErrors(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
		want   string
	}{
		{fmt.Errorf("process 42: %w", loupe.ErrNoProcess), exitUnobservable, "loupe ps lists"},
		{fmt.Errorf("process 42: %w", loupe.ErrNotGo), exitUnobservable, "not a Go program"},
		{fmt.Errorf("process 42: %w: 32-bit", loupe.ErrUnsupported), exitUnobservable, "not supported: 32-bit; "},
		{fmt.Errorf("process 42: %w", loupe.ErrLayout), exitUnobservable, "report it"},
		{fmt.Errorf("process 42: %w", loupe.ErrExited), exitUnobservable, "has exited"},
		{fmt.Errorf("process 42: %w", loupe.ErrPermission), exitUnobservable, "permission denied: "},
		{fmt.Errorf("process 42: %w of \x1b]0;x\x07\nits", loupe.ErrNotGo), exitUnobservable, `\x1b]0;x\x07\x0aits`},
		{context.Canceled, exitFailed, "interrupted"},
	} {
		for _, command := range []string{"goroutines app", "profile app -o /dev/null", "trace app", "profile app --type block -o /dev/null"} {
			opening, reading := newFake(), newFake()
			opening.openErr, reading.snapErr = test.err, test.err
			opening.stream.attachErr, reading.stream.attachErr = test.err, test.err
			for _, sys := range []*fakeSystem{opening, reading} {
				r := run(t, sys, strings.Fields(command)...)
				if r.status != test.status || r.out != "" || !strings.Contains(r.errOut, test.want) || strings.Count(r.errOut, "\n") != 1 {
					t.Errorf("loupe %s after %q: status %d, stdout %q, stderr %q", command, test.err, r.status, r.out, r.errOut)
				}
			}
		}
	}
	if r := run(t, newFake(), "goroutines", "nobody"); r.status != exitUnobservable {
		t.Errorf("unknown target: %+v", r)
	}
}

func TestGoroutines(t *testing.T) {
	for _, test := range []struct {
		line      string
		want, not []string
	}{
		{"", []string{"2 goroutines [chan receive, 1m..1h]:", "main.worker", "best effort", "--system lists them", "goroutines 3, 4"},
			[]string{"runtime.gopark", "GC worker"}},
		{"--group=false", []string{"goroutine 3 [chan receive, 1m]:", "goroutine 4 [chan receive, 1h]:"}, []string{"2 goroutines ["}},
		{"--runtime-frames --system", []string{"runtime.gopark", "GC worker (idle)"}, []string{"--system lists"}},
		{"--min-wait 10m", []string{"goroutine 4", "1 of 3 goroutines"}, []string{"goroutine 3"}},
		{"--label k=v --reason CHAN --func worker --state waiting", []string{"goroutine 3"}, []string{"goroutine 4"}},
		{"--limit 1 --group=false", []string{"goroutine 1 ", "2 more goroutines not listed"}, []string{"goroutine 4 "}},
		{"--json", []string{`"count":4`, `"g":2`}, []string{"hidden", "2 goroutines ["}},
		{"--json --system=false", []string{`"count":3`}, []string{`"g":2`}},
		{"--json --group", []string{`"goroutines":[3,4]`, `"minWait":60`}, []string{`"g":`}},
	} {
		sys := newFake()
		r := run(t, sys, append([]string{"goroutines", "app"}, strings.Fields(test.line)...)...)
		if r.status != exitDone || r.errOut != "loupe: note: odd\\x1b thing\n" || sys.opened != 42 || sys.paused {
			t.Errorf("%s: status %d, stderr %q, pid %d, paused %v", test.line, r.status, r.errOut, sys.opened, sys.paused)
		}
		for _, want := range test.want {
			if !strings.Contains(r.out, want) {
				t.Errorf("%s: no %q in\n%s", test.line, want, r.out)
			}
		}
		for _, not := range test.not {
			if strings.Contains(r.out, not) {
				t.Errorf("%s: %q in\n%s", test.line, not, r.out)
			}
		}
		if strings.Contains(test.line, "json") && !json.Valid([]byte(r.out)) {
			t.Errorf("%s: not JSON: %s", test.line, r.out)
		}
	}
	sys := newFake()
	sys.notGo = map[int]bool{5: true, 7: true}
	if r := run(t, sys, "goroutines", "many"); r.status != exitDone || sys.opened != 6 {
		t.Errorf("one Go process among several of a name: %d, %+v", sys.opened, r)
	}
	sys.notGo[6] = true
	if r := run(t, sys, "goroutines", "many"); r.status != exitUnobservable || !strings.Contains(r.errOut, "many: none of 3 processes can be observed: not a Go program") {
		t.Errorf("no Go process among several of a name: %+v", r)
	}
	sys = newFake()
	if r := run(t, sys, "goroutines", "app", "--pause", "--quiet"); r.status != exitDone || !sys.paused || r.errOut != "" {
		t.Errorf("paused %v, %+v", sys.paused, r)
	}
}

func TestProfile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "g.pb.gz")
	r := run(t, newFake(), "profile", "app", "-o", file, "--type", "goroutine")
	if r.status != exitDone || r.out != "" || !strings.Contains(r.errOut, "3 goroutines") {
		t.Errorf("%+v", r)
	}
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r = run(t, newFake(), "profile", "app", "-o", "-")
	if r.status != exitDone || r.out != string(doc) {
		t.Errorf("what goes to stdout is not what goes to the file: status %d, %q", r.status, r.errOut)
	}
	p, err := profile.ParseData(doc)
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, s := range p.Sample {
		total += s.Value[0]
	}
	if total != 3 || p.DefaultSampleType != "goroutine" {
		t.Errorf("the profile has %d goroutines by %q", total, p.DefaultSampleType)
	}
	r = run(t, newFake(), "profile", "app", "-o", file, "--json")
	var done profileJSON
	if err := json.Unmarshal([]byte(r.out), &done); err != nil || done.Goroutines != 3 || done.File != file || done.Bytes != int64(len(doc)) {
		t.Errorf("%v: %s", err, r.out)
	}
	r = run(t, newFake(), "profile", "app", "-o", filepath.Join(t.TempDir(), "no", "such", "dir"))
	if r.status != exitFailed || !strings.Contains(r.errOut, "such/dir: no such file or directory") {
		t.Errorf("unwritable file: %+v", r)
	}
}

func TestRecordedProfile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.pb.gz")
	for _, kind := range []string{"heap", "block --since-start", "mutex --since-start"} {
		args := append([]string{"profile", "app", "-o", file, "--type"}, strings.Fields(kind)...)
		r := run(t, newFake(), args...)
		if r.status != exitDone || r.out != "" || !strings.Contains(r.errOut, "half of it is missing") || !strings.Contains(r.errOut, "wrote 1 sample to ") {
			t.Errorf("%s: %+v", kind, r)
		}
		r = run(t, newFake(), append(args, "--json")...)
		var done recordedProfileJSON
		if err := json.Unmarshal([]byte(r.out), &done); err != nil || done.Samples != 1 || done.Type != strings.Fields(kind)[0] || len(done.Notes) != 1 || done.Bytes == 0 {
			t.Errorf("%s: %v: %s", kind, err, r.out)
		}
		off := newFake()
		off.recordedErr = fmt.Errorf("process 42: %w: it sets the rate to 0", loupe.ErrProfileOff)
		r = run(t, off, args...)
		if r.status != exitUnobservable || !strings.Contains(r.errOut, "it sets the rate to 0") {
			t.Errorf("%s that is off: %+v", kind, r)
		}
	}
}

func TestPs(t *testing.T) {
	sys := newFake()
	sys.infos = []event.ProcessInfo{{PID: 42, User: "me", Exe: "/bin/app", GoVersion: "go1.22.1", Goroutines: 3}}
	sys.denied = []int{44}
	if r := run(t, sys, "ps"); !strings.Contains(r.errOut, "loupe: cannot read 1 process: permission denied: PID 44; ") {
		t.Errorf("one that may not be read: %+v", r)
	}
	sys.denied, sys.failed = []int{44, 45}, []error{errors.New("process 43: odd\x1b")}
	r := run(t, sys, "ps")
	if r.status != exitDone || !strings.Contains(r.out, "app") || !strings.Contains(r.errOut, `cannot list: process 43: odd\x1b`) ||
		!strings.Contains(r.errOut, "cannot read 2 processes: permission denied: PIDs 44 45; ") || strings.Count(r.errOut, "\n") != 2 {
		t.Errorf("%+v", r)
	}
	r = run(t, sys, "ps", "--json", "-q")
	var list []map[string]any
	if err := json.Unmarshal([]byte(r.out), &list); err != nil || len(list) != 1 || list[0]["pid"] != 42.0 || r.errOut != "" {
		t.Errorf("%v: %+v", err, r)
	}
	sys.infos = nil
	if r := run(t, sys, "ps"); r.status != exitFailed {
		t.Errorf("nothing but errors: %+v", r)
	}
	sys.denied, sys.failed = nil, nil
	if r := run(t, sys, "ps"); r.status != exitDone || !strings.Contains(r.out, "no Go process") {
		t.Errorf("nothing at all: %+v", r)
	}
}

func TestDoctor(t *testing.T) {
	r := run(t, newFake(), "doctor", "--json")
	var doc struct{ Machine, Target, Abilities []map[string]any }
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || len(doc.Machine) == 0 || doc.Target != nil || len(doc.Abilities) == 0 {
		t.Errorf("%v: %+v", err, r)
	}
	r = run(t, newFake(), "doctor", "app")
	if r.status != exitDone || !strings.Contains(r.out, "verified against the live process") {
		t.Errorf("%+v", r)
	}
	sys := newFake()
	sys.openErr = fmt.Errorf("process 42: %w", loupe.ErrNotGo)
	r = run(t, sys, "doctor", "app")
	if r.status != exitUnobservable || !strings.Contains(r.out, "not a Go program") || r.errOut != "" {
		t.Errorf("%+v", r)
	}
}

func TestDemo(t *testing.T) {
	sys := newFake()
	sys.stream.events, sys.stream.goesOn = sampleEvents(), true
	sys.stream.stats.Lost, sys.stream.warnings = 5, []string{"a kernel feature is missing"}
	r := run(t, sys, "demo", "--duration", "50ms")
	for _, want := range []string{"WHAT THEY DO", "Nothing looks leaked", "LIVE  13 events in ", " between the snapshots, 5 lost\n", "for sync.Mutex.Lock in main.worker",
		"for chan receive, 1.2ms on average", "main.worker, started at src/main.go:7", "note      a kernel feature is missing"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	if r.status != exitDone || r.errOut != "loupe: note: odd\\x1b thing\nloupe: note: odd\\x1b thing\n" || !sys.stream.closed {
		t.Errorf("status %d, stderr %q", r.status, r.errOut)
	}
	r = run(t, sys, "demo", "--duration", "50ms", "--json")
	var doc struct {
		Live struct {
			Events, Lost uint64
			Contended    []struct{ Reason string }
		}
	}
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || r.status != exitDone || doc.Live.Events != 13 || doc.Live.Lost != 5 || len(doc.Live.Contended) != 1 {
		t.Errorf("%v: %+v, %+v", err, doc, r)
	}
}

// TestDemoWithoutLiveEvents holds that the demo does without what is not permitted.
func TestDemoWithoutLiveEvents(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("process 42: probes: %w", loupe.ErrPermission): "LIVE  not shown: ",
		errors.New("no\x1b idea"):                                 `LIVE  not shown: no\x1b idea`,
		context.DeadlineExceeded:                                  "LIVE  not shown: attaching took longer than the time between the snapshots",
	} {
		sys := newFake()
		sys.stream.attachErr = err
		if r := run(t, sys, "demo", "--duration", "1ms"); r.status != exitDone || !strings.Contains(r.out, want) || !strings.Contains(r.out, "Nothing looks leaked") {
			t.Errorf("%v: %+v", err, r)
		}
		var doc struct{ Live struct{ Refused string } }
		r := run(t, sys, "demo", "--duration", "1ms", "--json")
		if err := json.Unmarshal([]byte(r.out), &doc); err != nil || r.status != exitDone || doc.Live.Refused == "" {
			t.Errorf("%v: %+v", err, r)
		}
	}
}

// TestReportIsThatOfTheDemo prints the same report of the same process by both commands.
func TestReportIsThatOfTheDemo(t *testing.T) {
	sys := newFake()
	sys.stream.events, sys.stream.goesOn = sampleEvents(), true
	keys := func(args ...string) (list []string) {
		t.Helper()
		var doc map[string]any
		r := run(t, sys, args...)
		if err := json.Unmarshal([]byte(r.out), &doc); err != nil || r.status != exitDone {
			t.Fatalf("%v: %+v", err, r)
		}
		return slices.Sorted(maps.Keys(doc))
	}
	demo, report := keys("demo", "--json", "--duration", "50ms"), keys("report", "--json", "--interval", "50ms", "app")
	if !slices.Equal(demo, report) || !slices.Contains(report, "live") || !slices.Contains(report, "suspects") {
		t.Errorf("demo has %q, report %q", demo, report)
	}
	r := run(t, sys, "demo", "--duration", "50ms")
	if !strings.HasSuffix(r.out, "\nFor the same report on your own program: loupe report PID (loupe ps lists PIDs)\n") {
		t.Errorf("the demo ends with %q", r.out[max(0, len(r.out)-200):])
	}
	r = run(t, sys, "report", "--interval", "50ms", "--engine", "inline", "app")
	for _, want := range []string{"  pid 42, ", "WHAT THEY DO", "LIVE  13 events", "Nothing looks leaked"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	if sys.stream.options.Engine != loupe.EngineInline {
		t.Errorf("engine %q", sys.stream.options.Engine)
	}
	sys.stream.attachErr = errors.New("must not be called")
	r = run(t, sys, "report", "--interval", "50ms", "--live=false", "app")
	if r.status != exitDone || strings.Contains(r.out, "LIVE") || !strings.Contains(r.out, "Nothing looks leaked") {
		t.Errorf("without live events: %+v", r)
	}
}

func TestVersion(t *testing.T) {
	var v version.Info
	r := run(t, newFake(), "version", "--json")
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || v.Version == "" || !strings.HasPrefix(v.Go, "go1.") {
		t.Errorf("%v: %+v", err, r)
	}
	r = run(t, newFake(), "version")
	if !strings.Contains(r.out, v.Version) {
		t.Errorf("%+v", r)
	}
	if flag := run(t, newFake(), "--version"); flag != r {
		t.Errorf("--version: %+v, version: %+v", flag, r)
	}
}

// TestHelp holds every command to what CLI.md promises: help with an example, and words for every flag.
func TestHelp(t *testing.T) {
	a := &app{Env: Env{Stdout: &bytes.Buffer{}}}
	var check func(*cobra.Command)
	check = func(c *cobra.Command) {
		if c.Parent() == nil || c.Parent().Name() != "completion" { // cobra writes those, with examples in their text
			if c.Example == "" || !strings.Contains(c.Example, "loupe") {
				t.Errorf("%s has no example", c.CommandPath())
			}
			for _, line := range strings.Split(c.Long, "\n") {
				if len(line) > 80 {
					t.Errorf("%s: help is wider than 80 columns: %q", c.CommandPath(), line)
				}
			}
		}
		if c.Short == "" {
			t.Errorf("%s is not described", c.CommandPath())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s is not described", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(a.rootCommand())
	if r := run(t, newFake()); r.status != exitDone || strings.Contains(r.out, demoProgram) {
		t.Errorf("plain loupe: status %d, %s", r.status, r.out)
	}
	if r := run(t, newFake(), "help", "goroutines"); r.status != exitDone || !strings.Contains(r.out, "--min-wait") {
		t.Errorf("help goroutines: %+v", r)
	}
}

func TestCompletion(t *testing.T) {
	sys := newFake()
	sys.infos = []event.ProcessInfo{{PID: 42, Exe: "/bin/app"}, {PID: 43, Exe: "/opt/app"}, {PID: 44, Exe: "/bin/other"}, {PID: 45, Exe: "/bin/a\tb\nc"}}
	want := "app\t2 processes\nother\tPID 44\n42\tapp\n43\tapp\n44\tother\n45\ta\\x09b\\x0ac\n:0\n"
	if r := run(t, sys, "__complete", "goroutines", ""); r.out != want {
		t.Errorf("targets: %q, want %q", r.out, want)
	}
	if r := run(t, sys, "__complete", "trace", "--", ""); strings.Contains(r.out, "app") {
		t.Errorf("processes are offered as programs to start: %q", r.out)
	}
	if r := run(t, sys, "__complete", "goroutines", "--state", ""); !strings.Contains(r.out, "runnable\n") {
		t.Errorf("states: %q", r.out)
	}
	if r := run(t, sys, "completion", "bash"); r.status != exitDone || !strings.Contains(r.out, "__start_loupe") {
		t.Errorf("script: status %d", r.status)
	}
}
