package otlp

import (
	"slices"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
)

// Limits limits the attributes of a span.
type Limits struct {
	Count  int // maximum number of attributes
	Length int // maximum length of a text, in characters
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
