package table

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Version is the version of a module, such as v1.22.0 or v0.0.0-20240102030405-0123456789ab. Those of the standard
// library are the numbers of the Go release.
type Version struct {
	Major, Minor, Patch int
	Pre                 string // of a pre-release or a pseudo-version, "rc.1" of v1.22.0-rc.1
}

// ParseVersion parses a version in the form of String. It ignores build metadata, as in v2.0.0+incompatible.
func ParseVersion(s string) (v Version, err error) {
	text, _, _ := strings.Cut(s, "+")
	text, pre, isPre := strings.Cut(text, "-")
	numbers, hasV := strings.CutPrefix(text, "v")
	parts := strings.Split(numbers, ".")
	if !hasV || len(parts) != 3 || isPre && !validPre(pre) {
		return v, fmt.Errorf("%.80q is not a version", s)
	}
	for i, n := range []*int{&v.Major, &v.Minor, &v.Patch} {
		if !isNumber(parts[i]) {
			return Version{}, fmt.Errorf("%.80q is not a version", s)
		}
		*n, _ = strconv.Atoi(parts[i]) // isNumber has checked it
	}
	v.Pre = pre
	return v, nil
}

// isNumber reports whether s is a decimal number of at most nine digits, without leading zeros.
func isNumber(s string) bool {
	const maxDigits = 9
	return s != "" && len(s) <= maxDigits && allDigits(s) && (s == "0" || s[0] != '0')
}

func allDigits(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || '9' < r })
}

func validPre(s string) bool {
	return !slices.Contains(strings.Split(s, "."), "") && !strings.ContainsFunc(s, func(r rune) bool {
		return !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '-' || r == '.')
	})
}

func (v Version) String() string {
	s := fmt.Sprintf("v%d.%d.%d", v.Major, v.Minor, v.Patch)
	if v.Pre != "" {
		s += "-" + v.Pre
	}
	return s
}

// NextMinor returns the first release of the next minor version.
func (v Version) NextMinor() Version { return Version{Major: v.Major, Minor: v.Minor + 1} }

// SameMinor reports whether two versions belong to one minor version.
func (v Version) SameMinor(w Version) bool { return v.Major == w.Major && v.Minor == w.Minor }

// Compare orders versions by precedence (semver.org, section 11).
func (v Version) Compare(w Version) int {
	if c := cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch)); c != 0 {
		return c
	}
	switch {
	case v.Pre == w.Pre:
		return 0
	case v.Pre == "":
		return +1
	case w.Pre == "":
		return -1
	}
	return slices.CompareFunc(strings.Split(v.Pre, "."), strings.Split(w.Pre, "."), comparePre)
}

// comparePre compares two identifiers of pre-releases. Numbers precede all others and compare by value.
func comparePre(a, b string) int {
	switch numA, numB := allDigits(a), allDigits(b); {
	case numA && numB:
		a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	case numA:
		return -1
	case numB:
		return +1
	}
	return strings.Compare(a, b)
}
