// Package metric defines the metrics of the node agent, and what their values look like.
//
// [Table] has one row for each metric. A source of values, such as a target, passes a [Point] for each series. Prometheus and
// OpenTelemetry receive the same points; each has a name for the metric in the table.
package metric

import "github.com/loupe-go/loupe/sched"

// A Kind says what the values of a metric mean.
type Kind uint8

// The kinds.
const (
	Gauge     Kind = iota // a value that goes up and down
	Counter               // a sum that only grows, since the start of the target, or of its observation
	Histogram             // durations in seconds
)

// A Scope says what a metric is about.
type Scope uint8

// The scopes.
const (
	Target Scope = iota // a process that the agent observes; its points have the labels of [TargetLabels] as well
	Agent               // the agent itself
)

// A Label is a dimension of a metric.
type Label struct {
	Name string // in Prometheus
	OTel string // the attribute in OpenTelemetry
	Doc  string // its values
}

// A Desc is a row of [Table].
type Desc struct {
	Name   string // in Prometheus, with unit and suffix
	OTel   string // in OpenTelemetry; a name of its semantic conventions where they define one
	Unit   string // in UCUM, as OpenTelemetry writes it: "s", "By", "{goroutine}", "1"
	Kind   Kind
	Scope  Scope
	Labels []Label // in addition to those of the scope
	Help   string  // one sentence, without a period

	// UpDown makes a Gauge an UpDownCounter in OpenTelemetry: the sum of its series has a meaning.
	UpDown bool
}

// A Point is the value of one series of a metric at one moment.
type Point struct {
	*Desc
	Labels    []string // the values of Desc.Labels, in that order
	Value     float64  // of a gauge or a counter
	Durations *Durations
}

// Durations is the value of a [Histogram]. Counts are since the start of the observation.
type Durations struct {
	*sched.Histogram
	Exemplars []Exemplar // at most one for each power of two of the duration
}

// An Exemplar is one of the durations of a histogram, with the span that it belongs to.
type Exemplar struct {
	Seconds float64
	At      int64 // nanoseconds since the Unix epoch
	TraceID [16]byte
	SpanID  [8]byte
}

// Of returns a point of a gauge or a counter.
func (d *Desc) Of(value float64, labels ...string) Point {
	return Point{Desc: d, Labels: labels, Value: value}
}

// Distribution returns a point of a histogram.
func (d *Desc) Distribution(h *sched.Histogram, labels ...string) Point {
	return Point{Desc: d, Labels: labels, Durations: &Durations{Histogram: h}}
}

// A Group is the points of one target, or of the agent.
type Group struct {
	Identity Identity // of the target; zero for the agent
	Start    int64    // since when counters count, in nanoseconds since the Unix epoch
	At       int64    // when the points were read
	Points   []Point
}

// An Identity is what is known about a target, as values of labels and attributes. Empty fields are unknown or do not apply.
type Identity struct {
	PID     int
	Process string // base name of the executable
	Exe     string // its path
	Service string // service.name: from OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES of the process, the workload, or the executable

	Container   string // name of the container in its pod
	ContainerID string
	Namespace   string // of the pod
	Pod         string
	PodUID      string
	Workload    string // what created the pod: the name of a Deployment, StatefulSet, DaemonSet, Job and so on
	Kind        string // of the workload: "Deployment"
	Node        string

	GoVersion string
	Version   string // of the main module

	Extra []KeyValue // attributes of the resource that the process or the configuration sets
}

// A KeyValue is an attribute of a resource.
type KeyValue struct{ Key, Value string }
