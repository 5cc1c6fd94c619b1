package otelapi

import (
	"slices"
	"testing"
	"time"
	"unsafe"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/loupe-go/loupe/spans"
)

// TestUnixNano converts the words of times.
func TestUnixNano(t *testing.T) {
	now := time.Now()
	for _, want := range []time.Time{now, now.Round(0), now.UTC(), now.Add(-time.Hour), time.Unix(0, 0), time.Unix(-5, 7), time.Date(1885, 1, 1, 0, 0, 0, 1, time.UTC)} {
		words := (*[2]uint64)(unsafe.Pointer(&want))
		if got := unixNano(words[0], words[1]); got != want.UnixNano() {
			t.Errorf("%v: %d, want %d", want, got, want.UnixNano())
		}
	}
}

// TestSet sets attributes.
func TestSet(t *testing.T) {
	var list []attribute.KeyValue
	set(&list, []attribute.KeyValue{attribute.Int("a", 1), attribute.Int("b", 2), attribute.Int("a", 3)})
	if want := []attribute.KeyValue{attribute.Int("a", 3), attribute.Int("b", 2)}; !slices.Equal(list, want) {
		t.Errorf("%v, want %v", list, want)
	}
	for i := range 2 * maxEvents {
		set(&list, []attribute.KeyValue{attribute.Int(string(rune('c'+i)), i)})
	}
	if len(list) != maxEvents {
		t.Errorf("%d attributes", len(list))
	}
}

// TestStatus sets the status of a span in turn.
func TestStatus(t *testing.T) {
	var s spans.Span
	for i, c := range []struct {
		code    codes.Code
		message string
		want    codes.Code
		text    string
	}{
		{codes.Unset, "none", codes.Unset, ""}, {codes.Error, "first", codes.Error, "first"}, {codes.Unset, "none", codes.Error, "first"}, {codes.Error, "second", codes.Error, "second"},
		{9, "invalid", codes.Error, "second"}, {codes.Ok, "ignored", codes.Ok, ""}, {codes.Error, "third", codes.Ok, ""},
	} {
		if setStatus(&s, c.code, c.message); s.Status != c.want || s.Message != c.text {
			t.Errorf("%d: %v %q, want %v %q", i, s.Status, s.Message, c.want, c.text)
		}
	}
}

// TestRecorded checks which errors have a message.
func TestRecorded(t *testing.T) {
	for _, c := range []struct {
		typ     string
		known   bool
		message bool
	}{{"*errors.errorString", true, true}, {"*errors.errorString", false, false}, {"*main.failure", true, false}, {"", true, false}} {
		list := recorded(c.typ, "text", c.known, nil)
		if got := slices.Contains(list, attribute.String("exception.message", "text")); got != c.message {
			t.Errorf("%+v: %v", c, list)
		}
	}
}
