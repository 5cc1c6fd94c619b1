package term

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks a text at blanks so that its lines fit into width columns after an indent, which every line but the first
// begins with. A width of 0, or one that leaves too little room, means no breaks.
func Wrap(text string, width, indent int) string {
	const tooNarrow = 20
	room := width - indent
	if room < tooNarrow {
		return text
	}
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > room:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
