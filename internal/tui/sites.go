package tui

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/place"
	"github.com/loupe-go/loupe/live"
	"github.com/loupe-go/loupe/sched"
)

// siteLine is a row of the view by creation site.
type siteLine struct {
	live.SiteRow
	interval time.Duration

	rates            bool    // the next two fields are known
	bytes, objects   float64 // allocated per second
	collector        float64 // processor time of the garbage collector that is attributed, in processors
	collectorIsKnown bool
}

// newSiteLine returns the row of a site of a picture.
func newSiteLine(p *live.Picture, r *live.SiteRow) siteLine {
	l := siteLine{SiteRow: *r, interval: p.Interval}
	if p.Allocs != nil && p.Allocs.Interval > 0 {
		l.rates = true
		l.bytes, l.objects = p.Allocs.Rate(r.AllocsDelta)
	}
	if share, ok := p.GCShareOf(r); ok && p.Totals.Processor.Procs > 0 {
		l.collector, l.collectorIsKnown = share*float64(p.Totals.Processor.Procs), true
	}
	return l
}

// sitesPage shows goroutines by the go statement that made them.
type sitesPage struct{ sheet sheet[siteLine] }

func newSites(target Target) *sitesPage {
	return &sitesPage{sheet[siteLine]{columns: siteColumns(target), key: func(s *siteLine) string { return strconv.Itoa(s.ID) }}}
}

// siteColumns returns the columns. Those of system calls and of allocations depend on what is observed.
func siteColumns(target Target) []column[siteLine] {
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
	if target.Syscalls {
		columns = append(columns, states("SYSC", "in system calls", blue, 10, func(s *sched.States) uint64 { return s.Syscall }))
	}
	columns = append(columns,
		column[siteLine]{title: "CPU", about: "processor time used in Go code, C code and system calls, in percent of one processor", min: 5, right: true, rank: 5,
			cell:  func(s *siteLine) []piece { return share(s.Delta.CPU, s.interval) },
			order: func(a, b *siteLine) int { return b.Delta.CPU.Cmp(a.Delta.CPU) }})
	if target.Allocs {
		columns = append(columns, allocColumns()...)
	}
	return append(columns,
		column[siteLine]{title: "GC ASSIST", about: "time in which they marked objects for the garbage collector, because they allocate, in percent of the interval, all together",
			min: 9, right: true, rank: 12,
			cell:  func(s *siteLine) []piece { return share(s.Delta.GCAssist, s.interval) },
			order: func(a, b *siteLine) int { return b.Delta.GCAssist.Cmp(a.Delta.GCAssist) }},
		column[siteLine]{title: "GC WAIT", about: "time that they waited for the garbage collector, to assist it or to begin or end a collection, in percent of the interval, all together",
			min: 7, right: true, rank: 12,
			cell:  func(s *siteLine) []piece { return share(s.Delta.GCWait, s.interval) },
			order: func(a, b *siteLine) int { return b.Delta.GCWait.Cmp(a.Delta.GCWait) }},
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

// allocColumns returns the columns of allocations.
func allocColumns() []column[siteLine] {
	return []column[siteLine]{
		{title: "ALLOC/S", about: "bytes allocated per second; every allocation is counted", min: 8, right: true, rank: 1,
			cell: func(s *siteLine) []piece {
				return known(s.rates, s.bytes > 0, func() string { return size(uint64(s.bytes)) })
			},
			order: func(a, b *siteLine) int { return cmp.Compare(b.bytes, a.bytes) }},
		{title: "OBJ/S", about: "objects allocated per second", min: 6, right: true, rank: 8,
			cell: func(s *siteLine) []piece {
				return known(s.rates, s.objects > 0, func() string { return english.Rate(s.objects) })
			},
			order: func(a, b *siteLine) int { return cmp.Compare(b.objects, a.objects) }},
		{title: "GC BY ALLOC", about: "processor time of the garbage collector that is attributed to them by their share of the allocated bytes, in percent of one processor. " +
			"It is not measured: objects of the same size can differ in what they cost the collector", min: 11, right: true, rank: 5,
			cell: func(s *siteLine) []piece {
				return known(s.collectorIsKnown, s.collector > 0, func() string { return percent(s.collector, 1) })
			},
			order: func(a, b *siteLine) int { return cmp.Compare(b.collector, a.collector) }},
	}
}

// known is a cell with a number; "…" if it is unknown, and dim if it is zero.
func known(ok, positive bool, text func() string) []piece {
	switch {
	case !ok:
		return cell(dim, "…")
	case !positive:
		return cell(dim, "0")
	}
	return cell(plain, text())
}

// share is a cell with a time in percent of the interval.
func share(n sched.Nanos, interval time.Duration) []piece {
	if interval <= 0 {
		return cell(dim, "…")
	}
	text := percent(n.Seconds(), interval.Seconds())
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

func (s *sitesPage) name(*Model) string  { return "sites" }
func (s *sitesPage) query(q *live.Query) { q.About = live.AboutSites }

func (s *sitesPage) refresh(m *Model) {
	if m.picture == nil {
		return
	}
	var rows []siteLine
	for _, r := range m.picture.Sites {
		if r.Live == 0 && r.Delta.Created == 0 && r.Delta.Ended == 0 && r.AllocsDelta.Objects == 0 || m.hideSystem && r.Origin != nil && r.Origin.System {
			continue
		}
		rows = append(rows, newSiteLine(m.picture, &r))
	}
	s.sheet.fill(rows, func(match *live.Matcher, r *siteLine) bool {
		return match.Origin(r.Origin) || match.Words(siteFunc(r.Origin, r.Other))
	})
}

func (s *sitesPage) draw(m *Model, w, h int) []string { return s.sheet.draw(m.theme, w, h) }
func (s *sitesPage) status(m *Model) string           { return s.sheet.status(m.bodyHeight(), len(s.sheet.rows)) }
func (s *sitesPage) filtering() *string               { return &s.sheet.filter }
func (s *sitesPage) keys() []hint                     { return []hint{{"enter", "goroutines"}} }

func (s *sitesPage) press(m *Model, key string) outcome {
	row := s.sheet.current()
	if key == "enter" && row != nil {
		return outcome{open: newGoroutines(live.Scope{Kind: live.OfSite, Site: row.ID}, siteFunc(row.Origin, row.Other), nil)}
	}
	s.sheet.press(key, m.bodyHeight())
	return outcome{}
}
