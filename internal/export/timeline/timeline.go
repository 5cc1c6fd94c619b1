package timeline

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

const maxTime = math.MaxInt64

// Timeline follows a program's events and tells a Sink what to draw. It is used by one goroutine at a time.
type Timeline struct {
	sink            Sink
	opt             Options
	flowsNeedSlices bool
	interval        int64
	conduct

	started    bool
	base       int64 // the time of the first event
	at         int64 // time of the current event
	before     int64 // time of the previous event
	now        int64 // the latest time of all
	floor      int64 // the latest time on closed tracks; new tracks start there
	epoch      uint32
	losses     lossRing
	tracks     uint64
	flows      uint64
	goroutines gostate.Table[goroutine]
	threads    map[int32]*thread
	tasks      map[uint64]*whole
	process    whole
	gc, stw    whole
	lossTrack  whole
	counters   [NumCounters]counter
	pending    bool // a counter has a pending value
	scratch    Slice
	described  Description
	stats      Stats
}

// New returns a Timeline that draws on a sink. With flowsNeedSlices a flow begins only where a slice is open around its
// beginning, which some formats ask for.
func New(sink Sink, opt Options, flowsNeedSlices bool) *Timeline {
	tl := &Timeline{sink: sink, opt: opt, flowsNeedSlices: flowsNeedSlices, conduct: newConduct(opt.Kinds, opt.MinBlock),
		goroutines: gostate.NewTable[goroutine](0), threads: map[int32]*thread{}, tasks: map[uint64]*whole{}}
	tl.interval = int64(opt.CounterInterval)
	if opt.CounterInterval == 0 {
		tl.interval = int64(DefaultCounterInterval)
	}
	return tl
}

// Apply takes the next event.
func (tl *Timeline) Apply(e *event.Event) {
	tl.stats.Events++
	if !tl.started {
		tl.start(e)
	}
	at := max(e.Time, tl.base)
	tl.at, tl.now = at, max(tl.now, at)
	if tl.pending {
		tl.drawCounters(at)
	}
	switch group := groups[e.Kind]; {
	case group == groupNone, group <= groupUse && e.G == 0:
		tl.stats.Ignored++
	case group == groupLife:
		tl.life(e, at)
	case group == groupUse:
		tl.use(e, at)
	case group == groupProgram:
		tl.program(e, at)
	case group == groupUser:
		tl.user(e, at)
	}
	tl.before = at
}

func (tl *Timeline) start(e *event.Event) {
	tl.started = true
	tl.base = max(e.Time, 0)
	tl.before = tl.base
	tl.sink.Start(tl.base, e.PID)
	tl.openWhole(&tl.process, ProcessTrack)
}

// groups of kinds that are drawn alike. Those up to groupUse are about a goroutine.
type group uint8

const (
	groupNone group = iota
	groupLife
	groupUse
	groupProgram
	groupUser
)

var groups = func() (g [event.KindLimit]group) {
	for to, kinds := range map[group]event.Kinds{
		groupLife:    event.KindsGoroutine.Union(event.KindsSyscall),
		groupUse:     event.KindsChannel.Union(event.KindsLock, event.KindsOf(event.GCMarkAssistBegin, event.GCMarkAssistEnd)),
		groupProgram: gostate.OfProgram().Union(event.KindsMemory, event.GroupStream.Kinds()),
		groupUser:    event.KindsUser,
	} {
		for _, k := range kinds.List() {
			g[k] = to
		}
	}
	return g
}()

// newLane announces a new track and returns its lane. The viewer's track may be one that had another use before, so nothing comes
// to it before that ended.
func (tl *Timeline) newLane(kind TrackKind, of uint64, d Description) lane {
	return lane{track: tl.open(kind, of, d), last: tl.floor, epoch: tl.epoch}
}

// drop closes a lane.
func (tl *Timeline) drop(l *lane) { tl.floor = max(tl.floor, l.last) }

// open announces a new track.
func (tl *Timeline) open(kind TrackKind, of uint64, d Description) Track {
	tl.tracks++
	t := Track{ID: tl.tracks, Kind: kind, Of: of}
	tl.described = d
	tl.sink.Open(t, &tl.described)
	tl.stats.Tracks++
	return t
}

// Close ends everything that is open at the time of the last event. No event may follow.
func (tl *Timeline) Close() {
	if !tl.started {
		return
	}
	tl.finishCounters()
	tl.finishAll(tl.now, CutObservation)
}

// finishAll ends all open slices.
func (tl *Timeline) finishAll(at int64, how Ending) {
	for _, g := range tl.goroutines.All() {
		tl.finish(&g.lane, at, Name{}, how)
		tl.endRegions(g, at, 0, how)
		if g.thread {
			tl.finish(&tl.threads[g.tid].lane, at, Name{}, how)
		}
	}
	for _, t := range byTrack(tl.tasks) {
		tl.finish(&t.lane, at, t.name, how)
	}
	tl.finish(&tl.gc.lane, at, tl.gc.name, how)
	tl.finish(&tl.stw.lane, at, tl.stw.name, how)
}

// byTrack returns the open tasks in the order of their tracks.
func byTrack(tasks map[uint64]*whole) []*whole {
	return slices.SortedFunc(maps.Values(tasks), func(a, b *whole) int { return cmp.Compare(a.track.ID, b.track.ID) })
}

// Stats returns what was counted so far, but for bytes.
func (tl *Timeline) Stats() Stats { return tl.stats }
