package tracefile

import (
	"cmp"
	"slices"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// A roster is what the goroutines that are alive are doing, to tell it by GoStatus at any moment.
type roster struct{ alive gostate.Table[lifeState] }

// lifeState is what is known of a goroutine.
type lifeState struct {
	status event.Event // a GoStatus; Time is when it entered its state
}

func newRoster() *roster { return &roster{alive: gostate.NewTable[lifeState](0)} }

// apply takes an event.
func (r *roster) apply(e *event.Event) {
	if e.G == 0 || !gostate.About(e.Kind) {
		return
	}
	s := r.alive.Find(e.G)
	if e.Kind == event.GoDestroy {
		if s != nil {
			*s = lifeState{}
			r.alive.Remove(e.G)
		}
		return
	}
	if s == nil {
		if s = r.alive.Insert(e.G); s == nil {
			return
		}
		s.status = event.Event{Kind: event.GoStatus, G: e.G}
	}
	next := gostate.After(e)
	state := next.Name()
	if e.Kind == event.GoStatus && e.State != "" {
		state = e.State
	}
	s.enter(e, cmp.Or(state, event.StateRunnable))
	if executes := next == gostate.Running || next == gostate.Syscall; executes || e.Kind == event.GoStatus {
		s.status.TID, s.status.P = e.TID, e.P
	}
	switch e.Kind {
	case event.GoStatus:
		s.status.Time -= max(int64(e.Wait()), 0)
		s.status.Stack = e.Stack
	case event.GoUnblock:
		s.status.Reason, s.status.TraceReason = "", ""
	case event.GoStop, event.GoBlock, event.GoSyscallBegin:
		s.status.Stack = e.Stack
	case event.GoStart, event.GoSyscallEnd:
		if next == gostate.Running {
			s.status.Stack = nil // where it goes on is not known
		}
	}
	if e.Kind == event.GoStatus || e.Kind == event.GoCreate {
		s.status.Parent, s.status.Origin = cmp.Or(e.Parent, s.status.Parent), cmp.Or(e.Origin, s.status.Origin)
	}
}

// enter notes that a goroutine is in another state.
func (s *lifeState) enter(e *event.Event, state event.State) {
	st := &s.status
	st.Time, st.PID, st.State = e.Time, e.PID, state
	st.Reason, st.TraceReason = cmp.Or(e.WaitReason(), e.StopReason()), e.TraceReason
	st.TID, st.P = 0, 0
}

// each calls a function for the status of each goroutine at a time, by ID, until it returns an error.
func (r *roster) each(now int64, f func(*event.Event) error) error {
	ids := make([]uint64, 0, r.alive.Len())
	for g := range r.alive.All() {
		ids = append(ids, g)
	}
	slices.Sort(ids)
	for _, g := range ids {
		e := r.alive.Find(g).status
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
