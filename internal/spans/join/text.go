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
	if s.Name == "" { // the program has given none, or it was in secret mode
		s.Name = s.Library
	}
	s.Name, s.Message, s.Library = Valid(s.Name), Valid(s.Message), Valid(s.Library)
	makeAllValid(s.Attributes, s.Own)
	for i := range s.Events {
		s.Events[i].Name = Valid(s.Events[i].Name)
		makeAllValid(s.Events[i].Attributes, s.Own)
	}
}

// makeAllValid does that for attributes. If the program has made the span itself, it has chosen the keys, too.
func makeAllValid(list []attribute.KeyValue, own bool) {
	for i := range list {
		kv := &list[i]
		if own {
			kv.Key = attribute.Key(Valid(string(kv.Key)))
		}
		switch kv.Value.Type() {
		case attribute.STRING:
			if text := kv.Value.AsString(); !utf8.ValidString(text) {
				kv.Value = attribute.StringValue(Valid(text))
			}
		case attribute.STRINGSLICE:
			if texts := kv.Value.AsStringSlice(); slices.ContainsFunc(texts, func(text string) bool { return !utf8.ValidString(text) }) {
				for n, text := range texts {
					texts[n] = Valid(text)
				}
				kv.Value = attribute.StringSliceValue(texts)
			}
		}
	}
}

// Valid replaces what is not UTF-8 in a text.
func Valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
