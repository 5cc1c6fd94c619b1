package spans

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// A Span is an operation in a program: a request that it serves, or one that it sends.
type Span struct {
	Context trace.SpanContext   // its own IDs; remote is false
	Parent  trace.SpanContext   // invalid for the root of a trace
	Rule    Rule                // why Parent is the parent
	Links   []trace.SpanContext // other spans that caused it, such as those of the senders of messages

	// LinkRule is RuleChannel if the first of Links is that of a goroutine of this program, from which the goroutine of the span had
	// received something by a channel. The span may be part of the work for it.
	LinkRule Rule

	Library    string // the instrumented package, such as "net/http"; or the name of the program's tracer
	Own        bool   // the program has made the span itself, by the API of OpenTelemetry
	Exported   bool   // the program exports the span itself, by the SDK of OpenTelemetry or another tracer
	Kind       trace.SpanKind
	Name       string
	Start, End int64 // Unix nanoseconds
	Attributes []attribute.KeyValue
	Events     []Event
	Status     codes.Code
	Message    string // of Status
	Ending     Ending

	PID    int32
	G      uint64 // the goroutine on which it began
	Object uint64 // identifies the operation to its library: the address of a request
	Result uint64 // the same, where the library also has it: the address of the response that the operation writes

	// Work is what goroutines did for a request that the program serves. It is nil for other spans.
	Work *Work
}

// An Event is something that happened at a moment of a span, as the program has reported it.
type Event struct {
	Name       string
	Time       int64 // Unix nanoseconds
	Attributes []attribute.KeyValue
}

// A Rule is the reason for a parent.
type Rule string

// The rules.
const (
	RuleRoot      Rule = ""          // the span has no parent
	RuleHeader    Rule = "header"    // the request has a traceparent header
	RuleGoroutine Rule = "goroutine" // the goroutine was in the parent span
	RuleCreator   Rule = "creator"   // the goroutine was created in the parent span
	RuleContext   Rule = "context"   // the program has passed the parent to the operation in a context
	RuleChannel   Rule = "channel"   // of a link: the goroutine has received something from one that was in the linked span
)

// An Ending is how a span ended.
type Ending uint8

// The endings.
const (
	Returned   Ending = iota // the operation returned
	Panicked                 // a panic or runtime.Goexit ended it before it returned
	Unobserved               // its end was not observed
)

// Set sets an attribute.
func (s *Span) Set(kvs ...attribute.KeyValue) { s.Attributes = append(s.Attributes, kvs...) }

// Fail sets the status to an error.
func (s *Span) Fail(message string) { s.Status, s.Message = codes.Error, message }

// Clone returns a copy of a span that has ended. It shares no memory that is used for other spans (loupe.SpanOptions.Reuse).
func (s *Span) Clone() *Span {
	c := *s
	c.Attributes, c.Links, c.Events = slices.Clone(s.Attributes), slices.Clone(s.Links), slices.Clone(s.Events)
	if s.Work != nil {
		work := *s.Work
		c.Work = &work
	}
	return &c
}

// AllAttributes returns the attributes, including those of Work. If there are any of Work, the list is a new one.
func (s *Span) AllAttributes() []attribute.KeyValue {
	list := s.Attributes[:len(s.Attributes):len(s.Attributes)]
	if s.Work != nil {
		list = append(list, s.Work.Attributes()...)
	}
	return list
}
