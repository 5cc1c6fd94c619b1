package join

import (
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
)

// TestInvalidTexts passes texts that are not UTF-8, which exporters of protobuf refuse.
func TestInvalidTexts(t *testing.T) {
	w := newWorld(t, nil)
	s := w.begin(1, server, "GET /\xff")
	s.Set(attribute.String("path", "/\xc3(\x80"), attribute.String("ok", "Ü"), attribute.StringSlice("list", []string{"a", "\xfe"}), attribute.Int("n", 7))
	s.Fail("no \xed\xa0\x80")
	w.end(s)
	want := []attribute.KeyValue{attribute.String("path", "/\uFFFD(\uFFFD"), attribute.String("ok", "Ü"), attribute.StringSlice("list", []string{"a", "\uFFFD"}), attribute.Int("n", 7)}
	if s.Name != "GET /\uFFFD" || s.Message != "no \uFFFD" || !slices.Equal(s.Attributes, want) {
		t.Errorf("%q, %q, %v", s.Name, s.Message, s.Attributes)
	}
}
