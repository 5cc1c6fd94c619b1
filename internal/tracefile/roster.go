package tracefile

import (
	"cmp"
	"maps"
	"slices"

	"github.com/loupe-go/loupe/event"
)

// A roster is what the goroutines that are alive are doing, to tell it by GoStatus at any moment.
type roster struct {
	alive map[uint64]*lifeState
	spare []*lifeState
}

// lifeState is what is known of a goroutine.
type lifeState struct {
	status event.Event // a GoStatus; Time is when it entered its state
}

func newRoster() *roster { return &roster{alive: map[uint64]*lifeState{}} }

// apply takes an event.
func (r *roster) apply(e *event.Event) {
	if e.G == 0 {
		return
	}
	switch e.Kind {
	case event.GoStatus, event.GoCreate:
		s := r.of(e.G)
		state := e.State
		if state == "" {
			state = event.StateRunnable
		}
		parent, origin := cmp.Or(e.Parent, s.status.Parent), cmp.Or(e.Origin, s.status.Origin)
		s.enter(e, state)
		s.status.Parent, s.status.Origin = parent, origin
		if e.Kind == event.GoStatus {
			s.at(e)
			s.status.Time -= max(e.Value, 0)
			s.status.Stack = e.Stack
		}
	case event.GoStart:
		s := r.of(e.G)
		s.enter(e, event.StateRunning)
		s.at(e)
		s.status.Stack = nil // where it goes on is not known
	case event.GoStop:
		s := r.of(e.G)
		s.enter(e, event.StateRunnable)
		s.status.Stack = e.Stack
	case event.GoBlock:
		s := r.of(e.G)
		s.enter(e, event.StateWaiting)
		s.status.Stack = e.Stack
	case event.GoUnblock:
		s := r.of(e.G)
		s.enter(e, event.StateRunnable)
		s.status.Reason, s.status.TraceReason = "", ""
	case event.GoSyscallBegin:
		s := r.of(e.G)
		s.enter(e, event.StateSyscall)
		s.at(e)
		s.status.Stack = e.Stack
	case event.GoSyscallEnd:
		s := r.of(e.G)
		if e.State == event.StateRunnable {
			s.enter(e, event.StateRunnable)
			return
		}
		s.enter(e, event.StateRunning)
		s.at(e)
		s.status.Stack = nil
	case event.GoDestroy:
		if s := r.alive[e.G]; s != nil {
			delete(r.alive, e.G)
			*s = lifeState{}
			r.spare = append(r.spare, s)
		}
	}
}

// of returns what is known of a goroutine.
func (r *roster) of(g uint64) *lifeState {
	s := r.alive[g]
	if s == nil {
		if n := len(r.spare); n > 0 {
			s, r.spare = r.spare[n-1], r.spare[:n-1]
		} else {
			s = new(lifeState)
		}
		s.status = event.Event{Kind: event.GoStatus, G: g}
		r.alive[g] = s
	}
	return s
}

// enter notes that a goroutine is in another state.
func (s *lifeState) enter(e *event.Event, state event.State) {
	st := &s.status
	st.Time, st.PID, st.State = e.Time, e.PID, state
	st.Reason, st.TraceReason = e.Reason, e.TraceReason
	st.TID, st.P = 0, 0
}

// at notes where a goroutine executes.
func (s *lifeState) at(e *event.Event) { s.status.TID, s.status.P = e.TID, e.P }

// each calls a function for the status of each goroutine at a time, by ID, until it returns an error.
func (r *roster) each(now int64, f func(*event.Event) error) error {
	for _, g := range slices.Sorted(maps.Keys(r.alive)) {
		e := r.alive[g].status
		e.Value = 0
		if e.State == event.StateWaiting {
			e.Value = max(now-e.Time, 0)
		}
		e.Time = now
		if err := f(&e); err != nil {
			return err
		}
	}
	return nil
}
