package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// loadText loads a file with some contents, which is named c.yaml in messages.
func loadText(t *testing.T, doc string, environ []string, flags ...Flag) (*Config, error) {
	t.Helper()
	return Source{File: "c.yaml", Environ: environ, Flags: flags}.load([]byte(doc))
}

// mustLoad is loadText for a valid configuration.
func mustLoad(t *testing.T, doc string, environ []string, flags ...Flag) *Config {
	t.Helper()
	c, err := loadText(t, doc, environ, flags...)
	if err != nil {
		t.Fatalf("%s\n%v", doc, err)
	}
	return c
}

func TestDefaults(t *testing.T) {
	c, err := Source{}.Load()
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	if c.Node != host || c.Sampling.EventsPerSecond != 2000 || c.Budget.Memory != 512<<20 || c.Tracing.ProfileInterval != time.Minute ||
		c.Output.Prometheus.Listen != ":9090" || c.Health.Listen != ":8080" || c.PProf.Listen != "" || c.Tracing.Engine != "uprobe" ||
		c.Sampling.MinRatio != 0.01 || !c.Tracing.MutexContention || c.Tracing.Spans || c.Kubernetes.Enabled != "auto" {
		t.Errorf("%+v", c)
	}
	for _, signal := range signals() {
		if c.Sends(signal) {
			t.Errorf("%s are sent without an endpoint", signal)
		}
	}
	if len(c.Warnings()) > 0 {
		t.Error(c.Warnings())
	}
}

// TestOtherTracer loads the configuration of the source document.
func TestOtherTracer(t *testing.T) {
	c, err := Source{File: "testdata/ebpf-tracer.yaml", Environ: []string{"NODE_NAME=worker-1", "EBPF_RING_BUFFER_SIZE=16777216",
		"SAMPLE_RATE_HZ=100", "TARGET_NAMESPACE=production"}}.Load()
	if err != nil {
		t.Fatal(err)
	}
	otlp := c.Output.OTLP
	if otlp.Endpoint != "otel-collector.observability:4317" || otlp.BatchSize != 1000 || otlp.FlushInterval != 5*time.Second ||
		otlp.Protocol != "grpc" || !c.Sends("traces") || c.Filters.SampleLongRunning != 0.1 || c.Filters.MinGoroutineLifetimeMS != 10 {
		t.Errorf("%+v", c)
	}
	if c.Node != "worker-1" || c.Budget.BufferBytes != 16<<20 || c.Sampling.EventsPerSecond != 100 ||
		!slices.Equal(c.Targets.IncludeNamespaces, []string{"production"}) {
		t.Errorf("environment: %+v", c)
	}
	if got := c.Origin("targets.include_namespaces").String(); got != "environment: TARGET_NAMESPACE" {
		t.Error(got)
	}
	if got := c.Origin("output.otlp.batch_size"); got != (Origin{File: "testdata/ebpf-tracer.yaml", Line: 23}) {
		t.Error(got)
	}
}

// A problemCase is a part of testdata/problems.txt.
type problemCase struct {
	doc, want string
}

func problemCases(t testing.TB) []problemCase {
	t.Helper()
	data, err := os.ReadFile("testdata/problems.txt")
	if err != nil {
		t.Fatal(err)
	}
	var cases []problemCase
	for part := range strings.SplitSeq(string(data), "\n====\n") {
		doc, want, ok := strings.Cut(part, "\n=>")
		if !ok {
			continue
		}
		cases = append(cases, problemCase{doc + "\n", strings.TrimSpace(want)})
	}
	if len(cases) < 50 {
		t.Fatalf("only %d cases", len(cases))
	}
	return cases
}

// TestProblems compares messages.
func TestProblems(t *testing.T) {
	cases := append(problemCases(t), problemCase{doc: "node: a\n\x00", want: "c.yaml:2: not a text file"}, problemCase{})
	for _, test := range cases {
		got := ""
		if _, err := loadText(t, test.doc, nil); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s\ngot  %s\nwant %s", test.doc, got, test.want)
		}
	}
}

func TestLoadValues(t *testing.T) {
	c := mustLoad(t, `
budget: {memory: 0x10000000, buffer_bytes: 64Ki, cpu: 2}
sampling: {events_per_second: 1e3, min_ratio: "5 %", max_target_overhead: 0.5%}
alerts: {stalled: 1m30s, latency: 1.5ms, for: 0s, goroutine_growth: 0}
kubernetes: {enabled: true}
targets:
  users: [0, www-data]
  labels: {app: "web-*", tier: ""}
output: {otlp: {headers: {Authorization: Bearer hush}, endpoint: "http://c:4318/base"}}
`, nil)
	if c.Budget.Memory != 256<<20 || c.Budget.BufferBytes != 64<<10 || c.Budget.CPU != 2 || c.Sampling.EventsPerSecond != 1000 ||
		c.Sampling.MinRatio != 0.05 || c.Sampling.MaxTargetOverhead != 0.005 || c.Alerts.Stalled != 90*time.Second ||
		c.Alerts.Latency != 1500*time.Microsecond || c.Kubernetes.Enabled != "true" || !slices.Equal(c.Targets.Users, []string{"0", "www-data"}) ||
		c.Output.OTLP.Headers["Authorization"] != "Bearer hush" || c.Output.OTLP.Protocol != "http/protobuf" {
		t.Errorf("%+v", c)
	}
}

// TestPrecedence sets the same key everywhere.
func TestPrecedence(t *testing.T) {
	const doc = "sampling:\n  events_per_second: 1\n"
	env := []string{"SAMPLE_RATE_HZ=2", "EBPF_RING_BUFFER_SIZE=", "NODE_NAME= "}
	flag := Flag{"--set sampling.events_per_second", "sampling.events_per_second", "3"}
	for _, test := range []struct {
		c      *Config
		want   int
		origin string
	}{
		{mustLoad(t, "", nil), 2000, "default"},
		{mustLoad(t, doc, nil), 1, "c.yaml:2"},
		{mustLoad(t, doc, env), 2, "environment: SAMPLE_RATE_HZ"},
		{mustLoad(t, doc, env, flag), 3, "--set sampling.events_per_second"},
		{mustLoad(t, doc, nil, flag), 3, "--set sampling.events_per_second"},
	} {
		if got := test.c.Origin("sampling.events_per_second").String(); got != test.origin || test.c.Sampling.EventsPerSecond != test.want {
			t.Errorf("%d from %s, want %d from %s", test.c.Sampling.EventsPerSecond, got, test.want, test.origin)
		}
	}
	c := mustLoad(t, "", nil, Flag{"--set", "targets.labels", "app=a%2Cb,x=y"},
		Flag{"--set", "output.endpoint", "x:1"},
		Flag{"--set", "tracing.profiles", "cpu, heap"}, Flag{"--set", "kubernetes.enabled", "true"}, Flag{"--set", "targets.pids", "1,2"})
	if !reflect.DeepEqual(c.Targets.Labels, map[string]string{"app": "a,b", "x": "y"}) || c.Output.OTLP.Endpoint != "x:1" ||
		!slices.Equal(c.Tracing.Profiles, []string{"cpu", "heap"}) || !slices.Equal(c.Targets.PIDs, []int{1, 2}) {
		t.Errorf("%+v", c)
	}
	_, err := loadText(t, "", []string{"SAMPLE_RATE_HZ=fast", "TARGET_NAMESPACE=a,[", "OTEL_EXPORTER_OTLP_PROTOCOL=udp",
		"OTEL_EXPORTER_OTLP_HEADERS=k=hu%zz"},
		Flag{"--set output", "output", "x"}, Flag{"--set x", "x", "y"}, Flag{"--set smpling.min_ratio", "smpling.min_ratio", "1"},
		Flag{"--set tracing.overrides", "tracing.overrides", "[]"})
	const want = `environment: OTEL_EXPORTER_OTLP_HEADERS: element 1 must have the form NAME=VALUE, with percent-encoded characters
environment: OTEL_EXPORTER_OTLP_PROTOCOL: must be auto, grpc or http/protobuf, is "udp"
environment: SAMPLE_RATE_HZ: must be a whole number, is "fast"
environment: TARGET_NAMESPACE: must be a pattern: * matches any text, ? one character, [a-z] a character of a range; \ quotes the next character, is "["
--set output: output is a section: set one of its keys, such as output.format
--set smpling.min_ratio: unknown key "smpling.min_ratio", did you mean sampling.min_ratio?
--set tracing.overrides: can only be set in the configuration file
--set x: unknown key "x"`
	if fmt.Sprint(err) != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestWarnings(t *testing.T) {
	c := mustLoad(t, `
recordings: {seconds: 5}
tracing: {goroutine_events: false, mutex_contention: true, profiles: [cpu]}
output:
  otlp: {batch_size: 5}
`, []string{"OTEL_BSP_SCHEDULE_DELAY=soon", "OTEL_EXPORTER_OTLP_INSECURE=maybe", "OTEL_BSP_MAX_QUEUE_SIZE=-1"})
	var got []string
	for _, w := range c.Warnings() {
		got = append(got, w.String())
	}
	want := []string{
		`environment: OTEL_EXPORTER_OTLP_INSECURE: must be true or false, is "maybe"; ignored`,
		`environment: OTEL_BSP_SCHEDULE_DELAY: must be a number of milliseconds (0s to 1h), is "soon"; ignored`,
		`c.yaml:2: recordings.seconds: has no effect without recordings.directory`,
		`c.yaml:3: tracing.profiles: has no effect without output.otlp.endpoint or output.profiles.directory`,
		`c.yaml:5: output.otlp.batch_size: has no effect without output.otlp.endpoint`,
		`c.yaml:3: tracing.mutex_contention: has no effect without tracing.goroutine_events`,
		`environment: OTEL_BSP_MAX_QUEUE_SIZE: "-1" is invalid: must be a number of at least 1; using 65536`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestFileLimits(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(name, append([]byte("node: a\n#"), bytes.Repeat([]byte("x"), MaxFile)...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{name, dir, filepath.Join(dir, "missing")} {
		if c, err := (Source{File: file}).Load(); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v", file, c, err)
		} else {
			t.Log(err)
		}
	}
	// A list of 500 patterns, 150 times by an alias.
	doc := "tracing:\n  overrides:\n  - match: {exclude_pods: &l [" + strings.Repeat("a,", 500) + "]}\n    spans: true\n" +
		strings.Repeat("  - match: {exclude_pods: *l}\n    spans: true\n", 150)
	if _, err := loadText(t, doc, nil); fmt.Sprint(err) != "c.yaml:1: more than 50000 values" {
		t.Errorf("%.200v", err)
	}
	// Anchors that contain themselves, and a tower of aliases.
	for _, doc := range []string{"tracing: &a {overrides: [*a]}", "targets: &t\n  labels: *t", "tracing: &x\n  overrides: &y [*x, *y]"} {
		if _, err := loadText(t, doc, nil); err == nil {
			t.Errorf("no problem: %s", doc)
		}
	}
	if _, err := loadText(t, "targets: {pids: ["+strings.Repeat("0,", 2000)+"]}", nil); !strings.Contains(fmt.Sprint(err), "at most 1000") {
		t.Error(err)
	}
	if _, err := loadText(t, strings.Repeat("? [a]\n: b\n", 2000), nil); len(strings.Split(err.Error(), "\n")) != maxProblems+1 {
		t.Errorf("%v", err)
	}
}
