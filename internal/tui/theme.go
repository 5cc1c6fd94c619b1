package tui

import "charm.land/lipgloss/v2"

// tone is what a text means, which a theme turns into a look.
type tone uint8

const (
	plain   tone = iota
	dim          // matters less
	strong       // matters more
	good         // goroutines that run
	warn         // deserves a look
	bad          // is wrong
	name         // names of code
	blue         // system calls
	title        // the first line
	heading      // titles of columns and sections
	chosen       // the row under the cursor
	tabOff       // views that can be chosen
	tabOn        // the view that is shown
	keycap       // a key to press
	numTones
)

// theme is how tones look. The zero theme writes plain text. The colours are the sixteen that every terminal has, which
// its user has chosen; those whom they disturb set NO_COLOR, and bold and reverse remain.
type theme struct{ styles *[numTones]lipgloss.Style }

func newTheme() theme {
	style := lipgloss.NewStyle
	colour := func(n lipgloss.Style, c string) lipgloss.Style { return n.Foreground(lipgloss.Color(c)) }
	return theme{&[numTones]lipgloss.Style{
		plain:   style(),
		dim:     style().Faint(true),
		strong:  style().Bold(true),
		good:    colour(style(), "2"),
		warn:    colour(style(), "3"),
		bad:     colour(style().Bold(true), "1"),
		name:    colour(style(), "6"),
		blue:    colour(style(), "4"),
		title:   style().Bold(true),
		heading: style().Bold(true).Underline(true),
		chosen:  style().Reverse(true),
		tabOff:  style(),
		tabOn:   style().Bold(true).Reverse(true),
		keycap:  colour(style().Bold(true), "6"),
	}}
}

// paint gives a text the look of a tone.
func (th theme) paint(t tone, s string) string {
	if th.styles == nil || t == plain || s == "" {
		return s
	}
	return th.styles[t].Render(s)
}

// piece is text with a tone.
type piece struct {
	text string
	tone tone
}

// segment is a part of a line that is left out when there is no room: those with the highest rank first; rank 0 stays.
type segment struct {
	pieces []piece
	rank   int
}

// seg makes a segment of texts and tones, in turns.
func seg(rank int, pieces ...piece) segment { return segment{pieces, rank} }

func (s segment) width() int {
	n := 0
	for _, p := range s.pieces {
		n += width(p.text)
	}
	return n
}

// line lays out segments with a gap between them in at most n columns.
func (th theme) line(n int, gap string, segments ...segment) string {
	segments = fitting(n, width(gap), segments)
	out, used := "", 0
	for _, s := range segments {
		if s.width() == 0 {
			continue
		}
		if used > 0 {
			out += gap
			used += width(gap)
		}
		for _, p := range s.pieces {
			text := clip(p.text, n-used)
			used += width(text)
			out += th.paint(p.tone, text)
		}
		if used >= n {
			break
		}
	}
	return out
}

// fitting leaves out segments until the rest fits into n columns.
func fitting(n, gap int, segments []segment) []segment {
	kept := append([]segment(nil), segments...)
	for {
		total, worst := 0, -1
		for i, s := range kept {
			if w := s.width(); w > 0 {
				total += w + gap
			}
			if s.rank > 0 && (worst < 0 || s.rank >= kept[worst].rank) {
				worst = i
			}
		}
		if total-gap <= n || worst < 0 {
			return kept
		}
		kept = append(kept[:worst], kept[worst+1:]...)
	}
}

// between puts one text at the left and one at the right end of n columns. The right one is left out when there is no room.
func between(left, right string, n int) string {
	fill := n - width(left) - width(right)
	if right == "" || fill < 1 {
		return clip(left, n)
	}
	return left + spaces(fill) + right
}

func spaces(n int) string { return pad("", max(n, 0), false) }
