package live

import (
	"context"
	"time"

	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/memory"
	"github.com/loupe-go/loupe/sched"
)

// A MemorySource is a [Source] that can read the memory statistics of the process. *loupe.Session is one.
type MemorySource interface {
	Memory(ctx context.Context) (*event.Memory, error)
}

// An AllocSource is a [Source] that can count allocations. *loupe.Session is one, with loupe.Options.Allocs.
type AllocSource interface {
	// Allocs returns the allocations since the source began.
	Allocs() (*allocs.Counts, error)
}

// Memory is the memory statistics of a [Picture].
type Memory struct {
	// Now is the newest reading. It is nil if there is none.
	Now *event.Memory

	// Before is an earlier reading, with which Now is compared. It is nil if there is none, or if Now could not be read again.
	Before *event.Memory

	Err error // the reason why the newest reading failed; nil if it did not

	// GCShare is the share of the processor time (GOMAXPROCS multiplied by the time) that garbage collections took between the
	// last two collections that were read, from 0 to 1, without marking on Ps that had nothing else to do. It is negative if
	// it is unknown: before Go 1.20, and until a collection ends.
	GCShare float64
}

// Allocs is the allocations of a [Picture], in total and beyond the rows for sites. SiteRow has those of a site.
type Allocs struct {
	Total, TotalDelta allocs.Sums // of all goroutines and threads

	// Elsewhere is the part of Total that no row for a site includes: of threads without a goroutine, of goroutines that are not
	// observed, and of goroutines whose site is unknown.
	Elsewhere, ElsewhereDelta allocs.Sums

	Interval time.Duration // the time between the readings that the differences compare; 0 if there is only one
	Lost     uint64        // the maximum number of allocations that were not counted
}

// GCShareOf returns the part of Memory.GCShare that is attributed to a site: that of its share of the bytes that were allocated in the
// interval. It is an attribution and not a measurement: objects of the same size can differ in what they cost the
// collector. The result is false if allocations are not counted, or if GCShare is unknown.
func (p *Picture) GCShareOf(row *SiteRow) (float64, bool) {
	if p.Allocs == nil || p.Allocs.Interval <= 0 || p.Memory.GCShare < 0 {
		return 0, false
	}
	if p.Allocs.TotalDelta.Bytes == 0 {
		return 0, true
	}
	return p.Memory.GCShare * float64(row.AllocsDelta.Bytes) / float64(p.Allocs.TotalDelta.Bytes), true
}

// gcShare computes Memory.GCShare.
type gcShare struct {
	base  *event.Memory
	value float64
}

// next returns the share as of the last collection before a reading.
func (g *gcShare) next(m *event.Memory) float64 {
	if g.base == nil {
		g.base, g.value = m, -1
	}
	if r, ok := memory.RatesBetween(g.base, m); ok && r.GCShare >= 0 {
		g.base, g.value = m, min(r.GCShare, 1)
	}
	return g.value
}

// takeMemory reads the memory statistics.
func (s *Sampler) takeMemory(p *Picture) {
	p.Memory.GCShare = -1
	if s.opt.Memory == nil {
		return
	}
	m, err := s.opt.Memory()
	if err != nil {
		p.Memory.Err = err
		p.Health.Warnings = append(p.Health.Warnings, event.Warnf(event.WarnMissing, "memory statistics are unavailable: %v", err))
	}
	if m == nil {
		p.Memory.Now = s.memory.last
		return
	}
	p.Memory.Now = m
	p.Memory.Before, _ = s.memory.earlier(m, p.Now, s.opt.Window)
	p.Memory.GCShare = s.share.next(m)
}

// A siteKey identifies a site by the origin of its goroutines. For goroutines that are only counted by their go statement, start is
// zero.
type siteKey struct{ createdBy, start event.Frame }

// allocCounts is allocations by origin.
type allocCounts struct {
	ended   time.Time
	origins map[siteKey]allocs.Sums
	total   allocs.Sums
	lost    uint64
}

func countsByOrigin(c *allocs.Counts) *allocCounts {
	a := &allocCounts{ended: c.Ended, origins: map[siteKey]allocs.Sums{}, total: c.Total, lost: c.Lost}
	add := func(key siteKey, sums allocs.Sums) {
		all := a.origins[key]
		all.Add(sums)
		a.origins[key] = all
	}
	for i := range c.Goroutines {
		add(siteKey{c.Goroutines[i].Origin.CreatedBy, c.Goroutines[i].Origin.Start}, c.Goroutines[i].Sums)
	}
	for i := range c.Creators {
		add(siteKey{createdBy: c.Creators[i].CreatedBy}, c.Creators[i].Sums)
	}
	return a
}

// siteIndex finds rows by the origins of their goroutines.
type siteIndex struct {
	exact   map[siteKey]int
	creator map[event.Frame]int // rows by go statement; several if there is more than one
	start   map[event.Frame]int // rows by start function, likewise
}

const several = -1

func indexSites(rows []SiteRow) siteIndex {
	x := siteIndex{map[siteKey]int{}, map[event.Frame]int{}, map[event.Frame]int{}}
	add := func(to map[event.Frame]int, f event.Frame, i int) {
		if _, known := to[f]; known {
			i = several
		}
		to[f] = i
	}
	for i := range rows {
		o := rows[i].Origin
		if o == nil || rows[i].Other {
			continue
		}
		x.exact[siteKey{o.CreatedBy, o.Start}] = i
		add(x.creator, o.CreatedBy, i)
		add(x.start, o.Start, i)
	}
	return x
}

// row returns the row of goroutines with an origin. The result is false if none, or more than one, includes them.
func (x *siteIndex) row(key siteKey) (int, bool) {
	if i, ok := x.exact[key]; ok {
		return i, true
	}
	i, ok := 0, false
	switch {
	case !key.createdBy.IsZero() && key.start.IsZero():
		i, ok = x.creator[key.createdBy]
	case key.createdBy.IsZero() && !key.start.IsZero(): // the main goroutine, whose creation was observed
		i, ok = x.start[key.start]
	}
	return i, ok && i != several
}

// takeAllocs reads the allocations, unless the last ones are newer than the window.
func (s *Sampler) takeAllocs(p *Picture) {
	if s.opt.Allocs == nil {
		return
	}
	now := s.allocs.last
	if s.allocs.lastAt == 0 || p.Now-s.allocs.lastAt >= max(int64(s.opt.Window), 1) {
		counts, err := s.opt.Allocs()
		if err != nil {
			p.Health.Warnings = append(p.Health.Warnings, event.Warnf(event.WarnMissing, "allocations are unavailable: %v", err))
			return
		}
		now = countsByOrigin(counts)
	}
	earlier, since := s.allocs.earlier(now, p.Now, s.opt.Window)
	if earlier == nil {
		earlier = &allocCounts{}
	}
	a := &Allocs{Total: now.total, TotalDelta: now.total.Minus(earlier.total), Lost: now.lost}
	if since != 0 {
		a.Interval = now.ended.Sub(earlier.ended)
	}
	a.Elsewhere, a.ElsewhereDelta = a.Total, a.TotalDelta
	index := indexSites(p.Sites)
	for key, sums := range now.origins {
		if i, ok := index.row(key); ok {
			row, delta := &p.Sites[i], sums.Minus(earlier.origins[key])
			row.Allocs.Add(sums)
			row.AllocsDelta.Add(delta)
			a.Elsewhere, a.ElsewhereDelta = a.Elsewhere.Minus(sums), a.ElsewhereDelta.Minus(delta)
		}
	}
	p.Allocs = a
}

// AllocRate returns the bytes and the objects that all goroutines allocated per second, by the memory statistics. The result is false
// if there are no two readings to compare.
func (m *Memory) AllocRate() (bytes, objects float64, ok bool) {
	r, ok := memory.RatesBetween(m.Before, m.Now)
	return r.AllocBytes, r.Allocs, ok
}

// Rate returns the bytes and the objects per second of a difference.
func (a *Allocs) Rate(delta allocs.Sums) (bytes, objects float64) {
	return sched.Rate(delta.Bytes, a.Interval), sched.Rate(delta.Objects, a.Interval)
}
