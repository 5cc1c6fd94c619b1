package tui

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/place"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/sched"
)

// maxName is how many bytes of a foreign text are looked at; no screen has room for more.
const maxName = 1024

// safe makes foreign text fit for a cell: nothing in it is obeyed by a terminal, and every terminal agrees on its width.
// Beside what term.Escape spells out these are marks that join the character before them, emoji, and letters that have no
// width of their own.
func safe(s string) string {
	if len(s) > maxName {
		s = s[:maxName]
		for !utf8.ValidString(s) && len(s) > maxName-utf8.UTFMax {
			s = s[:len(s)-1]
		}
	}
	s = term.Escape(s)
	if plainASCII(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf || measurable(r) {
			b.WriteRune(r)
		} else if r < 0x10000 {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

func plainASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// conjoining are the Hangul letters that make one syllable with their neighbours.
var conjoining = []struct{ first, last rune }{{0x1100, 0x11ff}, {0xa960, 0xa97f}, {0xd7b0, 0xd7ff}}

// measurable reports whether a character takes the same one or two columns everywhere and does not change its neighbours.
func measurable(r rune) bool {
	if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsPunct(r) {
		return false
	}
	for _, b := range conjoining {
		if r >= b.first && r <= b.last {
			return false
		}
	}
	w := ansi.StringWidthWc(string(r))
	return w > 0 && w == ansi.StringWidth(string(r))
}

// width is the number of columns of a text, styled or not.
func width(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return ansi.StringWidth(s)
		}
	}
	return len(s)
}

// clip shortens a text to n columns; an ellipsis stands for what is missing.
func clip(s string, n int) string {
	if n <= 0 {
		return ""
	}
	if width(s) <= n {
		return s
	}
	return ansi.Truncate(s, n, "…")
}

// clipLeft shortens a text without styles to n columns and keeps its end.
func clipLeft(s string, n int) string {
	if width(s) <= n {
		return s
	}
	begin, room := len(s), n-1 // for the ellipsis
	for begin > 0 && room >= 0 {
		_, size := utf8.DecodeLastRuneInString(s[:begin])
		if room -= width(s[begin-size : begin]); room >= 0 {
			begin -= size
		}
	}
	return clip("…"+s[begin:], n)
}

// pad clips or fills a text to exactly n columns, on the left when it is to stand right.
func pad(s string, n int, right bool) string {
	s = clip(s, n)
	fill := strings.Repeat(" ", max(n-width(s), 0))
	if right {
		return fill + s
	}
	return s + fill
}

// number writes a count: "10,012", and from ten million on "12.3M".
func number(n uint64) string {
	if n >= 10_000_000 {
		return english.Scaled(float64(n))
	}
	return english.Number(n)
}

// percent writes a part of a whole: "0%", "0.4%", "37%".
func percent(part, whole float64) string {
	switch p := part / whole * 100; {
	case whole <= 0 || p <= 0 || math.IsNaN(p):
		return "0%"
	case p < 0.095:
		return "<0.1%"
	case p < 9.95:
		return strings.TrimSuffix(strconv.FormatFloat(p, 'f', 1, 64), ".0") + "%"
	default:
		return strconv.FormatFloat(p, 'f', 0, 64) + "%"
	}
}

// span writes a length of time: "850ns", "1.2ms", "12.5s", "2m5s"; zero is "0".
func span(d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	return report.ShortTime(d)
}

// spent writes a sum of times.
func spent(n sched.Nanos) string { return span(n.Duration()) }

// latencySpan writes a time of the scheduler; "-" when nothing was measured.
func latencySpan(d time.Duration, count uint64) string {
	if count == 0 {
		return "-"
	}
	return span(d)
}

// plural writes a count and its noun.
func plural(n uint64, noun string) string {
	return number(n) + " " + english.Noun(n, noun)
}

// shortFunc is a function's name for a table; "(unknown)" when there is none.
func shortFunc(f event.Frame) string {
	if f.Func == "" {
		return "(unknown)"
	}
	return safe(place.ShortFunc(f.Func))
}

// position is a line of the source, in short; empty when it is not known.
func position(f event.Frame) string {
	if f.File == "" {
		return ""
	}
	return safe(path.Base(f.File) + ":" + strconv.Itoa(f.Line))
}

// spot names a place in the source: "main.worker worker.go:12".
func spot(f event.Frame) string {
	if f.IsZero() {
		return ""
	}
	return strings.TrimSpace(shortFunc(f) + " " + position(f))
}

// eighths are the parts of a bar's last column, and the heights of a trend.
var (
	eighths = []rune("▏▎▍▌▋▊▉█")
	heights = []rune("▁▂▃▄▅▆▇█")
)

// bar draws a part of a whole in at most n columns; anything above zero shows.
func bar(part, whole float64, n int) string {
	if part <= 0 || whole <= 0 || n <= 0 {
		return ""
	}
	units := min(max(int(part/whole*float64(n)*8+0.5), 1), n*8)
	s := strings.Repeat("█", units/8)
	if rest := units % 8; rest > 0 {
		s += string(eighths[rest-1])
	}
	return s
}

// trend draws values as a row of small columns, the last n of them.
func trend(values []float64, n int) string {
	values = values[max(len(values)-n, 0):]
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	var b strings.Builder
	for _, v := range values {
		i := 0
		if high > low {
			i = int((v - low) / (high - low) * float64(len(heights)-1))
		}
		b.WriteRune(heights[i])
	}
	return b.String()
}

// fullFunc is a function's whole name.
func fullFunc(f event.Frame) string {
	if f.Func == "" {
		return "(unknown)"
	}
	return safe(f.Func)
}

// filePosition is a line of the source with the whole path of its file.
func filePosition(f event.Frame) string {
	if f.File == "" {
		return ""
	}
	return safe(f.File + ":" + strconv.Itoa(f.Line))
}
