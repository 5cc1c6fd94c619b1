package tui

import (
	"time"

	"github.com/loupe-go/loupe/sched"
)

// track remembers earlier values, to tell what has changed over at least some time.
type track[T any] struct {
	base, last     T
	baseAt, lastAt int64 // 0 when there is none
}

// earlier returns the value to compare the present one with, and its time: the latest one that was at least a window ago
// when it was followed by another. The time is 0 when there is no earlier value.
func (t *track[T]) earlier(value T, now int64, window time.Duration) (T, int64) {
	if t.lastAt == 0 || now-t.lastAt >= max(int64(window), 1) {
		t.base, t.baseAt = t.last, t.lastAt
		t.last, t.lastAt = value, now
	}
	return t.base, t.baseAt
}

// How growth is measured: over a minute, by looks that are some seconds apart. It is told as soon as it was measured for
// growthSoonest.
const (
	growthWindow  = time.Minute
	growthStep    = 5 * time.Second
	growthSoonest = 5 * time.Second
)

// everything stands for all goroutines in place of a site.
const everything = -1

// growth remembers how many goroutines there were by site.
type growth struct {
	began int64
	looks []growthLook // the oldest first
	start int64        // goroutines that were found when the observation began
	execs uint64
	now   int64
}

type growthLook struct {
	at   int64
	live map[int]uint64 // by Site.ID, and everything
}

// look remembers the numbers of now, when the last ones are old enough. As long as goroutines are still being found that
// were there before the observation, nothing grows.
func (g *growth) look(now int64, totals *sched.Totals, sites []sched.Site) {
	if totals.Execs != g.execs || totals.AtStart != g.start {
		g.looks, g.execs, g.start = nil, totals.Execs, totals.AtStart
	}
	g.now = now
	if n := len(g.looks); n > 0 && time.Duration(now-g.looks[n-1].at) < growthStep {
		return
	}
	l := growthLook{now, map[int]uint64{everything: totals.Live}}
	for i := range sites {
		l.live[sites[i].ID] = sites[i].Live
	}
	for len(g.looks) > 1 && time.Duration(now-g.looks[1].at) >= growthWindow {
		g.looks = g.looks[1:]
	}
	g.looks = append(g.looks, l)
}

// of returns the growth of a site that has so many goroutines now.
func (g *growth) of(site int, live uint64) Growth {
	first := g.looks[0]
	d := time.Duration(g.now - first.at)
	if d < growthSoonest {
		return Growth{}
	}
	return Growth{(float64(live) - float64(first.live[site])) / d.Minutes(), true}
}
