package tui

import (
	"math"
	"strconv"
	"time"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/memory"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/live"
	"github.com/loupe-go/loupe/sched"
)

// head draws the lines above the views: so many, or fewer.
func (m *Model) head(w, lines int) []string {
	p := m.picture
	switch {
	case lines == 0:
		return nil
	case p == nil:
		return append([]string{m.titleLine(w)}, make([]string, lines-1)...)
	case lines == 1:
		return []string{m.theme.line(w, gap, append(m.alarms(), m.goroutines(false, w)...)...)}
	case lines == 2:
		return []string{m.titleLine(w), m.theme.line(w, gap, append(m.goroutines(false, w), m.flow(20)...)...)}
	case lines < fullHead:
		return []string{
			m.titleLine(w), m.labelled(w, "goroutines", m.goroutines(true, w)),
			m.labelled(w, "cpu", append(m.processor(), m.notes(6)...)), m.labelled(w, "memory", m.memory()), m.labelled(w, "latency", m.latency(w)),
		}[:min(lines, shortHead)]
	}
	return []string{
		m.titleLine(w), m.labelled(w, "events", m.events(w)), m.labelled(w, "goroutines", m.goroutines(true, w)),
		m.labelled(w, "cpu", m.processor()), m.labelled(w, "memory", m.memory()), m.labelled(w, "rates", m.flow(0)), m.labelled(w, "runtime", m.runtime()),
		m.labelled(w, "latency", m.latency(w)), "",
	}
}

// What there is room for in the head, by the width of the screen.
const (
	labelsFrom   = 60
	trendsFrom   = 100
	sinceFrom    = 118 // latencies since the beginning
	trendColumns = 30
)

// labelled puts a label before the segments of a line.
func (m *Model) labelled(w int, label string, segments []segment) string {
	const column = 11
	if w < labelsFrom {
		return m.theme.line(w, gap, segments...)
	}
	return m.theme.paint(dim, pad(label, column, false)) + m.theme.line(w-column, gap, segments...)
}

// counted is a number with what it counts: the number stands out.
func counted(number, what string) []piece { return []piece{{number, strong}, {" " + what, dim}} }

// titleLine names the target, and tells how the observation stands.
func (m *Model) titleLine(w int) string {
	th := m.theme
	label := m.target.Name
	if label == "" {
		label = "process"
	}
	segments := []segment{
		seg(0, piece{clip(safe(label), max(w/3, 8)), title}),
		seg(2, piece{"pid ", dim}, piece{strconv.Itoa(m.target.PID), plain}),
	}
	if m.target.GoVersion != "" {
		segments = append(segments, seg(3, piece{clip(safe(m.target.GoVersion), 24), plain}))
	}
	right := th.line(w-min(12, w/3), gap, append(m.alarms(), m.pace(w)...)...)
	left := th.line(max(w-width(right)-2, 0), gap, segments...)
	return between(left, right, w)
}

// alarms are what must be seen on any screen: loss, a pause, the end.
func (m *Model) alarms() []segment {
	var list []segment
	if m.ended != nil {
		list = append(list, seg(0, piece{"ENDED", bad}))
	}
	if m.paused {
		list = append(list, seg(0, piece{"PAUSED", warn}))
	}
	if p := m.picture; p != nil && p.Health.Lost > 0 {
		list = append(list, seg(0, piece{number(p.Health.Lost) + " LOST", bad}))
	}
	return list
}

// pace is how long and how often the target is looked at.
func (m *Model) pace(w int) []segment {
	var list []segment
	if m.picture != nil {
		list = append(list, seg(1, piece{"for ", dim}, piece{report.Duration(m.picture.Elapsed.Round(time.Second)), plain}))
	}
	if w < labelsFrom {
		return list
	}
	list = append(list, seg(3, piece{"every ", dim}, piece{report.ShortTime(m.interval), plain}))
	if m.picture != nil {
		list = append(list, seg(4, piece{time.Unix(0, m.picture.Now).Format(time.TimeOnly), plain}))
	}
	return list
}

// rate writes a rate of the interval; "…" when there is none yet.
func rate(p *live.Picture, count uint64) string {
	if p.Interval <= 0 {
		return "…"
	}
	return english.Rate(p.PerSecond(count))
}

// notes says that there are some, and which key shows them. What is printed has no keys, and the notes on stderr.
func (m *Model) notes(rank int) []segment {
	n := len(m.picture.Health.Warnings)
	if n == 0 || m.printed {
		return nil
	}
	return []segment{seg(rank, piece{plural(uint64(n), "note"), warn}, piece{" w", keycap})}
}

// events are how many come and what is to be known of them.
func (m *Model) events(w int) []segment {
	p := m.picture
	list := []segment{seg(0, piece{rate(p, p.NewEvents()), strong}, piece{"/s", dim})}
	if w < labelsFrom {
		list = []segment{seg(0, counted(rate(p, p.NewEvents()), "events/s")...)}
	}
	if w >= trendsFrom {
		list = append(list, seg(5, piece{trend(p.EventTrend, trendColumns), name}))
	}
	if p.Health.Lost == 0 {
		list = append(list, seg(1, piece{"none lost", good}))
	} else {
		text := number(p.Health.Lost) + " lost"
		if p.Interval > 0 && p.TotalsDelta.Lost > 0 {
			text += " (" + rate(p, p.TotalsDelta.Lost) + "/s)"
		}
		list = append(list, seg(0, piece{text, bad}))
	}
	list = append(list, m.notes(1)...)
	if m.target.System && !m.hideSystem {
		list = append(list, seg(6, piece{"with runtime goroutines", dim}))
	}
	return list
}

// goroutines is how many there are, by state; full adds how that changes, on a screen so wide.
func (m *Model) goroutines(full bool, w int) []segment {
	p := m.picture
	s := p.Totals.States
	list := []segment{seg(0, counted(number(p.Totals.Live), "live")...)}
	if full && p.Growth.Known {
		list = append(list, seg(4, growthPiece(p.Growth, p.Totals.Live), piece{"/min", dim}))
	}
	if full && w >= trendsFrom {
		list = append(list, seg(9, piece{trend(p.LiveTrend, trendColumns), name}))
	}
	for _, state := range []struct {
		count uint64
		word  string
		tone  tone
		rank  int
		shown bool
	}{
		{s.Running, "running", good, 2, true},
		{s.Runnable, "runnable", warn, 3, true},
		{s.Waiting, "waiting", plain, 3, true},
		{s.Syscall, "in syscalls", blue, 6, m.target.Syscalls || s.Syscall > 0},
		{s.Unknown, "unknown", dim, 7, s.Unknown > 0},
		{s.Uncertain, "uncertain", bad, 5, s.Uncertain > 0},
	} {
		if state.shown {
			list = append(list, seg(state.rank, piece{number(state.count), state.tone}, piece{" " + state.word, dim}))
		}
	}
	return list
}

// growthPiece writes a growth by minute. One that would double the goroutines within minutes stands out.
func growthPiece(g live.Growth, goroutines uint64) piece {
	const minutes = 10
	if !g.Known {
		return piece{"…", dim}
	}
	if g.PerMinute*minutes > float64(goroutines) && g.PerMinute >= minutes {
		return piece{english.Signed(g.PerMinute), warn}
	}
	return piece{english.Signed(g.PerMinute), plain}
}

// flow is what comes, goes and runs by second; segments are left out from a rank on.
func (m *Model) flow(rank int) []segment {
	p := m.picture
	created, ended, woken := rate(p, p.TotalsDelta.Created), rate(p, p.TotalsDelta.Ended), rate(p, p.Wakeups())
	return []segment{
		seg(rank+1, counted(created, "created/s")...), seg(rank+2, counted(ended, "ended/s")...), seg(rank+3, counted(woken, "wake-ups/s")...),
	}
}

// processor is what the kernel accounts of the process in the interval, in percent of one processor, and how that divides.
func (m *Model) processor() []segment {
	p := m.picture
	c, d := &p.Totals.Processor, &p.TotalsDelta.Processor
	if !c.Known {
		return []segment{seg(0, piece{"unknown", dim})}
	}
	share := func(n sched.Nanos) string {
		if p.Interval <= 0 {
			return "…"
		}
		return percent(n.Seconds(), p.Interval.Seconds())
	}
	list := []segment{
		seg(0, counted(share(d.Process), "CPU")...), seg(1, counted(share(d.Goroutines), "goroutines")...),
		seg(2, counted(share(d.Runtime), "runtime")...), seg(3, counted(share(d.RunQueue), "run-queue wait")...),
		seg(5, counted(english.Size(c.RSS), "RSS")...), seg(6, counted(number(uint64(c.Threads)), "threads")...),
	}
	if c.Procs > 0 {
		list = append(list, seg(4, piece{"GOMAXPROCS ", dim}, piece{number(uint64(c.Procs)), strong}))
	}
	return list
}

// memory is the heap and the garbage collector, by the memory statistics of the runtime.
func (m *Model) memory() []segment {
	p := m.picture
	now := p.Memory.Now
	if now == nil {
		list := []segment{seg(0, piece{"unavailable", dim})}
		if err := p.Memory.Err; err != nil {
			list = append(list, seg(1, piece{clip(safe(err.Error()), 100), dim}))
		}
		return list
	}
	goal := "off"
	if !memory.Endless(&now.Heap) {
		goal = size(now.Heap.Goal)
	}
	list := []segment{
		seg(0, piece{"heap ", dim}, piece{size(now.Heap.Alloc), strong}), seg(1, piece{"goal ", dim}, piece{goal, strong}),
		seg(4, piece{"live ", dim}, piece{size(now.Heap.Live), strong}), seg(3, piece{"GC cycles ", dim}, piece{number(uint64(now.GC.Cycles)), strong}),
		seg(2, piece{"GC CPU ", dim}, piece{m.collectorCPU(), strong}),
	}
	if bytes, objects, ok := p.Memory.AllocRate(); ok {
		list = append(list, seg(5, piece{"allocated ", dim}, piece{size(uint64(bytes)), strong}, piece{"/s", dim}),
			seg(6, counted(english.Rate(objects), "objects/s")...))
	}
	return list
}

// collectorCPU returns the processor time of garbage collections in percent of one processor: between the last two collections that
// were seen, or since the program started if the release does not record more.
func (m *Model) collectorCPU() string {
	p := m.picture
	share, since := p.Memory.GCShare, ""
	if p.Memory.Now.GC.CPU == nil {
		share, since = p.Memory.Now.GC.CPUFraction, " since the program started"
	}
	if procs := p.Totals.Processor.Procs; share >= 0 && procs > 0 {
		return percent(share*float64(procs), 1) + since
	}
	return "…"
}

// size writes a number of bytes.
func size(n uint64) string { return english.Size(int64(min(n, math.MaxInt64))) }

// collectionsFrom is how long a program is observed before garbage collections by minute are shown.
const collectionsFrom = 30 * time.Second

// runtime is the garbage collections and the stops of the whole program since the start of the observation.
func (m *Model) runtime() []segment {
	p := m.picture
	r := &p.Runtime
	list := []segment{seg(2, piece{"collections ", dim}, piece{number(r.GC.Begun), strong})}
	if p.Memory.Now == nil && r.HeapAt != 0 {
		list = append(list, seg(1, piece{"heap ", dim}, piece{english.Size(r.Heap), strong}))
	}
	if p.Elapsed >= collectionsFrom && r.GC.Begun > 0 {
		list = append(list, seg(5, piece{english.Rate(float64(r.GC.Begun) / p.Elapsed.Minutes()), plain}, piece{"/min", dim}))
	}
	if r.GC.Active {
		list = append(list, seg(4, piece{"collecting", warn}))
	}
	list = append(list, seg(3, piece{"STW pauses ", dim}, piece{number(r.STW.Begun), strong}))
	if r.Pauses.Count() > 0 {
		list = append(list, seg(5, piece{"median ", dim}, piece{span(r.Pauses.Quantile(0.5)), strong}),
			seg(4, piece{"longest ", dim}, piece{span(r.STW.Max), strong}))
	}
	return list
}

// latency is how long goroutines that can run wait for a processor: in the interval, and since the beginning.
func (m *Model) latency(w int) []segment {
	p := m.picture
	now, all := p.LatencyDelta.All(), p.Latency.All()
	if p.Interval <= 0 {
		now = all
	}
	list := quantiles(now, 1)
	if w >= sinceFrom {
		list = append(list, seg(7, piece{"│ since the start", dim}))
		list = append(list, quantiles(all, 7)...)
	}
	return list
}

func quantiles(h *sched.Histogram, rank int) []segment {
	var list []segment
	for _, q := range []struct {
		name string
		of   float64
		rank int
	}{{"p50", 0.5, 1}, {"p90", 0.9, 3}, {"p99", 0.99, 0}} {
		list = append(list, seg(rank+q.rank, piece{q.name + " ", dim}, piece{latencySpan(h.Quantile(q.of), h.Count()), strong}))
	}
	return append(list, seg(rank+2, piece{"max ", dim}, piece{latencySpan(h.Max(), h.Count()), strong}))
}
