package timeline

// lane is a track on which at most one slice is open at a time.
type lane struct {
	track Track
	last  int64  // the time of the last thing on the track
	epoch uint32 // how many losses had been when its state was known to hold
	open  bool
	doubt bool // events were lost while the slice was open, and then one came that fits it
}

// place returns when something that happened at a time is drawn on a lane, and notes that it is.
func (l *lane) place(at int64) int64 {
	l.last = max(l.last, at)
	return l.last
}

// begin begins a slice on a lane.
func (tl *Timeline) begin(l *lane, at int64, s *Slice) {
	tl.sink.Begin(l.place(at), l.track, s)
	l.open, l.doubt, l.epoch = true, false, tl.epoch
	tl.stats.Slices++
	if s.Role != NoFlow {
		tl.stats.Flows++
	}
}

// end ends the slice that is open on a lane; nothing when none is.
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

// close ends what is open on a lane by an event that fits it more or less. When events were lost meanwhile and it does not
// fit, the slice ends where events began to be missing, and a slice "unknown" fills the time until the event.
func (tl *Timeline) close(l *lane, at int64, name Name, f fit) {
	if !l.open {
		return
	}
	at = max(at, l.last)
	stale := l.epoch != tl.epoch
	switch {
	case f == misfit && stale:
		tl.end(l, min(tl.losses.after(l.epoch), at), name, CutLost)
		tl.unknown(l, at)
	case f == misfit:
		tl.end(l, at, name, CutMissed)
	case f == unsure || stale || l.doubt:
		tl.end(l, at, name, Uncertain)
	default:
		tl.end(l, at, name, Seen)
	}
}

// unknown fills a lane up to a time. A gap without length is left out.
func (tl *Timeline) unknown(l *lane, to int64) {
	if to <= l.last {
		return
	}
	s := tl.slice(l.track.Kind.Category(), "unknown")
	tl.begin(l, l.last, s)
	tl.end(l, to, s.Name, Seen)
	tl.stats.Unknown++
}

// finish ends what is open on a lane for a reason that has to do with the whole. What was open during a loss is not known to
// have lasted until then.
func (tl *Timeline) finish(l *lane, at int64, name Name, how Ending) {
	if !l.open {
		return
	}
	if l.epoch == tl.epoch {
		tl.end(l, at, name, how)
		return
	}
	tl.close(l, at, name, misfit)
}

// slice returns the slice that is described next, with a name and nothing else.
func (tl *Timeline) slice(c Category, text string) *Slice {
	s := &tl.scratch
	s.Name, s.Category, s.Role, s.Flow, s.Stack, s.numArgs = Name{Text: text}, c, NoFlow, 0, nil, 0
	return s
}

// lossRing keeps the times of the last losses.
type lossRing struct {
	times []int64
	count uint32 // losses so far
}

// maxLosses is how many losses are kept. What was open longer than that is cut at its last event.
const maxLosses = 1 << 14

func (r *lossRing) add(at int64) {
	if len(r.times) < maxLosses {
		r.times = append(r.times, at)
	} else {
		r.times[r.count%maxLosses] = at
	}
	r.count++
}

// after returns when the first loss after an epoch began; the beginning of time when that is too long ago.
func (r *lossRing) after(epoch uint32) int64 {
	if r.count-epoch > maxLosses {
		return 0
	}
	return r.times[epoch%maxLosses]
}
