package tui

import "fmt"

// pager is lines of text that are scrolled.
type pager struct{ top int }

// press scrolls; there are n lines, h of them on the screen.
func (p *pager) press(key string, n, h int) bool {
	to := p.top
	switch key {
	case "up", "k":
		to--
	case "down", "j":
		to++
	case "pgup", "ctrl+b":
		to -= h
	case "pgdown", "ctrl+f":
		to += h
	case "home", "g":
		to = 0
	case "end", "G":
		to = n
	default:
		return false
	}
	p.top = max(min(to, n-h), 0)
	return true
}

// show returns the lines that are on a screen of h lines.
func (p *pager) show(lines []string, h int) []string {
	top := max(min(p.top, len(lines)-h), 0)
	return lines[top:min(top+h, len(lines))]
}

// status tells which lines are shown, when not all are.
func (p *pager) status(n, h int) string {
	if n <= h {
		return ""
	}
	top := max(min(p.top, n-h), 0)
	return fmt.Sprintf("lines %d-%d of %d", top+1, min(top+h, n), n)
}
