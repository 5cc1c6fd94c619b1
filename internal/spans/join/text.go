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
	s.Name, s.Message, s.Library = valid(s.Name), valid(s.Message), valid(s.Library)
	makeAllValid(s.Attributes)
	for i := range s.Events {
		s.Events[i].Name = valid(s.Events[i].Name)
		makeAllValid(s.Events[i].Attributes)
	}
}

// makeAllValid does that for attributes.
func makeAllValid(list []attribute.KeyValue) {
	for i, kv := range list {
		list[i].Key = attribute.Key(valid(string(kv.Key)))
		switch kv.Value.Type() {
		case attribute.STRING:
			if text := kv.Value.AsString(); !utf8.ValidString(text) {
				list[i].Value = attribute.StringValue(valid(text))
			}
		case attribute.STRINGSLICE:
			if texts := kv.Value.AsStringSlice(); slices.ContainsFunc(texts, func(text string) bool { return !utf8.ValidString(text) }) {
				for n, text := range texts {
					texts[n] = valid(text)
				}
				list[i].Value = attribute.StringSliceValue(texts)
			}
		}
	}
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
