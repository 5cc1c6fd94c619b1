package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/loupe-go/loupe/internal/agent/config"
	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/testcollector"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// log collects what an agent logs.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// running is an agent of a test.
type running struct {
	t       *testing.T
	source  config.Source
	metrics string // address
	health  string
	reloads chan config.Reload
	current *config.Config
	log     *log
	stop    func()
}

// load returns a configuration: the file, which may be empty, and an agent that serves at any free ports.
func load(t *testing.T, file string) (config.Source, *config.Config) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	source := config.Source{File: path, Flags: []config.Flag{{Name: "--listen", Path: "output.prometheus.listen", Value: "127.0.0.1:0"},
		{Name: "--set", Path: "health.listen", Value: "127.0.0.1:0"}}}
	if !strings.Contains(file, "kubeconfig") {
		source.Flags = append(source.Flags, config.Flag{Name: "--set", Path: "kubernetes.enabled", Value: "false"})
	}
	c, err := source.Load()
	if err != nil {
		t.Fatal(err)
	}
	return source, c
}

// run runs an agent until the test ends.
func run(t *testing.T, file string) *running {
	t.Helper()
	a := &running{t: t, reloads: make(chan config.Reload), log: &log{}}
	a.source, a.current = load(t, file)
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan []string, 1), make(chan error, 1)
	go func() {
		ended <- Run(ctx, a.current, Options{Reloads: a.reloads, Log: slog.New(slog.NewTextHandler(a.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			Started: func(addresses []string) { started <- addresses }})
	}()
	select {
	case addresses := <-started:
		a.metrics, a.health = addresses[0], addresses[len(addresses)-1]
	case err := <-ended:
		t.Fatalf("the agent did not start: %v\n%s", err, a.log)
	}
	a.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		a.stop()
		http.DefaultClient.CloseIdleConnections()
		goleak.VerifyNone(t, goleak.IgnoreCurrent())
		if text := a.log.String(); t.Failed() {
			t.Log(text[max(0, len(text)-10_000):])
		}
	})
	return a
}

// get returns the status and the body of a page.
func (a *running) get(address, path string) (int, string) {
	a.t.Helper()
	r, err := http.Get("http://" + address + path)
	if err != nil {
		a.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// scrape returns the value of the series of a metric with these labels, or the sum of all that have them.
func (a *running) scrape(d *metric.Desc, labels ...string) float64 {
	a.t.Helper()
	_, text := a.get(a.metrics, "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		a.t.Fatal(err)
	}
	sum := 0.0
	for _, m := range families[d.Name].GetMetric() {
		if hasLabels(m, labels) {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// hasLabels reports whether a series has labels, as names and values in turn.
func hasLabels(m *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		if !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == labels[i] && l.GetValue() == labels[i+1] }) {
			return false
		}
	}
	return true
}

// await waits until a metric has a value.
func (a *running) await(holds func(float64) bool, d *metric.Desc, labels ...string) {
	a.t.Helper()
	var v float64
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if v = a.scrape(d, labels...); holds(v) {
			return
		}
	}
	a.t.Fatalf("%s%q is %v", d.Name, labels, v)
}

func atLeast(want float64) func(float64) bool { return func(v float64) bool { return v >= want } }
func equals(want float64) func(float64) bool  { return func(v float64) bool { return v == want } }

// reload applies another file.
func (a *running) reload(file string) {
	a.t.Helper()
	if err := os.WriteFile(a.source.File, []byte(file), 0o600); err != nil {
		a.t.Fatal(err)
	}
	c, err := a.source.Load()
	r := config.Reload{Config: c, Err: err}
	if err == nil {
		r.Changes = config.Diff(a.current, c)
		a.current = c
	} else {
		r.Config = nil
	}
	a.reloads <- r
}

func colony(t *testing.T) *testtarget.Process {
	t.Helper()
	return testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "colony", Stripped: true}))
}

// ownColony returns the path of a copy of program colony that no other test runs.
func ownColony(t *testing.T) string {
	t.Helper()
	exe, err := os.ReadFile(testtarget.Build(t, testtarget.Spec{Program: "colony", Stripped: true}))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "colony")
	if err := os.WriteFile(path, exe, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAgent observes a process that appears, changes and is killed, and serves what it learns.
func TestAgent(t *testing.T) {
	exe := ownColony(t)
	first := testtarget.Start(t, exe)
	file := "targets: {binary_patterns: [" + exe + "]}\n"
	a := run(t, file)
	pid := fmt.Sprint(first.PID())
	a.await(atLeast(1), metric.Goroutines, "pid", pid)
	if got, want := fmt.Sprint(a.scrape(metric.Goroutines, "pid", pid)), first.Command("num"); got != want {
		t.Errorf("%s goroutines, want %s", got, want)
	}
	before := a.scrape(metric.Created, "pid", pid)
	first.Command("hold 321")
	time.Sleep(1100 * time.Millisecond) // a scrape is shared for a second
	if n := a.scrape(metric.Created, "pid", pid) - before; n != 321 {
		t.Errorf("%v goroutines were created, want 321", n)
	}

	second := testtarget.Start(t, exe)
	a.await(equals(2), metric.Targets, "status", statusObserved)
	second.Kill()
	a.await(equals(1), metric.Targets, "status", statusObserved)
	if a.scrape(metric.Goroutines, "pid", fmt.Sprint(second.PID())) != 0 {
		t.Error("a process that was killed is still served")
	}
	if status, body := a.get(a.health, "/readyz"); status != http.StatusOK {
		t.Errorf("not ready: %s", body)
	}
	if status, body := a.get(a.health, "/healthz"); status != http.StatusOK {
		t.Errorf("not healthy: %s", body)
	}

	a.reload("targets: {binary_patterns: [nothing]}\n")
	a.await(equals(0), metric.Targets, "status", statusObserved)
	a.await(atLeast(1), metric.Targets, "status", statusExcluded)
	a.reload("targets: {binary_patterns: [nothing\n")
	a.await(equals(1), metric.ConfigReloads, "result", reloadRefused)
	if !strings.Contains(a.log.String(), "the old one stays in effect") {
		t.Error("nothing says that the configuration was refused")
	}
	a.reload(file)
	a.await(equals(1), metric.Targets, "status", statusObserved)
	if first.Command("free") == "" {
		t.Error("the target does not work any more")
	}
}

// TestAgentExports sends everything by OTLP.
func TestAgentExports(t *testing.T) {
	target := colony(t)
	receiver := testcollector.Receive(t, nil)
	a := run(t, fmt.Sprintf(`
targets: {pids: [%d]}
alerts: {goroutine_growth: 50, for: 0s}
sampling: {max_target_overhead: 50%%}
tracing: {profiles: [heap], profile_interval: 1s}
filters: {sample_long_running: 1}
recordings: {directory: %s, seconds: 2}
output: {otlp: {protocol: http/protobuf, endpoint: "http://%s", flush_interval: 200ms, metric_interval: 1s}}
`, target.PID(), filepath.Join(t.TempDir(), "recordings"), receiver.HTTP))
	a.await(atLeast(1), metric.Goroutines)
	a.await(equals(3), metric.Level)
	target.Command("hold 100")
	a.await(atLeast(1), metric.Alerts, "alert", "goroutine_growth")
	time.Sleep(200 * time.Millisecond) // a wait that is long enough for a span
	target.Command("free")
	a.await(atLeast(1), metric.ExportItems, "signal", "logs", "result", "exported")
	a.await(atLeast(1), metric.ExportItems, "signal", "metrics", "result", "exported")
	a.await(atLeast(50), metric.ExportItems, "signal", "traces", "result", "exported")
	a.await(atLeast(1), metric.Recordings, "result", recordWritten)
	a.stop()
	found := map[string]int{}
	for _, s := range receiver.Spans() {
		found[s.Name]++
		if s.Resource["process.pid"] != fmt.Sprint(target.PID()) {
			t.Errorf("the resource of a span is %v", s.Resource)
		}
	}
	if found["chan receive"] == 0 || found["goroutine main.(*colony).listen"] == 0 {
		t.Errorf("spans %v", found)
	}
	logs := fmt.Sprint(receiver.Logs())
	if !strings.Contains(logs, "loupe.alert.goroutine_growth") || !strings.Contains(logs, "loupe.recording") {
		t.Errorf("log records %s", logs)
	}
	if metrics := fmt.Sprint(receiver.Metrics()); !strings.Contains(metrics, "go.goroutine.count") || !strings.Contains(metrics, "loupe.agent.targets") {
		t.Error("metrics are missing")
	}
}

// TestAgentStart requires that what is wrong at the start is one clear line.
func TestAgentStart(t *testing.T) {
	for _, test := range []struct{ file, want string }{
		{"recordings: {directory: /proc/nothing}\n", "cannot create the directory of recordings"},
		{"output: {otlp: {endpoint: 'https://127.0.0.1:1', tls: {ca_file: /nothing}}}\n", "/nothing"},
	} {
		_, c := load(t, test.file)
		err := Run(t.Context(), c, Options{Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", test.file, err)
		}
	}
	_, c := load(t, "")
	c.Output.Prometheus.Listen = "127.0.0.1:99999"
	if err := Run(t.Context(), c, Options{Log: slog.New(slog.DiscardHandler)}); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("invalid address: %v", err)
	}
}

// TestBudget keeps an imagined agent within its budget.
func TestBudget(t *testing.T) {
	var cpu time.Duration
	memory, err := int64(100), error(nil)
	b := newBudget(0.5, 1<<40)
	b.memory = 200
	b.currentUsed = func() (time.Duration, int64, error) { return cpu, memory, err }
	now := time.Now()
	step := func(used time.Duration) float64 {
		now, cpu = now.Add(time.Second), cpu+used
		scale, _, _ := b.step(now)
		return scale
	}
	step(0)
	if s := step(400 * time.Millisecond); s != 1 {
		t.Errorf("scale %v within the budget", s)
	}
	if s := step(600 * time.Millisecond); s != budgetDown {
		t.Errorf("scale %v with too much processor time, want %v", s, budgetDown)
	}
	if cpu, memory := b.ratios(); cpu < 1.19 || cpu > 1.21 || memory != 0.5 {
		t.Errorf("ratios %v and %v", cpu, memory)
	}
	memory = 300
	if s := step(0); s != budgetDown*budgetDown {
		t.Errorf("scale %v with too much memory", s)
	}
	memory = 100
	for range 20 {
		step(0)
	}
	if s := step(0); s != 1 {
		t.Errorf("scale %v after a calm time, want 1", s)
	}
	err = errors.New("no books")
	if _, changed, got := b.step(now); changed || got == nil {
		t.Error("a failure changes the scale, or is not reported")
	}
}

// TestAgentToggles excludes a process and includes it again, faster than the agent can follow.
func TestAgentToggles(t *testing.T) {
	exe := ownColony(t)
	program := testtarget.Start(t, exe)
	on := "targets: {binary_patterns: [" + exe + "]}\nsampling: {max_target_overhead: 50%}\n"
	a := run(t, on)
	a.await(atLeast(1), metric.Level)
	for range 5 {
		a.reload("targets: {binary_patterns: [nothing]}\n")
		a.reload(on)
	}
	a.await(equals(1), metric.Targets, "status", statusObserved)
	a.await(atLeast(1), metric.Level)
	if got, want := fmt.Sprint(a.scrape(metric.Goroutines)), program.Command("num"); got != want {
		t.Errorf("%s goroutines, want %s", got, want)
	}
}
