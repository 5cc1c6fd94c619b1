package serve

import (
	"unicode/utf8"

	"github.com/loupe-go/loupe/internal/term"
)

// maxLabel is the maximum length of the value of a label, in bytes.
const maxLabel = 256

// labelValue makes the value of a label of text that a program or Kubernetes has chosen: printable UTF-8 of at most maxLabel bytes.
func labelValue(s string) string {
	const ellipsis = "…"
	if len(s) > 2*maxLabel {
		// Escaping makes text longer, so a longer beginning and end are not needed.
		s = term.Escape(s[:maxLabel]) + term.Escape(s[len(s)-maxLabel:])
	} else {
		s = term.Escape(s)
	}
	if len(s) <= maxLabel {
		return s
	}
	// The middle is replaced: the end of a function or a place in the source distinguishes it from others.
	head := (maxLabel - len(ellipsis)) / 2
	tail := len(s) - (maxLabel - len(ellipsis) - head)
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + ellipsis + s[tail:]
}
