package stream

import (
	"maps"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/sampling"
)

// Tally counts the goroutines that come and go.
type Tally struct {
	Seen    uint64 // in all
	Created uint64
	Ended   uint64
	alive   map[uint64]struct{} // nil when the ends of goroutines are not observed
}

// NewTally returns a tally for a stream that has the given kinds of events.
func NewTally(kinds event.Kinds) *Tally {
	t := &Tally{}
	if kinds.Has(event.GoDestroy) {
		t.alive = map[uint64]struct{}{}
	}
	return t
}

// Add takes an event in.
func (t *Tally) Add(e *event.Event) {
	switch e.Kind {
	case event.GoCreate:
		t.Created++
		t.Seen++
	case event.GoDestroy:
		t.Ended++
		delete(t.alive, e.G)
		return
	case event.GoStatus:
		if _, known := t.alive[e.G]; !known {
			t.Seen++
		}
	case event.Exec:
		clear(t.alive)
		return
	case event.Resample:
		rule := sampling.OfShare(e.Sampled())
		maps.DeleteFunc(t.alive, func(id uint64, _ struct{}) bool { return !rule.Selects(id) })
		return
	default:
		return
	}
	if t.alive != nil {
		t.alive[e.G] = struct{}{}
	}
}

// Alive is how many goroutines there are now, of those that are observed, by the events. After a loss it is far off.
func (t *Tally) Alive() int { return len(t.alive) }
