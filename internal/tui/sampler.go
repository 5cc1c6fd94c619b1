package tui

import (
	"cmp"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/sched"
)

// Sampler takes pictures of a source. It is for one goroutine at a time.
type Sampler struct {
	source Source
	opt    SamplerOptions

	totals  track[sched.Totals]
	latency track[sched.Latency]
	sites   track[[]sched.Site]
	waits   track[[]sched.Wait]
	places  track[[]sched.Place]

	growth       growth
	live, events []float64 // trends
	trendAt      int64
	took         int64 // when the last picture was taken; 0 when none was
}

// SamplerOptions says what a Sampler needs to know beside the source.
type SamplerOptions struct {
	Clock  func() int64  // what time it is, in nanoseconds since the Unix epoch
	Health func() Health // of the observation
	// Books reads what the kernel accounts of the process; false if it cannot be read. nil if there is no process.
	Books func() (event.Usage, bool)
	// Window is the shortest time that differences are told of. A picture that is taken sooner after another one tells
	// of the same time as that one, and of what came since.
	Window time.Duration
	// CatchUp, unless nil, waits for events that have not been read, at most for a limit. It is called before processor time is
	// divided among goroutines, which depends on all events until then: unless the last picture is younger than Window.
	CatchUp func(limit time.Duration)
}

// catchUpLimit is how long CatchUp may take. It is half of the time since the last picture if that is less.
const catchUpLimit = 2 * time.Second

// NewSampler returns a sampler. The observation counts from now on.
func NewSampler(source Source, opt SamplerOptions) *Sampler {
	s := &Sampler{source: source, opt: opt}
	s.growth.began = opt.Clock()
	return s
}

// Window changes SamplerOptions.Window.
func (s *Sampler) Window(d time.Duration) { s.opt.Window = d }

// trendLength is how many values a trend has at most.
const trendLength = 120

// Take takes a picture.
func (s *Sampler) Take(q Query) *Picture {
	now := s.opt.Clock()
	if since := time.Duration(now - s.took); s.took != 0 && s.opt.CatchUp != nil && since >= s.opt.Window {
		s.opt.CatchUp(min(since/2, catchUpLimit))
	}
	s.took = s.account()
	p := &Picture{Query: q, Totals: s.source.Totals(), Runtime: s.source.Runtime(), Latency: s.source.Latency(), Health: s.opt.Health()}
	p.Now = max(p.Totals.Now, s.growth.began)
	p.Elapsed = time.Duration(p.Now - s.growth.began)

	totals, since := s.totals.earlier(p.Totals, p.Now, s.opt.Window)
	if since != 0 {
		p.Interval = time.Duration(p.Now - since)
	}
	p.TotalsDelta = p.Totals.Sub(&totals)
	latency, _ := s.latency.earlier(p.Latency, p.Now, s.opt.Window)
	p.LatencyDelta = p.Latency.Sub(&latency)
	s.takeSites(p)
	s.takeTrends(p)
	s.takeDetail(p)
	return p
}

// account brings the source up to date, and returns the time of that.
func (s *Sampler) account() int64 {
	var books event.Usage
	read := false
	if s.opt.Books != nil {
		books, read = s.opt.Books()
	}
	now := s.opt.Clock()
	s.source.Advance(now) // what has happened until the books were read counts in them
	if read {
		s.source.Account(books)
	}
	return now
}

func (s *Sampler) takeSites(p *Picture) {
	sites := s.source.Sites()
	earlier, _ := s.sites.earlier(sites, p.Now, s.opt.Window)
	s.growth.look(p.Now, &p.Totals, sites)
	p.Growth = s.growth.of(everything, p.Totals.Live)
	p.Sites = make([]SiteRow, len(sites))
	for i, d := range sched.SubSites(sites, earlier) {
		p.Sites[i] = SiteRow{Site: sites[i], Delta: d.Flow, Growth: s.growth.of(d.ID, d.Live)}
	}
}

// newEvents is how many events happened in the interval: not the goroutines that were found at the beginning.
func (p *Picture) newEvents() uint64 {
	return p.TotalsDelta.Events - min(p.TotalsDelta.Events, p.TotalsDelta.Kinds[event.GoStatus])
}

// perSecond is a count of the interval by second.
func (p *Picture) perSecond(count uint64) float64 { return sched.Rate(count, p.Interval) }

func (s *Sampler) takeTrends(p *Picture) {
	if p.Interval > 0 && time.Duration(p.Now-s.trendAt) >= s.opt.Window {
		add := func(values []float64, v float64) []float64 {
			values = append(values, v)
			return values[max(len(values)-trendLength, 0):]
		}
		s.live, s.events = add(s.live, float64(p.Totals.Live)), add(s.events, p.perSecond(p.newEvents()))
		s.trendAt = p.Now
	}
	p.LiveTrend, p.EventTrend = slices.Clone(s.live), slices.Clone(s.events)
}

// fewPlaces is how many places do not take long to copy.
const fewPlaces = 1000

func (s *Sampler) takeDetail(p *Picture) {
	q := &p.Query
	asked := q.About == AboutPlaces || q.About == AboutSummary || q.About == AboutGoroutines && q.Scope.Kind == OfPlace
	// When there are few, they are looked at all the time, so that there is something to compare with when they are asked for.
	if asked || len(s.places.last) <= fewPlaces {
		p.Detail.Places = s.takePlaces(p.Now, q.Module)
	}
	var waits map[string]endedWaits
	if q.About == AboutGroups || q.About == AboutSummary || len(s.places.last) <= fewPlaces {
		waits = s.takeWaits(p.Now)
	}
	switch q.About {
	case AboutGroups, AboutSummary:
		p.Detail.Groups = s.takeGroups(p, waits)
	case AboutGoroutines:
		selected := selection{query: q}
		match, places := newMatcher(q.Filter), newPlaces(q.Module)
		s.each(q.System, func(g *sched.Goroutine) {
			if q.Scope.has(g, places) && match.goroutine(g) {
				selected.add(g)
			}
		})
		selected.shorten()
		p.Detail.Goroutines, p.Detail.Matched = selected.list, selected.matched
	case AboutOne:
		p.Detail.One = s.takeOne(q.ID)
	}
}

// each looks at all live goroutines. The source goes on meanwhile.
func (s *Sampler) each(system bool, see func(*sched.Goroutine)) {
	s.source.Goroutines(sched.Filter{System: system, Match: func(g *sched.Goroutine) bool {
		see(g)
		return false
	}}, sched.ByID, 1)
}

// takePlaces returns the waits by line, those with the most time first.
func (s *Sampler) takePlaces(now int64, module string) []PlaceRow {
	all := s.source.Contention(0)
	earlier, since := s.places.earlier(all, now, s.opt.Window)
	if since == 0 {
		since = s.growth.began
	}
	at, lines := map[At]int{}, newPlaces(module)
	var rows []PlaceRow
	for i, delta := range sched.SubPlaces(all, earlier) {
		p := &all[i]
		key := At{lines.line(p.Stack), p.Other, p.Reason}
		n, known := at[key]
		if !known { // the first one has the most time
			n = len(rows)
			at[key] = n
			rows = append(rows, PlaceRow{At: key, Stack: p.Stack, Interval: time.Duration(now - since)})
		}
		row := &rows[n]
		row.Stacks++
		row.Count, row.Now, row.Max = row.Count+p.Count, row.Now+p.Now, max(row.Max, p.Max)
		row.Done, row.Time = row.Done.Add(p.Time), row.Time.Add(p.Time).Add(p.NowTime)
		row.CountIn, row.TimeIn = row.CountIn+delta.Count, row.TimeIn.Add(delta.Time)
	}
	return rows
}

// takeGroups counts goroutines by state and reason, those with the most goroutines first.
func (s *Sampler) takeGroups(p *Picture, waits map[string]endedWaits) []GroupRow {
	type kind struct {
		state  event.State
		reason string
	}
	groups := map[kind]*GroupRow{}
	s.each(p.Query.System, func(g *sched.Goroutine) {
		k := kind{state: g.State}
		if g.State == event.StateWaiting {
			k.reason = g.Reason
		}
		row := groups[k]
		if row == nil {
			row = &GroupRow{State: k.state, Reason: k.reason}
			groups[k] = row
		}
		row.Count++
		d := g.InState(p.Now)
		if d >= row.Oldest {
			row.Oldest, row.OldestInDoubt = d, g.Uncertain
		}
		if g.Uncertain {
			row.Uncertain++
			return
		}
		row.Time = row.Time.Add(sched.NanosOf(d))
	})
	rows := make([]GroupRow, 0, len(groups))
	for _, row := range groups {
		if w, ok := waits[row.Reason]; ok && row.State == event.StateWaiting {
			row.Waits, row.MeanWait = w.perSecond, w.mean
		}
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(a, b GroupRow) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.State, b.State), cmp.Compare(a.Reason, b.Reason))
	})
	return rows
}

// endedWaits is what became of the waits for a reason in an interval.
type endedWaits struct {
	perSecond float64
	mean      time.Duration
}

// takeWaits returns the waits that have ended, by reason.
func (s *Sampler) takeWaits(now int64) map[string]endedWaits {
	waits := s.source.Waits()
	earlier, since := s.waits.earlier(waits, now, s.opt.Window)
	if since == 0 {
		since = s.growth.began
	}
	type sum struct {
		count uint64
		time  sched.Nanos
	}
	add := func(to map[string]sum, list []sched.Wait) map[string]sum {
		for _, w := range list {
			old := to[w.Reason]
			to[w.Reason] = sum{old.count + w.Count, old.time.Add(w.Time)}
		}
		return to
	}
	before := add(map[string]sum{}, earlier)
	ended := map[string]endedWaits{}
	for reason, w := range add(map[string]sum{}, waits) {
		old := before[reason]
		n := w.count - min(w.count, old.count)
		ended[reason] = endedWaits{sched.Rate(n, time.Duration(now-since)), w.time.Sub(old.time).Per(n)}
	}
	return ended
}

// historyShown is how many of its last events one goroutine is shown with.
const historyShown = 200

// maxCreators is how many creators of a goroutine are looked for.
const maxCreators = 8

func (s *Sampler) takeOne(id uint64) One {
	one := One{History: s.source.History(id, historyShown)}
	one.HistoryHolds, _ = s.source.HistorySize()
	one.Goroutine, one.Alive = s.known(id, one.History)
	one.ID = id
	for next := one.Parent; next != 0 && len(one.Creators) < maxCreators; {
		parent, origin, ok := s.source.Creator(next)
		if !ok {
			g, _ := s.known(next, nil)
			parent, origin = g.Parent, g.Origin
		}
		one.Creators = append(one.Creators, Creator{next, origin})
		if next <= parent { // a creator is older: its ID is smaller
			break
		}
		next = parent
	}
	if one.Waker != 0 {
		g, _ := s.known(one.Waker, nil)
		one.WakerOrigin = g.Origin
	}
	return one
}

// known returns what is known of a goroutine. Of one that has ended that is its creation, while its event is kept.
func (s *Sampler) known(id uint64, history []event.Event) (g sched.Goroutine, alive bool) {
	if g, alive = s.source.Goroutine(id); alive {
		return g, true
	}
	if history == nil {
		history = s.source.History(id, historyShown)
	}
	g.ID = id
	for i := range history {
		switch e := &history[i]; e.Kind {
		case event.GoCreate:
			g.Created, g.Seen, g.Parent, g.Origin, g.CreationStack = e.Time, e.Time, e.Parent, e.Origin, e.Stack
			return g, false
		case event.GoStatus:
			g.Seen, g.Parent, g.Origin = e.Time, e.Parent, e.Origin
			return g, false
		}
	}
	g.Parent, g.Origin, _ = s.source.Creator(id)
	return g, false
}
