package probe

import (
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// collectEvery is how often records are taken over while the snapshot is read.
const collectEvery = 2 * time.Millisecond

// begin takes the snapshot with which the events begin. Probes fire already: what they report meanwhile is kept, and it
// tells of each goroutine that moved what it was doing before.
func (s *Session) begin() error {
	if !s.needsSnapshot() {
		return nil
	}
	start := monotonic() + s.decoder.offset
	s.buffered = &backlog{}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		s.collect(done)
	}()
	s.awaitThreads()
	snap, err := s.proc.Snapshot(s.ctx, goproc.SnapshotOptions{})
	close(done)
	<-stopped
	if err != nil {
		return err
	}
	for _, w := range snap.Warnings {
		if !slices.Contains(s.proc.Warnings(), w) { // those are among the session's already
			s.warnings = append(s.warnings, w)
		}
	}
	if err := s.hideSystem(snap); err != nil {
		return err
	}
	if s.plan.Want.Kinds.Has(event.GoStatus) {
		s.first = s.statuses(snap, start)
	}
	return nil
}

// A thread that has passed a probe's place just before it was enabled is about to change a goroutine's state without an
// event that tells. It needs less than settleTime to do so, once it runs.
const (
	settleTime    = 20 * time.Microsecond
	settleTimeout = time.Second
)

// awaitThreads waits until no thread can be between a probe's place and the change that the probe would have told of.
func (s *Session) awaitThreads() {
	progress, err := s.proc.Progress()
	if err != nil {
		return // the snapshot will tell why
	}
	if behind := progress.Await(s.ctx, settleTime, settleTimeout); behind > 0 {
		s.warnings = append(s.warnings, fmt.Sprintf("%d threads did not run for %v, the machine is busy: the first state of some goroutines may be out of date",
			behind, settleTimeout))
	}
}

// needsSnapshot reports whether anything depends on what goroutines there are.
func (s *Session) needsSnapshot() bool {
	w := s.plan.Want
	if w.Kinds.Has(event.GoStatus) {
		return true
	}
	return s.plan.Config.SkipListed != 0 && w.Kinds&^(event.KindsGC|event.KindsOf(event.GoCreate)) != 0
}

// collect takes over records until done.
func (s *Session) collect(done <-chan struct{}) {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for room := true; ; {
		if room {
			s.engine.Drain(func(raw []byte) bool {
				room = s.buffered.add(raw)
				return room
			})
		}
		select {
		case <-tick.C:
		case <-done:
			if room {
				s.engine.DrainAll(s.buffered.add) // no goroutine may be in the snapshot whose first move is still to come
			}
			return
		}
	}
}

// hideSystem makes the filters leave out the runtime's own goroutines that are alive.
func (s *Session) hideSystem(snap *goproc.Snapshot) error {
	if s.plan.Config.SkipListed == 0 {
		return nil
	}
	var system []uint64
	for i := range snap.Goroutines {
		if g := &snap.Goroutines[i]; g.System {
			system = append(system, g.ID)
			s.decoder.hide(g.ID)
		}
	}
	return s.engine.List(system)
}

// move is what a goroutine did first after the probes were enabled.
type move struct {
	kind    uint8
	created bool
}

// statuses returns the goroutines that were alive when the probes were enabled.
func (s *Session) statuses(snap *goproc.Snapshot, at int64) []event.Event {
	moves := s.firstMoves()
	var list []event.Event
	add := func(ev event.Event) {
		ev.Time, ev.Kind, ev.PID = at, event.GoStatus, int32(s.PID())
		list = append(list, ev)
	}
	b := newStatusBuilder()
	for i := range snap.Goroutines {
		g := &snap.Goroutines[i]
		m, moved := moves[g.ID]
		delete(moves, g.ID)
		if m.created || !s.selects(g) {
			continue
		}
		ev := b.status(g)
		settle(&ev, g)
		if state := m.before(); moved && state != ev.State {
			ev.State, ev.Reason, ev.Value, ev.Stack = state, "", 0, nil
		}
		add(ev)
	}
	for id, m := range moves { // gone before the snapshot came to them
		if !m.created && id != 0 && !s.decoder.system[id] {
			add(event.Event{G: id, State: m.before()})
		}
	}
	return list
}

// selects reports whether the filters let a goroutine of the snapshot pass.
func (s *Session) selects(g *goproc.Goroutine) bool {
	w := s.plan.Want
	if w.SampleOneIn > 1 && g.ID%uint64(w.SampleOneIn) != 0 {
		return false
	}
	if len(w.Goroutines) > 0 {
		for _, id := range w.Goroutines {
			if id == g.ID {
				return true
			}
		}
		return false
	}
	return w.System || !g.System
}

// firstMoves returns what each goroutine did first, by the records that were kept.
func (s *Session) firstMoves() map[uint64]move {
	moves := map[uint64]move{}
	note := func(g uint64, m move) {
		if _, ok := moves[g]; !ok {
			moves[g] = m
		}
	}
	s.buffered.drain(func(raw []byte) bool {
		if len(raw) < recordSize {
			return true
		}
		r := (*csrc.Record)(unsafe.Pointer(unsafe.SliceData(raw)))
		switch r.Kind {
		case csrc.KindStack:
		case csrc.KindSwitch:
			note(r.G, move{kind: uint8(event.GoBlock)})
			note(r.Arg, move{kind: uint8(event.GoUnblock)})
		default:
			note(r.G, move{kind: r.Kind, created: r.Kind == uint8(event.GoCreate)})
		}
		return true
	})
	return moves
}

// before returns the state that a goroutine was in before its first move.
func (m move) before() event.State {
	switch event.Kind(m.kind) {
	case event.GoUnblock:
		return event.StateWaiting
	case event.GoStart:
		return event.StateRunnable
	case event.GoSyscallEnd:
		return event.StateSyscall
	}
	return event.StateRunning
}

// settle makes one of the states of the stream out of a state that a snapshot may find.
func settle(ev *event.Event, g *goproc.Goroutine) {
	switch {
	case g.State == event.StateCopystack:
		ev.State = event.StateRunning
	case g.State == event.StatePreempted:
		ev.State, ev.Reason = event.StateWaiting, "preempted"
	case g.Lent:
		ev.State, ev.Reason, ev.Value = event.StateRunning, "", 0
	}
}

// statusBuilder makes events of a snapshot's goroutines. Equal stacks and origins become the same pointer.
type statusBuilder struct {
	stacks  map[*goproc.Frame]*event.Stack
	origins map[event.Origin]*event.Origin
}

func newStatusBuilder() *statusBuilder {
	return &statusBuilder{stacks: map[*goproc.Frame]*event.Stack{}, origins: map[event.Origin]*event.Origin{}}
}

func (b *statusBuilder) status(g *goproc.Goroutine) event.Event {
	ev := event.Event{G: g.ID, TID: int32(g.ThreadID), Parent: g.Parent, State: g.State, Reason: g.Reason, Value: int64(g.Wait)}
	key := event.Origin{CreatedBy: g.CreatedBy, Start: g.Start, System: g.System}
	origin, ok := b.origins[key]
	if !ok {
		origin = &key
		b.origins[key] = origin
	}
	ev.Origin = origin
	if len(g.Stack) == 0 {
		return ev
	}
	stack, ok := b.stacks[&g.Stack[0]]
	if !ok {
		stack = &event.Stack{Frames: goproc.Visible(g.Stack), Truncated: g.Truncated}
		b.stacks[&g.Stack[0]] = stack
	}
	ev.Stack = stack
	return ev
}
