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
	under []string // lines below the rows, if there are any
}

func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = term.Escape(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// write prints the table. Lines are cut at width columns; 0 means no limit.
func (t *table) write(w io.Writer, style term.Style, width int) error {
	wide := t.widths()
	var b strings.Builder
	b.WriteString(style.Bold(t.line(t.head, wide, width)) + "\n")
	for i, row := range t.rows {
		b.WriteString(t.line(row, wide, width) + "\n")
		if i < len(t.under) && t.under[i] != "" {
			b.WriteString(style.Dim(term.Clip(t.under[i], width)) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// widths returns the widths of the columns.
func (t *table) widths() []int {
	wide := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			wide[i] = max(wide[i], utf8.RuneCountInString(cell))
		}
	}
	return wide
}

// fits reports whether the table has lines of at most width columns.
func (t *table) fits(width int) bool {
	total := 2 * (len(t.head) - 1)
	for _, wide := range t.widths() {
		total += wide
	}
	return width == 0 || total <= width
}

// stack moves the last column to lines below the rows.
func (t *table) stack(indent string) {
	last := len(t.head) - 1
	t.head = t.head[:last]
	for i, row := range t.rows {
		t.rows[i] = row[:last]
		line := ""
		if row[last] != "" {
			line = indent + row[last]
		}
		t.under = append(t.under, line)
	}
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
