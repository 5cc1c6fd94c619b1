package sets

import (
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
)

// swissMaps is the minor version of the first Go release with the maps of internal/runtime/maps.
const swissMaps = 24

// Field returns a setting that is the offset of a field of a struct. Versions may have different paths of the field.
func Field(name string, paths ...string) probe.Setting {
	return probe.Setting{Name: name, Fields: paths}
}

// HeaderSettings returns the settings of header.h in C.
func HeaderSettings() []probe.Setting {
	return []probe.Setting{
		{Name: "map_swiss", Value: mapKind},
		Field("map_dir", "internal/runtime/maps.Map.dirPtr"), Field("table_groups", "internal/runtime/maps.table.groups"),
		Field("hmap_flags", "runtime.hmap.flags"), Field("hmap_buckets", "runtime.hmap.buckets"),
	}
}

// WithHeader returns the declarations of a probe that searches a header, with the settings that a Go release requires for that.
func WithHeader(d probe.Declaration) []probe.Declaration {
	old, swiss := d, d
	old.Until = swissMaps
	old.Settings = append([]string{"map_swiss", "hmap_flags", "hmap_buckets"}, d.Settings...)
	swiss.Since = swissMaps
	swiss.Settings = append([]string{"map_swiss", "map_dir", "table_groups"}, d.Settings...)
	return []probe.Declaration{old, swiss}
}

// mapKind returns 1 for the maps of internal/runtime/maps, and 0 for those of package runtime before Go 1.24.
func mapKind(p probe.Program) (uint64, error) {
	if p.Binary().Version().Minor < swissMaps {
		return 0, nil
	}
	experiments := p.Binary().GoVersion() + " " + setting(p.Binary().BuildInfo(), "GOEXPERIMENT")
	for _, refused := range []string{"noswissmap", "mapsplitgroup"} {
		if strings.Contains(experiments, refused) {
			return 0, fmt.Errorf("the layout of maps is unknown with GOEXPERIMENT=%s", refused)
		}
	}
	return 1, nil
}

func setting(info *debug.BuildInfo, key string) string {
	if info == nil {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// Flags of a context, as in lanes.h.
const (
	flagSampled = 1
	flagSilent  = 2
)

// Context returns the context of a span that the C half has chosen (note_context); it is invalid if it has not.
func Context(n *probe.Note) trace.SpanContext {
	c, _ := Sent(n)
	return c
}

// Sent is Context for a request that is sent. silent reports that the request gets no header.
func Sent(n *probe.Note) (c trace.SpanContext, silent bool) {
	var config trace.SpanContextConfig
	binary.BigEndian.PutUint64(config.TraceID[:8], n.Word())
	binary.BigEndian.PutUint64(config.TraceID[8:], n.Word())
	binary.BigEndian.PutUint64(config.SpanID[:], n.Word())
	flags := n.Word()
	if flags&flagSilent != 0 {
		return trace.SpanContext{}, true
	}
	config.TraceFlags = trace.TraceFlags(flags & flagSampled)
	return trace.NewSpanContext(config), false
}

// contextsMax is the number of addresses that Contexts reads at most, as in contexts.h.
const contextsMax = 32

// Contexts reads the addresses of a context.Context and of those that it was made from, innermost first (note_contexts).
func Contexts(n *probe.Note) []uint64 {
	var list []uint64
	for range contextsMax + 1 {
		addr := n.Word()
		if addr == 0 {
			break
		}
		list = append(list, addr)
	}
	return list
}

// Parent returns the context in the header of a request, given the number of values of traceparent and the first of them. It is
// invalid if there are several.
func Parent(values uint64, value []byte) trace.SpanContext {
	if values != 1 {
		return trace.SpanContext{}
	}
	return join.ParseTraceparent(value)
}

// Flags of what a request has, as in propagate.h.
const (
	stateStored    = 1
	baggageStored  = 2
	baggageWanted  = 4
	statesShift    = 8
	baggagesShift  = 16
	manyValues     = 0xff
	carriedMissing = 16 // a request has a traceparent header, but not all that it was to carry on
)

// Carried reads what a request that is served has beside its traceparent header (note_carried), and returns its parent with the tracestate.
// dropped reports that what it has is not carried on, although context, which the C half has chosen, is.
func Carried(n *probe.Note, context, parent trace.SpanContext) (_ trace.SpanContext, dropped bool) {
	flags, text := n.Word(), n.Text()
	states, baggages := flags>>statesShift&manyValues, flags>>baggagesShift&manyValues
	if context.IsValid() {
		dropped = parent.IsValid() && states > 0 && flags&stateStored == 0 || flags&baggageWanted != 0 && baggages > 0 && flags&baggageStored == 0
	}
	if parent.IsValid() && states == 1 && text.Marks == 0 {
		if state, err := trace.ParseTraceState(string(text.Bytes)); err == nil {
			parent = parent.WithTraceState(state)
		}
	}
	return parent, dropped
}

// Missing takes a note that a request has no header, or not all headers.
func Missing(t *join.Tracker, n *probe.Note) {
	if n.Word() == carriedMissing {
		t.NoState()
	} else {
		t.NoHeader()
	}
}
