package config

import (
	"slices"
	"testing"

	"github.com/loupe-go/loupe/internal/export/otlp"
)

// TestOTEL compares the OTEL_* variables of configurations with those expected.
func TestOTEL(t *testing.T) {
	for _, test := range []struct {
		doc     string
		environ []string
		flags   []Flag
		want    map[string]string
		sends   []string
	}{
		{"", nil, nil, map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none",
			"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, nil},
		{"output: {otlp: {endpoint: 'https://c:4317', signals: [traces, logs], batch_size: 7, flush_interval: 1s, metric_interval: 2s," +
			" headers: {b: 'x,=y%', a: ' z'}, tls: {ca_file: /ca, cert_file: /c, key_file: /k}}}",
			[]string{"OTEL_TRACES_SAMPLER=always_off", "HOME=/"}, nil,
			map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_LOGS_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "none", "OTEL_PROFILES_EXPORTER": "none",
				"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "7",
				"OTEL_BSP_SCHEDULE_DELAY": "1000", "OTEL_METRIC_EXPORT_INTERVAL": "2000", "OTEL_EXPORTER_OTLP_HEADERS": "a=%20z,b=x%2C=y%25",
				"OTEL_EXPORTER_OTLP_CERTIFICATE": "/ca", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "/c", "OTEL_EXPORTER_OTLP_CLIENT_KEY": "/k",
				"OTEL_EXPORTER_OTLP_INSECURE": "false", "OTEL_TRACES_SAMPLER": "always_off", "OTEL_LOG_LEVEL": "info",
				"HOME": ""}, []string{"traces", "logs"}},
		{"output: {endpoint: 'x:1', otlp: {signals: [traces]}}", []string{"OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=otlp, console"}, nil,
			map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "otlp, console"}, []string{"metrics"}},
		{"", []string{"OTEL_TRACES_EXPORTER=none", "OTEL_EXPORTER_OTLP_ENDPOINT=http://e:4318"},
			[]Flag{{"--set", "output.otlp.signals", "traces"}},
			map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
			[]string{"traces"}},
		{"output: {endpoint: 'http://file:1'}", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://env:1"},
			[]Flag{{"--set", "output.endpoint", "http://flag:1"}},
			map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://flag:1"}, []string{"metrics", "traces", "logs", "profiles"}},
		{"", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t:1"}, nil,
			map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t:1"}, []string{"traces"}},
		{"output: {endpoint: 'x:1'}", []string{"OTEL_SDK_DISABLED=true"}, nil, map[string]string{"OTEL_SDK_DISABLED": "true"}, nil},
	} {
		c := mustLoad(t, test.doc, test.environ, test.flags...)
		for name, want := range test.want {
			if got, ok := c.OTEL(name); got != want || ok != (want != "") {
				t.Errorf("%s %v: %s=%s, want %s", test.doc, test.environ, name, got, want)
			}
		}
		for _, signal := range signals() {
			if got := c.Sends(signal); got != slices.Contains(test.sends, signal) {
				t.Errorf("%s %v: Sends(%s) = %v", test.doc, test.environ, signal, got)
			}
		}
		if _, warnings, err := otlp.Read(c.OTEL); err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v, %v", test.doc, warnings, err)
		}
	}
	c := mustLoad(t, "output: {endpoint: 'x:1', batch_size: 9}", nil)
	if read, _, err := otlp.Read(c.OTEL); err != nil || read.Queue.Batch != 9 {
		t.Error(read, err)
	}
	for environ, want := range map[string]string{
		"OTEL_TRACES_SAMPLER=sometimes":             "environment: OTEL_TRACES_SAMPLER: ",
		"OTEL_LOGS_EXPORTER=paper":                  `environment: OTEL_LOGS_EXPORTER: must be otlp, console or none, is "paper"`,
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http:/": "environment: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: invalid endpoint: ",
	} {
		_, err := loadText(t, "", []string{environ})
		if err == nil || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
			t.Errorf("%s: %v", environ, err)
		}
	}
}
