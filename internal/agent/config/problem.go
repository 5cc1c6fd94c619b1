package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/term"
)

// A Problem is a mistake in a configuration.
type Problem struct {
	Origin
	Path    string // of the key; empty if the problem is not about one
	Message string
}

func (p Problem) String() string {
	text := p.Origin.String() + ": "
	if p.Path != "" {
		text += p.Path + ": "
	}
	return term.Escape(text + p.Message)
}

// maxProblems is the maximum number of problems that an error lists.
const maxProblems = 50

// Problems is the error for an invalid configuration.
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string {
	var lines []string
	for i, problem := range p {
		if i == maxProblems {
			lines = append(lines, english.Count(len(p)-i, "more problem"))
			break
		}
		lines = append(lines, problem.String())
	}
	return strings.Join(lines, "\n")
}

// sorted orders problems: the file by line, then the environment, then flags.
func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Flag, b.Flag), cmp.Compare(a.Env, b.Env), cmp.Compare(a.Line, b.Line))
	})
	return p
}

// quote quotes foreign text for a message.
func quote(text string) string {
	const most = 60
	if len(text) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		return fmt.Sprintf("%q...", text[:cut])
	}
	return fmt.Sprintf("%q", text)
}

// nearest returns the candidate that text is probably a misspelling of, or "".
func nearest(text string, candidates []string) string {
	if len(text) > 64 {
		return ""
	}
	best, distance := "", max(1, len(text)/3)+1
	for _, c := range candidates {
		if d := edits(strings.ToLower(strings.ReplaceAll(text, "-", "_")), c); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// edits returns the number of characters to insert, delete or replace to get b from a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
