package tui

import (
	"cmp"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/live"
)

// groupLine is a row of the view by state.
type groupLine struct {
	live.GroupRow
	all uint64 // goroutines of all rows
}

// groupsPage shows goroutines by state and wait reason.
type groupsPage struct{ sheet sheet[groupLine] }

func newGroups() *groupsPage {
	key := func(g *groupLine) string { return string(g.State) + "\x00" + g.Reason }
	return &groupsPage{sheet[groupLine]{columns: groupColumns(), key: key}}
}

func groupColumns() []column[groupLine] {
	known := func(g *groupLine) bool { return g.Count > g.Uncertain }
	return []column[groupLine]{
		{title: "COUNT", about: "goroutines in this state", min: 6, right: true,
			cell:  func(g *groupLine) []piece { return cell(strong, number(g.Count)) },
			order: func(a, b *groupLine) int { return cmp.Compare(b.Count, a.Count) }},
		{title: "STATE", about: "running, runnable (waits for a processor), waiting (blocked), syscall", min: 8, rank: 2,
			cell: func(g *groupLine) []piece { return cell(stateTone(g.State), stateWord(g.State)) }},
		{title: "REASON", about: "wait reason of the runtime", min: 12, share: 2, want: 24,
			cell: func(g *groupLine) []piece {
				if g.Reason == "" {
					return cell(stateTone(g.State), "("+stateWord(g.State)+")")
				}
				return cell(strong, safe(g.Reason))
			}},
		{title: "OLDEST", about: "longest time in the state", min: 7, right: true, rank: 1,
			cell:  func(g *groupLine) []piece { return oldest(g) },
			order: func(a, b *groupLine) int { return cmp.Compare(b.Oldest, a.Oldest) }},
		{title: "MEAN", about: "average time in the state", min: 6, right: true, rank: 5,
			cell: func(g *groupLine) []piece { return age(g.Time.Per(g.Count-g.Uncertain), known(g)) }},
		{title: "WAITS/S", about: "waits for this reason that ended, per second", min: 7, right: true, rank: 3,
			cell: func(g *groupLine) []piece {
				if g.State != event.StateWaiting {
					return nil
				}
				return cell(plain, english.Rate(g.Waits))
			},
			order: func(a, b *groupLine) int { return cmp.Compare(b.Waits, a.Waits) }},
		{title: "LASTED", about: "average length of these waits", min: 7, right: true, rank: 6,
			cell: func(g *groupLine) []piece {
				if g.MeanWait == 0 {
					return nil
				}
				return cell(plain, span(g.MeanWait))
			}},
		{title: "SHARE", about: "share of all goroutines", min: 5, right: true, rank: 4,
			cell: func(g *groupLine) []piece { return cell(plain, percent(float64(g.Count), float64(g.all))) }},
		{title: "", min: 10, share: 1, rank: 8,
			cell: func(g *groupLine) []piece { return cell(stateTone(g.State), bar(float64(g.Count), float64(g.all), 20)) }},
	}
}

func oldest(g *groupLine) []piece {
	if g.OldestInDoubt {
		return []piece{{span(g.Oldest), dim}, {"?", bad}}
	}
	return cell(plain, span(g.Oldest))
}

// age is a cell with how long something has lasted.
func age(d time.Duration, known bool) []piece {
	if !known {
		return cell(dim, "?")
	}
	return cell(plain, span(d))
}

// stateTone is the colour of a state.
func stateTone(s event.State) tone {
	switch s {
	case event.StateRunning:
		return good
	case event.StateRunnable:
		return warn
	case event.StateSyscall:
		return blue
	case event.StateLeaked:
		return bad
	case "":
		return dim
	}
	return plain
}

func stateWord(s event.State) string {
	if s == "" {
		return "unknown"
	}
	return safe(string(s))
}

func (g *groupsPage) name(*Model) string  { return "states" }
func (g *groupsPage) query(q *live.Query) { q.About = live.AboutGroups }

func (g *groupsPage) refresh(m *Model) {
	d, ok := m.detail()
	if !ok {
		return
	}
	all := uint64(0)
	for _, r := range d.Groups {
		all += r.Count
	}
	rows := make([]groupLine, len(d.Groups))
	for i, r := range d.Groups {
		rows[i] = groupLine{r, all}
	}
	g.sheet.fill(rows, func(match *live.Matcher, r *groupLine) bool { return match.Words(stateWord(r.State), r.Reason) })
}

func (g *groupsPage) draw(m *Model, w, h int) []string { return g.sheet.draw(m.theme, w, h) }
func (g *groupsPage) status(m *Model) string {
	return g.sheet.status(m.bodyHeight(), len(g.sheet.rows))
}
func (g *groupsPage) filtering() *string { return &g.sheet.filter }
func (g *groupsPage) keys() []hint       { return []hint{{"enter", "goroutines"}} }

func (g *groupsPage) press(m *Model, key string) outcome {
	row := g.sheet.current()
	if key == "enter" && row != nil {
		scope := live.Scope{Kind: live.OfGroup, State: row.State}
		title := stateWord(row.State)
		if row.State == event.StateWaiting {
			scope.Reason = row.Reason
			title = safe(row.Reason)
		}
		return outcome{open: newGoroutines(scope, title, nil)}
	}
	g.sheet.press(key, m.bodyHeight())
	return outcome{}
}
