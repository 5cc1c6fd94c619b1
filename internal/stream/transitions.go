package stream

import (
	"cmp"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/internal/sampling"
)

// Interval is a time that a goroutine spent in one state.
type Interval struct {
	State    event.State   // StateWaiting or StateRunnable
	Reason   string        // of the wait, for StateWaiting; of the wait before, or of the stop, for StateRunnable
	Duration time.Duration // how long

	// Partial marks an interval that had begun before the observation; Duration is what was seen of it.
	Partial bool
	// Doubtful marks an interval during which events were lost: it may have been several.
	Doubtful bool
}

// Transitions tells how long goroutines were in the state that an event ends.
type Transitions struct {
	reported   [gostate.NumStates]bool // a wait, or runnable, if an event can end it
	remembers  bool                    // the ends of goroutines are observed
	goroutines gostate.Table[situation]
	losses     uint32 // number of losses, to detect intervals that span one

	ended Interval // what Next returns
	none  Interval // stays empty
}

// situation is the state of a goroutine. It is empty if the goroutine runs, or if no event can end its state.
type situation struct {
	since   int64
	reason  string
	losses  uint32
	state   gostate.State
	partial bool
}

// NewTransitions follows a stream that has the given kinds of events. What never could end is not remembered.
func NewTransitions(kinds event.Kinds) *Transitions {
	t := &Transitions{remembers: kinds.Has(event.GoDestroy), goroutines: gostate.NewTable[situation](0)}
	t.reported[gostate.Waiting] = kinds.Has(event.GoUnblock)
	t.reported[gostate.Runnable] = kinds.Has(event.GoStart)
	return t
}

// Next takes the next event in and returns the interval that it ends, which is valid until the next call; an empty one when
// it ends none, or its beginning is not known.
func (t *Transitions) Next(e *event.Event) *Interval {
	switch {
	case event.KindsGoroutine.Has(e.Kind):
		return t.move(e)
	case e.Kind == event.Lost:
		t.losses++
	case e.Kind == event.Exec:
		t.goroutines.Clear()
	case e.Kind == event.Resample:
		rule := sampling.OfShare(e.Sampled())
		for id := range t.goroutines.All() {
			if !rule.Selects(id) {
				t.goroutines.Remove(id)
			}
		}
	}
	return &t.none
}

// move takes an event that changes the state of a goroutine.
func (t *Transitions) move(e *event.Event) *Interval {
	s := t.goroutines.Find(e.G)
	ended := &t.none
	if s != nil && s.state != gostate.Unknown && s.state == gostate.Before(e.Kind) {
		ended = t.end(s, e.Time)
	}
	switch next := gostate.After(e); {
	case e.Kind == event.GoDestroy || !t.reported[next] && !t.remembers:
		if s != nil {
			*s = situation{}
			t.goroutines.Remove(e.G)
		}
	case t.reported[next]:
		if s == nil {
			if s = t.goroutines.Insert(e.G); s == nil {
				break
			}
		}
		reason := cmp.Or(e.WaitReason(), e.StopReason())
		if e.Kind == event.GoUnblock {
			reason = s.reason
		}
		*s = situation{since: e.Time, reason: reason, losses: t.losses, state: next, partial: e.Kind == event.GoStatus}
	case s != nil:
		s.state, s.reason = gostate.Unknown, ""
	}
	return ended
}

// end returns the interval that ends when a goroutine leaves its state.
func (t *Transitions) end(s *situation, now int64) *Interval {
	t.ended = Interval{State: s.state.Name(), Reason: s.reason, Duration: time.Duration(max(now-s.since, 0)),
		Partial: s.partial, Doubtful: s.losses != t.losses}
	return &t.ended
}
