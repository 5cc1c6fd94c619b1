package otlp

import (
	"fmt"
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Sampler returns the sampler that decides which spans are exported.
func (c *Config) Sampler() sdktrace.Sampler { return c.sampler }

func readSampler(v *variables) (sdktrace.Sampler, error) {
	const name = "OTEL_TRACES_SAMPLER"
	_, value := v.text(name)
	kind, parentBased := strings.CutPrefix(strings.ToLower(value), "parentbased_")
	var s sdktrace.Sampler
	switch kind {
	case "":
		if value != "" {
			return nil, unsupportedSampler(name, value)
		}
		return sdktrace.ParentBased(sdktrace.AlwaysSample()), nil
	case "always_on":
		s = sdktrace.AlwaysSample()
	case "always_off":
		s = sdktrace.NeverSample()
	case "traceidratio":
		ratio, err := readRatio(v)
		if err != nil {
			return nil, err
		}
		s = sdktrace.TraceIDRatioBased(ratio)
	default:
		return nil, unsupportedSampler(name, value)
	}
	if parentBased {
		s = sdktrace.ParentBased(s)
	}
	return s, nil
}

func unsupportedSampler(name, value string) error {
	return fmt.Errorf("%s: unsupported value %q: must be always_on, always_off, traceidratio, parentbased_always_on, "+
		"parentbased_always_off or parentbased_traceidratio", name, value)
}

// readRatio reads the argument of a sampler by ratio.
func readRatio(v *variables) (float64, error) {
	const name = "OTEL_TRACES_SAMPLER_ARG"
	_, value := v.text(name)
	if value == "" {
		return 1, nil
	}
	ratio, err := strconv.ParseFloat(value, 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) {
		return 0, fmt.Errorf("%s: invalid ratio %q: must be a number from 0 to 1", name, value)
	}
	return ratio, nil
}
