package otlp

import (
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
)

// Limits limits the attributes of a span.
type Limits struct {
	Count  int // maximum number of attributes
	Length int // maximum length of a text, in characters
}

// replacement stands for bytes that are not UTF-8.
const replacement = "\uFFFD"

// Valid returns text as valid UTF-8. Protobuf refuses a whole request that contains other text.
func Valid(s string) string { return strings.ToValidUTF8(s, replacement) }

// ValidAttributes returns attributes whose texts are valid UTF-8. It does not change the attributes that it was called with.
func ValidAttributes(attrs []attribute.KeyValue) []attribute.KeyValue {
	copied := false
	for i, a := range attrs {
		valid := a
		switch a.Value.Type() {
		case attribute.STRING:
			if utf8.ValidString(a.Value.AsString()) {
				continue
			}
			valid.Value = attribute.StringValue(Valid(a.Value.AsString()))
		case attribute.STRINGSLICE:
			list := a.Value.AsStringSlice()
			if !slices.ContainsFunc(list, func(s string) bool { return !utf8.ValidString(s) }) {
				continue
			}
			for j := range list {
				list[j] = Valid(list[j])
			}
			valid.Value = attribute.StringSliceValue(list)
		default:
			continue
		}
		if !copied {
			attrs, copied = slices.Clone(attrs), true
		}
		attrs[i] = valid
	}
	return attrs
}

// Apply returns attributes within the limits, and how many were removed, which are the last ones. It does not change the
// attributes that it was called with.
func (l Limits) Apply(attrs []attribute.KeyValue) (within []attribute.KeyValue, dropped int) {
	if len(attrs) > l.Count {
		dropped = len(attrs) - l.Count
		attrs = attrs[:l.Count:l.Count]
	}
	copied := false
	for i, a := range attrs {
		short, changed := l.shorten(a.Value)
		if !changed {
			continue
		}
		if !copied {
			attrs, copied = slices.Clone(attrs), true
		}
		attrs[i].Value = short
	}
	return attrs, dropped
}

// shorten limits the length of a text, or of each text in a list.
func (l Limits) shorten(v attribute.Value) (short attribute.Value, changed bool) {
	switch v.Type() {
	case attribute.STRING:
		if s := l.truncate(v.AsString()); len(s) < len(v.AsString()) {
			return attribute.StringValue(s), true
		}
	case attribute.STRINGSLICE:
		list := v.AsStringSlice()
		for i, s := range list {
			list[i] = l.truncate(s)
			changed = changed || len(list[i]) < len(s)
		}
		if changed {
			return attribute.StringSliceValue(list), true
		}
	}
	return v, false
}

// truncate returns the first characters of a text. An invalid byte counts as a character.
func (l Limits) truncate(s string) string {
	if len(s) <= l.Length {
		return s
	}
	end := 0
	for range l.Length {
		if end == len(s) {
			return s
		}
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return s[:end]
}
