package probe

import (
	"math"
	"slices"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// collectEvery is how often records are drained while the snapshot is read.
const collectEvery = 2 * time.Millisecond

// begin takes the snapshot that the stream of events starts with. The probes are already enabled. Their records are
// buffered, and give the previous state of each goroutine that changed its state during the snapshot.
func (s *Session) begin() error {
	if !s.needsSnapshot() {
		return nil
	}
	start := monotonic()
	snap, err := s.snapshot(s.decoder.rule.Selects)
	if err != nil {
		return err
	}
	s.warnings = append(s.warnings, snap.warnings...)
	if err := s.hideSystem(snap.system); err != nil {
		return err
	}
	if s.plan.Want.Kinds.Has(event.GoStatus) {
		s.complete(snap.list, start, s.decoder.rule.Selects)
		s.first = snap.list
	}
	return nil
}

// snapshot is the goroutines that were read while the records of the probes were buffered.
type snapshot struct {
	list     *initialList // those that match the filters
	system   []uint64     // those of the runtime
	warnings []event.Warning
}

// snapshot takes a snapshot. The list has goroutines that are sampled, if GoStatus is observed.
func (s *Session) snapshot(sampled func(uint64) bool) (*snapshot, error) {
	s.buffered = &backlog{}
	done, collected := make(chan struct{}), make(chan bool)
	go func() { collected <- s.collect(done) }()
	t := &snapshot{list: newInitialList()}
	t.warnings = s.awaitThreads()
	wanted := s.plan.Want.Kinds.Has(event.GoStatus)
	snap, err := s.proc.Snapshot(s.ctx, goproc.SnapshotOptions{Each: func(g *event.Goroutine) {
		if g.System {
			t.system = append(t.system, g.ID)
		}
		if wanted && sampled(g.ID) && s.selects(g) {
			t.list.add(g)
		}
	}})
	close(done)
	all := <-collected
	if err != nil {
		return nil, err
	}
	if !all {
		t.warnings = append(t.warnings, event.Warnf(event.WarnState, "the first events of some goroutines came too late because the machine is busy: their initial state may be out of date"))
	}
	for _, w := range snap.Warnings {
		if !slices.Contains(s.proc.Warnings(), w) { // already in the session's warnings
			t.warnings = append(t.warnings, w)
		}
	}
	return t, nil
}

// complete makes a list that of the goroutines that were sampled and alive at a time, when they began to be observed.
func (s *Session) complete(list *initialList, start int64, sampled func(uint64) bool) {
	moves, first := s.firstMoves()
	s.correct(list, moves, sampled)
	list.event = event.Event{Kind: event.GoStatus, PID: int32(s.PID()), Time: min(start, first) + s.decoder.offset}
}

// A thread that passed a probe's place just before the probe was enabled may still change a goroutine's state without
// an event. Once it runs, it does so within settleTime.
const (
	settleTime    = 20 * time.Microsecond
	settleTimeout = time.Second
)

// awaitThreads waits until no thread can be between a probe's place and the change of state that the probe reports.
func (s *Session) awaitThreads() []event.Warning {
	progress, err := s.proc.Progress()
	if err != nil {
		return nil // the snapshot returns the error
	}
	if behind := progress.Await(s.ctx, settleTime, settleTimeout); behind > 0 {
		return []event.Warning{event.Warnf(event.WarnState, "%s did not run for %v because the machine is busy: the initial state of some goroutines may be out of date",
			english.Count(behind, "thread"), settleTimeout)}
	}
	return nil
}

// needsSnapshot reports whether an event or a filter depends on the goroutines that exist.
func (s *Session) needsSnapshot() bool {
	w := s.plan.Want
	if w.Kinds.Has(event.GoStatus) {
		return true
	}
	return s.plan.Config.SkipListed != 0 && !gostate.OfProgram().Union(event.KindsOf(event.GoCreate)).Contains(w.Kinds)
}

// collect buffers records until done. It reports whether the first move of each goroutine in the snapshot is among them.
func (s *Session) collect(done <-chan struct{}) (all bool) {
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
			return room && s.engine.DrainAll(s.buffered.add)
		}
	}
}

// hideSystem makes the filters exclude the live goroutines of the runtime.
func (s *Session) hideSystem(system []uint64) error {
	if s.plan.Config.SkipListed == 0 {
		return nil
	}
	for _, g := range system {
		s.decoder.hide(g)
	}
	return s.engine.List(system)
}

// move is the first event of a goroutine after the probes were enabled.
type move struct {
	kind    uint8
	created bool
	tid     int32 // the thread on which it happened
}

// correct changes the list to the goroutines that were alive when the probes were enabled, using their first moves.
func (s *Session) correct(list *initialList, moves map[uint64]move, sampled func(uint64) bool) {
	for i := range list.n {
		g := list.at(i)
		m, moved := moves[g.id]
		delete(moves, g.id)
		if g.created = m.created; m.created {
			continue
		}
		if !moved {
			continue
		}
		state := m.before()
		if state != list.states.of(uint16(g.state)) {
			g.state, g.reason, g.wait, g.stack = uint8(list.states.number(state)), 0, 0, nil
		}
		g.tid = m.thread(state) // when the snapshot read it, it may have been running on another one
	}
	for id, m := range moves { // exited before the snapshot read them
		if !m.created && id != 0 && !s.decoder.system[id] && sampled(id) {
			list.append(initial{id: id, state: uint8(list.states.number(m.before())), tid: m.thread(m.before())})
		}
	}
	list.sort()
}

// selects reports whether a goroutine of the snapshot matches the filters, whether it is sampled or not.
func (s *Session) selects(g *event.Goroutine) bool {
	w := s.plan.Want
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

// firstMoves returns the first move of each goroutine in the buffered records, and the earliest time in these records on the
// monotonic clock, or math.MaxInt64 without records.
func (s *Session) firstMoves() (moves map[uint64]move, first int64) {
	moves, first = map[uint64]move{}, math.MaxInt64
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
		if r.Kind == csrc.KindStack || r.Kind == uint8(event.Lost) || isNote(r.Kind, len(s.decoder.sets)) {
			return true
		}
		first = min(first, int64(r.Time))
		switch {
		case gostate.OfProgram().Has(event.Kind(r.Kind)): // may name a goroutine of the runtime, whose creation is not reported
		case r.Kind == csrc.KindSwitch:
			note(r.G, move{kind: uint8(event.GoBlock), tid: int32(r.Tid)})
			note(r.Arg, move{kind: uint8(event.GoUnblock)})
		default:
			note(r.G, move{kind: r.Kind, created: r.Kind == uint8(event.GoCreate), tid: int32(r.Tid)})
		}
		return true
	})
	return moves, first
}

// thread returns the thread on which a goroutine was before its first move, in the state that before returns; 0 if it had none.
func (m move) thread(before event.State) int32 {
	if before == event.StateRunning || before == event.StateSyscall {
		return m.tid
	}
	return 0
}

// before returns the state that a goroutine was in before its first move.
func (m move) before() event.State {
	if s := gostate.Before(event.Kind(m.kind)); s != gostate.Unknown {
		return s.Name()
	}
	return event.StateRunning // of a kind that is not about the goroutine's state
}
