package join

import (
	"encoding/hex"

	"go.opentelemetry.io/otel/trace"
)

// ParseTraceparent parses the value of a traceparent header (W3C Trace Context, level 1 and later). The result is invalid if
// the header is, and a new trace begins then.
func ParseTraceparent(value []byte) trace.SpanContext {
	const size = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	var none trace.SpanContext
	if len(value) < size || value[2] != '-' || value[35] != '-' || value[52] != '-' {
		return none
	}
	var version, flags [1]byte
	var c trace.SpanContextConfig
	for _, part := range []struct {
		to   []byte
		from []byte
	}{{version[:], value[:2]}, {c.TraceID[:], value[3:35]}, {c.SpanID[:], value[36:52]}, {flags[:], value[53:55]}} {
		for _, b := range part.from {
			if b >= 'A' && b <= 'F' { // hex accepts it, the specification does not
				return none
			}
		}
		if _, err := hex.Decode(part.to, part.from); err != nil {
			return none
		}
	}
	// Version 255 is invalid. Version 0 ends here, later ones may go on after another hyphen.
	if version[0] == 0xff || len(value) > size && (version[0] == 0 || value[size] != '-') {
		return none
	}
	c.TraceFlags, c.Remote = trace.TraceFlags(flags[0])&trace.FlagsSampled, true
	return trace.NewSpanContext(c)
}
