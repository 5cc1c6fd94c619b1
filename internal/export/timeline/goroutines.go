package timeline

import (
	"cmp"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// goroutine is a live goroutine.
type goroutine struct {
	lane
	flow    uint64 // the flow to its next start, or 0
	origin  *event.Origin
	regions *regions
	tid     int32 // its thread; 0 if none or unknown
	state   gostate.State
	handed  bool // a coroutine that waits for a switch to it: it starts without being unblocked
	over    bool // its wait was reported when it ended
	thread  bool // its slice on a thread is open
	stays   bool // the slice on a thread continues over the next change of state
}

// goroutineOf returns a goroutine, and announces its track if it is new.
func (tl *Timeline) goroutineOf(id uint64, o *event.Origin) *goroutine {
	g := tl.goroutines.Find(id)
	if g == nil {
		return tl.addGoroutine(id, o)
	}
	if g.origin == nil && o != nil {
		g.origin = o
		tl.described = Description{Origin: o}
		tl.sink.Open(g.track, &tl.described)
	}
	return g
}

// addGoroutine adds a goroutine that is not in the table, and announces its track.
func (tl *Timeline) addGoroutine(id uint64, o *event.Origin) *goroutine {
	g := tl.goroutines.Insert(id)
	g.origin = o
	g.lane = tl.newLane(GoroutineTrack, id, Description{Origin: o})
	tl.count(Alive, 1)
	return g
}

// life draws an event about the state of a goroutine.
func (tl *Timeline) life(e *event.Event, at int64) {
	switch e.Kind {
	case event.GoStatus:
		tl.found(e, at)
	case event.GoCreate:
		tl.created(e, at)
	case event.GoUnblock:
		tl.woken(e, at)
	case event.GoDestroy:
		tl.destroyed(e, at)
	case event.GoStart:
		g := tl.goroutineOf(e.G, nil)
		f := tl.rules.Fit[e.Kind][g.state]
		if g.state == gostate.Waiting && g.handed {
			f = gostate.Fits
		}
		tl.change(g, at, f)
		s := tl.slice(Running, "running")
		if g.flow != 0 {
			s.Role, s.Flow, g.flow = FlowEnds, g.flow, 0
		}
		tl.enter(g, gostate.Running, at, e, s)
	case event.GoStop:
		tl.stopped(e, at)
	case event.GoBlock:
		g := tl.goroutineOf(e.G, nil)
		tl.change(g, at, tl.rules.Fit[e.Kind][g.state])
		tl.enter(g, gostate.Waiting, at, e, tl.wait(e))
		if wait := int64(e.Wait()); wait > 0 {
			tl.waitIsOver(g, at, wait)
		}
	case event.GoSyscallBegin:
		g := tl.goroutineOf(e.G, nil)
		g.stays = e.TID == g.tid && g.state == gostate.Running
		tl.change(g, at, tl.rules.Fit[e.Kind][g.state])
		s := tl.slice(Syscall, "syscall")
		s.Stack = e.Stack
		tl.enter(g, gostate.Syscall, at, e, s)
	case event.GoSyscallEnd:
		if gostate.After(e) == gostate.Runnable {
			tl.stopped(e, at)
			return
		}
		tl.runs(tl.goroutineOf(e.G, nil), e, at)
	default: // something that only running goroutines do
		tl.runs(tl.goroutineOf(e.G, nil), e, at)
	}
}

// stopped draws an event after which a goroutine that ran or was in a system call is runnable.
func (tl *Timeline) stopped(e *event.Event, at int64) {
	g := tl.goroutineOf(e.G, nil)
	tl.change(g, at, tl.rules.Fit[e.Kind][g.state])
	s := tl.slice(Runnable, "runnable")
	s.text(KeyReason, e.StopReason())
	s.Stack = e.Stack
	tl.enter(g, gostate.Runnable, at, e, s)
}

// wait returns the slice of a wait.
func (tl *Timeline) wait(e *event.Event) *Slice {
	reason := e.WaitReason()
	s := tl.slice(Blocked, cmp.Or(reason, "blocked"))
	if e.TraceReason != reason {
		s.text(KeyTraceText, e.TraceReason)
	}
	s.Stack = e.Stack
	return s
}

// found draws a GoStatus: the goroutine is alive at the start of the observation. If it is already known, the snapshot
// counts only if it differs, or if events were lost.
func (tl *Timeline) found(e *event.Event, at int64) {
	g := tl.goroutineOf(e.G, e.Origin)
	next := gostate.After(e)
	if g.open && g.state == next && g.epoch == tl.epoch {
		return
	}
	f := gostate.Misfit
	if g.state == next {
		f = gostate.Fits
	}
	tl.change(g, at, f)
	var s *Slice
	switch next {
	case gostate.Unknown:
		return
	case gostate.Waiting:
		s = tl.wait(e)
	case gostate.Running:
		s = tl.slice(Running, "running")
	case gostate.Runnable:
		s = tl.slice(Runnable, "runnable")
	case gostate.Syscall:
		s = tl.slice(Syscall, "syscall")
	}
	s.Stack = e.Stack
	s.number(KeyWaited, int64(e.Wait()))
	tl.enter(g, next, at, e, s)
}

// created draws a GoCreate.
func (tl *Timeline) created(e *event.Event, at int64) {
	if tl.goroutines.Find(e.G) != nil {
		tl.goroutineOf(e.G, e.Origin)
		tl.stats.Ignored++ // except for the origin
		return
	}
	g := tl.addGoroutine(e.G, e.Origin)
	if e.Parent != 0 {
		by := tl.goroutineOf(e.Parent, nil)
		s := tl.slice(Create, "")
		s.Name.Lead = "go"
		if e.Origin != nil && e.Origin.Start.Func != "" {
			s.Name = Name{Lead: "go ", Text: e.Origin.Start.Func}
		}
		s.number(KeyG, int64(e.G))
		s.Stack = e.Stack
		at = tl.cause(by, g, at, s)
	}
	s := tl.slice(Runnable, "runnable")
	next := gostate.After(e)
	if next == gostate.Waiting {
		s = tl.wait(e)
		s.Stack = nil // it belongs to the creator
	}
	s.number(KeyBy, int64(e.Parent))
	tl.enter(g, next, at, e, s)
	g.handed = next == gostate.Waiting
}

// cause draws an action on another goroutine on the track of the actor, and starts a flow that ends when the other starts. It
// returns the time at which the action is drawn.
func (tl *Timeline) cause(by, g *goroutine, at int64, s *Slice) int64 {
	at = max(at, g.last, by.last)
	if g.flow = 0; by.open || !tl.flowsNeedSlices {
		tl.flows++
		g.flow = tl.flows
		s.Role, s.Flow = FlowBegins, g.flow
	}
	tl.instant(&by.lane, at, s)
	return at
}

// woken draws a GoUnblock.
func (tl *Timeline) woken(e *event.Event, at int64) {
	g := tl.goroutineOf(e.G, nil)
	if e.By != 0 {
		by := tl.goroutineOf(e.By, nil)
		s := tl.slice(Wake, "unblock")
		s.number(KeyG, int64(e.G))
		s.Stack = e.Stack
		at = tl.cause(by, g, at, s)
	} else {
		g.flow = 0
	}
	if g.over { // its slice has ended, and no start will follow
		g.over = false
		if g.flow != 0 {
			s := tl.slice(Wake, "unblocked")
			s.number(KeyBy, int64(e.By))
			s.Role, s.Flow, g.flow = FlowEnds, g.flow, 0
			tl.instant(&g.lane, at, s)
		}
		return
	}
	tl.change(g, at, tl.rules.Fit[e.Kind][g.state])
	s := tl.slice(Runnable, "runnable")
	s.number(KeyBy, int64(e.By))
	tl.enter(g, gostate.Runnable, at, e, s)
}

// destroyed draws a GoDestroy. A goroutine without any other event is omitted.
func (tl *Timeline) destroyed(e *event.Event, at int64) {
	g := tl.goroutines.Find(e.G)
	if g == nil {
		tl.stats.Ignored++
		return
	}
	tl.change(g, at, tl.rules.Fit[e.Kind][g.state])
	tl.remove(e.G, g, at)
}

// remove removes a goroutine whose last state has ended.
func (tl *Timeline) remove(id uint64, g *goroutine, at int64) {
	tl.endRegions(g, at, 0, CutGoroutine)
	tl.count(Alive, -1)
	tl.dropGoroutine(g)
	*g = goroutine{}
	tl.goroutines.Remove(id)
}

func (tl *Timeline) dropGoroutine(g *goroutine) {
	tl.drop(&g.lane)
	if g.regions != nil {
		tl.drop(&g.regions.lane)
	}
}

// runs draws an event that implies that a goroutine runs.
func (tl *Timeline) runs(g *goroutine, e *event.Event, at int64) {
	if g.state == gostate.Running && g.open {
		if g.epoch != tl.epoch {
			g.epoch, g.doubt = tl.epoch, true
		}
		return
	}
	g.stays = e.TID == g.tid && g.state == gostate.Syscall
	tl.change(g, at, tl.rules.Fit[e.Kind][g.state])
	tl.enter(g, gostate.Running, at, e, tl.slice(Running, "running"))
}

// change ends the slice of a goroutine's state. enter or the goroutine's end must follow.
func (tl *Timeline) change(g *goroutine, at int64, f gostate.Fit) {
	tl.close(&g.lane, at, Name{}, f)
	switch g.state {
	case gostate.Running:
		tl.count(NowRunning, -1)
	case gostate.Runnable:
		tl.count(NowRunnable, -1)
	}
	g.state, g.handed, g.over = gostate.Unknown, false, false
	if g.thread && !g.stays {
		tl.leaveThread(g, at, f)
	}
	g.stays = false
}

// enter starts a state of a goroutine with an event, if such states are drawn.
func (tl *Timeline) enter(g *goroutine, next gostate.State, at int64, e *event.Event, s *Slice) {
	g.epoch = tl.epoch
	// A wait of known length is drawn even if the events that end waits are not observed.
	if wait := e.Kind == event.GoBlock && e.Wait() > 0; !wait && !tl.draws(next) {
		return
	}
	g.state = next
	g.handed = next == gostate.Waiting && e.WaitReason() == gostate.Coroutine
	switch next {
	case gostate.Running:
		tl.count(NowRunning, 1)
		s.number(KeyThread, int64(e.TID))
		if p, ok := e.P.ID(); ok {
			s.add(Arg{Key: KeyP, Number: int64(p)})
		}
	case gostate.Runnable:
		tl.count(NowRunnable, 1)
	}
	tl.begin(&g.lane, at, s)
	if tl.opt.Threads && (next == gostate.Running || next == gostate.Syscall) && e.TID != 0 && !g.thread {
		tl.enterThread(g, e.TID, at)
	}
}

// waitIsOver ends a wait that was reported when it ended.
func (tl *Timeline) waitIsOver(g *goroutine, at, length int64) {
	end := at + length
	if end < at {
		end = maxTime
	}
	tl.now = max(tl.now, end)
	tl.change(g, end, gostate.Fits)
	g.over = true
}
