package target

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/sched"
)

// memoryPoints are the points of a reading of the memory statistics.
func memoryPoints(m *event.Memory) []metric.Point {
	h, r, gc := &m.Heap, &m.Runtime, &m.GC
	other := r.Sys - min(r.Sys, h.Released+r.StackInuse)
	list := []metric.Point{
		metric.MemoryUsed.Of(float64(r.StackInuse), "stack"), metric.MemoryUsed.Of(float64(other), "other"),
		metric.MemoryAllocated.Of(float64(h.TotalAlloc)), metric.Allocations.Of(float64(h.Mallocs - h.Tiny)),
		metric.GCGoal.Of(float64(h.Goal)), metric.GCCycles.Of(float64(gc.Cycles)),
		metric.HeapUsed.Of(float64(h.Alloc)), metric.HeapLive.Of(float64(h.Live)), metric.ProcessMemory.Of(float64(m.Process.RSS)),
	}
	if gc.MemoryLimit != nil && *gc.MemoryLimit != math.MaxInt64 {
		list = append(list, metric.MemoryLimit.Of(float64(*gc.MemoryLimit)))
	}
	if gc.Percent >= 0 {
		list = append(list, metric.GOGC.Of(float64(gc.Percent)))
	}
	if c := gc.CPU; c != nil {
		list = append(list, metric.CPUTime.Of(c.User.Seconds(), "user"), metric.CPUTime.Of(c.GC.Seconds(), "gc"),
			metric.CPUTime.Of(c.Scavenge.Seconds(), "scavenge"), metric.CPUTime.Of(c.Idle.Seconds(), "idle"))
	}
	return list
}

// schedulerPoints are the points of a reading of the scheduler's numbers.
func schedulerPoints(s *event.Scheduler) []metric.Point {
	list := []metric.Point{
		metric.Goroutines.Of(float64(s.Goroutines)), metric.ProcessorLimit.Of(float64(s.Procs)),
	}
	if s.TimeToRun != nil {
		list = append(list, metric.ScheduleDuration.Distribution(histogramOf(s.TimeToRun)))
	}
	if s.GCPauses != nil {
		list = append(list, metric.GCPauses.Distribution(histogramOf(s.GCPauses)))
	}
	return list
}

// histogramOf converts a histogram of the runtime. Its buckets are wider: each duration counts as the middle of its bucket.
func histogramOf(list []event.DurationCount) *sched.Histogram {
	h := &sched.Histogram{}
	for _, d := range list {
		middle := d.Low + (d.High-d.Low)/2
		if d.High == math.MaxInt64 {
			middle = d.Low
		}
		h.AddN(middle, d.Count)
	}
	return h
}

// countOf returns the number of durations.
func countOf(list []event.DurationCount) (n uint64) {
	for _, d := range list {
		n += d.Count
	}
	return n
}

// classOf returns the class of a wait reason, as the label class has it.
func classOf(reason string) string {
	switch gostate.WaitOf(reason) {
	case gostate.WaitSend, gostate.WaitReceive, gostate.WaitSelect:
		return "channel"
	case gostate.WaitLock, gostate.WaitSemaphore, gostate.WaitSync:
		return "lock"
	case gostate.WaitGC:
		return "gc"
	}
	switch reason {
	case "IO wait":
		return "io"
	case "sleep":
		return "sleep"
	}
	return "other"
}

// A census is the goroutines of a process at one moment.
type census struct {
	at     time.Time
	took   time.Duration
	groups []event.Tally // of the program
	live   int           // goroutines of the program
}

// points returns the points of a census, with at most so many sites.
func (c *census) points(sites int) []metric.Point {
	type stateKey struct {
		state  event.State
		reason string
	}
	states, bySite, oldest := map[stateKey]int{}, map[string]int{}, map[string]time.Duration{}
	for i := range c.groups {
		g := &c.groups[i]
		states[stateKey{stateOf(g.State), g.Reason}] += len(g.Members)
		bySite[siteOf(&g.Origin)] += len(g.Members)
		if g.Reason != "" {
			class := classOf(g.Reason)
			oldest[class] = max(oldest[class], g.Oldest)
		}
	}
	var list []metric.Point
	for k, n := range states {
		list = append(list, metric.States.Of(float64(n), string(k.state), k.reason))
	}
	for _, s := range top(bySite, sites) {
		list = append(list, metric.Sites.Of(float64(s.n), s.site))
	}
	for class, d := range oldest {
		list = append(list, metric.OldestWait.Of(d.Seconds(), class))
	}
	return list
}

// stateOf returns one of the states that the label state has.
func stateOf(s event.State) event.State {
	switch s {
	case event.StateRunning, event.StateRunnable, event.StateSyscall, event.StateWaiting:
		return s
	case event.StateLeaked:
		return event.StateWaiting
	case event.StateCopystack, event.StatePreempted:
		return event.StateRunning // for a moment
	}
	return "unknown"
}

// siteOf returns the name of a go statement: its function and line, or the function that it starts.
func siteOf(o *event.Origin) string {
	f := o.CreatedBy
	if f.IsZero() {
		f = o.Start
	}
	if f.IsZero() {
		return "unknown"
	}
	return fmt.Sprintf("%s %s:%s", f.Func, path.Base(f.File), strconv.Itoa(f.Line))
}

// otherSites is the site of the goroutines of all sites beyond the first ones.
const otherSites = "other"

type siteCount struct {
	site string
	n    int
}

// top returns the sites with the most goroutines, and the sum of the rest.
func top(counts map[string]int, limit int) []siteCount {
	list := make([]siteCount, 0, len(counts))
	for site, n := range counts {
		list = append(list, siteCount{site, n})
	}
	slices.SortFunc(list, func(a, b siteCount) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.site, b.site)) })
	if len(list) <= limit {
		return list
	}
	rest := siteCount{site: otherSites}
	for _, s := range list[limit:] {
		rest.n += s.n
	}
	return append(list[:limit], rest)
}
