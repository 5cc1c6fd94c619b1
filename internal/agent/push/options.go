package push

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/export/otlp"
)

// A Signal is a kind of telemetry.
type Signal string

// The signals, spelled as in the configuration.
const (
	Metrics  Signal = "metrics"
	Traces   Signal = "traces"
	Logs     Signal = "logs"
	Profiles Signal = "profiles"
)

// Signals are all signals.
var Signals = []Signal{Metrics, Traces, Logs, Profiles}

// Options configures a [Pusher].
type Options struct {
	Protocol      string            // grpc or http/protobuf, which is the default
	Endpoint      string            // http://HOST:PORT, https://HOST:PORT or, with grpc, HOST:PORT; empty: that of the variables, if any
	Headers       map[string]string // of each request; may be secret
	CAFile        string            // certificates of authorities that the server's certificate is checked with
	CertFile      string            // certificate of the agent
	KeyFile       string            // its key
	Insecure      bool              // with grpc and an endpoint HOST:PORT: without TLS
	BatchSize     int               // maximum number of data points, spans or log records in a request; 0 means 512; at most 2048 spans or log records
	FlushInterval time.Duration     // between two exports of metrics, and how long a span or log record waits; 0 means 1m, 5s and 1s
	Signals       []Signal          // nil: all

	// Directory receives profiles as files if the back end does not take profiles, or if they are not exported by OTLP. Empty: no files.
	Directory string
	MaxBytes  int64 // of all files in Directory; the oldest are removed; 0 means 256 MiB

	// Metrics returns the values of all targets, and of the agent. It is called at the interval of metrics, and by [Pusher.Close].
	Metrics func(context.Context) []metric.Group

	Sampler sdktrace.Sampler                 // of request spans; nil: that of OTEL_TRACES_SAMPLER
	Version string                           // of Loupe
	Host    string                           // name of the machine; empty: unknown
	Lookup  func(name string) (string, bool) // returns a variable; nil: os.LookupEnv
	Log     *slog.Logger                     // receives a line when exporting begins to fail, and when it works again; nil: no lines

	retry *otlp.Retry // for tests
}

const (
	defaultBatch    = 512
	maxSpans        = 16384 // in the queue, unless OTEL_BSP_MAX_QUEUE_SIZE is set: with 2 KiB each, 32 MiB
	maxBatch        = 2048  // spans or log records: the size of the smaller queue
	defaultMaxBytes = 256 << 20
)

// settings are the variables that options are defaults of, with the name of the option in the configuration.
var settings = map[string]string{
	"OTEL_EXPORTER_OTLP_PROTOCOL": "output.otlp.protocol",
	"OTEL_EXPORTER_OTLP_ENDPOINT": "output.otlp.endpoint",
	"OTEL_EXPORTER_OTLP_HEADERS":  "output.otlp.headers",
}

// read returns the configuration of the exporters. Warnings are lines about variables that are ignored.
func (o *Options) read() (c *otlp.Config, warnings []string, err error) {
	if o.Lookup == nil {
		o.Lookup = os.LookupEnv
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c, warnings, err = otlp.Read(o.variable, otlp.Logs, otlp.Profiles)
	if err != nil {
		return nil, nil, optionError{o.rename(err.Error())}
	}
	for i, w := range warnings {
		warnings[i] = o.rename(w)
	}
	if o.retry != nil {
		c.Retry = *o.retry
	}
	return c, warnings, nil
}

// An optionError is an error about an option or a variable.
type optionError struct{ text string }

func (e optionError) Error() string { return e.text }

// rename replaces the name of a variable in a message if its value is that of an option.
func (o *Options) rename(message string) string {
	for name, option := range settings {
		if _, ok := o.env(name); !ok && strings.HasPrefix(message, name) {
			return option + strings.TrimPrefix(message, name)
		}
	}
	return message
}

// env returns a variable that is set and not empty.
func (o *Options) env(name string) (string, bool) {
	text, ok := o.Lookup(name)
	return text, ok && strings.TrimSpace(text) != ""
}

// variable returns a variable, or the option that is its default.
func (o *Options) variable(name string) (string, bool) {
	if text, ok := o.env(name); ok {
		return text, true
	}
	text := ""
	switch name {
	case "OTEL_METRICS_EXPORTER", "OTEL_TRACES_EXPORTER", "OTEL_LOGS_EXPORTER", "OTEL_PROFILES_EXPORTER":
		if part := strings.TrimSuffix(strings.TrimPrefix(name, "OTEL_"), "_EXPORTER"); !o.wanted(part) {
			text = "none"
		}
	case "OTEL_EXPORTER_OTLP_PROTOCOL":
		text = o.Protocol
	case "OTEL_EXPORTER_OTLP_ENDPOINT":
		text = o.Endpoint
	case "OTEL_EXPORTER_OTLP_HEADERS":
		text = o.headers()
	case "OTEL_EXPORTER_OTLP_CERTIFICATE":
		text = o.CAFile
	case "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE":
		text = o.CertFile
	case "OTEL_EXPORTER_OTLP_CLIENT_KEY":
		text = o.KeyFile
	case "OTEL_EXPORTER_OTLP_INSECURE":
		if o.Insecure {
			text = "true"
		}
	case "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE":
		if o.BatchSize > 0 {
			text = strconv.Itoa(min(o.BatchSize, maxBatch))
		}
	case "OTEL_BSP_MAX_QUEUE_SIZE":
		text = strconv.Itoa(maxSpans)
	case "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BLRP_SCHEDULE_DELAY", "OTEL_METRIC_EXPORT_INTERVAL":
		if o.FlushInterval > 0 {
			text = strconv.FormatInt(max(o.FlushInterval.Milliseconds(), 1), 10)
		}
	}
	return text, text != ""
}

// wanted reports whether a signal, which is the part of the names of its variables, is exported by OTLP.
func (o *Options) wanted(part string) bool {
	if len(o.Signals) > 0 && !slices.Contains(o.Signals, Signal(strings.ToLower(part))) {
		return false
	}
	_, general := o.env("OTEL_EXPORTER_OTLP_ENDPOINT")
	_, own := o.env("OTEL_EXPORTER_OTLP_" + part + "_ENDPOINT")
	return general || own || o.Endpoint != ""
}

// headers returns the headers in the form of the variable.
func (o *Options) headers() string {
	escape := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
	var list []string
	for name, value := range o.Headers {
		list = append(list, escape(name)+"="+escape(value))
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}
