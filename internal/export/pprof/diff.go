package pprof

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// BaseLabel is the label that marks the samples of a base. pprof computes percentages of the total of the base if samples have it.
const BaseLabel = "pprof::base"

// Comparable returns an error unless two profiles have the same sample types, and the old one has no negative values.
func Comparable(p, old *profile.Profile) error {
	same := slices.EqualFunc(p.SampleType, old.SampleType, func(a, b *profile.ValueType) bool { return a.Type == b.Type && a.Unit == b.Unit })
	if !same {
		return fmt.Errorf("its sample types are %s, those of the new profile are %s", typeNames(old), typeNames(p))
	}
	for _, s := range old.Sample {
		if slices.ContainsFunc(s.Value, func(v int64) bool { return v < 0 }) {
			return fmt.Errorf("it contains negative values: it is a difference itself")
		}
	}
	return nil
}

// maxTypeNames is the maximum number of sample types in an error.
const maxTypeNames = 8

func typeNames(p *profile.Profile) string {
	var names []string
	for i, t := range p.SampleType {
		if i == maxTypeNames {
			names = append(names, "...")
			break
		}
		names = append(names, t.Type+"/"+t.Unit)
	}
	if len(names) == 0 {
		return "unknown"
	}
	return strings.Join(names, ", ")
}

// Difference returns p minus old, as go tool pprof -diff_base shows it: the samples of old are negative and marked, so that
// viewers compute percentages of the total of old. Values are not normalized. The profiles must be [Comparable]. Difference
// changes old.
func Difference(p, old *profile.Profile) (*profile.Profile, error) {
	old.SetLabel(BaseLabel, []string{"true"})
	for _, s := range old.Sample {
		for i := range s.Value {
			s.Value[i] = -s.Value[i]
		}
	}
	old.PeriodType = p.PeriodType
	for i, c := range old.Comments {
		old.Comments[i] = "old profile: " + c
	}
	return profile.Merge([]*profile.Profile{p, old})
}
