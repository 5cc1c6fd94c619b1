package gobin

import (
	"fmt"
	"strconv"
	"strings"
)

// A Version is a Go release, as far as Loupe depends on it.
type Version struct {
	Minor int // 22 of go1.22.12
	Patch int // 12 in go1.22.12; 0 if the version string has none
}

// NewestMinor is the minor version of the newest Go release that Loupe has been verified with.
const NewestMinor = 27

// ParseVersion parses a version in the form of runtime.Version and the build information: "go1.22.12", "go1.26rc1",
// "go1.25.3 X:boringcrypto", "devel go1.28-a1b2c3 Tue ...". A development version counts as the release that it
// precedes.
func ParseVersion(s string) (Version, error) {
	i := strings.Index(s, "go1.")
	if i < 0 {
		return Version{}, fmt.Errorf("%q is not a Go version", s)
	}
	rest := s[i+len("go1."):]
	minor, rest := leadingInt(rest)
	if minor < 0 {
		return Version{}, fmt.Errorf("%q is not a Go version", s)
	}
	v := Version{Minor: minor}
	if strings.HasPrefix(rest, ".") {
		if patch, _ := leadingInt(rest[1:]); patch >= 0 {
			v.Patch = patch
		}
	}
	return v, nil
}

// leadingInt parses the decimal digits at the start of s. It returns -1 if there are none or too many.
func leadingInt(s string) (int, string) {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	if n == 0 || n > 6 {
		return -1, s
	}
	v, err := strconv.Atoi(s[:n])
	if err != nil {
		return -1, s
	}
	return v, s[n:]
}

// String returns the version in the form "go1.22.12".
func (v Version) String() string {
	if v.Patch == 0 {
		return fmt.Sprintf("go1.%d", v.Minor)
	}
	return fmt.Sprintf("go1.%d.%d", v.Minor, v.Patch)
}
