package control

import (
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// parentBased ends the description of a sampler that samples a span if its parent is sampled.
const parentBased = ",remoteParentSampled:AlwaysOnSampler,remoteParentNotSampled:AlwaysOffSampler,localParentSampled:AlwaysOnSampler,localParentNotSampled:AlwaysOffSampler}"

// ByTraceID returns how a sampler of the SDK decides, as loupe.Propagation describes it: by the trace ID alone, and by the parent unless
// ignoreParent is true. ok is false for other samplers.
func ByTraceID(sampler sdktrace.Sampler) (omit float64, ignoreParent, ok bool) {
	text, based := strings.CutPrefix(sampler.Description(), "ParentBased{root:")
	if based {
		if text, based = strings.CutSuffix(text, parentBased); !based {
			return 0, false, false
		}
	}
	switch text {
	case "AlwaysOnSampler":
		return 0, !based, true
	case "AlwaysOffSampler":
		return 1, !based, true
	}
	text, isRatio := strings.CutPrefix(text, "TraceIDRatioBased{")
	ratio, err := strconv.ParseFloat(strings.TrimSuffix(text, "}"), 64)
	return 1 - ratio, !based, isRatio && err == nil && ratio >= 0 && ratio <= 1
}
