package tui

import (
	"slices"
	"strconv"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/place"
	"github.com/loupe-go/loupe/live"
	"github.com/loupe-go/loupe/sched"
)

// listLimit is how many goroutines a list has at most: the first in its order. How many there are is told.
const listLimit = 1000

// goroutineOrders are the orders of lists of goroutines, by the title of the column that they sort by.
var goroutineOrders = map[string]sched.Order{
	usualOrder: sched.ByOldest, "RUN TIME": sched.ByRunning, "READY": sched.ByRunnable, "BLOCKED": sched.ByBlocked, "BLOCKS": sched.ByBlocks, "ID": sched.ByID,
}

// usualOrder is the title of the column that lists of goroutines are sorted by at first.
const usualOrder = "SINCE"

// goroutineLine is a row of a list of goroutines.
type goroutineLine struct {
	sched.Goroutine
	inState time.Duration
	module  string
}

// goroutinesPage lists goroutines: all, or those of a site, a state or a place.
type goroutinesPage struct {
	sheet sheet[goroutineLine]
	scope live.Scope
	title string
	place *live.PlaceRow // whose stack stands above the list; nil for none

	matched int
	ready   bool // the list has come
}

func newGoroutines(scope live.Scope, title string, place *live.PlaceRow) *goroutinesPage {
	p := &goroutinesPage{scope: scope, title: title, place: place, sheet: sheet[goroutineLine]{
		columns: goroutineColumns(), key: func(g *goroutineLine) string { return strconv.FormatUint(g.ID, 10) },
	}}
	p.sheet.sorted = slices.IndexFunc(p.sheet.columns, func(c column[goroutineLine]) bool { return c.title == usualOrder })
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
		if by, sorts := goroutineOrders[columns[i].title]; sorts {
			columns[i].order = func(a, b *goroutineLine) int { return by.Compare(&a.Goroutine, &b.Goroutine) }
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

func (p *goroutinesPage) query(q *live.Query) {
	q.About, q.Scope, q.Filter, q.Limit, q.Reverse = live.AboutGoroutines, p.scope, p.sheet.filter, listLimit, p.sheet.reverse
	q.Order = goroutineOrders[p.sheet.columns[p.sheet.sorted].title]
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
	p.sheet.fill(rows, func(match *live.Matcher, g *goroutineLine) bool { return match.Goroutine(&g.Goroutine) })
	for i := range d.Places {
		if p.place != nil && d.Places[i].At == p.place.At {
			p.place = &d.Places[i]
		}
	}
}

// above returns the lines above the list: the stack and the numbers of a place, or the allocations of a site.
func (p *goroutinesPage) above(m *Model, w, h int) []string {
	if p.scope.Kind == live.OfSite && h >= 8 {
		return p.aboveSite(m, w)
	}
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

// aboveSite is what the goroutines of a site allocate, if allocations are counted.
func (p *goroutinesPage) aboveSite(m *Model, w int) []string {
	if m.picture == nil || m.picture.Allocs == nil {
		return nil
	}
	i := slices.IndexFunc(m.picture.Sites, func(s live.SiteRow) bool { return s.ID == p.scope.Site })
	if i < 0 {
		return nil
	}
	row := newSiteLine(m.picture, &m.picture.Sites[i])
	facts := []segment{seg(0, piece{" allocated ", dim}, piece{size(row.Allocs.Bytes), strong}, piece{" in ", dim}, piece{number(row.Allocs.Objects), strong}, piece{" objects", dim})}
	if row.rates {
		facts = append(facts, seg(1, piece{size(uint64(row.bytes)), strong}, piece{"/s", dim}), seg(2, counted(english.Rate(row.objects), "objects/s")...))
	}
	if row.collectorIsKnown {
		facts = append(facts, seg(4, piece{"GC by allocated bytes ", dim}, piece{percent(row.collector, 1), strong}))
	}
	if row.interval > 0 {
		facts = append(facts, seg(3, piece{"GC wait ", dim}, piece{percent(row.Delta.GCWait.Seconds(), row.interval.Seconds()), strong}),
			seg(5, piece{"GC assist ", dim}, piece{percent(row.Delta.GCAssist.Seconds(), row.interval.Seconds()), strong}))
	}
	return []string{m.theme.line(w, gap, facts...), ""}
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
