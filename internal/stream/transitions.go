package stream

import (
	"time"

	"github.com/loupe-go/loupe/event"
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
	follow     event.Kinds
	goroutines map[uint64]*situation
	recent     [256]recentGoroutine // the most recently used goroutines, found without hashing
	unused     []*situation
	losses     uint32 // number of losses, to detect intervals that span one

	ended Interval // what Next returns
	none  Interval // stays empty
}

type recentGoroutine struct {
	g uint64
	s *situation
}

// situation is the state of a goroutine. It is empty if the goroutine runs, or if no event can end its state.
type situation struct {
	since   int64
	reason  string
	losses  uint32
	state   followed
	partial bool
}

// followed is a state that an event ends.
type followed uint8

const (
	inNone followed = iota
	inWaiting
	inRunnable
)

// followedStates are the states that an Interval can have.
var followedStates = [...]event.State{inWaiting: event.StateWaiting, inRunnable: event.StateRunnable}

// NewTransitions follows a stream that has the given kinds of events. What never could end is not remembered.
func NewTransitions(kinds event.Kinds) *Transitions {
	return &Transitions{follow: kinds, goroutines: map[uint64]*situation{}}
}

// Next takes the next event in and returns the interval that it ends, which is valid until the next call; an empty one when
// it ends none, or its beginning is not known.
func (t *Transitions) Next(e *event.Event) *Interval {
	switch e.Kind {
	case event.GoStatus:
		state := inNone
		switch e.State {
		case event.StateWaiting:
			state = inWaiting
		case event.StateRunnable:
			state = inRunnable
		}
		t.begin(e.G, state, e.Reason, e.Time, true)
	case event.GoCreate:
		state := inRunnable
		if e.State == event.StateWaiting {
			state = inWaiting
		}
		t.begin(e.G, state, "", e.Time, false)
	case event.GoBlock:
		t.begin(e.G, inWaiting, e.Reason, e.Time, false)
	case event.GoStop:
		t.begin(e.G, inRunnable, e.Reason, e.Time, false)
	case event.GoUnblock:
		s := t.find(e.G)
		if s == nil {
			t.begin(e.G, inRunnable, "", e.Time, false)
			break
		}
		ended := t.end(s, inWaiting, e.Time)
		t.begin(e.G, inRunnable, s.reason, e.Time, false)
		return ended
	case event.GoStart:
		if s := t.find(e.G); s != nil {
			ended := t.end(s, inRunnable, e.Time)
			t.leave(e.G, s)
			return ended
		}
	case event.GoDestroy:
		if s := t.find(e.G); s != nil {
			t.forget(e.G, s)
		}
	case event.Lost:
		t.losses++
	case event.Exec:
		clear(t.goroutines)
		clear(t.recent[:])
	}
	return &t.none
}

// begin stores the new state of a goroutine if an event can end it. Otherwise it removes the previous
// state.
func (t *Transitions) begin(g uint64, state followed, reason string, now int64, partial bool) {
	s := t.find(g)
	if !(state == inWaiting && t.follow.Has(event.GoUnblock) || state == inRunnable && t.follow.Has(event.GoStart)) {
		if s != nil {
			t.leave(g, s)
		}
		return
	}
	if s == nil {
		s = t.situation()
		t.goroutines[g] = s
		*t.place(g) = recentGoroutine{g, s}
	}
	s.state, s.since, s.reason, s.losses, s.partial = state, now, reason, t.losses, partial
}

// leave records that no event can end the state of a goroutine.
func (t *Transitions) leave(g uint64, s *situation) {
	if t.follow.Has(event.GoDestroy) {
		s.state, s.reason = inNone, ""
	} else {
		t.forget(g, s)
	}
}

func (t *Transitions) forget(g uint64, s *situation) {
	delete(t.goroutines, g)
	*t.place(g) = recentGoroutine{}
	s.state, s.reason = inNone, ""
	t.unused = append(t.unused, s)
}

// find returns the situation of a goroutine; nil if it is unknown.
func (t *Transitions) find(g uint64) *situation {
	recent := t.place(g)
	if recent.g == g && recent.s != nil {
		return recent.s
	}
	s := t.goroutines[g]
	if s != nil {
		*recent = recentGoroutine{g, s}
	}
	return s
}

// place returns the cache slot of a goroutine.
func (t *Transitions) place(g uint64) *recentGoroutine { return &t.recent[g%uint64(len(t.recent))] }

// situation returns an empty situation.
func (t *Transitions) situation() *situation {
	last := len(t.unused) - 1
	if last < 0 {
		return &situation{}
	}
	s := t.unused[last]
	t.unused = t.unused[:last]
	return s
}

// end returns the interval that ends when a goroutine leaves a state.
func (t *Transitions) end(s *situation, state followed, now int64) *Interval {
	if s.state != state {
		return &t.none
	}
	t.ended = Interval{State: followedStates[state], Reason: s.reason, Duration: time.Duration(max(now-s.since, 0)),
		Partial: s.partial, Doubtful: s.losses != t.losses}
	return &t.ended
}
