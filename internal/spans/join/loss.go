package join

import (
	"time"

	"github.com/loupe-go/loupe/spans"
)

// loss is what a Tracker remembers of lost events.
type loss struct {
	count   uint64 // Lost events so far
	checked int64  // when Options.Alive was last called

	// dead are goroutines that had ended at a time. Events until then may still follow.
	dead   []*goroutine
	ids    []uint64 // of dead: they are reused for other goroutines
	deadAt int64
}

// checkEvery is the least time between two calls of Options.Alive, in nanoseconds.
const checkEvery = int64(time.Second)

// lose takes a loss of events. What a goroutine does is known again from its next event on. What may be wrong until then:
//
//   - the breakdowns of open requests, which are uncertain;
//   - the spans to which goroutines belong that were created in a span that has ended: they may have waited for other work since;
//   - goroutines that have ended.
func (t *Tracker) lose(at int64) {
	t.loss.count++
	if t.opt.Alive == nil || t.loss.dead != nil || len(t.goroutines) == 0 || at-t.loss.checked < checkEvery {
		return
	}
	t.loss.checked = at
	alive, now, err := t.opt.Alive()
	if err != nil {
		return // the process has ended, and so will its events
	}
	is := make(map[uint64]bool, len(alive))
	for _, id := range alive {
		is[id] = true
	}
	for id, g := range t.goroutines {
		if !is[id] {
			t.loss.dead, t.loss.ids = append(t.loss.dead, g), append(t.loss.ids, id)
		}
	}
	t.loss.deadAt = now
}

// bury removes the goroutines that had ended before a time and whose end was not observed. The times of events increase.
func (t *Tracker) bury(until int64) {
	if t.loss.dead == nil || until <= t.loss.deadAt {
		return
	}
	for i, g := range t.loss.dead {
		if id := t.loss.ids[i]; t.goroutine(id) == g && g.id == id {
			t.exit(g, t.loss.deadAt)
			t.release(id)
		}
	}
	t.loss.dead, t.loss.ids = nil, nil
}

// LostSince reports whether events or notes may have been lost since an open span began. Then the same address may be that of another
// object.
func (t *Tracker) LostSince(s *spans.Span) bool {
	g := t.goroutine(s.G)
	return g == nil || t.lostSince(g.losses)
}

// lostSince reports whether events may have been lost since there were a number of losses.
func (t *Tracker) lostSince(losses uint64) bool {
	return losses != t.loss.count || t.opt.InGap != nil && t.opt.InGap()
}

// Supersede ends a span because its goroutine has begun another operation that excludes it: its end was lost.
func (t *Tracker) Supersede(s *spans.Span, at int64) {
	s.Ending = spans.Unobserved
	t.End(s, at)
}
