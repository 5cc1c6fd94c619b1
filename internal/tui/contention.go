package tui

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/live"
)

// contentionPage shows the places where goroutines wait, and how long.
type contentionPage struct {
	sheet sheet[live.PlaceRow]
	all   bool // waits for anything; else only those that get in each other's way
	other int  // places that are not shown for that
}

func newContention() *contentionPage {
	key := func(p *live.PlaceRow) string {
		f := &p.At.Frame
		return strings.Join([]string{p.At.Reason, f.Func, f.File, strconv.Itoa(f.Line)}, "\x00")
	}
	return &contentionPage{sheet: sheet[live.PlaceRow]{columns: contentionColumns(), key: key}}
}

func contentionColumns() []column[live.PlaceRow] {
	return []column[live.PlaceRow]{
		{title: "WAITED", about: "total time that goroutines waited there in the last interval", min: 7, right: true,
			cell:  func(p *live.PlaceRow) []piece { return cell(strong, spent(p.TimeIn)) },
			order: func(a, b *live.PlaceRow) int { return cmp.Or(b.TimeIn.Cmp(a.TimeIn), b.Time.Cmp(a.Time)) }},
		{title: "TOTAL", about: "total since the start of the observation", min: 7, right: true, rank: 6,
			cell:  func(p *live.PlaceRow) []piece { return cell(plain, spent(p.Time)) },
			order: func(a, b *live.PlaceRow) int { return b.Time.Cmp(a.Time) }},
		{title: "WAITS/S", about: "waits that ended, per second", min: 7, right: true, rank: 3,
			cell:  func(p *live.PlaceRow) []piece { return pace(p.CountIn, p.Interval) },
			order: func(a, b *live.PlaceRow) int { return cmp.Compare(b.CountIn, a.CountIn) }},
		{title: "MEAN", about: "average length of a wait since the start of the observation", min: 6, right: true, rank: 5,
			cell: func(p *live.PlaceRow) []piece { return age(p.Done.Per(p.Count), p.Count > 0) }},
		{title: "MAX", about: "longest wait since the start of the observation", min: 6, right: true, rank: 7,
			cell:  func(p *live.PlaceRow) []piece { return age(p.Max, p.Count > 0) },
			order: func(a, b *live.PlaceRow) int { return cmp.Compare(b.Max, a.Max) }},
		{title: "NOW", about: "goroutines that wait there now", min: 5, right: true, rank: 1,
			cell:  func(p *live.PlaceRow) []piece { return counter(p.Now, warn) },
			order: func(a, b *live.PlaceRow) int { return cmp.Compare(b.Now, a.Now) }},
		{title: "REASON", about: "what they wait for", min: 11, share: 1, want: 17, rank: 2,
			cell: func(p *live.PlaceRow) []piece { return cell(plain, safe(p.At.Reason)) }},
		{title: "WHERE", about: "innermost function that is not part of the Go distribution", min: 14, share: 3, want: 36,
			cell: func(p *live.PlaceRow) []piece { return cell(name, where(p)) }},
	}
}

// where names a place.
func where(p *live.PlaceRow) string {
	switch {
	case p.At.Other:
		return "(other places)"
	case p.Stack == nil:
		return "(stack not recorded)"
	}
	return spot(p.At.Frame)
}

func (c *contentionPage) name(*Model) string  { return "contention" }
func (c *contentionPage) query(q *live.Query) { q.About = live.AboutPlaces }

func (c *contentionPage) refresh(m *Model) {
	d, ok := m.detail()
	if !ok {
		return
	}
	var rows []live.PlaceRow
	for _, p := range d.Places {
		if c.all || gostate.Contended(p.At.Reason) {
			rows = append(rows, p)
		}
	}
	c.other = len(d.Places) - len(rows)
	c.sheet.fill(rows, func(match *live.Matcher, p *live.PlaceRow) bool {
		return match.Words(p.At.Reason) || match.Stack(p.Stack)
	})
}

func (c *contentionPage) draw(m *Model, w, h int) []string {
	if len(c.sheet.rows) > 0 || c.sheet.filter != "" {
		return c.sheet.draw(m.theme, w, h)
	}
	text := "No goroutine has waited."
	if c.other > 0 {
		text = "No goroutine has waited for a lock or to send."
	}
	return append(c.sheet.draw(m.theme, w, h-3), "", "  "+m.theme.paint(dim, text),
		m.theme.line(w, "", seg(0, piece{"  a", keycap}, piece{" shows all waits: " + plural(uint64(c.other), "place"), dim})))[:min(h, 4)]
}

func (c *contentionPage) status(m *Model) string {
	which := "locks, sends  "
	if c.all {
		which = "all waits  "
	}
	return which + c.sheet.status(m.bodyHeight(), len(c.sheet.rows))
}

func (c *contentionPage) filtering() *string { return &c.sheet.filter }

func (c *contentionPage) keys() []hint {
	if c.all {
		return []hint{{"enter", "open"}, {"a", "locks and sends"}}
	}
	return []hint{{"enter", "open"}, {"a", "all waits"}}
}

func (c *contentionPage) press(m *Model, key string) outcome {
	row := c.sheet.current()
	switch {
	case key == "a":
		c.all = !c.all
		c.sheet.move(0, 1)
		c.refresh(m)
		return outcome{}
	case key == "enter" && row != nil:
		place := *row
		title := safe(row.At.Reason)
		if row.Stack != nil {
			title = shortFunc(row.At.Frame) + ": " + title
		}
		return outcome{open: newGoroutines(live.Scope{Kind: live.OfPlace, At: row.At}, title, &place)}
	}
	c.sheet.press(key, m.bodyHeight())
	return outcome{}
}
