package loupe

import (
	"runtime/debug"
	"slices"
	"testing"
)

// TestBuilder recognises programs that were instrumented when they were built.
func TestBuilder(t *testing.T) {
	for _, c := range []struct {
		module, function string
		want             string
		sdk              bool
	}{
		{"go.opentelemetry.io/otel/sdk", "runtime.main", "", false},
		{"go.opentelemetry.io/otelc/instrumentation/runtime", "", "the OpenTelemetry compile-time instrumentation", true},
		{"github.com/alibaba/loongsuite-go-agent/pkg", "", "loongsuite-go-agent", true},
		{"github.com/DataDog/orchestrion", "", "orchestrion", false},
		{"github.com/DataDog/orchestrions", "", "", false},
		{"", "runtime.GetTraceContextFromGLS", "a tool that keeps the contexts of traces in goroutines", true},
	} {
		var info *debug.BuildInfo
		if c.module != "" {
			info = &debug.BuildInfo{Deps: []*debug.Module{{Path: "example.com/other"}, {Path: c.module}}}
		}
		if name, sdk := builder(info, func(f string) bool { return slices.Contains([]string{c.function}, f) }); name != c.want || sdk != c.sdk {
			t.Errorf("%+v: %q, %v", c, name, sdk)
		}
	}
}
