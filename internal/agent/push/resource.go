package push

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/export/otlp"
)

// Bounds of text from targets. Longer text is cut.
const (
	maxKey        = 256
	maxText       = 4096
	maxAttributes = 128
)

// workloads are the attributes with the name of a workload, by its kind.
var workloads = map[string]attribute.Key{
	"CronJob": semconv.K8SCronJobNameKey, "DaemonSet": semconv.K8SDaemonSetNameKey, "Deployment": semconv.K8SDeploymentNameKey, "Job": semconv.K8SJobNameKey,
	"ReplicaSet": semconv.K8SReplicaSetNameKey, "ReplicationController": semconv.K8SReplicationControllerNameKey, "StatefulSet": semconv.K8SStatefulSetNameKey,
}

// resources makes the resources of targets and of the agent.
type resources struct {
	config        *otlp.Config
	version, host string
}

// of returns the resource of a target, or of the agent if the identity is zero. The attributes that a process sets itself have precedence
// over those of the agent's environment, but not over what was observed about the process.
func (r resources) of(id *metric.Identity) *resource.Resource {
	if id.PID == 0 {
		return r.config.Resource(otlp.Process{Name: "loupe-agent", Host: r.host, Loupe: r.version})
	}
	attrs := append(r.config.ResourceAttributes(), semconv.ServiceInstanceID(clean(instance(id, r.host), maxText)))
	add := func(key attribute.Key, value string) {
		if value != "" {
			attrs = append(attrs, key.String(clean(value, maxText)))
		}
	}
	add(semconv.ServiceVersionKey, id.Version)
	for _, kv := range id.Extra[:min(len(id.Extra), maxAttributes)] {
		if kv.Key != "" {
			add(attribute.Key(clean(kv.Key, maxKey)), kv.Value)
		}
	}
	attrs = append(attrs, semconv.ServiceName(serviceName(id)), semconv.ProcessPID(id.PID), semconv.ProcessRuntimeName("go"))
	add(semconv.ProcessExecutableNameKey, id.Process)
	add(semconv.ProcessExecutablePathKey, id.Exe)
	add(semconv.ProcessRuntimeVersionKey, id.GoVersion)
	add(semconv.HostNameKey, r.host)
	add(semconv.ContainerIDKey, id.ContainerID)
	add(semconv.K8SNamespaceNameKey, id.Namespace)
	add(semconv.K8SPodNameKey, id.Pod)
	add(semconv.K8SPodUIDKey, id.PodUID)
	add(semconv.K8SNodeNameKey, id.Node)
	if id.Pod != "" {
		add(semconv.K8SContainerNameKey, id.Container)
	}
	if key, ok := workloads[id.Kind]; ok {
		add(key, id.Workload)
	} else {
		add("k8s.workload.name", id.Workload)
		add("k8s.workload.kind", id.Kind)
	}
	attrs = append(attrs, semconv.TelemetrySDKName("opentelemetry"), semconv.TelemetrySDKLanguageGo, semconv.TelemetrySDKVersion(sdk.Version()),
		semconv.TelemetryDistroName("loupe"))
	add(semconv.TelemetryDistroVersionKey, r.version)
	return resource.NewWithAttributes(semconv.SchemaURL, attrs...) // of several values of a key the last one counts
}

func serviceName(id *metric.Identity) string {
	for _, name := range []string{id.Service, id.Workload, id.Process} {
		if name != "" {
			return clean(name, maxText)
		}
	}
	return "unknown_service:go"
}

// instance returns what distinguishes a process from others of its service. Prometheus has it as the label instance.
func instance(id *metric.Identity, host string) string {
	if id.Pod != "" {
		return fmt.Sprintf("%s.%s.%s.%d", id.Namespace, id.Pod, id.Container, id.PID)
	}
	return fmt.Sprintf("%s.%d", host, id.PID)
}

// clean returns text from a target as valid UTF-8, cut to n bytes. One invalid string would make protobuf refuse a whole request.
func clean(s string, n int) string {
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// cleanAll returns attributes with clean texts.
func cleanAll(attrs []attribute.KeyValue) []attribute.KeyValue {
	attrs = slices.Clone(attrs[:min(len(attrs), maxAttributes)])
	for i := range attrs {
		a := &attrs[i]
		a.Key = attribute.Key(clean(string(a.Key), maxKey))
		switch a.Value.Type() {
		case attribute.STRING:
			a.Value = attribute.StringValue(clean(a.Value.AsString(), maxText))
		case attribute.STRINGSLICE:
			list := a.Value.AsStringSlice()
			for j := range list {
				list[j] = clean(list[j], maxText)
			}
			a.Value = attribute.StringSliceValue(list)
		}
	}
	return attrs
}
