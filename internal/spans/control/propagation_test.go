package control

import (
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// TestByTraceID reads samplers of the SDK.
func TestByTraceID(t *testing.T) {
	on, off := sdktrace.AlwaysSample(), sdktrace.NeverSample()
	for _, c := range []struct {
		sampler      sdktrace.Sampler
		omit         float64
		ignoreParent bool
		ok           bool
	}{
		{on, 0, true, true},
		{off, 1, true, true},
		{sdktrace.TraceIDRatioBased(0.25), 0.75, true, true},
		{sdktrace.TraceIDRatioBased(1), 0, true, true},
		{sdktrace.ParentBased(on), 0, false, true},
		{sdktrace.ParentBased(off), 1, false, true},
		{sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.5)), 0.5, false, true},
		{sdktrace.ParentBased(on, sdktrace.WithRemoteParentSampled(off)), 0, false, false},
		{odd{}, 0, false, false},
	} {
		omit, ignoreParent, ok := ByTraceID(c.sampler)
		if ok != c.ok || ok && (omit != c.omit || ignoreParent != c.ignoreParent) {
			t.Errorf("%s: %v, %v, %v", c.sampler.Description(), omit, ignoreParent, ok)
		}
	}
}

type odd struct{}

func (odd) ShouldSample(sdktrace.SamplingParameters) sdktrace.SamplingResult {
	return sdktrace.SamplingResult{}
}
func (odd) Description() string { return "TraceIDRatioBased{2}" }
