// Package otelsdk is a set of probes for module go.opentelemetry.io/otel/sdk: the spans that a program makes and exports itself, such as
// those of otelhttp, otelgrpc, otelsql and redisotel. It prevents that an operation has two spans, one of the program and one of Loupe, and
// continues the traces of the program. From v1.0.0 on, the spans of all tracers of the SDK are observed.
//
// A span of the program replaces that of Loupe for the same operation, by the rules of [join.Tracker.Made]. The span of Loupe then has the
// identity of the program's span (trace ID, span ID, parent, whether it is sampled), so that it is the parent of operations that Loupe
// alone knows, and says that the program exports it. Other spans of the program are reported with their name, kind, times, parent and
// tracer, without attributes, events and status: they are the parents of operations, too, and the program exports them.
//
// A client or producer span may get its attributes after its start: then those that it has at its end decide, from v1.4.0 of the SDK on.
//
// A span that the SDK does not record, because it is not sampled, replaces one of Loupe as well. Otherwise it is ignored. The spans of
// a provider without a processor are exported by nobody, so Loupe exports them: those that replace one, with its attributes.
//
// The central function is [New].
package otelsdk

import (
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
)

//go:generate go run ../../probe/csrc/flatten -ebpf -headers ../../probe/csrc -source probes.c -list probes.c -package otelsdk -out code.go -code code

// Library is the path of the instrumented module.
const Library = "go.opentelemetry.io/otel/sdk"

const (
	oldest    = 19        // the minor version of the oldest Go release that is supported
	oldestMod = "v1.0.0"  // the oldest version of the module that is supported
	slices    = "v1.4.0"  // since then a span has its attributes in a slice
	pointers  = "v1.15.0" // since then a provider has its processors in an atomic.Pointer

	api     = "go.opentelemetry.io/otel/trace."
	pkg     = Library + "/trace"
	start   = pkg + ".(*tracer).Start"
	newSpan = pkg + ".(*tracer).newSpan"
)

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// A Process is what the set requires of the process that it observes.
type Process interface {
	// TypeName returns the name of the type at an address.
	TypeName(addr uint64) (string, error)
	// Image reads memory of the executable.
	Image(addr uint64, n int) ([]byte, error)
}

// New returns a set that reports spans to a tracker.
func New(t *join.Tracker, p Process) *probe.Set {
	d := newDecoder(t, p)
	set := &probe.Set{Name: Library, Code: &code, Settings: settings(), Decode: d.decode}
	for _, p := range probes() {
		p.Since, p.NeedsG, p.Reads, p.Quiet = oldest, true, true, true
		p.Modules = []probe.Module{{Path: Library, Since: oldestMod}}
		p.Without = "the spans that the program makes by the SDK of OpenTelemetry are not recognised: its operations can have two spans"
		set.Probes = append(set.Probes, p)
	}
	return set
}

// probes returns the declarations without what they have in common.
func probes() []probe.Declaration {
	context := []string{"span_context", "context_trace", "context_span", "context_flags", "context_remote"}
	return []probe.Declaration{
		{Program: "end", Funcs: []string{pkg + ".(*recordingSpan).End"}, Words: 1, Settings: append([]string{"span_kind", "span_attributes"}, context...)},
		{Program: "begin", Funcs: []string{newSpan}, Words: 6, Requires: "end",
			Settings: []string{"tracer_name", "tracer_provider", "provider_processors", "config_attributes", "config_kind"}},
		{Program: "begun", Funcs: []string{start}, Place: probe.AfterCall, Callee: newSpan, Results: 2, Requires: "begin",
			Settings: append(context, "span_parent", "other_context")},
	}
}

// settings are the offsets of fields.
func settings() []probe.Setting {
	field := sets.Field
	return []probe.Setting{
		field("tracer_name", pkg+".tracer.instrumentationScope.Name", pkg+".tracer.instrumentationLibrary.Name"),
		field("tracer_provider", pkg+".tracer.provider"), field("provider_processors", pkg+".TracerProvider.spanProcessors"),
		{Name: "processors_value", Offsets: []probe.Offset{{Module: probe.Module{Path: Library, Until: pointers}, Offset: 1}, {Module: probe.Module{Path: Library, Since: pointers}}}},
		field("config_attributes", api+"SpanConfig.attributes"), field("config_kind", api+"SpanConfig.spanKind"),
		field("span_context", pkg+".recordingSpan.spanContext"), field("span_parent", pkg+".recordingSpan.parent"),
		field("span_kind", pkg+".recordingSpan.spanKind"), field("span_attributes", pkg+".recordingSpan.attributes"),
		{Name: "attributes_slice", Offsets: []probe.Offset{{Module: probe.Module{Path: Library, Since: slices}, Offset: 1}}},
		field("other_context", pkg+".nonRecordingSpan.sc"),
		field("context_trace", api+"SpanContext.traceID"), field("context_span", api+"SpanContext.spanID"),
		field("context_flags", api+"SpanContext.traceFlags"), field("context_remote", api+"SpanContext.remote"),
	}
}
