// Package otelapi is a set of probes for module go.opentelemetry.io/otel: the spans that a program makes itself by its API, but that it
// does not export, because it has no SDK. From v1.0.0 on, the tracers of the global TracerProvider are observed.
//
// A span has the name, the kind, the attributes, the events, the status and the times that the program gives it, and the name of the
// tracer as its library. Its parent is the span or the request in the context that the program passes to Start; if there is none, the
// operation of another library in which the goroutine is, such as the request that it serves. It ends when the program ends it. A span that the
// program never ends is not reported. With an SDK, nothing is reported: the SDK has the spans, see package otelsdk.
//
// A span that describes the same operation as that of another library, such as those of otelhttp and otelgrpc, is not reported in addition
// to it. Its attributes tell: see [join.Tracker.Describes] and [join.Tracker.Enter].
//
// Not reported are links, which would be links to spans without an ID; attributes that are not a bool, a number, a string or a slice of
// these; more than 24 attributes and options of one call; stack traces; the messages of errors, unless they were made by package errors or
// fmt; and spans that other tracers make, such as those of package noop and of SpanFromContext(ctx).TracerProvider() without a span.
//
// The methods of spans without an SDK are empty. On amd64 engine inline cannot be attached to them, so it does not report these spans.
//
// The central function is [New].
package otelapi

import (
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
)

//go:generate go run ../../probe/csrc/flatten -ebpf -headers ../../probe/csrc -source probes.c -list probes.c -package otelapi -out code.go -code code

// Library is the path of the instrumented module.
const Library = "go.opentelemetry.io/otel"

const (
	oldest    = 19        // the minor version of the oldest Go release that is supported
	oldestMod = "v1.0.0"  // the oldest version of the module that is supported
	newSpan   = "v1.33.0" // since then newSpan makes a span if there is no SDK
	arrays    = "v1.11.1" // since then a slice in an attribute is an array

	global = Library + "/internal/global"
	start  = global + ".(*tracer).Start"
	create = global + ".(*tracer).newSpan"
)

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// A Process is what the set requires of the process that it observes.
type Process interface {
	// TypeName returns the name of the type at an address.
	TypeName(addr uint64) (string, error)
	// FuncName returns the name of the function at an address, or an empty string.
	FuncName(addr uint64) string
	// Image reads memory of the executable.
	Image(addr uint64, n int) ([]byte, error)
}

// New returns a set that reports spans to a tracker. complete reports whether the probes at the ends of spans are attached.
func New(t *join.Tracker, p Process, complete func() bool) *probe.Set {
	d := newDecoder(t, p, complete)
	set := &probe.Set{Name: Library, Code: &code, Settings: settings(), Decode: d.decode}
	for _, p := range probes() {
		p.Since, p.NeedsG, p.Reads, p.Quiet = oldest, true, true, true
		p.Without = "spans that the program makes by the API of OpenTelemetry without an SDK are not reported"
		set.Probes = append(set.Probes, p)
	}
	return set
}

// End is the program at the ends of spans.
const End = "end"

// probes returns the declarations without what they have in common.
func probes() []probe.Declaration {
	since, old := []probe.Module{{Path: Library, Since: newSpan}}, []probe.Module{{Path: Library, Since: oldestMod, Until: newSpan}}
	supported := []probe.Module{{Path: Library, Since: oldestMod}}
	begin, values := []string{"tracer_name", "context_value"}, []string{"kv_key", "kv_vtype", "kv_numeric", "kv_stringly", "kv_slice", "slice_pointer"}
	begin = append(begin, values...)
	// method returns the declaration of a method of a span, with the number of its argument words.
	method := func(program, name string, words int) probe.Declaration {
		return probe.Declaration{Program: program, Modules: supported, Funcs: []string{global + ".(*nonRecordingSpan)." + name}, Words: words,
			Settings: values, Requires: End}
	}
	end := method(End, "End", 4)
	end.Requires = ""
	return []probe.Declaration{
		end, // first, because the others require it
		{Program: "start", Modules: old, Funcs: []string{start}, Words: 8, Settings: append(begin, "tracer_delegate"), Requires: End},
		{Program: "new_span", Modules: since, Funcs: []string{create}, Words: 9, Settings: begin, Requires: End},
		{Program: "started", Modules: old, Funcs: []string{start}, Place: probe.AtExit, Results: 4, Settings: begin[:2], Requires: End},
		{Program: "started", Modules: since, Funcs: []string{create}, Place: probe.AtExit, Results: 4, Settings: begin[:2], Requires: End},
		method("set_attributes", "SetAttributes", 4), method("set_status", "SetStatus", 4), method("set_name", "SetName", 3),
		method("add_event", "AddEvent", 6), method("record_error", "RecordError", 6),
	}
}

// settings are the offsets of fields.
func settings() []probe.Setting {
	field := sets.Field
	const keyValue = Library + "/attribute.KeyValue."
	return []probe.Setting{
		field("tracer_name", global+".tracer.name"), field("tracer_delegate", global+".tracer.delegate"),
		field("kv_key", keyValue+"Key"), field("kv_vtype", keyValue+"Value.vtype"), field("kv_numeric", keyValue+"Value.numeric"),
		field("kv_stringly", keyValue+"Value.stringly"), field("kv_slice", keyValue+"Value.slice"),
		{Name: "slice_pointer", Offsets: []probe.Offset{{Module: probe.Module{Path: Library, Until: arrays}, Offset: 1}, {Module: probe.Module{Path: Library, Since: arrays}}}},
		field("context_value", "context.valueCtx.val"),
	}
}
