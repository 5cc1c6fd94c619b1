package term

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Escape makes text from a foreign source harmless to a terminal and to the reader's eye: control characters, invalid
// UTF-8, and the invisible characters that reorder or hide text are spelled out in Go's notation. Nothing else changes.
func Escape(s string) string {
	if harmless(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strconv.IsPrint(r):
			b.WriteString(s[i : i+n])
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	return b.String()
}

// harmless reports whether a text is printable ASCII, as nearly every name is.
func harmless(s string) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	// Eight bytes at a time: one below a blank borrows, from 0x7f on one becomes or has a high bit.
	for ; len(s) >= 8; s = s[8:] {
		word := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		if (word|(word-' '*ones)|(word+ones))&highs != 0 {
			return false
		}
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// Clip shortens a text to at most n characters; an ellipsis stands for what is missing. n <= 0 means no limit.
func Clip(s string, n int) string {
	if n <= 0 || utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:n-1]) + "…"
}

// EscapeJSON makes a JSON document harmless to a terminal that it is printed on, without changing what it says:
// characters that Escape would spell out become JSON escapes. They can only occur inside JSON strings.
func EscapeJSON(doc []byte) []byte {
	clean := true
	for _, c := range doc {
		if c >= 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return doc // encoding/json escapes the control characters of ASCII itself, save DEL
	}
	out := make([]byte, 0, len(doc)+16)
	for i := 0; i < len(doc); {
		r, n := utf8.DecodeRune(doc[i:])
		switch {
		case r < 0x7f || strconv.IsPrint(r):
			out = append(out, doc[i:i+n]...)
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default: // a UTF-16 pair, as JSON wants it
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		}
		i += n
	}
	return out
}
