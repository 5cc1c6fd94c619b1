package testcollector

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// A Span is a span that was received.
type Span struct {
	TraceID, ID string // hexadecimal
	ParentID    string // empty without a parent
	State       string // the tracestate; empty if it is not received by OTLP
	Name        string
	Kind        string // as in "Server"
	Start, End  time.Time
	Status      string // Unset, Ok or Error
	Message     string // of the status
	Scope       string // name of the instrumentation scope

	Attributes map[string]string // with their values as text
	Resource   map[string]string // attributes of the resource
	Events     []string          // names
	Links      []string          // IDs of linked spans
}

// fromProto returns the spans of a request.
func fromProto(list []*tracepb.ResourceSpans) []Span {
	var spans []Span
	for _, rs := range list {
		resource := textOf(rs.GetResource().GetAttributes())
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				span := Span{
					TraceID: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), ParentID: hex.EncodeToString(s.GetParentSpanId()), State: s.GetTraceState(),
					Name: s.GetName(), Kind: enum(s.GetKind().String(), "SPAN_KIND_"),
					Start: time.Unix(0, int64(s.GetStartTimeUnixNano())).UTC(), End: time.Unix(0, int64(s.GetEndTimeUnixNano())).UTC(),
					Status: enum(s.GetStatus().GetCode().String(), "STATUS_CODE_"), Message: s.GetStatus().GetMessage(),
					Scope: ss.GetScope().GetName(), Attributes: textOf(s.GetAttributes()), Resource: resource,
				}
				for _, e := range s.GetEvents() {
					span.Events = append(span.Events, e.GetName())
				}
				for _, l := range s.GetLinks() {
					span.Links = append(span.Links, hex.EncodeToString(l.GetSpanId()))
				}
				spans = append(spans, span)
			}
		}
	}
	return spans
}

// enum returns "Server" for "SPAN_KIND_SERVER".
func enum(name, prefix string) string {
	name = strings.TrimPrefix(name, prefix)
	return name[:1] + strings.ToLower(name[1:])
}

// textOf returns attributes with their values as text.
func textOf(list []*commonpb.KeyValue) map[string]string {
	attrs := map[string]string{}
	for _, a := range list {
		attrs[a.GetKey()] = text(a.GetValue())
	}
	return attrs
}

func text(v *commonpb.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *commonpb.AnyValue_DoubleValue:
		return strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
	case *commonpb.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	case *commonpb.AnyValue_ArrayValue:
		// As the collector writes an array: JSON without spaces.
		var elements []string
		for _, e := range v.ArrayValue.GetValues() {
			element := text(e)
			if _, ok := e.GetValue().(*commonpb.AnyValue_StringValue); ok {
				element = strconv.Quote(element)
			}
			elements = append(elements, element)
		}
		return "[" + strings.Join(elements, ",") + "]"
	}
	return fmt.Sprint(v)
}
