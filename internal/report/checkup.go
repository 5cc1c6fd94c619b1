package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/internal/term"
)

// CheckUp writes the report of a check-up as text. Lines are wrapped at width columns; 0 means no limit.
func CheckUp(out io.Writer, style term.Style, width int, r *checkup.Report) error {
	w := bufio.NewWriter(out)
	c := checkUpWriter{w: w, style: style, width: width}
	for _, check := range append(append([]checkup.Finding(nil), r.Machine...), r.Target...) {
		c.name = max(c.name, utf8.RuneCountInString(check.Name))
	}
	c.checks("This machine", r.Machine)
	if len(r.Target) > 0 {
		fmt.Fprintln(w)
		c.checks("The target", r.Target)
	}
	fmt.Fprintln(w)
	what := "What this machine allows"
	if len(r.Target) > 0 {
		what = "What the machine and the target allow"
	}
	fmt.Fprintln(w, style.Bold(what))
	for _, a := range r.Abilities {
		c.ability(a)
	}
	return w.Flush()
}

// checkUpWriter writes findings in three columns: verdict, name, text.
type checkUpWriter struct {
	w     io.Writer
	style term.Style
	width int
	name  int // width of the names
}

// verdictWidth is the width of the longest verdict.
const verdictWidth = len("unavailable")

func (c *checkUpWriter) checks(title string, checks []checkup.Finding) {
	fmt.Fprintln(c.w, c.style.Bold(title))
	for _, check := range checks {
		c.line(string(check.Status), c.judge(check.Status), check.Name, check.Found)
		c.more("means:", check.Means)
		c.more("fix:", check.Remedy)
	}
}

func (c *checkUpWriter) ability(a checkup.Ability) {
	if a.Available {
		c.line("available", c.style.Good, a.Name, a.Does)
	} else {
		c.line("unavailable", c.style.Warn, a.Name, a.Does)
	}
	for _, m := range a.Missing {
		c.more("requires:", m)
	}
}

// line writes a verdict, its name, and its text.
func (c *checkUpWriter) line(verdict string, judge func(string) string, name, found string) {
	pad := strings.Repeat(" ", verdictWidth-len(verdict))
	fmt.Fprintf(c.w, "  %s%s  %-*s  %s\n", judge(verdict), pad, c.name, name, term.Wrap(term.Escape(found), c.width, c.indent()))
}

// more writes a line below the finding.
func (c *checkUpWriter) more(what, text string) {
	if text == "" {
		return
	}
	indent := c.indent()
	fmt.Fprintf(c.w, "%s%s\n", strings.Repeat(" ", indent), c.style.Dim(term.Wrap(term.Escape(what+" "+text), c.width, indent)))
}

// indent is the column of the findings.
func (c *checkUpWriter) indent() int { return 2 + verdictWidth + 2 + c.name + 2 }

func (c *checkUpWriter) judge(s checkup.Status) func(string) string {
	switch s {
	case checkup.OK:
		return c.style.Good
	case checkup.Warn:
		return c.style.Warn
	}
	return c.style.Bad
}
