package otlp

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Process is what is known about the process that is observed. Fields that are empty or 0 are unknown.
type Process struct {
	PID       int
	Name      string // of the executable, without its directory
	Path      string // of the executable
	GoVersion string // of its runtime, as in "go1.26.0"
	Host      string // name of the host

	Loupe string // version of Loupe
}

// Resource describes the service that the spans and metrics belong to. OTEL_SERVICE_NAME has precedence over
// OTEL_RESOURCE_ATTRIBUTES, which has precedence over what is known about the process. The name of the service is by
// default the name of the executable, or unknown_service:go. The telemetry.* attributes describe Loupe and its SDK, and
// cannot be set.
func (c *Config) Resource(p Process) *resource.Resource {
	name := p.Name
	if name == "" {
		name = "unknown_service:go"
	}
	attrs := []attribute.KeyValue{
		semconv.ServiceName(name),
		semconv.ProcessRuntimeName("go"),
	}
	if p.PID != 0 {
		attrs = append(attrs, semconv.ProcessPID(p.PID))
	}
	for _, a := range []attribute.KeyValue{
		semconv.ProcessExecutableName(p.Name),
		semconv.ProcessExecutablePath(p.Path),
		semconv.ProcessRuntimeVersion(p.GoVersion),
		semconv.HostName(p.Host),
	} {
		if a.Value.AsString() != "" {
			attrs = append(attrs, a)
		}
	}
	attrs = append(attrs, c.attributes...)
	if c.service != "" {
		attrs = append(attrs, semconv.ServiceName(c.service))
	}
	attrs = append(attrs,
		semconv.TelemetrySDKName("opentelemetry"), semconv.TelemetrySDKLanguageGo, semconv.TelemetrySDKVersion(sdk.Version()),
		semconv.TelemetryDistroName("loupe"))
	if p.Loupe != "" {
		attrs = append(attrs, semconv.TelemetryDistroVersion(p.Loupe))
	}
	return resource.NewWithAttributes(semconv.SchemaURL, ValidAttributes(attrs)...) // of several values of a key the last one counts
}

// ResourceAttributes returns the attributes in OTEL_RESOURCE_ATTRIBUTES.
func (c *Config) ResourceAttributes() []attribute.KeyValue { return slices.Clone(c.attributes) }

// readResource reads the name of the service, which is empty if unset, and the attributes of the resource. If one
// attribute is invalid, all are ignored, as the specification requires.
func readResource(v *variables) (service string, attrs []attribute.KeyValue) {
	_, service = v.text("OTEL_SERVICE_NAME")
	name, value := v.text("OTEL_RESOURCE_ATTRIBUTES")
	keys, values, bad := pairs(value)
	if bad > 0 {
		v.warn("%s is invalid: attribute %d must have the form KEY=VALUE, with percent-encoded characters; ignoring all attributes", name, bad)
		return service, nil
	}
	for i, key := range keys {
		attrs = append(attrs, attribute.String(key, values[i]))
	}
	return service, attrs
}
