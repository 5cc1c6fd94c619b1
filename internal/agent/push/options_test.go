package push

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/export/otlp"
)

// TestSignals requires that signals are exported that the options and variables select.
func TestSignals(t *testing.T) {
	for _, test := range []struct {
		name string
		opt  Options
		env  map[string]string
		want string // the signals, with their endpoints for logs and profiles
	}{
		{"nothing", Options{}, nil, ""},
		{"an endpoint", Options{Endpoint: "http://a:1"}, nil, "metrics traces logs http://a:1/v1/logs profiles http://a:1/v1development/profiles"},
		{"some signals", Options{Endpoint: "http://a:1", Signals: []Signal{Metrics, Logs}}, nil, "metrics logs http://a:1/v1/logs"},
		{"the variable", Options{}, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b"}, "metrics traces logs http://b/v1/logs profiles http://b/v1development/profiles"},
		{"both", Options{Endpoint: "http://a:1"}, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b", "OTEL_PROFILES_EXPORTER": "none"},
			"metrics traces logs http://b/v1/logs"},
		{"one signal", Options{}, map[string]string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://l/x"}, "logs http://l/x"},
		{"one signal elsewhere", Options{Endpoint: "http://a:1", Signals: []Signal{Logs, Traces}}, map[string]string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://l/x"}, "traces logs http://l/x"},
		{"the default endpoint", Options{}, map[string]string{"OTEL_METRICS_EXPORTER": "otlp"}, "metrics"},
		{"disabled", Options{Endpoint: "http://a:1"}, map[string]string{"OTEL_SDK_DISABLED": "true"}, ""},
	} {
		test.opt.Lookup = func(name string) (string, bool) { value, ok := test.env[name]; return value, ok }
		c, warnings, err := test.opt.read()
		if err != nil || len(warnings) > 0 {
			t.Fatal(err, warnings)
		}
		p, _, err := New(t.Context(), test.opt)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		stats := p.Stats()
		for _, s := range Signals {
			if _, ok := stats[s]; ok {
				got = append(got, string(s))
				if conn, ok, _ := c.Connection(otlp.Signal(strings.ToUpper(string(s)))); ok {
					got = append(got, conn.URL)
				}
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		closeAll(t, p)
	}
}

// TestOptions requires that each option arrives, and that variables have precedence.
func TestOptions(t *testing.T) {
	o := Options{
		Protocol: "grpc", Endpoint: "collector:4317", Insecure: true, Headers: map[string]string{"Api-Key": "a =,%+\"b", "x": "y"}, BatchSize: 7,
		FlushInterval: 1500 * time.Millisecond, Lookup: none,
	}
	c, _, err := o.read()
	if err != nil {
		t.Fatal(err)
	}
	conn, _, err := c.Connection(otlp.Logs)
	if err != nil || !conn.GRPC || conn.Target != "collector:4317" || conn.Headers["Api-Key"] != "a =,%+\"b" || conn.Headers["x"] != "y" || len(conn.Headers) != 2 {
		t.Errorf("%v, %+v", err, conn)
	}
	interval, _ := c.MetricTimes()
	if c.Queue.Batch != 7 || c.Queue.Size != maxSpans || c.Queue.Delay != o.FlushInterval || c.LogQueue.Batch != 7 || c.LogQueue.Delay != o.FlushInterval || interval != o.FlushInterval {
		t.Errorf("%+v, %+v, %v", c.Queue, c.LogQueue, interval)
	}
	o.Lookup = func(name string) (string, bool) {
		value, ok := map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "k=v", "OTEL_BSP_SCHEDULE_DELAY": "3", "OTEL_EXPORTER_OTLP_PROTOCOL": "  "}[name]
		return value, ok
	}
	if c, _, err = o.read(); err != nil {
		t.Fatal(err)
	}
	if conn, _, _ := c.Connection(otlp.Logs); !conn.GRPC || conn.Headers["k"] != "v" || len(conn.Headers) != 1 || c.Queue.Delay != 3*time.Millisecond || c.LogQueue.Delay != o.FlushInterval {
		t.Errorf("%+v, %+v", conn, c.Queue)
	}
}

// TestOptionErrors requires that errors name the option or the variable that is wrong.
func TestOptionErrors(t *testing.T) {
	for want, o := range map[string]Options{
		"output.otlp.protocol: unsupported protocol": {Protocol: "http/json", Endpoint: "http://x"},
		"output.otlp.endpoint: invalid endpoint":     {Endpoint: "ftp://x"},
		"absent.pem":                                 {Endpoint: "https://x", CAFile: "absent.pem"},
		"absent.key":                                 {Endpoint: "https://x", Protocol: "grpc", CertFile: "options_test.go", KeyFile: "absent.key"},
		"directory of profiles":                      {Directory: "/dev/null/x"},
	} {
		if o.Lookup = none; o.KeyFile != "" {
			want = "cannot read the client certificate"
		}
		p, _, err := New(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, want)
		}
		if p != nil {
			t.Errorf("%s: a pusher", want)
		}
	}
	o := Options{Lookup: func(name string) (string, bool) {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "ftp://x"}[name], name == "OTEL_EXPORTER_OTLP_ENDPOINT"
	}}
	if _, _, err := New(context.Background(), o); err == nil || !strings.HasPrefix(err.Error(), "OTEL_EXPORTER_OTLP_ENDPOINT:") {
		t.Error(err)
	}
	o = Options{Endpoint: "http://x", Headers: map[string]string{"a b": "c"}, Lookup: none}
	if _, warnings, err := o.read(); err != nil || len(warnings) == 0 || !strings.HasPrefix(warnings[0], "output.otlp.headers is invalid") {
		t.Error(warnings, err)
	}
}

// TestResource checks the resource of the agent, and what hostile identities make.
func TestResource(t *testing.T) {
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "k8s.cluster.name=c1,team=platform,service.name=no", "OTEL_SERVICE_NAME": "our-agent"}[name]
		return value, ok
	}
	o := Options{Lookup: lookup}
	c, _, err := o.read()
	if err != nil {
		t.Fatal(err)
	}
	r := resources{c, "v1", "node-1"}
	text := func(id metric.Identity) map[string]string {
		m := map[string]string{}
		for _, kv := range r.of(&id).Attributes() {
			m[string(kv.Key)] = kv.Value.String()
		}
		return m
	}
	if got := text(metric.Identity{}); got["service.name"] != "our-agent" || got["k8s.cluster.name"] != "c1" || got["host.name"] != "node-1" {
		t.Errorf("the agent: %v", got)
	}
	if got := text(host); got["service.name"] != "batch" || got["k8s.cluster.name"] != "c1" || got["team"] != "platform" {
		t.Errorf("a target: %v", got)
	}
	if got := text(pod); got["team"] != "payments" || got["k8s.namespace.name"] != "prod" || got["k8s.cluster.name"] != "c1" {
		t.Errorf("a target: %v", got)
	}
	hostile := metric.Identity{PID: 1, Process: "\xff" + strings.Repeat("ä", maxText), Kind: "Rollout", Workload: "w", Extra: []metric.KeyValue{{}, {Key: "process.pid", Value: "2"}}}
	for range 1000 {
		hostile.Extra = append(hostile.Extra, metric.KeyValue{Key: strings.Repeat("k", maxKey) + "\xff", Value: "v"})
	}
	got := text(hostile)
	if name := got["process.executable.name"]; len(name) > maxText+3 || !strings.HasPrefix(name, "\uFFFDää") || !strings.HasSuffix(name, "ä") {
		t.Errorf("%d bytes of a name", len(name))
	}
	if got["process.pid"] != "1" || got["k8s.workload.kind"] != "Rollout" || got["k8s.workload.name"] != "w" || got[strings.Repeat("k", maxKey)] != "v" {
		t.Errorf("%v", got)
	}
}
