package tui

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/place"
	"github.com/loupe-go/loupe/sched"
)

// siteLine is a row of the view by creation site.
type siteLine struct {
	SiteRow
	interval time.Duration
}

// sitesPage shows goroutines by the go statement that made them.
type sitesPage struct{ sheet sheet[siteLine] }

func newSites(syscalls bool) *sitesPage {
	return &sitesPage{sheet[siteLine]{columns: siteColumns(syscalls), key: func(s *siteLine) string { return strconv.Itoa(s.ID) }}}
}

// siteColumns are the columns; that of system calls only when they are observed.
func siteColumns(syscalls bool) []column[siteLine] {
	states := func(title, about string, t tone, rank int, of func(*sched.States) uint64) column[siteLine] {
		return column[siteLine]{title: title, about: about, min: 3, right: true, rank: rank,
			cell:  func(s *siteLine) []piece { return counter(of(&s.States), t) },
			order: func(a, b *siteLine) int { return cmp.Compare(of(&b.States), of(&a.States)) }}
	}
	columns := []column[siteLine]{
		{title: "LIVE", about: "goroutines that are alive", min: 5, right: true,
			cell:  func(s *siteLine) []piece { return cell(strong, number(s.Live)) },
			order: func(a, b *siteLine) int { return cmp.Compare(b.Live, a.Live) }},
		{title: "GROW/MIN", about: "growth in the last minute", min: 8, right: true, rank: 2,
			cell:  func(s *siteLine) []piece { return []piece{growthPiece(s.Growth, s.Live)} },
			order: func(a, b *siteLine) int { return cmp.Compare(b.Growth.PerMinute, a.Growth.PerMinute) }},
		{title: "NEW/S", about: "created per second", min: 5, right: true, rank: 3,
			cell:  func(s *siteLine) []piece { return pace(s.Delta.Created, s.interval) },
			order: func(a, b *siteLine) int { return cmp.Compare(b.Delta.Created, a.Delta.Created) }},
		{title: "END/S", about: "ended per second", min: 5, right: true, rank: 4,
			cell:  func(s *siteLine) []piece { return pace(s.Delta.Ended, s.interval) },
			order: func(a, b *siteLine) int { return cmp.Compare(b.Delta.Ended, a.Delta.Ended) }},
		states("RUN", "running now", good, 8, func(s *sched.States) uint64 { return s.Running }),
		states("READY", "runnable: waiting for a processor", warn, 6, func(s *sched.States) uint64 { return s.Runnable }),
		states("BLOCK", "blocked", plain, 9, func(s *sched.States) uint64 { return s.Waiting }),
	}
	if syscalls {
		columns = append(columns, states("SYSC", "in system calls", blue, 10, func(s *sched.States) uint64 { return s.Syscall }))
	}
	return append(columns,
		column[siteLine]{title: "CPU", about: "processor time used in Go code, C code and system calls, in percent of one processor", min: 5, right: true, rank: 5,
			cell:  func(s *siteLine) []piece { return processorShare(s) },
			order: func(a, b *siteLine) int { return b.Delta.CPU.Cmp(a.Delta.CPU) }},
		column[siteLine]{title: "TIME", about: "use of time: █ running ▓ ready ▒ in system calls ░ blocked", min: 10, rank: 11,
			cell: func(s *siteLine) []piece { return shares(s.Delta.Done, 10) }},
		column[siteLine]{title: "FUNCTION", about: "function that they run", min: 16, share: 3, want: 34,
			cell: func(s *siteLine) []piece { return cell(name, siteFunc(s.Origin, s.Other)) }},
		column[siteLine]{title: "STARTED BY", about: "go statement that created them", min: 18, share: 2, want: 30, rank: 7,
			cell: func(s *siteLine) []piece { return cell(plain, startedBy(s.Origin)) }},
	)
}

// counter is a cell with a count; zero does not stand out.
func counter(n uint64, t tone) []piece {
	if n == 0 {
		return cell(dim, "0")
	}
	return cell(t, number(n))
}

// pace is a cell with a rate; "…" when there is none yet.
func pace(n uint64, interval time.Duration) []piece {
	switch {
	case interval <= 0:
		return cell(dim, "…")
	case n == 0:
		return cell(dim, "0")
	}
	return cell(plain, english.Rate(sched.Rate(n, interval)))
}

func processorShare(s *siteLine) []piece {
	if s.interval <= 0 {
		return cell(dim, "…")
	}
	text := percent(s.Delta.CPU.Seconds(), s.interval.Seconds())
	if text == "0%" {
		return cell(dim, text)
	}
	return cell(plain, text)
}

// shares draws how time was divided among the states, in n columns.
func shares(t sched.Times, n int) []piece {
	whole := t.Sum().Seconds()
	if whole <= 0 {
		return nil
	}
	var pieces []piece
	used, until := 0, 0.0
	for _, part := range []struct {
		time sched.Nanos
		mark string
		tone tone
	}{{t.Running, "█", good}, {t.Runnable, "▓", warn}, {t.Syscall, "▒", blue}, {t.Blocked, "░", dim}, {t.Uncertain, "?", bad}} {
		until += part.time.Seconds()
		end := int(until/whole*float64(n) + 0.5)
		if end > used {
			pieces = append(pieces, piece{strings.Repeat(part.mark, end-used), part.tone})
			used = end
		}
	}
	return pieces
}

// goWrapper is what the compiler calls the function that it makes of a go statement with arguments.
const goWrapper = ".gowrap"

// siteFunc names what goroutines of an origin run.
func siteFunc(o *event.Origin, other bool) string {
	switch {
	case other:
		return "(other functions)"
	case o == nil || o.Start.IsZero() && o.CreatedBy.IsZero():
		return "(unknown)"
	case o.Start.IsZero():
		return "go in " + shortFunc(o.CreatedBy)
	}
	if i := strings.LastIndex(o.Start.Func, goWrapper); i > 0 {
		return "go in " + safe(place.ShortFunc(o.Start.Func[:i]))
	}
	return shortFunc(o.Start)
}

// startedBy names the go statement of an origin.
func startedBy(o *event.Origin) string {
	if o == nil || o.CreatedBy.IsZero() {
		return "(the runtime)"
	}
	return spot(o.CreatedBy)
}

func (s *sitesPage) name(*Model) string { return "sites" }
func (s *sitesPage) query(q *Query)     { q.About = AboutSites }

func (s *sitesPage) refresh(m *Model) {
	if m.picture == nil {
		return
	}
	var rows []siteLine
	for _, r := range m.picture.Sites {
		if r.Live == 0 && r.Delta.Created == 0 && r.Delta.Ended == 0 || m.hideSystem && r.Origin != nil && r.Origin.System {
			continue
		}
		rows = append(rows, siteLine{r, m.picture.Interval})
	}
	s.sheet.fill(rows, func(match *matcher, r *siteLine) bool {
		return match.origin(r.Origin) || match.words(siteFunc(r.Origin, r.Other))
	})
}

func (s *sitesPage) draw(m *Model, w, h int) []string { return s.sheet.draw(m.theme, w, h) }
func (s *sitesPage) status(m *Model) string           { return s.sheet.status(m.bodyHeight(), len(s.sheet.rows)) }
func (s *sitesPage) filtering() *string               { return &s.sheet.filter }
func (s *sitesPage) keys() []hint                     { return []hint{{"enter", "goroutines"}} }

func (s *sitesPage) press(m *Model, key string) outcome {
	row := s.sheet.current()
	if key == "enter" && row != nil {
		return outcome{open: newGoroutines(Scope{Kind: OfSite, Site: row.ID}, siteFunc(row.Origin, row.Other), nil)}
	}
	s.sheet.press(key, m.bodyHeight())
	return outcome{}
}
