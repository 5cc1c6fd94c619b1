package tui

import (
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/internal/memory"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/live"
	"github.com/loupe-go/loupe/sched"
)

// JSONPrinter writes pictures for programs, one object a line.
type JSONPrinter struct {
	Out    io.Writer
	Target func() Target // as far as it is known by now
	Rows   int           // of sites, waiting and contention each; 0 means all
}

// pictureJSON is a picture for programs. A number of the last interval says so in its name (PerSecond, Interval...); all
// others are of now, or count from the beginning of the observation. Times are in seconds unless the name says nanoseconds.
type pictureJSON struct {
	Time      time.Time `json:"time"`
	PID       int       `json:"pid"`
	GoVersion string    `json:"goVersion,omitempty"`
	Seconds   float64   `json:"seconds"`         // since the observation began
	Interval  float64   `json:"intervalSeconds"` // what rates are of

	Events          uint64  `json:"events"`
	EventsPerSecond float64 `json:"eventsPerSecond"`
	Lost            uint64  `json:"lost"`

	Goroutines       uint64     `json:"goroutines"`
	States           statesJSON `json:"states"`
	Created          uint64     `json:"created"`
	Ended            uint64     `json:"ended"`
	CreatedPerSecond float64    `json:"createdPerSecond"`
	EndedPerSecond   float64    `json:"endedPerSecond"`
	WakeupsPerSecond float64    `json:"wakeupsPerSecond"`
	GrowthPerMinute  *float64   `json:"growthPerMinute,omitempty"` // not there until it is known
	CPUs             float64    `json:"runningCPUs"`               // processor time of goroutines in the interval, divided by it
	CPU              *cpuJSON   `json:"cpu,omitempty"`             // not there if it could not be read

	GC        gcJSON        `json:"gc"`
	STW       stwJSON       `json:"stw"`
	HeapBytes *int64        `json:"heapBytes,omitempty"` // not there until it was told
	Memory    *memoryJSON   `json:"memory,omitempty"`    // not there if it could not be read
	Allocs    *allocsJSON   `json:"allocs,omitempty"`    // not there unless allocations are counted
	Latency   latenciesJSON `json:"schedulerLatency"`

	Sites      []siteJSON       `json:"sites"`
	Waiting    []groupJSON      `json:"groups"`
	Contention []contentionJSON `json:"contention"`

	Warnings []string `json:"warnings,omitempty"`
	End      string   `json:"end,omitempty"` // why this is the last picture
}

// cpuJSON is what the kernel accounts of the process. The seconds are processor time in the interval, of all threads together.
type cpuJSON struct {
	Process    float64 `json:"processSeconds"`      // utime + stime
	Goroutines float64 `json:"goroutineSeconds"`    // of it: of observed goroutines, in Go and C code and in system calls
	Runtime    float64 `json:"runtimeSeconds"`      // the rest: scheduler, garbage collector, goroutines that are not observed
	RunQueue   float64 `json:"runQueueWaitSeconds"` // threads could run and waited for a processor
	Procs      int     `json:"gomaxprocs,omitempty"`
	Threads    int     `json:"threads"`
	RSS        int64   `json:"rssBytes"`
}

// memoryJSON is the memory statistics of the runtime. Sizes are in bytes.
type memoryJSON struct {
	Heap             uint64   `json:"heapBytes"`           // MemStats.HeapAlloc
	Live             uint64   `json:"liveBytes"`           // found reachable by the last collection
	Goal             uint64   `json:"goalBytes,omitempty"` // not there if the collector is off
	Cycles           uint32   `json:"gcCycles"`
	GCShare          *float64 `json:"gcShare,omitempty"` // of the processor time of all Ps, between the last two collections that were seen
	BytesPerSecond   *float64 `json:"allocBytesPerSecond,omitempty"`
	ObjectsPerSecond *float64 `json:"allocObjectsPerSecond,omitempty"`
}

// allocsJSON is the counted allocations.
type allocsJSON struct {
	Bytes            uint64  `json:"bytes"` // since the observation began
	Objects          uint64  `json:"objects"`
	BytesPerSecond   float64 `json:"bytesPerSecond"`
	ObjectsPerSecond float64 `json:"objectsPerSecond"`
	ElsewhereBytes   uint64  `json:"elsewhereBytes"` // of the bytes: of the runtime, and of goroutines without a site
	Lost             uint64  `json:"lost"`           // at most
}

// siteAllocsJSON is what the goroutines of a site allocate.
type siteAllocsJSON struct {
	Bytes            uint64   `json:"allocBytes"` // since the observation began
	Objects          uint64   `json:"allocObjects"`
	BytesPerSecond   float64  `json:"allocBytesPerSecond"`
	ObjectsPerSecond float64  `json:"allocObjectsPerSecond"`
	GCShare          *float64 `json:"gcShareByAllocBytes,omitempty"` // part of memory.gcShare, attributed by allocated bytes
}

// statesJSON counts goroutines by state. Uncertain ones, without an event since a loss, are in their last state too.
type statesJSON struct {
	Running   uint64 `json:"running"`
	Runnable  uint64 `json:"runnable"`
	Waiting   uint64 `json:"waiting"`
	Syscall   uint64 `json:"syscall"`
	Unknown   uint64 `json:"unknown,omitempty"`
	Uncertain uint64 `json:"uncertain,omitempty"`
}

type gcJSON struct {
	Count   uint64  `json:"count"`
	Seconds float64 `json:"seconds"`
	Active  bool    `json:"active"`
}

type stwJSON struct {
	Count uint64 `json:"count"`
	P50   int64  `json:"p50Nanoseconds"`
	Max   int64  `json:"maxNanoseconds"`
}

// latenciesJSON is how long goroutines that could run waited for a processor.
type latenciesJSON struct {
	Interval latencyJSON `json:"interval"`
	Overall  latencyJSON `json:"overall"`
}

type latencyJSON struct {
	Count uint64 `json:"count"`
	P50   int64  `json:"p50Nanoseconds"`
	P90   int64  `json:"p90Nanoseconds"`
	P99   int64  `json:"p99Nanoseconds"`
	Max   int64  `json:"maxNanoseconds"`
}

// siteJSON is the goroutines of one go statement. The seconds are spent in the interval, by all of them together.
type siteJSON struct {
	CreatedBy        *event.Frame `json:"createdBy,omitempty"`
	Start            *event.Frame `json:"start,omitempty"`
	System           bool         `json:"system,omitempty"`
	Other            bool         `json:"other,omitempty"` // sites beyond those that are told apart
	Goroutines       uint64       `json:"goroutines"`
	GrowthPerMinute  *float64     `json:"growthPerMinute,omitempty"`
	Created          uint64       `json:"created"`
	Ended            uint64       `json:"ended"`
	CreatedPerSecond float64      `json:"createdPerSecond"`
	EndedPerSecond   float64      `json:"endedPerSecond"`
	States           statesJSON   `json:"states"`
	CPU              float64      `json:"cpuSeconds"`
	Running          float64      `json:"runningSeconds"`
	Runnable         float64      `json:"runnableSeconds"`
	Blocked          float64      `json:"blockedSeconds"`
	Syscall          float64      `json:"syscallSeconds"`
	GCWait           float64      `json:"gcWaitSeconds"`   // part of blockedSeconds: for the garbage collector
	GCAssist         float64      `json:"gcAssistSeconds"` // part of runningSeconds: marking for the garbage collector
	*siteAllocsJSON               // nil unless allocations are counted
}

// groupJSON is the goroutines in one state, for one reason.
type groupJSON struct {
	State  event.State `json:"state,omitempty"`
	Reason string      `json:"reason,omitempty"`
	Work   string      `json:"runtimeWork,omitempty"` // what is done or waited for on behalf of the runtime, see event.RuntimeWork
	Count  uint64      `json:"count"`
	Oldest float64     `json:"oldestSeconds"`
	Waits  float64     `json:"waitsPerSecond,omitempty"`
}

// contentionJSON is the waits at one line. Of several stacks that lead there, Stack is the one with the most time.
type contentionJSON struct {
	Reason         string        `json:"reason"`
	Work           string        `json:"runtimeWork,omitempty"`
	Interval       float64       `json:"intervalWaitSeconds"`
	Seconds        float64       `json:"waitSeconds"`
	Count          uint64        `json:"count"`
	CountPerSecond float64       `json:"countPerSecond"`
	Max            float64       `json:"maxSeconds"`
	Now            uint64        `json:"now"` // goroutines that wait there
	Stack          []event.Frame `json:"stack,omitempty"`
}

// Print implements Printer.
func (j *JSONPrinter) Print(p *live.Picture, ended string) error {
	target, r := j.Target(), &p.Runtime
	doc := pictureJSON{
		Time: time.Unix(0, p.Now).UTC(), PID: target.PID, GoVersion: target.GoVersion,
		Seconds: p.Elapsed.Seconds(), Interval: p.Interval.Seconds(),
		Events: p.Totals.Events, EventsPerSecond: p.PerSecond(p.NewEvents()), Lost: p.Health.Lost,
		Goroutines: p.Totals.Live, States: statesOut(p.Totals.States), Created: p.Totals.Created, Ended: p.Totals.Ended,
		CreatedPerSecond: p.PerSecond(p.TotalsDelta.Created), EndedPerSecond: p.PerSecond(p.TotalsDelta.Ended),
		WakeupsPerSecond: p.PerSecond(p.Wakeups()), GrowthPerMinute: growthOut(p.Growth),
		GC:      gcJSON{r.GC.Begun, r.GC.Time.Seconds(), r.GC.Active},
		STW:     stwJSON{r.STW.Begun, int64(r.Pauses.Quantile(0.5)), int64(r.STW.Max)},
		Latency: latenciesJSON{latencyOf(p.LatencyDelta.All()), latencyOf(p.Latency.All())},
		Sites:   []siteJSON{}, Waiting: []groupJSON{}, Contention: []contentionJSON{},
		Warnings: event.WarningTexts(p.Health.Warnings), End: ended,
	}
	if p.Interval > 0 {
		doc.CPUs = p.TotalsDelta.Processor.Goroutines.Seconds() / p.Interval.Seconds()
	}
	if c, d := &p.Totals.Processor, &p.TotalsDelta.Processor; c.Known {
		doc.CPU = &cpuJSON{d.Process.Seconds(), d.Goroutines.Seconds(), d.Runtime.Seconds(), d.RunQueue.Seconds(), c.Procs, c.Threads, c.RSS}
	}
	if r.HeapAt != 0 {
		doc.HeapBytes = &r.Heap
	}
	doc.Memory, doc.Allocs = memoryOut(&p.Memory), allocsOut(p.Allocs)
	for _, s := range firstRows(p.Sites, j.Rows) {
		doc.Sites = append(doc.Sites, siteOut(p, &s))
	}
	groups := p.Detail.Groups
	for _, g := range firstRows(groups, j.Rows) {
		reason, work := event.SplitWait(g.Reason)
		doc.Waiting = append(doc.Waiting, groupJSON{g.State, reason, work, g.Count, g.Oldest.Seconds(), g.Waits})
	}
	places := slices.SortedStableFunc(slices.Values(p.Detail.Places), func(a, b live.PlaceRow) int { return b.TimeIn.Cmp(a.TimeIn) })
	places = slices.DeleteFunc(places, func(p live.PlaceRow) bool { return !gostate.Contended(p.At.Reason) })
	for _, c := range firstRows(places, j.Rows) {
		doc.Contention = append(doc.Contention, placeOut(&c))
	}
	line, err := json.Marshal(&doc)
	if err != nil {
		return err
	}
	_, err = j.Out.Write(append(term.EscapeJSON(line), '\n'))
	return err
}

func statesOut(s sched.States) statesJSON {
	return statesJSON{s.Running, s.Runnable, s.Waiting, s.Syscall, s.Unknown, s.Uncertain}
}

func memoryOut(m *live.Memory) *memoryJSON {
	if m.Now == nil {
		return nil
	}
	h := &m.Now.Heap
	out := &memoryJSON{Heap: h.Alloc, Live: h.Live, Cycles: m.Now.GC.Cycles}
	if !memory.Endless(h) {
		out.Goal = h.Goal
	}
	if m.GCShare >= 0 {
		out.GCShare = &m.GCShare
	}
	if bytes, objects, ok := m.AllocRate(); ok {
		out.BytesPerSecond, out.ObjectsPerSecond = &bytes, &objects
	}
	return out
}

func allocsOut(a *live.Allocs) *allocsJSON {
	if a == nil {
		return nil
	}
	out := &allocsJSON{Bytes: a.Total.Bytes, Objects: a.Total.Objects, ElsewhereBytes: a.Elsewhere.Bytes, Lost: a.Lost}
	out.BytesPerSecond, out.ObjectsPerSecond = a.Rate(a.TotalDelta)
	return out
}

func growthOut(g live.Growth) *float64 {
	if !g.Known {
		return nil
	}
	return &g.PerMinute
}

func latencyOf(h *sched.Histogram) latencyJSON {
	return latencyJSON{h.Count(), int64(h.Quantile(0.5)), int64(h.Quantile(0.9)), int64(h.Quantile(0.99)), int64(h.Max())}
}

func siteOut(p *live.Picture, s *live.SiteRow) siteJSON {
	t := s.Delta.Done
	out := siteJSON{Other: s.Other, Goroutines: s.Live, GrowthPerMinute: growthOut(s.Growth), Created: s.Created, Ended: s.Ended,
		CreatedPerSecond: p.PerSecond(s.Delta.Created), EndedPerSecond: p.PerSecond(s.Delta.Ended), States: statesOut(s.States),
		CPU: s.Delta.CPU.Seconds(), Running: t.Running.Seconds(), Runnable: t.Runnable.Seconds(), Blocked: t.Blocked.Seconds(), Syscall: t.Syscall.Seconds(),
		GCWait: s.Delta.GCWait.Seconds(), GCAssist: s.Delta.GCAssist.Seconds()}
	if a := p.Allocs; a != nil {
		out.siteAllocsJSON = &siteAllocsJSON{Bytes: s.Allocs.Bytes, Objects: s.Allocs.Objects}
		out.siteAllocsJSON.BytesPerSecond, out.siteAllocsJSON.ObjectsPerSecond = a.Rate(s.AllocsDelta)
		if share, ok := p.GCShareOf(s); ok {
			out.GCShare = &share
		}
	}
	if o := s.Origin; o != nil {
		out.CreatedBy, out.Start, out.System = frameOut(o.CreatedBy), frameOut(o.Start), o.System
	}
	return out
}

func frameOut(f event.Frame) *event.Frame {
	if f.IsZero() {
		return nil
	}
	return &f
}

func placeOut(c *live.PlaceRow) contentionJSON {
	reason, work := event.SplitWait(c.At.Reason)
	out := contentionJSON{Reason: reason, Work: work, Interval: c.TimeIn.Seconds(), Seconds: c.Time.Seconds(), Count: c.Count,
		CountPerSecond: sched.Rate(c.CountIn, c.Interval), Max: c.Max.Seconds(), Now: c.Now}
	if c.Stack != nil {
		out.Stack = c.Stack.Frames
	}
	return out
}
