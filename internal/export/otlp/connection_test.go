package otlp

import (
	"testing"
	"time"
)

// TestConnection reads the variables of signals that other packages export.
func TestConnection(t *testing.T) {
	for _, test := range []struct {
		env    env
		signal Signal
		name   string // empty: not exported
		url    string
	}{
		{env{}, Logs, "OTLP http/protobuf endpoint localhost:4318", "http://localhost:4318/v1/logs"},
		{env{}, Profiles, "OTLP http/protobuf endpoint localhost:4318", "http://localhost:4318/v1development/profiles"},
		{env{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, Logs, "OTLP grpc endpoint localhost:4317", ""},
		{env{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "https://l:1/x"}, Logs, "OTLP http/protobuf endpoint l:1", "https://l:1/x"},
		{env{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "https://l:1/x"}, Profiles, "OTLP http/protobuf endpoint localhost:4318", "http://localhost:4318/v1development/profiles"},
		{env{"OTEL_LOGS_EXPORTER": "none"}, Logs, "", ""},
		{env{"OTEL_SDK_DISABLED": "true"}, Profiles, "", ""},
	} {
		c, warnings, err := Read(test.env.lookup, Logs, Profiles)
		if err != nil || len(warnings) > 0 {
			t.Fatal(err, warnings)
		}
		conn, ok, err := c.Connection(test.signal)
		if err != nil || ok != (test.name != "") || ok && (conn.String() != test.name || conn.URL != test.url || conn.GRPC == (conn.Client != nil)) {
			t.Errorf("%v: %+v %v %v", test.env, conn, ok, err)
		}
	}
	e := env{
		"OTEL_LOGS_EXPORTER": "console", "OTEL_BLRP_MAX_QUEUE_SIZE": "9", "OTEL_BLRP_SCHEDULE_DELAY": "7", "OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL": "http/json",
		"OTEL_EXPORTER_OTLP_CERTIFICATE": "absent.pem", "OTEL_EXPORTER_OTLP_ENDPOINT": "https://h",
	}
	if c := read(t, e); c.LogQueue != (QueueOptions{}) {
		t.Errorf("variables of log records count although logs are not exported: %+v", c.LogQueue)
	}
	if _, _, err := Read(e.lookup, Logs); err == nil {
		t.Error("there is no console exporter of log records")
	}
	if _, _, err := Read(e.lookup, Profiles); err == nil {
		t.Error("an unsupported protocol of profiles")
	}
	e["OTEL_LOGS_EXPORTER"] = "otlp"
	c, _, err := Read(e.lookup, Logs)
	if err != nil || c.LogQueue.Size != 9 || c.LogQueue.Batch != 9 || c.LogQueue.Delay != 7*time.Millisecond {
		t.Errorf("%v: %+v", err, c.LogQueue)
	}
	if _, _, err := c.Connection(Logs); err == nil {
		t.Error("the file with certificates does not exist")
	}
}
