package english

import (
	"math"
	"strconv"
	"strings"
)

// Scaled writes a large number with three digits that matter: "12.3k", "4.56M".
func Scaled(f float64) string {
	for _, u := range []struct {
		value float64
		name  string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if f < u.value*0.9995 {
			continue
		}
		f /= u.value
		switch {
		case f < 9.995:
			return strconv.FormatFloat(f, 'f', 2, 64) + u.name
		case f < 99.95:
			return strconv.FormatFloat(f, 'f', 1, 64) + u.name
		}
		return strconv.FormatFloat(f, 'f', 0, 64) + u.name
	}
	return strconv.FormatFloat(f, 'f', 0, 64)
}

// Rate writes how often something happens in a unit of time: "0", "0.4", "12", "1,234", "56.7k".
func Rate(f float64) string {
	switch {
	case math.IsNaN(f) || f <= 0:
		return "0"
	case f < 0.095:
		return "<0.1"
	case f < 9.95:
		return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
	case f < 9999.5:
		return Number(uint64(f + 0.5))
	}
	return Scaled(f)
}

// Signed writes a rate of change as Rate does, with its sign: "+120", "-3.5", "0".
func Signed(f float64) string {
	switch s := Rate(math.Abs(f)); {
	case s == "0":
		return s
	case f < 0:
		return "-" + s
	default:
		return "+" + s
	}
}
