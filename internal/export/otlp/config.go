package otlp

import (
	"log/slog"
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The exporters of a signal.
const (
	otlpExporter    = "otlp"
	consoleExporter = "console"
)

// exponential is the aggregation of histograms whose buckets adapt to the values.
const exponential = "base2_exponential_bucket_histogram"

// Config is the configuration of the exporters.
type Config struct {
	Disabled    bool         // there are no exporters because OTEL_SDK_DISABLED is true
	Propagators []string     // tracecontext and baggage, or fewer
	LogLevel    slog.Level   // the minimum level of diagnostics
	SpanLimits  Limits       // the caller applies them to the attributes of its spans
	Queue       QueueOptions // of spans, without Log
	LogQueue    QueueOptions // of log records, without Log
	Retry       Retry        // of exporters

	traces, metrics signal
	others          map[Signal]signal
	sampler         sdktrace.Sampler
	service         string // OTEL_SERVICE_NAME
	attributes      []attribute.KeyValue

	metricInterval, metricTimeout time.Duration

	temporality string
	aggregation string
}

// A Signal is a kind of telemetry in addition to traces and metrics.
type Signal string

// The signals, as in the names of environment variables.
const (
	Logs     Signal = "LOGS"
	Profiles Signal = "PROFILES"
)

// A signal is what Read has found for a kind of telemetry.
type signal struct {
	exporters []string // otlp and console, or fewer
	endpoint  *endpoint
}

// Read reads the environment variables for traces and metrics, and for others. lookup returns the value of a variable as
// [os.LookupEnv] does. Each warning is one line about a value that was ignored. The error is one line about the first value that is
// not supported.
func Read(lookup func(string) (string, bool), others ...Signal) (c *Config, warnings []string, err error) {
	v := &variables{lookup: lookup}
	c = &Config{Retry: defaultRetry}
	c.Disabled = v.boolean("OTEL_SDK_DISABLED")
	if c.traces, err = readSignal(v, c.Disabled, "TRACES", otlpExporter, consoleExporter); err != nil {
		return nil, nil, err
	}
	if c.metrics, err = readSignal(v, c.Disabled, "METRICS", otlpExporter, consoleExporter); err != nil {
		return nil, nil, err
	}
	c.others = map[Signal]signal{}
	for _, o := range others {
		if c.others[o], err = readSignal(v, c.Disabled, string(o), otlpExporter); err != nil {
			return nil, nil, err
		}
	}
	if c.sampler, err = readSampler(v); err != nil {
		return nil, nil, err
	}
	propagators := []string{"tracecontext", "baggage"}
	if c.Propagators, err = v.list("OTEL_PROPAGATORS", propagators, propagators); err != nil {
		return nil, nil, err
	}
	c.service, c.attributes = readResource(v)
	c.LogLevel = readLogLevel(v)
	c.SpanLimits = readLimits(v)
	c.Queue = readQueue(v, "OTEL_BSP_", DefaultQueueSize, defaultDelay)
	if slices.Contains(others, Logs) {
		c.LogQueue = readQueue(v, "OTEL_BLRP_", 2048, time.Second)
	}
	c.metricInterval = v.duration(1, time.Minute, "OTEL_METRIC_EXPORT_INTERVAL")
	c.metricTimeout = v.timeout(30*time.Second, "OTEL_METRIC_EXPORT_TIMEOUT")
	c.temporality = v.choice([]string{"cumulative", "delta", "lowmemory"}, "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE")
	c.aggregation = v.choice([]string{"explicit_bucket_histogram", exponential}, "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION")
	return c, v.warnings, nil
}

// ExportsTraces reports whether there is an exporter of spans.
func (c *Config) ExportsTraces() bool { return len(c.traces.exporters) > 0 }

// readSignal reads the exporters of a signal, which is the part of the names of its variables.
func readSignal(v *variables, disabled bool, name string, choices ...string) (s signal, err error) {
	s.exporters, err = v.list("OTEL_"+name+"_EXPORTER", choices, []string{otlpExporter})
	if disabled {
		s.exporters = nil
	}
	if err == nil && slices.Contains(s.exporters, otlpExporter) {
		s.endpoint, err = readEndpoint(v, name)
	}
	return s, err
}

// readQueue reads the sizes and times of a queue from the variables whose names begin with prefix.
func readQueue(v *variables, prefix string, size int, delay time.Duration) QueueOptions {
	opt := QueueOptions{
		Size:    v.number(1, size, prefix+"MAX_QUEUE_SIZE"),
		Batch:   v.number(1, defaultBatch, prefix+"MAX_EXPORT_BATCH_SIZE"),
		Delay:   v.duration(0, delay, prefix+"SCHEDULE_DELAY"),
		Timeout: v.timeout(defaultTimeout, prefix+"EXPORT_TIMEOUT"),
	}
	if opt.Batch > opt.Size {
		if name, value := v.text(prefix + "MAX_EXPORT_BATCH_SIZE"); name != "" {
			v.warn("%s=%s exceeds the size of the queue; using %d", name, value, opt.Size)
		}
		opt.Batch = opt.Size
	}
	return opt
}

func readLogLevel(v *variables) slog.Level {
	switch v.choice([]string{"info", "debug", "warn", "error"}, "OTEL_LOG_LEVEL") {
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

func readLimits(v *variables) Limits {
	const defaultCount = 128
	return Limits{
		Count:  v.number(0, defaultCount, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT"),
		Length: v.number(0, math.MaxInt, "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"),
	}
}
