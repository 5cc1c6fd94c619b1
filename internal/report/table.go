package report

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/loupe-go/loupe/internal/term"
)

// A table is text in columns whose width depends on their contents. Cells are escaped when they are added.
type table struct {
	head  []string
	right map[int]bool // columns of numbers
	rows  [][]string
}

func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = term.Escape(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// write prints the table. Lines are cut at width columns; 0 means no limit.
func (t *table) write(w io.Writer, style term.Style, width int) error {
	wide := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			wide[i] = max(wide[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	b.WriteString(style.Bold(t.line(t.head, wide, width)) + "\n")
	for _, row := range t.rows {
		b.WriteString(t.line(row, wide, width) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// line formats one row.
func (t *table) line(row []string, wide []int, width int) string {
	var b strings.Builder
	for i, cell := range row {
		pad := strings.Repeat(" ", wide[i]-utf8.RuneCountInString(cell))
		if i > 0 {
			b.WriteString("  ")
		}
		if t.right[i] {
			b.WriteString(pad + cell)
		} else {
			b.WriteString(cell + pad)
		}
	}
	return term.Clip(strings.TrimRight(b.String(), " "), width)
}
