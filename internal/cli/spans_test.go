package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/testcollector"
	"github.com/loupe-go/loupe/spans"
)

// newSpans returns a system whose processes serve three requests. One of them is slow, and sends a request.
func newSpans() *fakeSystem {
	sys := newFake()
	context := func(request, id byte) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{request}, SpanID: trace.SpanID{request, 7: id}, TraceFlags: trace.FlagsSampled})
	}
	add := func(s spans.Span, start, micros int64) {
		s.Library, s.PID, s.G = "net/http", 42, 18
		s.Start = 1700000000_123456789 + start*1000
		s.End = s.Start + micros*1000
		sys.stream.spans = append(sys.stream.spans, s)
	}
	method := attribute.String("http.request.method", "GET")
	for i := range byte(2) {
		add(spans.Span{Context: context(i+1, 1), Kind: trace.SpanKindServer, Name: "GET /items/{id}", Attributes: []attribute.KeyValue{method},
			Work: &spans.Work{Own: spans.Times{spans.Running: 300, spans.Network: 100}}}, int64(i)*1000, 400)
	}
	add(spans.Span{Context: context(3, 2), Parent: context(3, 1), Rule: spans.RuleGoroutine, Kind: trace.SpanKindClient, Name: "GET",
		Attributes: []attribute.KeyValue{method, attribute.String("url.full", "http://stock/\x1b[2J")}}, 6000, 50000)
	slow := spans.Span{Context: context(3, 1), Kind: trace.SpanKindServer, Name: "GET /slow", Attributes: []attribute.KeyValue{method, attribute.Int("http.response.status_code", 500)},
		Work: &spans.Work{Own: spans.Times{spans.Running: 10 * time.Millisecond, spans.Chan: 90 * time.Millisecond}}}
	slow.Fail("")
	add(slow, 5000, 100000)
	sys.stream.events = sampleEvents()
	sys.stream.spanCounts.Counts = join.Counts{Begun: 5, Ended: 4, Open: 1}
	return sys
}

func TestSpansText(t *testing.T) {
	sys := newSpans()
	r := run(t, sys, "spans", "app", "-q")
	lines := strings.Split(r.out, "\n")
	if r.status != exitDone || r.errOut != "" || len(lines) != 5 || !sys.stream.closed {
		t.Fatalf("%+v", r)
	}
	for i, want := range []string{`^COUNT +/S +ERRORS +P50 +P99 +MAX +KIND +OPERATION +SPENT$`, `^ +2 .* 0 +4\d\dµs .* server +GET /items/\{id\} +75 % running, 25 % network$`,
		`^ +1 .* 1 .* server +GET /slow +90 % chan, 10 % running$`, `^ +1 .* 0 .* client +GET$`, `^$`} {
		if !regexp.MustCompile(want).MatchString(lines[i]) {
			t.Errorf("line %q, want %s", lines[i], want)
		}
	}
	if r := run(t, newSpans(), "spans", "app", "--top", "1"); !strings.Contains(r.out, "2 more operations (--top 0 shows all)\n") || r.errOut != "loupe: process 42 has exited\n" {
		t.Errorf("%+v", r)
	}
}

func TestSpansSlower(t *testing.T) {
	for limit, want := range map[string][]string{"100ms": {"GET /slow"}, "101ms": nil, "1ns": {"GET /items/{id}", "GET /items/{id}", "GET /slow"}} {
		r := run(t, newSpans(), "spans", "app", "-q", "--slower-than", limit)
		var got []string
		for _, m := range regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3}  \S+  (GET \S+).*  trace [0-9a-f]{32}$`).FindAllStringSubmatch(r.out, -1) {
			got = append(got, m[1])
		}
		if !slices.Equal(got, want) || r.status != exitDone {
			t.Errorf("%s: %q, want %q; %+v", limit, got, want, r)
		}
		if table := strings.Index(r.out, "COUNT"); table < strings.LastIndex(r.out, "trace ") {
			t.Errorf("the table is not at the end:\n%s", r.out)
		}
		if limit == "100ms" && (!strings.Contains(r.out, "  chan 90ms (90 %), running 10ms (10 %)\n") || !strings.Contains(r.out, `    GET stock/\x1b[2J  `) || strings.Contains(r.out, "\x1b")) {
			t.Errorf("%s", r.out)
		}
	}
}

func TestSpansJSON(t *testing.T) {
	sys := newSpans()
	sys.stream.spanCounts.Notes.Lost = 3
	r := run(t, sys, "spans", "app", "-q", "--json", "--slower-than", "1ns", "--interval", "1ms") // which apply to text
	lines := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	if r.status != exitDone || len(lines) != 5 {
		t.Fatalf("%+v", r)
	}
	var last struct {
		TraceID, SpanID, ParentSpanID, Name, Kind, Status string
		Start, End                                        time.Time
		Attributes                                        map[string]any
	}
	if err := json.Unmarshal([]byte(lines[2]), &last); err != nil || last.TraceID != "03000000000000000000000000000000" || last.SpanID != "0300000000000002" ||
		last.ParentSpanID != "0300000000000001" || last.Name != "GET" || last.Kind != "client" || last.Status != "unset" || last.End.Sub(last.Start) != 50*time.Millisecond ||
		last.Attributes["http.request.method"] != "GET" {
		t.Errorf("%v: %s", err, lines[2])
	}
	var sum struct {
		Kind              string
		Seconds           *float64
		Spans, Lost, Open *int
	}
	if err := json.Unmarshal([]byte(lines[4]), &sum); err != nil || sum.Kind != "Summary" || sum.Seconds == nil || *sum.Spans != 4 || *sum.Lost != 3 || *sum.Open != 1 {
		t.Errorf("%v: %s", err, lines[4])
	}
}

// TestSpansInterval prints the table again and again.
func TestSpansInterval(t *testing.T) {
	sys := newSpans()
	sys.stream.goesOn = true
	r := run(t, sys, "spans", "app", "-q", "--interval", "20ms", "--duration", "500ms")
	if n := strings.Count(r.out, "COUNT "); r.status != exitDone || n < 3 || strings.Count(r.out, "\n\n") != n-1 || strings.Contains(r.out, "\x1b") {
		t.Errorf("%d tables: %+v", n, r)
	}
	sys = newSpans()
	sys.stream.goesOn = true
	if r := run(t, sys, "spans", "app", "-q", "--duration", "100ms"); strings.Count(r.out, "COUNT ") != 1 {
		t.Errorf("no table at the end only: %+v", r)
	}
}

func TestSpansLoss(t *testing.T) {
	var counts loupe.SpanCounts
	counts.Unobserved, counts.Strays, counts.Mismatched, counts.Unlisted, counts.Notes.Lost = 1, 2, 3, 4, 5000
	sys := newSpans()
	sys.stream.spanCounts = counts
	sys.stream.stats.Lost = 7
	r := run(t, sys, "spans", "app", "-q")
	want := `loupe: 5,000 reports of begins and ends lost: the buffer was full; increase --buffer
loupe: 1 span with an unknown end
loupe: 2 spans not reported: the begin was before the observation, or was lost
loupe: 3 spans not reported: data with an unexpected layout
loupe: 4 goroutines of requests not observed: too many at once
loupe: 7 events were lost: the buffer was full; increase --buffer or select fewer events
`
	if r.status != exitDone || r.errOut != want || !strings.Contains(r.out, "COUNT ") {
		t.Errorf("%+v, want %s", r, want)
	}
	sys = newSpans()
	one := sys.stream.spans[2]
	one.Parent = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{9}, SpanID: trace.SpanID{8}})
	for i := range maxWaiting + 5 { // requests that do not end
		one.Context = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{9, byte(i >> 8), byte(i)}, SpanID: trace.SpanID{9}})
		sys.stream.spans = append(sys.stream.spans, one)
	}
	if r := run(t, sys, "spans", "app", "-q", "--slower-than", "1s"); r.errOut != "loupe: 5 spans omitted from single requests: too many requests at once\n" {
		t.Errorf("%+v", r.errOut)
	}
}

// TestSpansOptions looks at what the session is asked for.
func TestSpansOptions(t *testing.T) {
	sys := newSpans()
	r := run(t, sys, "spans", "42", "--allocs", "--no-breakdown", "--stack", "3", "--engine", "inline", "--buffer", "1MiB")
	opt := sys.stream.options
	if r.status != exitDone || !opt.Spans.NoWork || !opt.Spans.Allocs || opt.Spans.Sample != nil || len(opt.Spans.Functions) != 0 || opt.StackDepth != 3 || opt.Engine != loupe.EngineInline || opt.BufferBytes != 1<<20 || opt.Log == nil {
		t.Errorf("%+v, %+v", r, opt)
	}
}

// TestSpansProfilerMap asks for the map of a profiler.
func TestSpansProfilerMap(t *testing.T) {
	for flag, want := range map[string]string{"--profiler-map": loupe.DefaultProfilerMap, "--profiler-map=/sys/fs/bpf/map": "/sys/fs/bpf/map", "-q": ""} {
		sys := newSpans()
		if r := run(t, sys, "spans", "42", flag); r.status != exitDone || sys.stream.options.Spans.ProfilerMap != want {
			t.Errorf("%s: %+v, %q", flag, r, sys.stream.options.Spans.ProfilerMap)
		}
	}
	for _, more := range [][]string{{"--no-breakdown"}, {"--engine", "inline"}} {
		r := run(t, newSpans(), append([]string{"spans", "42", "--profiler-map"}, more...)...)
		if r.status != exitUsage || !strings.Contains(r.errOut, "--profiler-map") || strings.Count(r.errOut, "\n") != 1 {
			t.Errorf("%v: %+v", more, r)
		}
	}
}

// TestSpansFunctions selects functions.
func TestSpansFunctions(t *testing.T) {
	sys := newSpans()
	r := run(t, sys, "spans", "42", "--func", "main.(*Store).*", "--func", "main.f,g")
	if got := sys.stream.options.Spans.Functions; r.status != exitDone || !slices.Equal(got, []string{"main.(*Store).*", "main.f,g"}) {
		t.Errorf("%+v, %q", r, got)
	}
	sys.stream.attachErr = fmt.Errorf("process 42: %w: no function of the program matches %q", loupe.ErrSelection, "main.f")
	want := "loupe: process 42: cannot select functions: no function of the program matches \"main.f\"\n"
	if r := run(t, sys, "spans", "42", "--func", "main.f"); r.status != exitUsage || r.errOut != want {
		t.Errorf("%+v, want %q", r, want)
	}
}

// runEnv runs a command line with variables of the environment.
func runEnv(t *testing.T, sys system, env map[string]string, args ...string) result {
	t.Helper()
	var out, errOut lockedBuffer
	a := &app{Env: Env{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errOut, Getenv: func(name string) string { return env[name] }}, system: sys}
	status := a.run(t.Context())
	return result{status, out.String(), errOut.String()}
}

func TestSpansUsage(t *testing.T) {
	for _, test := range []struct {
		env        map[string]string
		line, want string
	}{
		{nil, "spans", "missing TARGET"},
		{nil, "spans app --slower-than -1s", "--slower-than -1s is negative"},
		{nil, "spans app --interval -1s", "--interval -1s is negative"},
		{nil, "spans app --top -1", "--top -1 is negative"},
		{nil, "spans app --duration -1s", "--duration -1s is negative"},
		{nil, "spans app --stack -1", "--stack -1 is negative"},
		{nil, "spans app --otlp ftp://host", "loupe: --otlp: invalid endpoint"},
		{map[string]string{"OTEL_TRACES_EXPORTER": "jaeger"}, "spans app", "jaeger"},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "carrier\x1b[2J"}, "spans app", `carrier\x1b[2J`},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "some"}, "spans app", "some"},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://host:port"}, "spans app", "OTEL_EXPORTER_OTLP_ENDPOINT"},
	} {
		sys := newSpans()
		r := runEnv(t, sys, test.env, strings.Fields(test.line)...)
		if r.status != exitUsage || r.out != "" || !strings.Contains(r.errOut, test.want) || strings.Count(r.errOut, "\n") != 1 || !strings.HasPrefix(r.errOut, "loupe: ") || sys.stream.closed {
			t.Errorf("%v %s: %+v, want %q", test.env, test.line, r, test.want)
		}
	}
}

// TestSpansOTLP exports the spans to a back end.
func TestSpansOTLP(t *testing.T) {
	receiver := testcollector.Receive(t, nil)
	for _, test := range []struct {
		env  map[string]string
		args []string
	}{
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://no.example", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://no.example", "OTEL_SERVICE_NAME": "no"},
			[]string{"--otlp", "http://" + receiver.HTTP, "--service", "shop"}},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + receiver.GRPC, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_SERVICE_NAME": "shop"}, nil},
	} {
		before := len(receiver.Spans())
		r := runEnv(t, newSpans(), test.env, append([]string{"spans", "app", "--json", "-q"}, test.args...)...)
		if r.status != exitDone || r.errOut != "" || !strings.Contains(r.out, `"exported":4,`) {
			t.Errorf("%q: %+v", test.args, r)
		}
		var names []string
		for _, s := range receiver.Spans()[before:] {
			names = append(names, s.Kind+" "+s.Name)
			if s.Resource["service.name"] != "shop" || s.Resource["process.executable.name"] != "app" || s.Resource["process.pid"] != "42" {
				t.Errorf("%v", s.Resource)
			}
		}
		if want := []string{"Server GET /items/{id}", "Server GET /items/{id}", "Client GET", "Server GET /slow"}; !slices.Equal(names, want) {
			t.Errorf("%q, want %q", names, want)
		}
	}
	receiver.Stop()
	env := map[string]string{"OTEL_EXPORTER_OTLP_TIMEOUT": "100"}
	r := runEnv(t, newSpans(), env, "spans", "app", "-q", "--otlp", "http://"+receiver.HTTP)
	if r.status != exitDone || !strings.Contains(r.errOut, "loupe: 4 spans not exported: ") || !strings.Contains(r.out, "GET /slow") {
		t.Errorf("without a back end: %+v", r)
	}
	if r := runEnv(t, newSpans(), map[string]string{"OTEL_SDK_DISABLED": "true"}, "spans", "app", "-q", "--otlp", "http://"+receiver.HTTP); r.status != exitDone || r.errOut != "" {
		t.Errorf("disabled: %+v", r)
	}
}

func TestSpansConsole(t *testing.T) {
	env := map[string]string{"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none"}
	r := runEnv(t, newSpans(), env, "spans", "app", "-q")
	lines := 0
	for line := range strings.Lines(r.out) {
		var doc map[string]any
		if json.Unmarshal([]byte(line), &doc) == nil && doc["SpanContext"] != nil {
			lines++
		}
	}
	if r.status != exitDone || r.errOut != "" || lines != 4 || strings.Index(r.out, "COUNT ") < strings.LastIndex(r.out, "SpanContext") {
		t.Errorf("%d spans: %+v", lines, r)
	}
	r = runEnv(t, newSpans(), env, "spans", "app", "-q", "--json")
	if r.status != exitDone || strings.Contains(r.out, "SpanContext") || strings.Count(r.errOut, "SpanContext") != 4 {
		t.Errorf("with --json: %+v", r)
	}
	// Metrics are not exported to the default endpoint because of a variable that only says that spans are not.
	r = runEnv(t, newSpans(), map[string]string{"OTEL_TRACES_EXPORTER": "none"}, "spans", "app", "-q", "--json")
	if r.status != exitDone || r.errOut != "" || strings.Contains(r.out, `"exported"`) {
		t.Errorf("without an exporter: %+v", r)
	}
}

// failingWriter fails from a number of calls on.
type failingWriter struct{ calls int }

var errDisk = errors.New("disk on fire")

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.calls--; w.calls < 0 {
		return 0, errDisk
	}
	return len(b), nil
}

// TestSpansUnwritable has stdout fail: the session ends at once.
func TestSpansUnwritable(t *testing.T) {
	for _, args := range [][]string{{"--interval", "20ms"}, {"--interval", "20ms", "--slower-than", "1ns"}} {
		sys := newSpans()
		sys.stream.goesOn = true
		var errOut lockedBuffer
		a := &app{Env: Env{Args: append([]string{"spans", "app"}, args...), Stdin: strings.NewReader(""), Stdout: &failingWriter{2}, Stderr: &errOut, Getenv: func(string) string { return "" }}, system: sys}
		if status := a.run(t.Context()); status != exitFailed || errOut.String() != "loupe: cannot write stdout: disk on fire\n" || !sys.stream.closed {
			t.Errorf("%q: status %d, %q", args, status, errOut.String())
		}
	}
}

// TestSpansOnTerminal keeps the table in its place, below waterfalls and messages.
func TestSpansOnTerminal(t *testing.T) {
	m := newTerminal(t, 100, 30)
	sys := newSpans()
	sys.stream.goesOn = true
	over := onTerminal(t, m, sys, map[string]string{"NO_COLOR": "1"}, "spans", "app", "-q", "--slower-than", "1ms", "--interval", "20ms", "--duration", "1s")
	m.await("GET /slow", "trace 03", "75 % running, 25 % network")
	if r := <-over; r.status != exitDone {
		t.Errorf("%+v", r)
	}
	screen := m.screen()
	if strings.Count(screen, "COUNT ") != 1 || strings.Index(screen, "COUNT ") < strings.Index(screen, "trace 03") || strings.Count(screen, "GET /items/{id}") != 1 {
		t.Errorf("the screen is\n%s", screen)
	}
	m.understood()
	if m.colours != "" {
		t.Errorf("colors %q with NO_COLOR", m.colours)
	}
}

// TestSpansSmallTerminal has more operations than the terminal has lines. The table at the end has all of them.
func TestSpansSmallTerminal(t *testing.T) {
	m := newTerminal(t, 60, 10)
	sys := newSpans()
	for i := range 15 {
		s := sys.stream.spans[0]
		s.Name = fmt.Sprint("GET /", i)
		sys.stream.spans = append(sys.stream.spans, s)
	}
	sys.stream.goesOn = true
	over := onTerminal(t, m, sys, nil, "spans", "app", "-q", "--interval", "20ms", "--duration", "1s")
	screen := m.await("COUNT ", "15 more operations")
	if !strings.HasPrefix(screen, "COUNT ") || strings.Contains(screen, "--top 0") {
		t.Errorf("the screen is\n%s", screen)
	}
	m.resize(100, 40)
	if r := <-over; r.status != exitDone {
		t.Errorf("%+v", r)
	}
	screen = m.await("GET /0", "GET /14")
	if strings.Contains(screen, "more operations") {
		t.Errorf("the screen is\n%s", screen)
	}
	m.understood()
}

// TestSpansStderr writes to stderr on the terminal that has the table: it remains above the table.
func TestSpansStderr(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	m := newTerminal(t, 100, 30)
	sys := newSpans()
	sys.stream.goesOn, sys.stream.late = true, "a late warning"
	a := &app{Env: Env{Args: []string{"spans", "app", "--interval", "20ms", "--duration", "1s"}, Stdin: m.stdio, Stdout: m.stdio, Stderr: m.stdio, Getenv: func(string) string { return "" }}, system: sys}
	if status := a.run(t.Context()); status != exitDone {
		t.Errorf("status %d", status)
	}
	screen := m.await("a late warning", "GET /slow")
	if strings.Count(screen, "COUNT ") != 1 || strings.Index(screen, "COUNT ") < strings.Index(screen, "a late warning") {
		t.Errorf("the screen is\n%s", screen)
	}
	m.understood()
}

// TestSpansVariables has all variables that select an export in the help of package otlp.
func TestSpansVariables(t *testing.T) {
	doc, err := os.ReadFile("../export/otlp/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, name := range regexp.MustCompile(`OTEL_\w+`).FindAllString(string(doc), -1) {
		known[name] = true
		if rest, ok := strings.CutPrefix(name, "OTEL_EXPORTER_OTLP_"); ok {
			known["OTEL_EXPORTER_OTLP_TRACES_"+rest], known["OTEL_EXPORTER_OTLP_METRICS_"+rest] = true, true
		}
	}
	for _, name := range exporting {
		if !known[name] {
			t.Errorf("%s is not among %v", name, slices.Sorted(maps.Keys(known)))
		}
	}
}

// TestSpansPropagation checks when requests are to carry contexts, and how these are sampled.
func TestSpansPropagation(t *testing.T) {
	type env = map[string]string
	console := env{"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none"}
	for _, c := range []struct {
		env  env
		line string
		want *loupe.Propagation
	}{
		{nil, "", nil},
		{nil, "--engine uprobe", nil},
		{nil, "--engine inline", &loupe.Propagation{Baggage: true}},
		{nil, "--propagate", &loupe.Propagation{Baggage: true}},
		{nil, "--engine inline --propagate=false", nil},
		{env{"OTEL_PROPAGATORS": "none"}, "--engine inline", nil},
		{env{"OTEL_PROPAGATORS": "baggage"}, "--engine inline", nil},
		{env{"OTEL_PROPAGATORS": "none"}, "--engine inline --propagate", &loupe.Propagation{}},
		{env{"OTEL_PROPAGATORS": "tracecontext"}, "--engine inline", &loupe.Propagation{}},
		{console, "", &loupe.Propagation{Baggage: true}},
		{console, "--propagate=false", nil},
		{env{"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, "",
			&loupe.Propagation{Omit: 0.75, IgnoreParent: true, Baggage: true}},
	} {
		sys := newSpans()
		r := runEnv(t, sys, c.env, append([]string{"spans", "app", "-q"}, strings.Fields(c.line)...)...)
		got := sys.stream.options.Spans.Propagation
		if r.status != exitDone || (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%v spans %s: %+v, want %+v; %+v", c.env, c.line, got, c.want, r)
		}
	}
}
