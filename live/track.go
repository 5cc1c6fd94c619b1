package live

import (
	"time"

	"github.com/loupe-go/loupe/sched"
)

// track keeps two earlier values, so that a new value can be compared with one that is at least a window older.
type track[T any] struct {
	base, last     T
	baseAt, lastAt int64 // times of the values; 0 if there is no value
}

// earlier returns the value with which the current value is compared, and the time of that earlier value. The time is 0 if
// there is no earlier value. The current value becomes the last value if the previous one is at least a window old.
func (t *track[T]) earlier(value T, now int64, window time.Duration) (T, int64) {
	if t.lastAt == 0 || now-t.lastAt >= max(int64(window), 1) {
		t.base, t.baseAt = t.last, t.lastAt
		t.last, t.lastAt = value, now
	}
	return t.base, t.baseAt
}

// The measurement of growth.
const (
	growthWindow  = time.Minute     // the interval over which growth is measured
	growthStep    = 5 * time.Second // the minimum interval between two samples
	growthMinimum = 5 * time.Second // the minimum interval for which growth is known
)

// allSites is the key for all goroutines in growthSample.live.
const allSites = -1

// growth records the numbers of live goroutines over time.
type growth struct {
	began   int64          // start of the observation
	samples []growthSample // oldest first
	start   int64          // resampled as of the last picture
	execs   uint64         // Totals.Execs as of the last picture
	now     int64          // time of the last picture
}

// growthSample is the numbers of live goroutines at one moment.
type growthSample struct {
	at   int64          // time of the sample
	live map[int]uint64 // by Site.ID, and allSites
}

// resampled returns a number that changes if goroutines begin or cease to be observed without being created or ending.
func resampled(totals *sched.Totals) int64 { return totals.AtStart + int64(totals.Unsampled) }

// record adds a sample if the last one is old enough. It discards all samples after an Exec event, as long as GoStatus events
// of goroutines that were alive at the start still arrive, and if other goroutines are sampled.
func (g *growth) record(now int64, totals *sched.Totals, sites []sched.Site) {
	if totals.Execs != g.execs || resampled(totals) != g.start {
		g.samples, g.execs, g.start = nil, totals.Execs, resampled(totals)
	}
	g.now = now
	if n := len(g.samples); n > 0 && time.Duration(now-g.samples[n-1].at) < growthStep {
		return
	}
	l := growthSample{now, map[int]uint64{allSites: totals.Live}}
	for i := range sites {
		l.live[sites[i].ID] = sites[i].Live
	}
	for len(g.samples) > 1 && time.Duration(now-g.samples[1].at) >= growthWindow {
		g.samples = g.samples[1:]
	}
	g.samples = append(g.samples, l)
}

// of returns the growth of a site that now has live goroutines.
func (g *growth) of(site int, live uint64) Growth {
	first := g.samples[0]
	d := time.Duration(g.now - first.at)
	if d < growthMinimum {
		return Growth{}
	}
	return Growth{(float64(live) - float64(first.live[site])) / d.Minutes(), true}
}
