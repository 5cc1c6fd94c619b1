package timeline

import (
	"fmt"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/internal/sampling"
)

// program draws an event of the whole program.
func (tl *Timeline) program(e *event.Event, at int64) {
	switch e.Kind {
	case event.GCBegin:
		tl.beginWhole(&tl.gc, GCTrack, at, tl.slice(GC, "GC"), e)
	case event.GCEnd:
		tl.endWhole(&tl.gc, at)
	case event.STWBegin:
		s := tl.slice(STW, e.STWReason())
		if e.STWReason() == "" {
			s.Name.Text = "stop the world"
		}
		tl.beginWhole(&tl.stw, STWTrack, at, s, e)
	case event.STWEnd:
		tl.endWhole(&tl.stw, at)
	case event.HeapAlloc:
		tl.set(Heap, e.HeapBytes())
	case event.HeapGoal:
		tl.set(HeapGoal, e.HeapGoalBytes())
	case event.AllocBytes:
		tl.set(AllocBytes, e.AllocatedBytes())
	case event.AllocObjects:
		tl.set(AllocObjects, e.AllocatedObjects())
	case event.Lost:
		tl.lost(e, at)
	case event.Exec:
		tl.finishAll(at, CutExec)
		for _, g := range tl.goroutines.All() {
			tl.dropGoroutine(g)
		}
		for _, t := range tl.threads {
			tl.drop(&t.lane)
		}
		tl.goroutines.Clear()
		clear(tl.threads)
		clear(tl.tasks)
		tl.set(Alive, 0)
		tl.set(NowRunning, 0)
		tl.set(NowRunnable, 0)
		tl.instant(&tl.process.lane, at, tl.slice(Process, "exec"))
	case event.Resample:
		tl.resample(e, at)
	}
}

// resample ends what is drawn of goroutines that are no longer sampled.
func (tl *Timeline) resample(e *event.Event, at int64) {
	rule := sampling.OfShare(e.Sampled())
	for id, g := range tl.goroutines.All() {
		if !rule.Selects(id) {
			tl.change(g, at, gostate.Fits)
			tl.remove(id, g, at)
		}
	}
	tl.instant(&tl.process.lane, at, tl.slice(Process, fmt.Sprintf("%.4g %% of the goroutines are sampled", 100*rule.Ratio())))
}

// whole is a track of the whole program.
type whole struct {
	lane
	name Name // of the open slice
}

// openWhole announces a track of the whole program before its first use.
func (tl *Timeline) openWhole(w *whole, kind TrackKind) {
	if w.track.ID == 0 {
		w.lane = tl.newLane(kind, 0, Description{})
	}
}

func (tl *Timeline) beginWhole(w *whole, kind TrackKind, at int64, s *Slice, e *event.Event) {
	name := s.Name
	tl.openWhole(w, kind)
	if w.open {
		tl.close(&w.lane, at, w.name, gostate.Misfit)
		s = tl.slice(s.Category, name.Text) // a gap may have been drawn
	}
	s.number(KeyBy, int64(e.G))
	tl.begin(&w.lane, at, s)
	w.name = name
}

func (tl *Timeline) endWhole(w *whole, at int64) {
	if !w.open {
		tl.stats.Ignored++ // its start was before the observation, or was lost
		return
	}
	tl.close(&w.lane, at, w.name, gostate.Fits)
}

// lost draws a Lost: events are missing between the previous event and its time.
func (tl *Timeline) lost(e *event.Event, at int64) {
	from := min(tl.before, at)
	tl.losses.add(from)
	tl.epoch++
	tl.stats.Losses++
	tl.stats.Lost += uint64(max(e.Missing(), 0))
	w := &tl.lossTrack
	tl.openWhole(w, LostTrack)
	s := tl.slice(Loss, "lost")
	s.number(KeyLost, e.Missing())
	tl.begin(&w.lane, from, s)
	tl.instant(&w.lane, at, s)
	tl.end(&w.lane, at, s.Name, Seen)
}
