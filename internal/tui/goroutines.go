package tui

import (
	"slices"
	"strconv"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/place"
	"github.com/loupe-go/loupe/sched"
)

// listLimit is how many goroutines a list has at most: the first in its order. How many there are is told.
const listLimit = 1000

// goroutineLine is a row of a list of goroutines.
type goroutineLine struct {
	sched.Goroutine
	inState time.Duration
	module  string
}

// goroutinesPage lists goroutines: all, or those of a site, a state or a place.
type goroutinesPage struct {
	sheet sheet[goroutineLine]
	scope Scope
	title string
	place *PlaceRow // whose stack stands above the list; nil for none

	matched int
	ready   bool // the list has come
}

func newGoroutines(scope Scope, title string, place *PlaceRow) *goroutinesPage {
	p := &goroutinesPage{scope: scope, title: title, place: place, sheet: sheet[goroutineLine]{
		columns: goroutineColumns(), key: func(g *goroutineLine) string { return strconv.FormatUint(g.ID, 10) },
	}}
	p.sheet.sorted = slices.IndexFunc(p.sheet.columns, func(c column[goroutineLine]) bool { return c.title == goroutineOrders[0].column })
	return p
}

func goroutineColumns() []column[goroutineLine] {
	columns := []column[goroutineLine]{
		{title: "ID", about: "goroutine ID", min: 7, right: true,
			cell: func(g *goroutineLine) []piece { return cell(strong, strconv.FormatUint(g.ID, 10)) }},
		{title: "STATE", about: "running, runnable (waits for a processor), waiting (blocked), syscall", min: 8, rank: 6,
			cell: func(g *goroutineLine) []piece {
				if g.Uncertain {
					return []piece{{stateWord(g.State), stateTone(g.State)}, {"?", bad}}
				}
				return cell(stateTone(g.State), stateWord(g.State))
			}},
		{title: "REASON", about: "what the goroutine waits for, or why it was stopped", min: 12, rank: 3,
			cell: func(g *goroutineLine) []piece { return reasonOf(g) }},
		{title: "SINCE", about: "time in the current state", min: 6, right: true,
			cell: func(g *goroutineLine) []piece { return cell(strong, span(g.inState)) }},
		{title: "RUN TIME", about: "running time since the start of the observation", min: 8, right: true, rank: 6,
			cell: func(g *goroutineLine) []piece { return lasted(g.Running) }},
		{title: "READY", about: "total time it waited for a processor", min: 6, right: true, rank: 8,
			cell: func(g *goroutineLine) []piece { return lasted(g.Runnable) }},
		{title: "BLOCKED", about: "total time it was blocked", min: 7, right: true, rank: 9,
			cell: func(g *goroutineLine) []piece { return lasted(g.Blocked) }},
		{title: "BLOCKS", about: "number of waits", min: 6, right: true, rank: 7,
			cell: func(g *goroutineLine) []piece { return counter(g.Blocks, plain) }},
		{title: "WHERE", about: "function of the program at its last event", min: 14, share: 3, want: 34,
			cell: func(g *goroutineLine) []piece { return cell(name, whereIs(g)) }},
		{title: "FUNCTION", about: "function that it started with", min: 16, share: 2, want: 26, rank: 7,
			cell: func(g *goroutineLine) []piece { return cell(plain, siteFunc(g.Origin, false)) }},
	}
	for i := range columns {
		for _, o := range goroutineOrders {
			if o.column == columns[i].title {
				columns[i].order = func(a, b *goroutineLine) int { return o.compare(&a.Goroutine, &b.Goroutine) }
			}
		}
	}
	return columns
}

// reasonOf is why a goroutine does not run; without a reason its state, since that column may be left out.
func reasonOf(g *goroutineLine) []piece {
	const most = 26
	switch {
	case g.Reason == "":
		return cell(stateTone(g.State), "("+stateWord(g.State)+")")
	case g.State != event.StateWaiting:
		return cell(stateTone(g.State), clip(safe(g.Reason), most))
	}
	return cell(plain, clip(safe(g.Reason), most))
}

func lasted(d time.Duration) []piece {
	if d <= 0 {
		return cell(dim, "0")
	}
	return cell(plain, span(d))
}

// whereIs names where a goroutine was seen last; before it was, where it will begin.
func whereIs(g *goroutineLine) string {
	switch {
	case g.Stack != nil:
		return spot(place.OfEvent(g.Stack, g.module))
	case g.Origin != nil && !g.Origin.Start.IsZero():
		return siteFunc(g.Origin, false)
	}
	return "(not recorded)"
}

func (p *goroutinesPage) name(*Model) string {
	if p.title == "" {
		return "goroutines"
	}
	return p.title
}

func (p *goroutinesPage) query(q *Query) {
	q.About, q.Scope, q.Filter, q.Limit, q.Reverse = AboutGoroutines, p.scope, p.sheet.filter, listLimit, p.sheet.reverse
	q.Order = slices.IndexFunc(goroutineOrders, func(o goroutineOrder) bool { return o.column == p.sheet.columns[p.sheet.sorted].title })
}

func (p *goroutinesPage) refresh(m *Model) {
	d, ok := m.detail()
	if !ok {
		return
	}
	rows := make([]goroutineLine, len(d.Goroutines))
	for i, g := range d.Goroutines {
		rows[i] = goroutineLine{g, g.InState(m.picture.Now), m.target.Module}
	}
	p.matched, p.ready = d.Matched, true
	p.sheet.fill(rows, func(match *matcher, g *goroutineLine) bool { return match.goroutine(&g.Goroutine) })
	for i := range d.Places {
		if p.place != nil && d.Places[i].At == p.place.At {
			p.place = &d.Places[i]
		}
	}
}

// above is what stands above the list: of a place its stack and its numbers.
func (p *goroutinesPage) above(m *Model, w, h int) []string {
	if p.place == nil || h < 8 {
		return nil
	}
	th, row := m.theme, p.place
	facts := []segment{seg(0, piece{" " + safe(row.At.Reason), strong}), seg(0, counted(plural(row.Now, "goroutine"), "now")...)}
	if row.Count > 0 {
		facts = append(facts, seg(1, counted(plural(row.Count, "wait"), "over")...),
			seg(2, counted(span(row.Done.Per(row.Count)), "on average")...), seg(2, counted(span(row.Max), "at most")...))
	}
	lines := []string{th.line(w, gap, facts...)}
	if row.Stack == nil {
		return append(lines, "")
	}
	room := max(h/2-2, 1)
	frames := row.Stack.Frames
	for _, f := range frames[:min(room, len(frames))] {
		lines = append(lines, frameLine(th, f, w))
	}
	if rest := len(frames) - room; rest > 0 {
		lines = append(lines, th.paint(dim, "   and "+plural(uint64(rest), "more frame")))
	}
	if row.Stacks > 1 {
		lines = append(lines, th.paint(dim, "   and by "+plural(uint64(row.Stacks-1), "other stack")+" with less wait time"))
	}
	return append(lines, "")
}

func (p *goroutinesPage) draw(m *Model, w, h int) []string {
	lines := p.above(m, w, h)
	lines = append(lines, p.sheet.draw(m.theme, w, h-len(lines))...)
	if len(p.sheet.rows) == 0 {
		text := "  none"
		if !p.ready {
			text = "  …"
		}
		lines = append(lines, m.theme.paint(dim, text))
	}
	return lines
}

// listHeight is how many lines the list has.
func (p *goroutinesPage) listHeight(m *Model) int {
	return m.bodyHeight() - len(p.above(m, m.width, m.bodyHeight()))
}

func (p *goroutinesPage) status(m *Model) string { return p.sheet.status(p.listHeight(m), p.matched) }
func (p *goroutinesPage) filtering() *string     { return &p.sheet.filter }
func (p *goroutinesPage) keys() []hint           { return []hint{{"enter", "details"}} }

func (p *goroutinesPage) press(m *Model, key string) outcome {
	if g := p.sheet.current(); key == "enter" && g != nil {
		return outcome{open: newOne(g.ID)}
	}
	p.sheet.press(key, p.listHeight(m))
	// Another order may have other goroutines at its top than those that are here.
	return outcome{want: key == "s" || key == "r"}
}
