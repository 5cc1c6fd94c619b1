package timeline

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// user draws an event that the program reports with runtime/trace, or a sample of its CPU profiler.
func (tl *Timeline) user(e *event.Event, at int64) {
	if region := e.Kind == event.UserRegionBegin || e.Kind == event.UserRegionEnd; region && e.G == 0 {
		tl.stats.Ignored++
		return
	}
	switch e.Kind {
	case event.UserTaskBegin:
		tl.beginTask(e, at)
	case event.UserTaskEnd:
		t := tl.tasks[uint64(e.Task())]
		if t == nil {
			tl.stats.Ignored++ // it began before the observation
			return
		}
		tl.close(&t.lane, at, t.name, gostate.Fits)
		tl.drop(&t.lane)
		delete(tl.tasks, uint64(e.Task()))
	case event.UserRegionBegin:
		s := tl.slice(Region, e.Text)
		s.number(KeyTask, e.Task())
		tl.beginRegion(e.G, at, s)
	case event.UserRegionEnd:
		tl.endRegion(e.G, at, e.Text)
	case event.UserLog:
		s := tl.slice(Log, e.Text)
		s.Name.Once = true
		s.text(KeyLogged, e.Category())
		s.number(KeyTask, e.Task())
		tl.mark(e, at, s)
	case event.CPUSample:
		tl.mark(e, at, tl.slice(Sample, "CPU sample"))
	}
}

// mark draws an instant on the track of the event's goroutine, or of the process if the event has no goroutine.
func (tl *Timeline) mark(e *event.Event, at int64, s *Slice) {
	s.Stack = e.Stack
	l := &tl.process.lane
	if e.G != 0 {
		l = &tl.goroutineOf(e.G, nil).lane
	}
	tl.instant(l, at, s)
}

// markAssist is the name of the slices of mark assists, in execution traces too.
const markAssist = "GC mark assist"

// use draws an event about a channel or a lock, or a mark assist.
func (tl *Timeline) use(e *event.Event, at int64) {
	g := tl.goroutineOf(e.G, nil)
	tl.runs(g, e, at)
	switch e.Kind {
	case event.GCMarkAssistBegin:
		s := tl.slice(GC, markAssist)
		s.Stack = e.Stack
		tl.beginRegion(e.G, at, s)
		return
	case event.GCMarkAssistEnd:
		tl.endRegion(e.G, at, markAssist)
		return
	}
	s := tl.slice(Channel, e.Kind.String())
	switch e.Kind {
	case event.ChanMake:
		s.number(KeyCapacity, e.Capacity())
	case event.Select:
		s.number(KeyCases, e.Cases())
	case event.SemAcquire, event.SemRelease:
		s.Category = Lock
	}
	s.number(KeyObject, int64(e.Address()))
	s.Stack = e.Stack
	tl.instant(&g.lane, at, s)
}

func (tl *Timeline) beginTask(e *event.Event, at int64) {
	id := uint64(e.Task())
	if old := tl.tasks[id]; old != nil {
		tl.close(&old.lane, at, old.name, gostate.Misfit)
		tl.drop(&old.lane)
	}
	t := &whole{lane: tl.newLane(TaskTrack, id, Description{Type: e.Text}), name: Name{Text: e.Text}}
	tl.tasks[id] = t
	s := tl.slice(Task, e.Text)
	s.number(KeyTask, e.Task())
	s.number(KeyParent, int64(e.ParentTask()))
	s.number(KeyBy, int64(e.G))
	tl.begin(&t.lane, at, s)
}

// regions are the open regions of a goroutine.
type regions struct {
	lane           // of which only the track and the time are used, since several slices may be open
	types []string // the outermost first
	more  int      // beyond maxRegions
}

// maxRegions is the largest depth of drawn regions. Deeper regions count as ignored.
const maxRegions = 500

// beginRegion begins a slice of what a goroutine does for a while, on a track below that of the goroutine.
func (tl *Timeline) beginRegion(id uint64, at int64, s *Slice) {
	g := tl.goroutineOf(id, nil)
	r := g.regions
	if r == nil {
		r = &regions{lane: tl.newLane(RegionTrack, id, Description{Parent: g.track.ID})}
		g.regions = r
	}
	if len(r.types) == maxRegions {
		r.more++
		tl.stats.Ignored++
		return
	}
	r.types = append(r.types, s.Name.Text)
	tl.sink.Begin(r.place(at), r.track, s)
	tl.stats.Slices++
}

func (tl *Timeline) endRegion(id uint64, at int64, name string) {
	g := tl.goroutineOf(id, nil)
	r := g.regions
	if r != nil && r.more > 0 {
		r.more--
		tl.stats.Ignored++
		return
	}
	if r != nil {
		for i := len(r.types) - 1; i >= 0; i-- {
			if r.types[i] == name {
				tl.endRegions(g, at, i+1, CutOuter)
				tl.popRegion(r, at, Seen)
				return
			}
		}
	}
	tl.stats.Ignored++ // it began before the observation
}

// endRegions ends the regions of a goroutine that are deeper than a depth.
func (tl *Timeline) endRegions(g *goroutine, at int64, depth int, how Ending) {
	r := g.regions
	for r != nil && len(r.types) > depth {
		tl.popRegion(r, at, how)
	}
}

func (tl *Timeline) popRegion(r *regions, at int64, how Ending) {
	n := len(r.types) - 1
	tl.sink.End(r.place(at), r.track, Name{Text: r.types[n]}, how)
	r.types[n] = ""
	r.types = r.types[:n]
	if how != Seen {
		tl.stats.Cut++
	}
}
