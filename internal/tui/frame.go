package tui

import "strings"

// layout is how the lines of a screen are divided.
type layout struct{ head, tabs, body, foot int }

// Lines of the head on large and on medium screens.
const (
	fullHead  = 9
	shortHead = 5
)

// layoutOf divides a screen. The less there is, the shorter is the head; the body is what everything is for.
func layoutOf(height int) layout {
	l := layout{tabs: 1, foot: 1}
	switch {
	case height >= 23:
		l.head = fullHead
	case height >= 16:
		l.head = shortHead
	case height >= 9:
		l.head = 2
	case height >= 5:
		l.head = 1
	case height < 3:
		l.tabs, l.foot = 0, 0
	}
	l.body = max(height-l.head-l.tabs-l.foot, 0)
	return l
}

// bodyHeight is how many lines the page on the screen has.
func (m *Model) bodyHeight() int { return layoutOf(m.height).body }

// View draws a frame: at most so many lines, none longer than so many columns.
func (m *Model) View(w, h int) string {
	if w <= 0 || h <= 0 {
		return ""
	}
	l := layoutOf(h)
	lines := make([]string, 0, h)
	lines = append(lines, m.head(w, l.head)...)
	if l.tabs > 0 {
		lines = append(lines, m.tabs(w))
	}
	lines = append(lines, m.body(w, l.body)...)
	for len(lines) < h-l.foot {
		lines = append(lines, "")
	}
	if l.foot > 0 {
		lines = append(lines, m.foot(w))
	}
	for i := range lines {
		lines[i] = clip(lines[i], w)
	}
	return strings.Join(lines[:min(len(lines), h)], "\n")
}

func (m *Model) body(w, h int) []string {
	var lines []string
	switch {
	case m.over != nil:
		lines = m.over.draw(m.theme, w, h)
	case m.picture == nil:
		lines = []string{"", m.theme.paint(dim, "  waiting for the first events")}
	default:
		lines = m.page().draw(m, w, h)
	}
	return lines[:min(len(lines), h)]
}

// tabs is the line of the views. On top of one it tells the way there.
func (m *Model) tabs(w int) string {
	if len(m.opened) > 0 && m.over == nil {
		text := m.views[m.view].name(m)
		for _, p := range m.opened {
			text += " › " + p.name(m)
		}
		back := m.theme.line(w, "  ", seg(1, piece{"esc", keycap}, piece{" back", dim}))
		room := w - width(back) - 2
		if room < 20 {
			back, room = "", w
		}
		return between(" "+m.theme.paint(strong, clipLeft(text, room-1)), back, w)
	}
	short := w < 62
	var segments []segment
	for i, v := range m.views {
		text, tone := v.name(m), tabOff
		if short && i != m.view && len(text) > 4 {
			text = text[:4]
		}
		if i == m.view && m.over == nil {
			tone = tabOn
		}
		segments = append(segments, seg(0, piece{" " + string(rune('1'+i)), keycap}, piece{" " + text + " ", tone}))
	}
	if m.over != nil {
		segments = append(segments, seg(0, piece{" " + m.over.name + " ", tabOn}))
	}
	return m.theme.line(w, "", segments...)
}

// foot is the last line: what is typed, what has happened, or which keys there are, and where the page stands.
func (m *Model) foot(w int) string {
	th := m.theme
	status := ""
	if m.picture != nil && m.over == nil {
		status = m.page().status(m)
	}
	right := th.paint(dim, status)
	if m.typing {
		text := safe(*m.page().filtering())
		left := th.line(w, "   ", seg(0, piece{"/", keycap}, piece{clipLeft(text, max(w-3, 0)), strong}, piece{"▏", plain}),
			seg(2, piece{"enter", keycap}, piece{" keep", dim}), seg(2, piece{"esc", keycap}, piece{" forget", dim}))
		return between(left, right, w)
	}
	var segments []segment
	if m.ended != nil {
		tone := strong
		if m.ended.Bad {
			tone = bad
		}
		segments = append(segments, seg(0, piece{safe(m.ended.Text), tone}))
	}
	if f := m.page().filtering(); f != nil && *f != "" && m.over == nil {
		segments = append(segments, seg(1, piece{"/" + clip(safe(*f), 24), warn}))
	}
	rank := 2
	for _, k := range m.hints() {
		segments = append(segments, seg(rank, piece{k.key, keycap}, piece{" " + k.does, dim}))
		rank++
	}
	room := w
	if n := width(status); n > 0 && n+24 < w {
		room = w - n - 2
	}
	return between(th.line(room, "  ", segments...), right, w)
}

// hints are the keys in the last line, the most important first.
func (m *Model) hints() []hint {
	if m.over != nil {
		return []hint{{"esc", "close"}, {"↑↓", "move"}}
	}
	pause := hint{"p", "pause"}
	if m.paused {
		pause = hint{"p", "resume"}
	}
	list := []hint{{"?", "help"}, {"q", "quit"}}
	list = append(list, m.page().keys()...)
	if m.page().filtering() != nil {
		list = append(list, hint{"/", "filter"}, hint{"s", "sort"}, hint{"r", "reverse"})
	}
	return append(list, pause, hint{"i", "interval"})
}
