package join

import (
	"strings"
	"testing"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
)

// TestTraceparent has the examples of the specification and what it rejects.
func TestTraceparent(t *testing.T) {
	for value, want := range map[string]string{
		"00-" + traceID + "-" + spanID + "-01":                      "01",
		"00-" + traceID + "-" + spanID + "-00":                      "00",
		"00-" + traceID + "-" + spanID + "-ff":                      "01", // unknown flags are ignored
		"cc-" + traceID + "-" + spanID + "-01-what-the-future-says": "01",
		"cc-" + traceID + "-" + spanID + "-01":                      "01",

		"": "", "00": "",
		"00-" + traceID + "-" + spanID + "-01-":                   "",
		"00-" + traceID + "-" + spanID + "-1":                     "",
		"cc-" + traceID + "-" + spanID + "-01.what":               "",
		"ff-" + traceID + "-" + spanID + "-01":                    "",
		"00-" + strings.ToUpper(traceID) + "-" + spanID + "-01":   "",
		"00-" + strings.Repeat("0", 32) + "-" + spanID + "-01":    "",
		"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01":   "",
		"00_" + traceID + "-" + spanID + "-01":                    "",
		"00-" + traceID[1:] + "-" + spanID + "-01 ":               "",
		"0g-" + traceID + "-" + spanID + "-01":                    "",
		"00-" + traceID[:31] + "\x00-" + spanID + "-01":           "",
		"00-" + traceID + "-" + spanID + "-0\x80":                 "",
		strings.Repeat("00-"+traceID+"-"+spanID+"-01, ", 2)[:112]: "",
	} {
		got := ParseTraceparent([]byte(value))
		if want == "" {
			if got.IsValid() {
				t.Errorf("%q: %v, want invalid", value, got)
			}
			continue
		}
		if got.TraceID().String() != traceID || got.SpanID().String() != spanID || got.TraceFlags().String() != want || !got.IsRemote() {
			t.Errorf("%q: %v", value, got)
		}
	}
}

func FuzzTraceparent(f *testing.F) {
	f.Add([]byte("00-" + traceID + "-" + spanID + "-01"))
	f.Add([]byte("cc-" + traceID + "-" + spanID + "-01-x"))
	f.Fuzz(func(t *testing.T, value []byte) {
		c := ParseTraceparent(value)
		if c.IsValid() && (string(value[3:35]) != c.TraceID().String() || string(value[36:52]) != c.SpanID().String()) {
			t.Errorf("%q: %v", value, c)
		}
	})
}
