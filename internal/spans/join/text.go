package join

import (
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"

	"github.com/loupe-go/loupe/spans"
)

// makeValid replaces what is not UTF-8 in the texts of a span. They come from requests, so a client chooses them, and a message of
// protobuf with an invalid text cannot be exported, nor can the spans that are exported with it.
func makeValid(s *spans.Span) {
	s.Name, s.Message = valid(s.Name), valid(s.Message)
	for i, kv := range s.Attributes {
		switch kv.Value.Type() {
		case attribute.STRING:
			if text := kv.Value.AsString(); !utf8.ValidString(text) {
				s.Attributes[i].Value = attribute.StringValue(valid(text))
			}
		case attribute.STRINGSLICE:
			if list := kv.Value.AsStringSlice(); slices.ContainsFunc(list, func(text string) bool { return !utf8.ValidString(text) }) {
				for n, text := range list {
					list[n] = valid(text)
				}
				s.Attributes[i].Value = attribute.StringSliceValue(list)
			}
		}
	}
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
