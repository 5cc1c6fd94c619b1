package table

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Release is a Go release by its numbers; 1.22.12 is {22, 12}. The first release of a minor has patch 0 whether Go calls
// it 1.20 or 1.21.0.
type Release struct {
	Minor, Patch int
}

// firstDotZero is the first minor whose first release is spelled with a ".0".
const firstDotZero = 21

// String spells the release as Go does: "1.20", "1.21.0", "1.22.12".
func (r Release) String() string {
	if r.Patch == 0 && r.Minor < firstDotZero {
		return "1." + strconv.Itoa(r.Minor)
	}
	return "1." + strconv.Itoa(r.Minor) + "." + strconv.Itoa(r.Patch)
}

// Compare orders releases by age.
func (r Release) Compare(o Release) int {
	return cmp.Or(cmp.Compare(r.Minor, o.Minor), cmp.Compare(r.Patch, o.Patch))
}

// ParseRelease reads "1.22.12", "1.20" or "1.21". What is behind the numbers is returned as rest.
func ParseRelease(s string) (r Release, rest string, err error) {
	digits, ok := strings.CutPrefix(s, "1.")
	if !ok {
		return r, "", fmt.Errorf("%q is not a Go release", s)
	}
	if r.Minor, rest, ok = leadingNumber(digits); !ok {
		return r, "", fmt.Errorf("%q is not a Go release", s)
	}
	if digits, ok := strings.CutPrefix(rest, "."); ok {
		if patch, after, ok := leadingNumber(digits); ok {
			return Release{r.Minor, patch}, after, nil
		}
	}
	return r, rest, nil
}

// leadingNumber reads the decimal number at the start of s, of at most four digits.
func leadingNumber(s string) (n int, rest string, ok bool) {
	i := 0
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		n = n*10 + int(s[i]-'0')
		i++
	}
	return n, s[i:], 0 < i && i <= 4
}
