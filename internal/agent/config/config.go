package config

import (
	"fmt"
	"log/slog"
	"time"
)

// Config is the configuration of the agent. [Default] returns one without any setting.
type Config struct {
	// Node is the name of this machine, as Kubernetes knows it. It is a label of all metrics. The default is the host name.
	Node string `key:"node" env:"NODE_NAME" flag:"node" format:"name" restart:"true"`

	// Targets selects the Go processes that the agent observes. Without any setting, it observes all that it may.
	Targets Match `key:"targets"`

	// Tracing says what the agent records of a target.
	Tracing TracingRules `key:"tracing"`

	// Sampling bounds the events that the agent records of a target.
	Sampling Sampling `key:"sampling"`

	// Budget is what the agent may use. It samples less in order to keep it.
	Budget Budget `key:"budget"`

	// Filters selects the goroutines that are exported as spans.
	Filters Filters `key:"filters"`

	// Alerts are the conditions under which the agent reports an anomaly and records more of the target for a while.
	Alerts Alerts `key:"alerts"`

	// Recordings are execution traces of the last seconds before an alert.
	Recordings Recordings `key:"recordings"`

	// Output says where results go.
	Output Output `key:"output"`

	// Health is the server of /healthz and /readyz.
	Health Health `key:"health" restart:"true"`

	// PProf is the server of profiles of the agent itself.
	PProf PProf `key:"pprof" restart:"true"`

	// Kubernetes says how the agent learns about pods.
	Kubernetes Kubernetes `key:"kubernetes"`

	// Log is the log of the agent, on stderr.
	Log Log `key:"log"`

	origins  map[string]Origin
	warnings []Problem
	environ  environment
	doc      []byte // of the file
}

// Match selects processes. Each key that is set must match: a list if one of its elements does. An exclude key that matches refuses
// the process.
type Match struct {
	// IncludeNamespaces are patterns of the Kubernetes namespace. A process outside a pod does not match.
	IncludeNamespaces []string `key:"include_namespaces" env:"TARGET_NAMESPACE" format:"glob"`

	// ExcludeNamespaces are patterns of the Kubernetes namespace.
	ExcludeNamespaces []string `key:"exclude_namespaces" format:"glob"`

	// IncludePods are patterns of the pod's name. A process outside a pod does not match.
	IncludePods []string `key:"include_pods" format:"glob"`

	// ExcludePods are patterns of the pod's name.
	ExcludePods []string `key:"exclude_pods" format:"glob"`

	// BinaryPatterns are patterns of the executable's path, as the process sees it. A pattern without a slash is for the base name.
	BinaryPatterns []string `key:"binary_patterns" format:"glob"`

	// PIDs are process IDs.
	PIDs []int `key:"pids" min:"1" max:"4194304"`

	// Users are names or numeric IDs of the user that the process runs as.
	Users []string `key:"users" format:"user"`

	// Labels are the labels that the pod must have. The values are patterns.
	Labels map[string]string `key:"labels" format:"label"`
}

// TracingRules are the settings for all targets, and for some.
type TracingRules struct {
	Tracing

	// Overrides are settings for some targets. All overrides that match apply, in order: the last one that sets a key has precedence.
	Overrides []Override `key:"overrides"`
}

// Tracing is what the agent records of one target.
type Tracing struct {
	// GoroutineEvents enables events of goroutines: creation, end, blocking, running. The agent counts goroutines by state without them.
	GoroutineEvents bool `key:"goroutine_events" default:"true"`

	// ChannelOperations enables waits for channels.
	ChannelOperations bool `key:"channel_operations" default:"true"`

	// MutexContention enables waits for mutexes.
	MutexContention bool `key:"mutex_contention" default:"true"`

	// StackTraces enables the stack of each event, which makes events more expensive.
	StackTraces bool `key:"stack_traces" default:"false"`

	// MaxStackDepth is the maximum number of frames in a stack.
	MaxStackDepth int `key:"max_stack_depth" default:"32" min:"1" max:"128"`

	// Allocations enables estimates of what functions allocate, for programs whose runtime samples allocations.
	Allocations bool `key:"allocations" default:"false"`

	// Spans enables spans of requests.
	Spans bool `key:"spans" default:"false"`

	// Profiles are the profiles that the agent takes again and again.
	Profiles []string `key:"profiles" enum:"cpu,heap,block,mutex"`

	// ProfileInterval is the time between the starts of two profiles, and the duration of a profile.
	ProfileInterval time.Duration `key:"profile_interval" default:"60s" min:"1s" max:"24h"`

	// Engine is how events are recorded: by eBPF (uprobe), or by code that is patched into the target (inline).
	Engine string `key:"engine" default:"uprobe" enum:"uprobe,inline"`
}

// An Override is the settings for the targets that match.
type Override struct {
	// Match selects the targets. It is required.
	Match Match `key:"match"`

	Tracing

	// Sampling bounds the events of these targets.
	Sampling Sampling `key:"sampling"`

	set []*field // those besides Match that the override sets
}

// Sampling bounds the events of a target.
type Sampling struct {
	// EventsPerSecond is the rate of events of one target that the agent aims at. It records one in N goroutines to keep it: those that it
	// records have the events of all kinds.
	EventsPerSecond int `key:"events_per_second" default:"2000" min:"1" max:"10000000" env:"SAMPLE_RATE_HZ"`

	// WaitsPerSecond is the same for the beginnings and ends of waits alone. 0: there is no such rate.
	WaitsPerSecond int `key:"waits_per_second" default:"0" min:"0" max:"10000000"`

	// RunsPerSecond is the same for the events by which goroutines begin and stop to run. 0: there is no such rate.
	RunsPerSecond int `key:"runs_per_second" default:"0" min:"0" max:"10000000"`

	// MinRatio is the smallest part of the goroutines that is recorded.
	MinRatio Ratio `key:"min_ratio" default:"0.01" min:"0.0001" max:"1"`

	// MaxTargetOverhead is the part of a target's processor time that probes for events may use. Those for spans of requests are not limited.
	MaxTargetOverhead Ratio `key:"max_target_overhead" default:"0.01" min:"0.0001" max:"1"`
}

// Budget is what the agent may use.
type Budget struct {
	// CPU is the number of processors.
	CPU float64 `key:"cpu" default:"0.5" min:"0.01" max:"1024"`

	// Memory is the resident memory of the agent.
	Memory Size `key:"memory" default:"512MiB" min:"32MiB" max:"1TiB"`

	// BufferBytes is the size of the buffer for events of one target.
	BufferBytes Size `key:"buffer_bytes" default:"1MiB" min:"4KiB" max:"1GiB" env:"EBPF_RING_BUFFER_SIZE"`
}

// Filters selects the goroutines that are exported as spans.
type Filters struct {
	// MinGoroutineLifetimeMS is the lifetime in milliseconds below which a goroutine has no span.
	MinGoroutineLifetimeMS int `key:"min_goroutine_lifetime_ms" default:"10" min:"0" max:"86400000"`

	// IgnoreRuntimeGoroutines omits goroutines that the Go runtime starts for itself.
	IgnoreRuntimeGoroutines bool `key:"ignore_runtime_goroutines" default:"true"`

	// SampleLongRunning is the part of the long-lived goroutines that have spans.
	SampleLongRunning Ratio `key:"sample_long_running" default:"0.1" min:"0" max:"1"`
}

// Alerts are the conditions of alerts. 0 disables a condition.
type Alerts struct {
	// GoroutineGrowth is the growth of the number of goroutines, per minute.
	GoroutineGrowth float64 `key:"goroutine_growth" default:"100" min:"0" max:"1000000000"`

	// Stalled is how long a goroutine is runnable and does not run.
	Stalled time.Duration `key:"stalled" default:"1s" min:"0s" max:"24h"`

	// Latency is the 99th percentile of the time from runnable to running.
	Latency time.Duration `key:"latency" default:"100ms" min:"0s" max:"24h"`

	// For is how long growth or latency must last.
	For time.Duration `key:"for" default:"1m" min:"0s" max:"24h"`
}

// Recordings are the recordings of the last seconds before an alert.
type Recordings struct {
	// Directory is where they are written. Empty: there are no recordings.
	Directory string `key:"directory" format:"path"`

	// Seconds is the length of a recording.
	Seconds int `key:"seconds" default:"10" min:"1" max:"600"`

	// MaxBytes is the size of all recordings. The oldest are deleted.
	MaxBytes Size `key:"max_bytes" default:"256MiB" min:"1MiB" max:"1TiB"`
}

// Output says where results go.
type Output struct {
	// Format is the format that is sent to endpoint. There is one.
	Format string `key:"format" default:"otlp" enum:"otlp"`

	// The same as otlp.endpoint.
	_ string `key:"endpoint" alias:"output.otlp.endpoint"`

	// The same as otlp.batch_size.
	_ int `key:"batch_size" alias:"output.otlp.batch_size"`

	// The same as otlp.flush_interval.
	_ time.Duration `key:"flush_interval" alias:"output.otlp.flush_interval"`

	// OTLP sends results to an OpenTelemetry Collector or back end.
	OTLP OTLP `key:"otlp"`

	// Prometheus is the server of /metrics.
	Prometheus Prometheus `key:"prometheus"`

	// Profiles are files of profiles, for back ends that do not accept them by OTLP.
	Profiles Profiles `key:"profiles"`
}

// OTLP sends results to an OpenTelemetry Collector or back end.
type OTLP struct {
	// Protocol is the protocol of the endpoint. auto means http/protobuf if the port of the endpoint is 4318, and grpc otherwise.
	Protocol string `key:"protocol" default:"auto" env:"OTEL_EXPORTER_OTLP_PROTOCOL" enum:"auto,grpc,http/protobuf"`

	// Endpoint is the address: http://HOST:PORT, https://HOST:PORT or, with grpc, HOST:PORT, which uses TLS unless tls.insecure is set.
	// Empty: nothing is sent.
	Endpoint string `key:"endpoint" env:"OTEL_EXPORTER_OTLP_ENDPOINT" format:"endpoint"`

	// Headers are headers of each request. Keep passwords in a Secret, as OTEL_EXPORTER_OTLP_HEADERS, and not in this file.
	Headers map[string]Secret `key:"headers" env:"OTEL_EXPORTER_OTLP_HEADERS" format:"header"`

	// TLS configures TLS.
	TLS TLS `key:"tls"`

	// BatchSize is the maximum number of spans or log records in a request.
	BatchSize int `key:"batch_size" default:"512" min:"1" max:"65536" env:"OTEL_BSP_MAX_EXPORT_BATCH_SIZE"`

	// FlushInterval is how long spans and log records wait for a batch to become complete.
	FlushInterval time.Duration `key:"flush_interval" default:"5s" min:"0s" max:"1h" env:"OTEL_BSP_SCHEDULE_DELAY/ms"`

	// MetricInterval is the time between two exports of metrics.
	MetricInterval time.Duration `key:"metric_interval" default:"60s" min:"1s" max:"1h" env:"OTEL_METRIC_EXPORT_INTERVAL/ms"`

	// Signals are what is sent.
	Signals []string `key:"signals" default:"metrics,traces,logs,profiles" enum:"metrics,traces,logs,profiles"`
}

// TLS configures TLS of a client.
type TLS struct {
	// CAFile is a file with the certificates of the authorities that the server's certificate is checked with. Empty: those of the system.
	CAFile string `key:"ca_file" env:"OTEL_EXPORTER_OTLP_CERTIFICATE" format:"path"`

	// CertFile is a file with the certificate of the agent.
	CertFile string `key:"cert_file" env:"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE" format:"path"`

	// KeyFile is a file with the key of that certificate.
	KeyFile string `key:"key_file" env:"OTEL_EXPORTER_OTLP_CLIENT_KEY" format:"path"`

	// Insecure disables TLS for an endpoint HOST:PORT.
	Insecure bool `key:"insecure" default:"false" env:"OTEL_EXPORTER_OTLP_INSECURE"`
}

// Prometheus is the server of /metrics.
type Prometheus struct {
	// Listen is the address. Empty: there is no server.
	Listen string `key:"listen" default:":9090" flag:"listen" format:"address" restart:"true"`

	// WebConfigFile is a web configuration file of Prometheus' exporter-toolkit, for TLS and passwords.
	WebConfigFile string `key:"web_config_file" format:"path" restart:"true"`

	// Sites is the number of creation sites of goroutines that have series of their own. The others are counted as "other".
	Sites int `key:"sites" default:"20" min:"0" max:"1000"`
}

// Profiles are files of profiles in the format of pprof.
type Profiles struct {
	// Directory is where they are written. Empty: there are no files.
	Directory string `key:"directory" format:"path"`

	// MaxBytes is the size of all files. The oldest are deleted.
	MaxBytes Size `key:"max_bytes" default:"256MiB" min:"1MiB" max:"1TiB"`
}

// Health is the server of /healthz and /readyz.
type Health struct {
	// Listen is the address. Empty: there is no server.
	Listen string `key:"listen" default:":8080" format:"address"`
}

// PProf is the server of profiles of the agent itself.
type PProf struct {
	// Listen is the address. Empty: there is no server.
	Listen string `key:"listen" format:"address"`
}

// Kubernetes says how the agent learns about pods.
type Kubernetes struct {
	// Enabled is true, false, or auto: true if the agent runs in a pod or kubeconfig is set.
	Enabled Auto `key:"enabled" default:"auto" enum:"auto,true,false" restart:"true"`

	// Kubeconfig is a file that says how to connect to the API server. Empty: the service account of the pod.
	Kubeconfig string `key:"kubeconfig" format:"path" restart:"true"`

	// Annotations are the annotations of pods that are respected: loupe.dev/observe, loupe.dev/engine, loupe.dev/spans.
	Annotations []string `key:"annotations" default:"observe,engine,spans" enum:"observe,engine,spans"`
}

// Log is the log of the agent.
type Log struct {
	// Level is the minimum level of messages.
	Level string `key:"level" default:"info" enum:"debug,info,warn,error" env:"OTEL_LOG_LEVEL" flag:"log-level"`

	// Format is the format of a message.
	Format string `key:"format" default:"text" enum:"text,json" restart:"true"`
}

// A Ratio is a part of a whole: 0 to 1. As text it can also be a percentage: "1%".
type Ratio float64

// A Size is a number of bytes. As text it has a unit, such as "512MiB", or none.
type Size int64

// Auto is "true", "false" or "auto".
type Auto string

// A Secret is a text that is not printed. Conversion to string returns it.
type Secret string

const hidden = "(hidden)"

// Format implements [fmt.Formatter].
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, hidden) }

// LogValue implements [slog.LogValuer].
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements [encoding.TextMarshaler].
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// An Origin is where a value comes from.
type Origin struct {
	File string // with Line
	Line int
	Env  string // name of the environment variable
	Flag string // with its dashes
}

func (o Origin) String() string {
	switch {
	case o.Flag != "":
		return o.Flag
	case o.Env != "":
		return "environment: " + o.Env
	case o.File != "":
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	}
	return "default"
}

// Origin returns where the value of a key comes from. The path is as in "sampling.events_per_second".
func (c *Config) Origin(path string) Origin { return c.origins[path] }

// Warnings returns what is probably a mistake, one problem each.
func (c *Config) Warnings() []Problem { return c.warnings }
