package live

import (
	"cmp"
	"slices"
	"time"

	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/sched"
)

// A State is the state of a program, of which a [Sampler] takes pictures. *sched.Machine and *Feed implement it. The methods
// are documented there.
type State interface {
	// Advance updates the state to the time now, in nanoseconds since the Unix epoch.
	Advance(now int64)

	// Account processes the current resource usage of the process.
	Account(u event.Usage)
	Totals() sched.Totals
	Runtime() sched.Runtime
	Latency() sched.Latency
	Sites() []sched.Site
	Waits() []sched.Wait
	Contention(limit int) []sched.Place
	Goroutine(id uint64) (sched.Goroutine, bool)
	Goroutines(f sched.Filter, by sched.Order, limit int) (list []sched.Goroutine, matched int)
	History(g uint64, limit int) []event.Event
	Creator(id uint64) (parent uint64, origin *event.Origin, ok bool)
	HistorySize() (capacity int, total uint64)
}

// A Sampler takes pictures of a [State]. It must not be used concurrently.
type Sampler struct {
	state State
	opt   SamplerOptions

	totals  track[sched.Totals]
	latency track[sched.Latency]
	sites   track[[]sched.Site]
	waits   track[[]sched.Wait]
	places  track[[]sched.Place]
	memory  track[*event.Memory]
	share   gcShare
	allocs  track[*allocCounts]

	growth       growth
	live, events []float64 // the trends
	trendAt      int64     // time of the last values of the trends
	lastTake     int64     // time of the last picture; 0 if there is none
}

// SamplerOptions configures a [Sampler]. Clock and Health are required.
type SamplerOptions struct {
	// Clock returns the current time, in nanoseconds since the Unix epoch.
	Clock func() int64

	// Health returns the accuracy of the observation.
	Health func() Health

	// Usage returns the current resource usage of the process. The result is false if it cannot be read. If Usage is nil, pictures
	// contain no processor time.
	Usage func() (event.Usage, bool)

	// Memory reads the memory statistics of the process. If it returns neither a reading nor an error, pictures contain the last
	// reading. If it is nil, pictures contain none.
	Memory func() (*event.Memory, error)

	// Allocs returns the allocations since the start of the observation. If it is nil, pictures contain none.
	Allocs func() (*allocs.Counts, error)

	// Window is the minimum interval that differences cover. Zero means that differences are to the previous picture. A picture
	// that is taken less than Window after the previous one is compared with the same earlier picture as the previous one.
	Window time.Duration

	// CatchUp waits for events that have happened but have not been applied yet, for at most the given time. It is called for
	// each picture except the first one and those that are taken less than Window after the previous one, before the usage is
	// read. Processor time is divided more accurately if all events are known. The limit is half of the time since the
	// previous picture, and at most 2 s. If CatchUp is nil, pictures do not wait.
	CatchUp func(limit time.Duration)
}

// catchUpLimit is the maximum duration of CatchUp.
const catchUpLimit = 2 * time.Second

// NewSampler returns a Sampler of a state. The observation starts at the current time of the clock.
func NewSampler(state State, opt SamplerOptions) *Sampler {
	s := &Sampler{state: state, opt: opt}
	s.growth.began = opt.Clock()
	return s
}

// Window changes [SamplerOptions].Window.
func (s *Sampler) Window(d time.Duration) { s.opt.Window = d }

// trendLength is the maximum number of values of a trend.
const trendLength = 120

// Take returns a picture of the current state. It calls Advance and, if the usage can be read, Account.
func (s *Sampler) Take(q Query) *Picture {
	now := s.opt.Clock()
	if since := time.Duration(now - s.lastTake); s.lastTake != 0 && s.opt.CatchUp != nil && since >= s.opt.Window {
		s.opt.CatchUp(min(since/2, catchUpLimit))
	}
	s.lastTake = s.account()
	p := &Picture{Query: q, Totals: s.state.Totals(), Runtime: s.state.Runtime(), Latency: s.state.Latency(), Health: s.opt.Health()}
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
	s.takeMemory(p)
	s.takeAllocs(p)
	s.takeTrends(p)
	s.takeDetail(p)
	return p
}

// account updates the state to the current time, and returns that time.
func (s *Sampler) account() int64 {
	var usage event.Usage
	read := false
	if s.opt.Usage != nil {
		usage, read = s.opt.Usage()
	}
	now := s.opt.Clock()
	s.state.Advance(now) // the usage includes everything until now
	if read {
		s.state.Account(usage)
	}
	return now
}

func (s *Sampler) takeSites(p *Picture) {
	sites := s.state.Sites()
	earlier, _ := s.sites.earlier(sites, p.Now, s.opt.Window)
	s.growth.record(p.Now, &p.Totals, sites)
	p.Growth = s.growth.of(allSites, p.Totals.Live)
	p.Sites = make([]SiteRow, len(sites))
	for i, d := range sched.SubSites(sites, earlier) {
		p.Sites[i] = SiteRow{Site: sites[i], Delta: d.Flow, Growth: s.growth.of(d.ID, d.Live)}
	}
}

func (s *Sampler) takeTrends(p *Picture) {
	if p.Interval > 0 && time.Duration(p.Now-s.trendAt) >= s.opt.Window {
		add := func(values []float64, v float64) []float64 {
			values = append(values, v)
			return values[max(len(values)-trendLength, 0):]
		}
		s.live, s.events = add(s.live, float64(p.Totals.Live)), add(s.events, p.PerSecond(p.NewEvents()))
		s.trendAt = p.Now
	}
	p.LiveTrend, p.EventTrend = slices.Clone(s.live), slices.Clone(s.events)
}

// fewPlaces is the maximum number of places for which every picture contains the places.
const fewPlaces = 1000

func (s *Sampler) takeDetail(p *Picture) {
	q := &p.Query
	requested := q.About == AboutPlaces || q.About == AboutSummary || q.About == AboutGoroutines && q.Scope.Kind == OfPlace
	// If there are few places, each picture contains them, so that a later query has an earlier picture to compare with.
	if requested || len(s.places.last) <= fewPlaces {
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
		match, places := NewMatcher(q.Filter), newPlaces(q.Module)
		s.each(q.System, func(g *sched.Goroutine) {
			if q.Scope.has(g, places) && match.Goroutine(g) {
				selected.add(g)
			}
		})
		selected.shorten()
		p.Detail.Goroutines, p.Detail.Matched = selected.list, selected.matched
	case AboutOne:
		p.Detail.One = s.takeOne(q.ID, q.Limit)
	}
}

// each calls fn for all live goroutines. Events can be applied in between.
func (s *Sampler) each(system bool, fn func(*sched.Goroutine)) {
	s.state.Goroutines(sched.Filter{System: system, Match: func(g *sched.Goroutine) bool {
		fn(g)
		return false
	}}, sched.ByID, 1)
}

// takePlaces returns the waits by line, sorted by Time in descending order.
func (s *Sampler) takePlaces(now int64, module string) []PlaceRow {
	all := s.state.Contention(0)
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
		if !known { // the first stack of a line has the most time
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
	slices.SortStableFunc(rows, func(a, b PlaceRow) int { return b.Time.Cmp(a.Time) })
	return rows
}

// takeGroups returns the live goroutines by state and wait reason, sorted by their number in descending order.
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

// endedWaits summarizes the waits for a reason that ended in an interval.
type endedWaits struct {
	perSecond float64
	mean      time.Duration
}

// takeWaits returns the waits that have ended since the earlier picture, by reason.
func (s *Sampler) takeWaits(now int64) map[string]endedWaits {
	waits := s.state.Waits()
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

// maxCreators is the maximum length of One.Creators.
const maxCreators = 8

func (s *Sampler) takeOne(id uint64, limit int) One {
	one := One{History: s.state.History(id, limit)}
	one.HistoryHolds, _ = s.state.HistorySize()
	one.Goroutine, one.Alive = s.goroutine(id, one.History, limit)
	one.ID = id
	for next := one.Parent; next != 0 && len(one.Creators) < maxCreators; {
		parent, origin, ok := s.state.Creator(next)
		if !ok {
			g, _ := s.goroutine(next, nil, limit)
			parent, origin = g.Parent, g.Origin
		}
		one.Creators = append(one.Creators, Creator{next, origin})
		if next <= parent { // not a creator: the ID of a creator is smaller
			break
		}
		next = parent
	}
	if one.Waker != 0 {
		g, _ := s.goroutine(one.Waker, nil, limit)
		one.WakerOrigin = g.Origin
	}
	return one
}

// goroutine returns a goroutine, and whether it is alive. For a goroutine that has ended, it returns what the history and
// Creator contain about its creation.
func (s *Sampler) goroutine(id uint64, history []event.Event, limit int) (g sched.Goroutine, alive bool) {
	if g, alive = s.state.Goroutine(id); alive {
		return g, true
	}
	if history == nil {
		history = s.state.History(id, limit)
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
	g.Parent, g.Origin, _ = s.state.Creator(id)
	return g, false
}
