package otlp

import (
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

type env map[string]string

func (e env) lookup(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}

// read reads a configuration that has no warnings.
func read(t *testing.T, e env) *Config {
	t.Helper()
	c, warnings, err := Read(e.lookup)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	return c
}

func TestRead(t *testing.T) {
	for _, test := range []struct {
		env  env
		is   func(*Config) bool
		warn string // part of the only warning
	}{
		{env{}, func(c *Config) bool {
			return !c.Disabled && slices.Equal(c.traces.exporters, []string{"otlp"}) && slices.Equal(c.metrics.exporters, []string{"otlp"}) &&
				slices.Equal(c.Propagators, []string{"tracecontext", "baggage"}) && c.LogLevel == slog.LevelInfo
		}, ""},
		{env{}, func(c *Config) bool {
			return c.Queue.Size == 65536 && c.Queue.Batch == 512 && c.Queue.Delay == 5*time.Second && c.Queue.Timeout == 30*time.Second
		}, ""},
		{env{}, func(c *Config) bool {
			return c.metricInterval == time.Minute && c.metricTimeout == 30*time.Second && c.SpanLimits == Limits{128, math.MaxInt}
		}, ""},
		{env{}, func(c *Config) bool { return c.Sampler().Description() == parentBasedOn }, ""},
		{env{"OTEL_SDK_DISABLED": "True"}, func(c *Config) bool { return c.Disabled && c.traces.exporters == nil && c.metrics.exporters == nil }, ""},
		{env{"OTEL_SDK_DISABLED": "1"}, func(c *Config) bool { return !c.Disabled }, "OTEL_SDK_DISABLED"},
		{env{"OTEL_TRACES_EXPORTER": "none"}, func(c *Config) bool { return c.traces.exporters == nil && c.metrics.exporters != nil }, ""},
		{env{"OTEL_TRACES_EXPORTER": " console , OTLP,console"}, func(c *Config) bool { return slices.Equal(c.traces.exporters, []string{"console", "otlp"}) }, ""},
		{env{"OTEL_METRICS_EXPORTER": "none", "OTEL_TRACES_EXPORTER": ""}, func(c *Config) bool { return c.metrics.exporters == nil && c.traces.exporters != nil }, ""},
		{env{"OTEL_PROPAGATORS": "baggage"}, func(c *Config) bool { return slices.Equal(c.Propagators, []string{"baggage"}) }, ""},
		{env{"OTEL_PROPAGATORS": "none"}, func(c *Config) bool { return c.Propagators == nil }, ""},
		{env{"OTEL_LOG_LEVEL": "DEBUG"}, func(c *Config) bool { return c.LogLevel == slog.LevelDebug }, ""},
		{env{"OTEL_LOG_LEVEL": "error"}, func(c *Config) bool { return c.LogLevel == slog.LevelError }, ""},
		{env{"OTEL_LOG_LEVEL": "loud"}, func(c *Config) bool { return c.LogLevel == slog.LevelInfo }, "OTEL_LOG_LEVEL"},
		{env{"OTEL_BSP_MAX_QUEUE_SIZE": "2048"}, func(c *Config) bool { return c.Queue.Size == 2048 }, ""},
		{env{"OTEL_BSP_MAX_QUEUE_SIZE": "0"}, func(c *Config) bool { return c.Queue.Size == 65536 }, "OTEL_BSP_MAX_QUEUE_SIZE"},
		{env{"OTEL_BSP_MAX_QUEUE_SIZE": "99999999999"}, func(c *Config) bool { return c.Queue.Size == 65536 }, "OTEL_BSP_MAX_QUEUE_SIZE"},
		{env{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "7"}, func(c *Config) bool { return c.Queue.Batch == 7 }, ""},
		{env{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "7", "OTEL_BSP_MAX_QUEUE_SIZE": "5"}, func(c *Config) bool { return c.Queue.Batch == 5 }, "exceeds"},
		{env{"OTEL_BSP_MAX_QUEUE_SIZE": "5"}, func(c *Config) bool { return c.Queue.Batch == 5 }, ""},
		{env{"OTEL_BSP_SCHEDULE_DELAY": "0"}, func(c *Config) bool { return c.Queue.Delay == 0 }, ""},
		{env{"OTEL_BSP_SCHEDULE_DELAY": "1s"}, func(c *Config) bool { return c.Queue.Delay == 5*time.Second }, "OTEL_BSP_SCHEDULE_DELAY"},
		{env{"OTEL_BSP_EXPORT_TIMEOUT": "0"}, func(c *Config) bool { return c.Queue.Timeout == noLimit }, ""},
		{env{"OTEL_BSP_EXPORT_TIMEOUT": "-1"}, func(c *Config) bool { return c.Queue.Timeout == 30*time.Second }, "OTEL_BSP_EXPORT_TIMEOUT"},
		{env{"OTEL_METRIC_EXPORT_INTERVAL": "250", "OTEL_METRIC_EXPORT_TIMEOUT": "100"}, func(c *Config) bool {
			return c.metricInterval == 250*time.Millisecond && c.metricTimeout == 100*time.Millisecond
		}, ""},
		{env{"OTEL_METRIC_EXPORT_INTERVAL": "0"}, func(c *Config) bool { return c.metricInterval == time.Minute }, "OTEL_METRIC_EXPORT_INTERVAL"},
		{env{"OTEL_ATTRIBUTE_COUNT_LIMIT": "3", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "4"}, func(c *Config) bool { return c.SpanLimits == Limits{3, 4} }, ""},
		{env{"OTEL_ATTRIBUTE_COUNT_LIMIT": "3", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "5", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "0"},
			func(c *Config) bool { return c.SpanLimits == Limits{5, 0} }, ""},
		{env{"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "x"}, func(c *Config) bool { return c.SpanLimits == Limits{128, math.MaxInt} }, "using no limit"},
		{env{"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "Delta"}, func(c *Config) bool { return c.temporality == "delta" }, ""},
		{env{"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "x"}, func(c *Config) bool { return c.aggregation == "explicit_bucket_histogram" }, "AGGREGATION"},
		{env{"OTEL_SOMETHING_ELSE": "x", "OTEL_TRACES_SAMPLER_ARG": "2"}, func(c *Config) bool { return true }, ""},
	} {
		c, warnings, err := Read(test.env.lookup)
		if err != nil {
			t.Errorf("%v: %v", test.env, err)
			continue
		}
		if !test.is(c) {
			t.Errorf("%v: got %+v", test.env, c)
		}
		if test.warn == "" && len(warnings) > 0 || test.warn != "" && (len(warnings) != 1 || !strings.Contains(warnings[0], test.warn)) {
			t.Errorf("%v: warnings %q", test.env, warnings)
		}
	}
}

// TestReadErrors requires one line that names the variable.
func TestReadErrors(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"OTEL_TRACES_EXPORTER", "zipkin", `unsupported value "zipkin": must be otlp, console or none`},
		{"OTEL_METRICS_EXPORTER", "prometheus", `must be otlp, console or none`},
		{"OTEL_TRACES_EXPORTER", "none,otlp", "none cannot be combined"},
		{"OTEL_PROPAGATORS", "b3", `unsupported value "b3": must be tracecontext, baggage or none`},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", `unsupported protocol "http/json": must be http/protobuf or grpc`},
		{"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "udp", `unsupported protocol "udp"`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318", "invalid endpoint: must have the form http://HOST:PORT"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://localhost", "invalid endpoint"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a b", "invalid endpoint"},
		{"OTEL_TRACES_SAMPLER", "sometimes", `unsupported value "sometimes": must be always_on`},
		{"OTEL_TRACES_SAMPLER", "parentbased_", "unsupported value"},
	} {
		_, _, err := Read(env{test.name: test.value}.lookup)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), test.name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s=%s: %v", test.name, test.value, err)
		}
	}
	// What is not used is not checked.
	unused := env{"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_PROTOCOL": "udp"}
	if _, _, err := Read(unused.lookup); err != nil {
		t.Error(err)
	}
}

const parentBasedOn = "ParentBased{root:AlwaysOnSampler,remoteParentSampled:AlwaysOnSampler,remoteParentNotSampled:AlwaysOffSampler," +
	"localParentSampled:AlwaysOnSampler,localParentNotSampled:AlwaysOffSampler}"

func TestSampler(t *testing.T) {
	for _, test := range []struct{ sampler, arg, want string }{
		{"", "", parentBasedOn},
		{"always_on", "", "AlwaysOnSampler"},
		{"ALWAYS_OFF", "x", "AlwaysOffSampler"},
		{"traceidratio", "0.25", "TraceIDRatioBased{0.25}"},
		{"traceidratio", "0", "TraceIDRatioBased{0}"},
		{"traceidratio", "", "TraceIDRatioBased{1}"},
		{"parentbased_always_on", "", parentBasedOn},
		{"parentbased_always_off", "", strings.Replace(parentBasedOn, "root:AlwaysOn", "root:AlwaysOff", 1)},
		{"parentbased_traceidratio", "0.5", strings.Replace(parentBasedOn, "root:AlwaysOnSampler", "root:TraceIDRatioBased{0.5}", 1)},
		{"traceidratio", "1.1", ""},
		{"traceidratio", "-0.1", ""},
		{"parentbased_traceidratio", "NaN", ""},
		{"parentbased_traceidratio", "half", ""},
		{"jaeger_remote", "", ""},
	} {
		c, _, err := Read(env{"OTEL_TRACES_SAMPLER": test.sampler, "OTEL_TRACES_SAMPLER_ARG": test.arg}.lookup)
		if test.want == "" {
			if err == nil {
				t.Errorf("%s %s: %s", test.sampler, test.arg, c.Sampler().Description())
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %s: %v", test.sampler, test.arg, err)
		} else if got := c.Sampler().Description(); got != test.want {
			t.Errorf("%s %s: got %s, want %s", test.sampler, test.arg, got, test.want)
		}
	}
}

func TestLimits(t *testing.T) {
	attrs := []attribute.KeyValue{
		attribute.String("a", "äöü"), attribute.Int("b", 12345), attribute.StringSlice("c", []string{"long", "s"}), attribute.String("d", "\xff\xfe\xfd"),
		attribute.String("e", "x"),
	}
	original := slices.Clone(attrs)
	within, dropped := Limits{Count: 4, Length: 2}.Apply(attrs)
	want := []attribute.KeyValue{
		attribute.String("a", "äö"), attribute.Int("b", 12345), attribute.StringSlice("c", []string{"lo", "s"}), attribute.String("d", "\xff\xfe"),
	}
	if !slices.Equal(within, want) || dropped != 1 {
		t.Errorf("got %v and %d", within, dropped)
	}
	if !slices.Equal(attrs, original) {
		t.Errorf("changed to %v", attrs)
	}
	if within, dropped := (Limits{Count: 128, Length: math.MaxInt}).Apply(attrs); !slices.Equal(within, attrs) || dropped != 0 {
		t.Errorf("got %v and %d", within, dropped)
	}
	if within, dropped := (Limits{}).Apply(attrs); len(within) != 0 || dropped != len(attrs) {
		t.Errorf("got %v and %d", within, dropped)
	}
}

func TestResource(t *testing.T) {
	p := Process{PID: 7, Name: "shop", Path: "/srv/shop", GoVersion: "go1.26.0", Host: "box", Loupe: "0.9"}
	usual := map[attribute.Key]string{
		"service.name": "shop", "process.pid": "7", "process.executable.name": "shop", "process.executable.path": "/srv/shop",
		"process.runtime.name": "go", "process.runtime.version": "go1.26.0", "host.name": "box",
		"telemetry.sdk.name": "opentelemetry", "telemetry.sdk.language": "go", "telemetry.distro.name": "loupe", "telemetry.distro.version": "0.9",
	}
	for _, test := range []struct {
		env  env
		want map[attribute.Key]string // in addition to the usual ones
		warn bool
	}{
		{env{}, nil, false},
		{env{"OTEL_SERVICE_NAME": "s"}, map[attribute.Key]string{"service.name": "s"}, false},
		{env{"OTEL_RESOURCE_ATTRIBUTES": "service.name=r,a%2Cb=x%3Dy , host.name=other"},
			map[attribute.Key]string{"service.name": "r", "a,b": "x=y", "host.name": "other"}, false},
		{env{"OTEL_RESOURCE_ATTRIBUTES": "service.name=r,,empty=", "OTEL_SERVICE_NAME": "s"}, map[attribute.Key]string{"service.name": "s", "empty": ""}, false},
		{env{"OTEL_RESOURCE_ATTRIBUTES": "telemetry.sdk.name=mine,telemetry.distro.name=mine"}, nil, false},
		{env{"OTEL_RESOURCE_ATTRIBUTES": "a=b,c"}, nil, true},
		{env{"OTEL_RESOURCE_ATTRIBUTES": "a=%zz"}, nil, true},
		{env{"OTEL_RESOURCE_ATTRIBUTES": "=b"}, nil, true},
	} {
		c, warnings, err := Read(test.env.lookup)
		if err != nil || test.warn != (len(warnings) == 1) {
			t.Errorf("%v: %v, warnings %q", test.env, err, warnings)
			continue
		}
		got := texts(c.Resource(p))
		if got["telemetry.sdk.version"] == "" {
			t.Errorf("%v: no version of the SDK", test.env)
		}
		delete(got, "telemetry.sdk.version")
		want := maps.Clone(usual)
		maps.Copy(want, test.want)
		if !maps.Equal(got, want) {
			t.Errorf("%v: got %v, want %v", test.env, got, want)
		}
	}
	res := read(t, env{}).Resource(Process{})
	if got := texts(res); got["service.name"] != "unknown_service:go" || len(got) != 6 || res.SchemaURL() != semconv.SchemaURL {
		t.Errorf("nothing known: %v", res)
	}
}

func texts(res *resource.Resource) map[attribute.Key]string {
	m := map[attribute.Key]string{}
	for _, a := range res.Attributes() {
		m[a.Key] = a.Value.String()
	}
	return m
}

func TestEndpoint(t *testing.T) {
	for _, test := range []struct {
		env  env
		want endpoint // of traces
	}{
		{env{}, endpoint{protocol: protocolHTTP, url: "http://localhost:4318/v1/traces", target: "localhost:4318", insecure: true}},
		{env{"PROTOCOL": "grpc"}, endpoint{protocol: protocolGRPC, target: "localhost:4317", insecure: true}},
		{env{"PROTOCOL": "grpc", "TRACES_PROTOCOL": "http/protobuf"}, endpoint{protocol: protocolHTTP, url: "http://localhost:4318/v1/traces", target: "localhost:4318", insecure: true}},
		{env{"ENDPOINT": "https://h/base/"}, endpoint{protocol: protocolHTTP, url: "https://h/base/v1/traces", target: "h"}},
		{env{"ENDPOINT": "http://h:1", "INSECURE": "false"}, endpoint{protocol: protocolHTTP, url: "http://h:1/v1/traces", target: "h:1", insecure: true}},
		{env{"ENDPOINT": "http://h:1", "TRACES_ENDPOINT": "https://t:2"}, endpoint{protocol: protocolHTTP, url: "https://t:2/", target: "t:2"}},
		{env{"TRACES_ENDPOINT": "http://t:2/own/path"}, endpoint{protocol: protocolHTTP, url: "http://t:2/own/path", target: "t:2", insecure: true}},
		{env{"METRICS_ENDPOINT": "http://t:2/own/path"}, endpoint{protocol: protocolHTTP, url: "http://localhost:4318/v1/traces", target: "localhost:4318", insecure: true}},
		{env{"PROTOCOL": "grpc", "ENDPOINT": "https://h:1/x", "INSECURE": "true"}, endpoint{protocol: protocolGRPC, target: "h:1"}},
		{env{"PROTOCOL": "grpc", "ENDPOINT": "h:1"}, endpoint{protocol: protocolGRPC, target: "h:1"}},
		{env{"PROTOCOL": "grpc", "ENDPOINT": "h:1", "INSECURE": "true"}, endpoint{protocol: protocolGRPC, target: "h:1", insecure: true}},
		{env{"PROTOCOL": "grpc", "ENDPOINT": "unix:///run/otel"}, endpoint{protocol: protocolGRPC, target: "unix:///run/otel", insecure: true}},
		{env{"PROTOCOL": "grpc", "ENDPOINT": "dns:///h:1"}, endpoint{protocol: protocolGRPC, target: "dns:///h:1"}},
		{env{"CERTIFICATE": "a", "CLIENT_KEY": "k", "CLIENT_CERTIFICATE": "c", "TRACES_CERTIFICATE": "b", "COMPRESSION": "gzip"}, endpoint{
			protocol: protocolHTTP, url: "http://localhost:4318/v1/traces", target: "localhost:4318", insecure: true,
			authorities: "b", clientKey: "k", clientCertificate: "c", gzip: true,
		}},
		{env{"TIMEOUT": "20", "TRACES_TIMEOUT": "0"}, endpoint{protocol: protocolHTTP, url: "http://localhost:4318/v1/traces", target: "localhost:4318", insecure: true, timeout: noLimit}},
	} {
		full := env{}
		for name, value := range test.env {
			full["OTEL_EXPORTER_OTLP_"+name] = value
		}
		got := *read(t, full).traces.endpoint
		if len(got.headers) > 0 {
			t.Errorf("%v: headers %v", test.env, got.headers)
		}
		if got.headers = nil; test.want.timeout == 0 {
			test.want.timeout = 10 * time.Second
		}
		if !equal(got, test.want) {
			t.Errorf("%v: got %+v, want %+v", test.env, got, test.want)
		}
	}
}

func equal(a, b endpoint) bool {
	return a.protocol == b.protocol && a.url == b.url && a.target == b.target && a.insecure == b.insecure && a.timeout == b.timeout && a.gzip == b.gzip &&
		a.authorities == b.authorities && a.clientKey == b.clientKey && a.clientCertificate == b.clientCertificate && maps.Equal(a.headers, b.headers)
}

func TestHeaders(t *testing.T) {
	const secret = "hush"
	for _, test := range []struct {
		value string
		want  map[string]string
		warns int
	}{
		{"api-key=" + secret + ", X=a%20b%3D", map[string]string{"api-key": secret, "X": "a b="}, 0},
		{"a=1,b" + secret + ",c=3", map[string]string{"a": "1", "c": "3"}, 1},
		{"a b=" + secret, map[string]string{}, 1},
		{"a=x%0a" + secret, map[string]string{}, 1},
	} {
		c, warnings, err := Read(env{"OTEL_EXPORTER_OTLP_TRACES_HEADERS": test.value}.lookup)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.traces.endpoint.headers; !maps.Equal(got, test.want) || len(warnings) != test.warns {
			t.Errorf("%s: got %v, warnings %q", test.value, got, warnings)
		}
		if strings.Contains(strings.Join(warnings, ""), secret) {
			t.Errorf("%s: a warning has the value: %q", test.value, warnings)
		}
	}
}
