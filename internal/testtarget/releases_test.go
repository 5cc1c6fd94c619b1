package testtarget

import (
	"fmt"
	"slices"
	"testing"
)

func TestChoose(t *testing.T) {
	for value, want := range map[string][]string{
		"":            releases[:],
		"all":         releases[:],
		"each":        releases[:],
		"few":         {"1.12.17", "1.17.13", "1.27.4"},
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

// logged keeps what a test logs.
type logged struct {
	testing.TB
	lines []string
}

func (l *logged) Helper() {}

func (l *logged) Logf(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// TestAmong logs what is left out of a list, and nothing if that is nothing.
func TestAmong(t *testing.T) {
	list := []string{"1.12.17", "1.13.15", "1.14.15"}
	for _, test := range []struct{ wanted, log []string }{
		{list, nil},
		{list[:1], []string{LeftOut + "[1.13.15 1.14.15]"}},
		{nil, []string{LeftOut + "[1.12.17 1.13.15 1.14.15]"}},
	} {
		var log logged
		got := among(&log, list, func(r string) bool { return slices.Contains(test.wanted, r) })
		if !slices.Equal(got, test.wanted) || !slices.Equal(log.lines, test.log) {
			t.Errorf("%q, logged %q; want %q, %q", got, log.lines, test.wanted, test.log)
		}
	}
	if !isChosen(Latest()) {
		t.Error("the newest release is not among those to test")
	}
}

// TestParts checks which elements of a list remain when some releases are selected.
func TestParts(t *testing.T) {
	list := []string{"a", "b", "c", "d", "e"}
	for _, test := range []struct {
		name string
		part func(testing.TB) []string
		want []string
	}{
		{"Ends", func(tb testing.TB) []string { return Ends(tb, list) }, []string{"a", "e"}},
		{"Last", func(tb testing.TB) []string { return Last(tb, list) }, []string{"e"}},
		{"Some", func(tb testing.TB) []string { return Some(tb, list, 3) }, []string{"a", "d"}},
		{"Rare", func(tb testing.TB) []string { return Rare(tb, list...) }, nil},
	} {
		var log logged
		got, lines := test.part(&log), 1
		switch {
		case Complete() && test.name == "Ends" && !Each():
			test.want = []string{"a", "b", "e"}
		case Complete():
			test.want, lines = list, 0
		}
		if !slices.Equal(got, test.want) || len(log.lines) != lines {
			t.Errorf("%s: %q, logged %q; want %q", test.name, got, log.lines, test.want)
		}
	}
}

// TestVariants checks how programs with a library are built.
func TestVariants(t *testing.T) {
	first, middle, last := releases[0], releases[3], Latest()
	for value, want := range map[string][]Variant{
		"few":  {{last, true}},
		"1.12": {{last, true}},
		"":     {{last, true}},
		"all":  {{first, false}, {last, true}},
		"each": {{first, false}, {first, true}, {middle, false}, {middle, true}, {last, false}, {last, true}},
	} {
		t.Setenv("LOUPE_RELEASES", value)
		var log logged
		if got := Variants(&log, first, middle, last); !slices.Equal(got, want) || (len(log.lines) == 0) != (value == "each") {
			t.Errorf("%q: %v, logged %q; want %v", value, got, log.lines, want)
		}
	}
}
