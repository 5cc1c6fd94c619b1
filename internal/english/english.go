// Package english formats numbers with nouns: "1 event", "2 events", "1 process", "0 entries". It also formats sizes
// in bytes, "4.2 MiB", and rates, "+0.4".
//
// All texts that contain a number and a noun use this package, so that no text says "1 things".
package english

import (
	"fmt"
	"strconv"
	"strings"
)

// Integer is a number of things.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// Count returns a number with its noun, as in "1 process" and "12,000 processes". The noun is given in the singular; one
// of several words is inflected at its last word, as in "garbage collection".
func Count[N Integer](n N, noun string) string {
	return Number(n) + " " + Noun(n, noun)
}

// Number writes a number with commas between groups of three digits: "1,234,567".
func Number[N Integer](n N) string {
	s := fmt.Sprintf("%d", n)
	first := 0
	if n < 0 {
		first = 1
	}
	for i := len(s) - 3; i > first; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Size writes a number of bytes with the digits that matter: "512 B", "4.2 MiB", "137 MiB".
func Size(n int64) string {
	f, units := float64(max(n, 0)), []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	i := 0
	for f >= 1023.5 && i < len(units)-1 {
		f /= 1024
		i++
	}
	digits := 0
	if i > 0 && f < 99.95 {
		digits = 1
	}
	return strconv.FormatFloat(f, 'f', digits, 64) + " " + units[i]
}

// Noun returns the form of a noun that fits a number: "process" for 1, else "processes".
func Noun[N Integer](n N, noun string) string {
	if n == 1 {
		return noun
	}
	return Plural(noun)
}

// Pick returns one for 1 and many for every other number, as for verbs: Pick(n, "is", "are").
func Pick[N Integer](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Plural returns the plural of a noun.
func Plural(noun string) string {
	for _, end := range []string{"s", "x", "ch", "sh"} {
		if strings.HasSuffix(noun, end) {
			return noun + "es"
		}
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok && stem != "" && !strings.ContainsAny(stem[len(stem)-1:], "aeiou") {
		return stem + "ies"
	}
	return noun + "s"
}
