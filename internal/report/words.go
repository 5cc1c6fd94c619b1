package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/loupe-go/loupe/census"
	"github.com/loupe-go/loupe/internal/english"
)

// Duration formats a duration with at most two units: "350ms", "12s", "3m12s", "2h5m", "3d4h".
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d <= 0:
		return "0s"
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + "µs"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < time.Minute:
		return twoUnits(d, time.Second, "s", 0, "")
	case d < time.Hour:
		return twoUnits(d, time.Minute, "m", time.Second, "s")
	case d < day:
		return twoUnits(d, time.Hour, "h", time.Minute, "m")
	default:
		return twoUnits(d, day, "d", time.Hour, "h")
	}
}

func twoUnits(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	s := strconv.FormatInt(int64(d/large), 10) + largeName
	if small == 0 {
		return s
	}
	if rest := d % large / small; rest > 0 {
		s += strconv.FormatInt(int64(rest), 10) + smallName
	}
	return s
}

// waitWords describes how long the n goroutines of a group have been blocked: "3m12s", "12s..3m12s", or "<35s" if only
// an upper bound is known. It is empty if nothing is known.
func waitWords(w census.Wait, n int) string {
	var parts []string
	switch low, high := Duration(w.Min), Duration(w.Max); {
	case w.Known == 0:
	case low == high:
		parts = append(parts, high)
	default:
		parts = append(parts, low+".."+high)
	}
	if w.Bound > 0 {
		bound := "<" + Duration(w.Bound)
		if w.Known > 0 {
			bound = english.Count(n-w.Known, "other") + " " + bound
		}
		parts = append(parts, bound)
	}
	return strings.Join(parts, ", ")
}

// andMore lists the first texts and the number of further ones.
func andMore(shown []string, total int) string {
	s := strings.Join(shown, ", ")
	if rest := total - len(shown); rest > 0 {
		s += fmt.Sprintf(" and %s more", english.Number(rest))
	}
	return s
}
