package sqltext

import (
	"strings"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/loupe-go/loupe/spans"
)

// A Text is a statement as a program sends it.
type Text struct {
	Bytes      []byte // as much of it as is known; at most MaxReported bytes of it are reported
	Cut        bool   // it has more text
	Parameters bool   // its values are parameters, so its literals are no secrets
	Verb       string // precedes the operation of a statement that is not executed yet, such as "PREPARE"; or empty
	Omit       bool   // do not report the text
	Unparsed   bool   // do not report what is in the text: its operation, its table and its summary
}

// MaxReported is the length of the longest text that a span has, in bytes. What follows is only for the summary.
const MaxReported = 1024

// Describe sets the name of a span and its attributes of a statement. The attribute db.system.name must have been set.
func Describe(s *spans.Span, t Text) {
	system := systemOf(s)
	var parsed Statement
	if !t.Unparsed {
		parsed = Parse(t.Bytes, system, t.Cut)
	}
	if t.Verb != "" {
		parsed.Summary, parsed.Operation = strings.TrimSpace(t.Verb+" "+parsed.Summary), t.Verb
	}
	if parsed.Operation != "" {
		s.Set(semconv.DBOperationName(parsed.Operation))
	}
	if parsed.Collection != "" {
		s.Set(semconv.DBCollectionName(parsed.Collection))
	}
	s.Name = parsed.Summary
	if s.Name != "" {
		s.Set(semconv.DBQuerySummary(parsed.Summary))
	} else {
		s.Name = system
	}
	if !t.Omit && len(t.Bytes) > 0 {
		s.Set(semconv.DBQueryText(t.Reported(system)))
	}
}

// Reported returns the text that a span may have.
func (t Text) Reported(system string) string {
	t.Bytes = t.Bytes[:min(len(t.Bytes), MaxReported)]
	if t.Parameters {
		return strings.ToValidUTF8(string(t.Bytes), "\uFFFD")
	}
	return Sanitize(t.Bytes, system)
}

func systemOf(s *spans.Span) string {
	for _, a := range s.Attributes {
		if a.Key == semconv.DBSystemNameKey {
			return a.Value.AsString()
		}
	}
	return semconv.DBSystemNameOtherSQL.Value.AsString()
}
