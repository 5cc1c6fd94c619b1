package testtarget

import (
	"slices"
	"testing"
)

func TestChoose(t *testing.T) {
	for value, want := range map[string][]string{
		"":            releases[:],
		"all":         releases[:],
		"few":         {"1.12.17", "1.17.13", "1.21.13", "1.24.13", "1.26.11", "1.27.4"},
		"1.27 1.12":   {"1.12.17", "1.27.4"},
		"1.12.17":     nil,
		"1.27 1.11":   nil,
		"few 1.13":    nil,
		"1.13, 1.14 ": nil,
	} {
		got, err := choose(value)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %q, %v, want %q", value, got, err, want)
		}
	}
}
