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
	Stack    *event.Stack  // where the goroutine itself was; nil when unknown
	Origin   *event.Origin // of a goroutine that has not run yet; else nil

	// Partial marks an interval that had begun before the observation; Duration is what was seen of it.
	Partial bool
	// Doubtful marks an interval during which events were lost: it may have been several.
	Doubtful bool
}

// Transitions tells how long goroutines were in the state that an event ends.
type Transitions struct {
	follow     event.Kinds
	goroutines map[uint64]*situation
	ended      []*situation // to be used again
	losses     uint32       // times that events were lost, to know intervals that span one
}

// situation is the state that a goroutine is in.
type situation struct {
	since   int64
	stack   *event.Stack
	origin  *event.Origin
	reason  string
	losses  uint32
	waiting bool
	ready   bool // runnable; neither: it runs, or nothing can end what it does
	partial bool
}

// NewTransitions follows a stream that has the given kinds of events. What never could end is not remembered.
func NewTransitions(kinds event.Kinds) *Transitions {
	return &Transitions{follow: kinds, goroutines: map[uint64]*situation{}}
}

// Next takes the next event in and returns the interval that it ends; false when it ends none, or its beginning is not
// known.
func (t *Transitions) Next(e *event.Event) (Interval, bool) {
	switch e.Kind {
	case event.GoStatus:
		t.begin(e.G, e.State == event.StateWaiting, e.State == event.StateRunnable,
			situation{since: e.Time, stack: e.Stack, reason: e.Reason, partial: true})
	case event.GoCreate:
		waiting := e.State == event.StateWaiting
		t.begin(e.G, waiting, !waiting, situation{since: e.Time, origin: e.Origin})
	case event.GoBlock:
		t.begin(e.G, true, false, situation{since: e.Time, stack: e.Stack, reason: e.Reason})
	case event.GoStop:
		t.begin(e.G, false, true, situation{since: e.Time, stack: e.Stack, reason: e.Reason})
	case event.GoUnblock:
		var was situation
		if s := t.goroutines[e.G]; s != nil {
			was = *s
		}
		t.begin(e.G, false, true, situation{since: e.Time, stack: was.stack, origin: was.origin, reason: was.reason})
		if was.waiting {
			return t.end(&was, e), true
		}
	case event.GoStart:
		if s := t.goroutines[e.G]; s != nil {
			was := *s
			t.leave(e.G, s)
			return t.end(&was, e), was.ready
		}
	case event.GoDestroy:
		if s := t.goroutines[e.G]; s != nil {
			t.forget(e.G, s)
		}
	case event.Lost:
		t.losses++
	case event.Exec:
		clear(t.goroutines)
	}
	return Interval{}, false
}

// begin remembers the situation of a goroutine that now waits or is runnable, when there can be an event that ends it;
// otherwise it forgets what was before.
func (t *Transitions) begin(g uint64, waiting, runnable bool, s situation) {
	at := t.goroutines[g]
	if !(waiting && t.follow.Has(event.GoUnblock) || runnable && t.follow.Has(event.GoStart)) {
		if at != nil {
			t.leave(g, at)
		}
		return
	}
	if at == nil {
		at = t.situation()
		t.goroutines[g] = at
	}
	s.waiting, s.ready, s.losses = waiting, !waiting, t.losses
	*at = s
}

// leave notes that a goroutine is in no situation that an event could end.
func (t *Transitions) leave(g uint64, s *situation) {
	if t.follow.Has(event.GoDestroy) {
		*s = situation{}
	} else {
		t.forget(g, s)
	}
}

func (t *Transitions) forget(g uint64, s *situation) {
	delete(t.goroutines, g)
	*s = situation{}
	t.ended = append(t.ended, s)
}

// situation returns an empty one.
func (t *Transitions) situation() *situation {
	last := len(t.ended) - 1
	if last < 0 {
		return &situation{}
	}
	s := t.ended[last]
	t.ended = t.ended[:last]
	return s
}

func (t *Transitions) end(s *situation, e *event.Event) Interval {
	state := event.StateRunnable
	if s.waiting {
		state = event.StateWaiting
	}
	return Interval{State: state, Reason: s.reason, Duration: time.Duration(max(e.Time-s.since, 0)), Stack: s.stack,
		Origin: s.origin, Partial: s.partial, Doubtful: s.losses != t.losses}
}

// Wait returns the reason of the wait that a goroutine is in; false when it is in none.
func (t *Transitions) Wait(g uint64) (reason string, waits bool) {
	if s := t.goroutines[g]; s != nil && s.waiting {
		return s.reason, true
	}
	return "", false
}
