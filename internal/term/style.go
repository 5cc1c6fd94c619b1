package term

import (
	"io"

	xterm "golang.org/x/term"
)

// Style writes emphasis as a terminal understands it. Its zero value writes plain text.
type Style struct{ colour bool }

// StyleFor returns the style for a stream: with colours when it is a terminal, unless the environment asks for none
// (NO_COLOR set to anything, or a TERM of "dumb").
func StyleFor(w io.Writer, getenv func(string) string) Style {
	return Style{colour: IsTerminal(w) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"}
}

// The emphases, as SGR sequences.
const (
	sgrReset  = "\x1b[0m"
	sgrBold   = "\x1b[1m"
	sgrDim    = "\x1b[2m"
	sgrRed    = "\x1b[31m"
	sgrGreen  = "\x1b[32m"
	sgrYellow = "\x1b[33m"
	sgrCyan   = "\x1b[36m"
)

// Bold emphasises a heading, Dim what matters less; Good, Warn and Bad judge; Name marks the names of code.
func (s Style) Bold(t string) string { return s.wrap(sgrBold, t) }
func (s Style) Dim(t string) string  { return s.wrap(sgrDim, t) }
func (s Style) Good(t string) string { return s.wrap(sgrGreen, t) }
func (s Style) Warn(t string) string { return s.wrap(sgrYellow, t) }
func (s Style) Bad(t string) string  { return s.wrap(sgrBold+sgrRed, t) }
func (s Style) Name(t string) string { return s.wrap(sgrCyan, t) }

func (s Style) wrap(sgr, t string) string {
	if !s.colour || t == "" {
		return t
	}
	return sgr + t + sgrReset
}

// file is a stream with a file descriptor.
type file interface{ Fd() uintptr }

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(file)
	return ok && xterm.IsTerminal(int(f.Fd()))
}

// Width returns the number of columns of the terminal that a stream is, 0 when it is none or does not say.
func Width(w io.Writer) int {
	columns, _ := Size(w)
	return columns
}

// Size returns the size of the terminal that a stream is, 0 when it is none or does not say.
func Size(w io.Writer) (columns, rows int) {
	f, ok := w.(file)
	if !ok {
		return 0, 0
	}
	columns, rows, err := xterm.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, rows
}
