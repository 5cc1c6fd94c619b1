package timeline

import "github.com/loupe-go/loupe/internal/gostate"

// lane is a track on which at most one slice is open at a time.
type lane struct {
	track Track
	last  int64  // time of the last element on the track
	epoch uint32 // number of losses when its state was last confirmed
	open  bool
	doubt bool // events were lost while the slice was open, and a later event was consistent with it
}

// place returns the time at which an event is drawn on a lane, and advances the lane to it.
func (l *lane) place(at int64) int64 {
	l.last = max(l.last, at)
	return l.last
}

// begin starts a slice on a lane.
func (tl *Timeline) begin(l *lane, at int64, s *Slice) {
	tl.sink.Begin(l.place(at), l.track, s)
	l.open, l.doubt, l.epoch = true, false, tl.epoch
	tl.stats.Slices++
	if s.Role != NoFlow {
		tl.stats.Flows++
	}
}

// end ends the open slice of a lane, if there is one.
func (tl *Timeline) end(l *lane, at int64, name Name, how Ending) {
	if !l.open {
		return
	}
	tl.sink.End(l.place(at), l.track, name, how)
	l.open = false
	switch how {
	case Seen:
	case Uncertain:
		tl.stats.Uncertain++
	default:
		tl.stats.Cut++
	}
}

// instant draws an instant on a lane.
func (tl *Timeline) instant(l *lane, at int64, s *Slice) {
	tl.sink.Instant(l.place(at), l.track, s)
	tl.stats.Instants++
	if s.Role != NoFlow {
		tl.stats.Flows++
	}
}

// close ends the open slice of a lane at an event. If events were lost meanwhile and the event does not
// fit, the slice ends at the start of the loss, and a slice "unknown" fills the time until the event.
func (tl *Timeline) close(l *lane, at int64, name Name, f gostate.Fit) {
	if !l.open {
		return
	}
	at = max(at, l.last)
	stale := l.epoch != tl.epoch
	switch {
	case f == gostate.Misfit && stale:
		tl.end(l, min(tl.losses.after(l.epoch), at), name, CutLost)
		tl.unknown(l, at)
	case f == gostate.Misfit:
		tl.end(l, at, name, CutMissed)
	case f == gostate.Unsure || stale || l.doubt:
		tl.end(l, at, name, Uncertain)
	default:
		tl.end(l, at, name, Seen)
	}
}

// unknown fills a lane up to a time. An empty gap is omitted.
func (tl *Timeline) unknown(l *lane, to int64) {
	if to <= l.last {
		return
	}
	s := tl.slice(l.track.Kind.Category(), "unknown")
	tl.begin(l, l.last, s)
	tl.end(l, to, s.Name, Seen)
	tl.stats.Unknown++
}

// finish ends the open slice of a lane for a reason that concerns the whole program. A slice that was open during a loss may
// have ended earlier.
func (tl *Timeline) finish(l *lane, at int64, name Name, how Ending) {
	if !l.open {
		return
	}
	if l.epoch == tl.epoch {
		tl.end(l, at, name, how)
		return
	}
	tl.close(l, at, name, gostate.Misfit)
}

// slice returns the slice to describe next, with only a name.
func (tl *Timeline) slice(c Category, text string) *Slice {
	s := &tl.scratch
	s.Name, s.Category, s.Role, s.Flow, s.Stack, s.numArgs = Name{Text: text}, c, NoFlow, 0, nil, 0
	return s
}

// lossRing keeps the times of the last losses.
type lossRing struct {
	times []int64
	count uint32 // number of losses
}

// maxLosses is how many losses are kept. A slice that was open for longer is cut at its last event.
const maxLosses = 1 << 14

func (r *lossRing) add(at int64) {
	if len(r.times) < maxLosses {
		r.times = append(r.times, at)
	} else {
		r.times[r.count%maxLosses] = at
	}
	r.count++
}

// after returns the start of the first loss after an epoch; the earliest time if that loss is no longer kept.
func (r *lossRing) after(epoch uint32) int64 {
	if r.count-epoch > maxLosses {
		return 0
	}
	return r.times[epoch%maxLosses]
}
