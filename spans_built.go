package loupe

import (
	"runtime/debug"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gobin"
)

// builders are tools that instrument programs when they are built, by the modules that they add to them, and functions that they add to
// package runtime.
var builders = []struct {
	name    string
	modules []string // or beginnings of their paths that end with a slash
	funcs   []string
	sdk     bool // its spans are those of the OpenTelemetry SDK
}{
	{"the OpenTelemetry compile-time instrumentation", []string{"go.opentelemetry.io/otelc/", "github.com/open-telemetry/opentelemetry-go-compile-instrumentation/"}, nil, true},
	{"loongsuite-go-agent", []string{"github.com/alibaba/loongsuite-go-agent/", "github.com/alibaba/opentelemetry-go-auto-instrumentation/"}, nil, true},
	{"orchestrion", []string{"github.com/DataDog/orchestrion/"}, nil, false},
	{"a tool that keeps the contexts of traces in goroutines", nil, []string{"runtime.GetTraceContextFromGLS", "runtime.SetTraceContextToGLS"}, true},
}

// builder returns the tool that has instrumented a program when it was built, or an empty string, and whether its spans are those of the SDK.
func builder(info *debug.BuildInfo, has func(function string) bool) (name string, sdk bool) {
	for _, b := range builders {
		for _, m := range b.modules {
			if info != nil && contains(info.Deps, m) {
				return b.name, b.sdk
			}
		}
		for _, f := range b.funcs {
			if has(f) {
				return b.name, b.sdk
			}
		}
	}
	return "", false
}

// contains reports whether a list has a module, or one below it.
func contains(list []*debug.Module, path string) bool {
	for _, m := range list {
		if strings.HasPrefix(m.Path+"/", path) {
			return true
		}
	}
	return false
}

// builtWarning returns the warning about a program that was instrumented when it was built. ok is false if it was not.
func builtWarning(bin *gobin.Binary) (w event.Warning, ok bool) {
	name, sdk := builder(bin.BuildInfo(), func(f string) bool {
		_, ok := bin.LookupFunc(f)
		return ok
	})
	switch {
	case name == "":
		return w, false
	case sdk:
		return event.Warnf(event.WarnLayout, "the program was instrumented by %s when it was built: its spans are not made once more, but its runtime is not that of the release", name), true
	}
	return event.Warnf(event.WarnLayout, "the program was instrumented by %s when it was built: it may make other spans of the same operations, and its runtime is not that of the release", name), true
}
