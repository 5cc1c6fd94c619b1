package tui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/live"
)

// column is one column of a sheet.
type column[T any] struct {
	title string
	about string // what it is, for the help page
	min   int    // columns of the screen that it takes at least
	right bool   // stands right, as numbers do
	rank  int    // which columns are left out when there is no room: those with the highest rank first; 0 stays
	share int    // not 0: takes this share of the room that is left
	want  int    // of a column with a share: columns of rank optional and higher make room until it has this width
	cell  func(*T) []piece
	order func(a, b *T) int // the order when rows are sorted by it; nil when they cannot be
}

// cell is a cell with one tone.
func cell(t tone, text string) []piece { return []piece{{text, t}} }

// sheet is a table with a cursor. It shows as much of its columns and rows as there is room for.
type sheet[T any] struct {
	columns []column[T]
	key     func(*T) string // tells rows apart, to stay with one while others come and go

	rows    []T
	sorted  int // column that rows are sorted by
	reverse bool
	filter  string

	cursor int
	top    int    // first row on the screen
	follow string // key of the row that the cursor stays with; empty when it stays at the top
}

// fill sets the rows: those of all that match.
func (s *sheet[T]) fill(all []T, match func(*live.Matcher, *T) bool) {
	m := live.NewMatcher(s.filter)
	s.rows = slices.DeleteFunc(slices.Clone(all), func(row T) bool { return s.filter != "" && !match(m, &row) })
	s.sort()
}

// sort sorts the rows and keeps the cursor on the row where it is.
func (s *sheet[T]) sort() {
	if compare := s.columns[s.sorted].order; compare != nil {
		slices.SortStableFunc(s.rows, func(a, b T) int {
			if s.reverse {
				return compare(&b, &a)
			}
			return compare(&a, &b)
		})
	}
	if s.follow != "" {
		if i := slices.IndexFunc(s.rows, func(row T) bool { return s.key(&row) == s.follow }); i >= 0 {
			s.cursor = i
		}
	}
	s.cursor = max(min(s.cursor, len(s.rows)-1), 0)
}

// current is the row under the cursor; nil when there is none.
func (s *sheet[T]) current() *T {
	if s.cursor < len(s.rows) {
		return &s.rows[s.cursor]
	}
	return nil
}

// press moves the cursor or changes the order. height is how many lines the sheet has.
func (s *sheet[T]) press(key string, height int) {
	screen := max(height-1, 1)
	switch key {
	case "up", "k":
		s.move(s.cursor-1, screen)
	case "down", "j":
		s.move(s.cursor+1, screen)
	case "pgup", "ctrl+b":
		s.move(s.cursor-screen, screen)
	case "pgdown", "ctrl+f":
		s.move(s.cursor+screen, screen)
	case "home", "g":
		s.move(0, screen)
	case "end", "G":
		s.move(len(s.rows)-1, screen)
	case "s":
		s.next()
	case "r":
		s.reverse = !s.reverse
		s.sort()
	}
}

func (s *sheet[T]) move(to, screen int) {
	s.cursor = max(min(to, len(s.rows)-1), 0)
	s.top = window(s.top, s.cursor, len(s.rows), screen)
	s.follow = ""
	if row := s.current(); row != nil && s.cursor > 0 {
		s.follow = s.key(row)
	}
}

// next sorts by the next column.
func (s *sheet[T]) next() {
	for range s.columns {
		s.sorted = (s.sorted + 1) % len(s.columns)
		if s.columns[s.sorted].order != nil {
			break
		}
	}
	s.reverse, s.cursor, s.top, s.follow = false, 0, 0, ""
	s.sort()
}

// window returns the first of n rows to show on a screen such that the cursor is on it, as near to top as can be.
func window(top, cursor, n, screen int) int {
	top = min(top, cursor, max(n-screen, 0))
	return max(top, cursor-screen+1, 0)
}

// status tells the order, and which rows are shown of how many there are.
func (s *sheet[T]) status(height, all int) string {
	arrow := "▼"
	if s.reverse {
		arrow = "▲"
	}
	if len(s.rows) == 0 {
		return "none"
	}
	screen := max(height-1, 1)
	top := window(s.top, s.cursor, len(s.rows), screen)
	return fmt.Sprintf("by %s %s  %s-%s of %s", strings.ToLower(s.columns[s.sorted].title), arrow,
		number(uint64(top+1)), number(uint64(min(top+screen, len(s.rows)))), number(uint64(max(all, len(s.rows)))))
}

// gap is what stands between two columns, gutter what stands before the first.
const (
	gap    = "  "
	gutter = 2
)

// draw draws the head and the rows.
func (s *sheet[T]) draw(th theme, wide, height int) []string {
	if height <= 0 {
		return nil
	}
	screen := max(height-1, 1)
	top := window(s.top, s.cursor, len(s.rows), screen)
	shown := s.rows[top:min(top+screen, len(s.rows))]
	cells := make([][][]piece, len(shown))
	for i := range shown {
		cells[i] = make([][]piece, len(s.columns))
		for j, c := range s.columns {
			cells[i][j] = c.cell(&shown[i])
		}
	}
	widths := s.layout(cells, wide-gutter)
	lines := []string{s.head(th, widths)}
	for i := range cells {
		lines = append(lines, s.row(th, cells[i], widths, top+i == s.cursor, wide))
	}
	return lines[:min(len(lines), height)]
}

// optional is the rank from which on columns are left out where text would be cut.
const optional = 6

// layout returns how wide each column is; 0 leaves it out.
func (s *sheet[T]) layout(cells [][][]piece, room int) []int {
	hard, soft := make([]int, len(s.columns)), make([]int, len(s.columns))
	for j, c := range s.columns {
		hard[j] = max(c.min, width(c.title))
		if j == s.sorted {
			hard[j] = max(hard[j], width(c.title)+1) // for the arrow
		}
		content := 0
		for i := range cells {
			content = max(content, segment{pieces: cells[i][j]}.width())
		}
		if c.share == 0 {
			hard[j] = max(hard[j], content)
		}
		soft[j] = max(hard[j], min(content, c.want))
	}
	s.leaveOut(soft, hard, room, optional)
	total := s.leaveOut(hard, soft, room, 1)
	s.stretch(hard, cells, room-total)
	return hard
}

// leaveOut leaves out the columns with the highest ranks, down to the lowest one, until widths fit into the room. It
// returns how much room is taken.
func (s *sheet[T]) leaveOut(widths, others []int, room, lowest int) int {
	for {
		total, worst := -len(gap), -1
		for j, c := range s.columns {
			if widths[j] == 0 {
				continue
			}
			total += widths[j] + len(gap)
			if c.rank >= lowest && (worst < 0 || c.rank > s.columns[worst].rank) {
				worst = j
			}
		}
		if total <= room || worst < 0 {
			return total
		}
		widths[worst], others[worst] = 0, 0
	}
}

// stretch divides the room that is left among the columns that can use it.
func (s *sheet[T]) stretch(widths []int, cells [][][]piece, room int) {
	for range s.columns { // what one column does not need is for the others
		shares, wants := 0, make([]int, len(widths))
		for j, c := range s.columns {
			if widths[j] == 0 || c.share == 0 {
				continue
			}
			for i := range cells {
				wants[j] = max(wants[j], segment{pieces: cells[i][j]}.width()-widths[j])
			}
			if wants[j] > 0 {
				shares += c.share
			}
		}
		if room <= 0 || shares == 0 {
			return
		}
		left := room
		for j, c := range s.columns {
			if wants[j] > 0 {
				more := min(max(room*c.share/shares, 1), wants[j], left)
				widths[j] += more
				left -= more
			}
		}
		room = left
	}
}

func (s *sheet[T]) head(th theme, widths []int) string {
	var b strings.Builder
	b.WriteString(spaces(gutter))
	for j, c := range s.columns {
		if widths[j] == 0 {
			continue
		}
		if b.Len() > gutter {
			b.WriteString(gap)
		}
		text := c.title
		if j == s.sorted {
			text += "▼"
			if s.reverse {
				text = c.title + "▲"
			}
		}
		b.WriteString(pad(text, widths[j], c.right))
	}
	return th.paint(heading, strings.TrimRight(b.String(), " "))
}

func (s *sheet[T]) row(th theme, cells [][]piece, widths []int, current bool, wide int) string {
	var b strings.Builder
	mark, look := spaces(gutter), th
	if current {
		mark, th = pad("▸", gutter, false), theme{} // the row has one look as a whole
	}
	b.WriteString(mark)
	first := true
	for j, c := range s.columns {
		if widths[j] == 0 {
			continue
		}
		if !first {
			b.WriteString(gap)
		}
		first = false
		text, used := "", 0
		for _, p := range cells[j] {
			t := clip(p.text, widths[j]-used)
			used += width(t)
			text += th.paint(p.tone, t)
		}
		fill := spaces(widths[j] - used)
		if c.right {
			b.WriteString(fill + text)
		} else {
			b.WriteString(text + fill)
		}
	}
	if !current {
		return strings.TrimRight(b.String(), " ")
	}
	return look.paint(chosen, pad(b.String(), wide, false))
}
