package record

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/internal/sampling"
	"github.com/loupe-go/loupe/internal/stream"
)

// Conditions say what is worth keeping. The zero value is never.
type Conditions struct {
	// Blocked is how long a goroutine waits that is worth it; 0 is never. Waits that began before the observation count from
	// its beginning.
	Blocked time.Duration
	// Reasons are the waits that count for Blocked: those whose reason contains one of them, letter case ignored. None means
	// those of goroutines that others are in the way of: gostate.Contended.
	Reasons []string
	// Goroutines is the number of goroutines above which it is worth it; 0 is never.
	Goroutines int
	// Latency is how long a runnable goroutine waits to run that is worth it; 0 is never.
	Latency time.Duration
}

// Any reports whether there is a condition.
func (c *Conditions) Any() bool { return c.Blocked > 0 || c.Goroutines > 0 || c.Latency > 0 }

// Finding is why a condition is met. The zero value says that none is.
type Finding struct {
	What   string       // "goroutine 18 has been blocked for 501ms"
	Detail string       // what follows the place: ": sync.Mutex.Lock"
	Stack  *event.Stack // where the goroutine waits, or waited last; nil when not known
	Origin *event.Origin
}

// Met reports whether a condition is met.
func (f *Finding) Met() bool { return f.What != "" }

// Trigger finds out when a condition is met. It is not safe for use by several goroutines.
type Trigger struct {
	Conditions
	now     int64 // the latest time that was seen
	tally   *stream.Tally
	waits   queue // in the order in which they began
	ready   queue // runnable
	current map[uint64]span
	reasons map[string]bool         // whether a wait of the reason counts
	places  map[uint64]*event.Stack // where goroutines waited or stopped last, for Latency
}

// span is a wait or a delay that is under way.
type span struct {
	since  int64
	state  gostate.State // Waiting or Runnable
	reason string        // of a wait
	stack  *event.Stack
	origin *event.Origin
}

// queue has what began, the oldest first. Entries stay until they are looked at: what current says counts.
type queue struct {
	entries []entry
	head    int
}

type entry struct {
	g     uint64
	since int64
}

func (q *queue) push(e entry) {
	if q.head > 1024 && q.head > len(q.entries)/2 {
		q.entries = q.entries[:copy(q.entries, q.entries[q.head:])]
		q.head = 0
	}
	q.entries = append(q.entries, e)
}

// NewTrigger watches a stream that has the given kinds.
func NewTrigger(c Conditions, kinds event.Kinds) *Trigger {
	return &Trigger{Conditions: c, tally: stream.NewTally(kinds), current: map[uint64]span{}, reasons: map[string]bool{}, places: map[uint64]*event.Stack{}}
}

// Next takes an event in and returns why the stretch before it is worth keeping, if it is.
func (t *Trigger) Next(e *event.Event) Finding {
	t.now = max(t.now, e.Time)
	t.tally.Add(e)
	switch {
	case event.KindsGoroutine.Has(e.Kind):
		if f := t.move(e); f.Met() {
			return f
		}
	case e.Kind == event.Exec:
		clear(t.current)
		clear(t.places)
	case e.Kind == event.Resample:
		rule := sampling.OfShare(e.Sampled())
		maps.DeleteFunc(t.current, func(id uint64, _ span) bool { return !rule.Selects(id) })
		maps.DeleteFunc(t.places, func(id uint64, _ *event.Stack) bool { return !rule.Selects(id) })
	}
	if e.Kind == event.GoStatus { // the goroutines that the observation begins with may not be complete
		return Finding{}
	}
	if f := t.crowd(); f.Met() {
		f.Stack, f.Origin = e.Stack, e.Origin
		if e.Kind == event.GoCreate {
			f.What += fmt.Sprintf("; goroutine %d was created", e.G)
		}
		return f
	}
	return t.due()
}

// Look returns which condition holds at a time until which there was no further event.
func (t *Trigger) Look(now time.Time) Finding {
	t.now = max(t.now, now.UnixNano())
	if f := t.crowd(); f.Met() {
		return f
	}
	return t.due()
}

// crowd reports whether there are too many goroutines.
func (t *Trigger) crowd() Finding {
	n := t.tally.Alive()
	if t.Goroutines == 0 || n <= t.Goroutines {
		return Finding{}
	}
	return Finding{What: fmt.Sprintf("there %s %s, more than %d", english.Pick(n, "is", "are"), english.Count(n, "goroutine"), t.Goroutines)}
}

// move follows the state of a goroutine.
func (t *Trigger) move(e *event.Event) Finding {
	was, known := t.current[e.G]
	delete(t.current, e.G)
	t.note(e)
	switch next := gostate.After(e); {
	case next == gostate.Waiting && e.Kind != event.GoCreate && t.Blocked > 0 && t.counts(e.WaitReason()):
		t.current[e.G] = span{since: e.Time, state: next, reason: e.WaitReason(), stack: e.Stack, origin: e.Origin}
		t.waits.push(entry{e.G, e.Time})
	case next == gostate.Runnable && t.Latency > 0:
		t.current[e.G] = span{since: e.Time, state: next, stack: t.places[e.G], origin: e.Origin}
		t.ready.push(entry{e.G, e.Time})
	}
	if !known {
		return Finding{}
	}
	return t.judge(e.G, was, e.Time)
}

// note keeps where a goroutine goes on when it runs again.
func (t *Trigger) note(e *event.Event) {
	switch {
	case t.Latency == 0:
	case e.Kind == event.GoDestroy:
		delete(t.places, e.G)
	case e.Stack != nil && e.Kind != event.GoUnblock && e.Kind != event.GoCreate: // those have the stack of another goroutine
		t.places[e.G] = e.Stack
	}
}

// counts reports whether a wait is of those that count.
func (t *Trigger) counts(reason string) bool {
	counts, known := t.reasons[reason]
	if known {
		return counts
	}
	if len(t.Reasons) == 0 {
		counts = gostate.Contended(reason)
	}
	for _, r := range t.Reasons {
		counts = counts || strings.Contains(strings.ToLower(reason), strings.ToLower(r))
	}
	t.reasons[reason] = counts
	return counts
}

// judge tells whether something took too long until a time.
func (t *Trigger) judge(g uint64, s span, until int64) Finding {
	took := time.Duration(until - s.since)
	f := Finding{Stack: s.stack, Origin: s.origin}
	switch {
	case s.state == gostate.Waiting && took > t.Blocked:
		f.What = fmt.Sprintf("goroutine %d has been blocked for %v", g, took.Round(time.Microsecond))
		f.Detail = ": " + s.reason
	case s.state == gostate.Runnable && took > t.Latency:
		f.What = fmt.Sprintf("goroutine %d has been runnable for %v and did not run", g, took.Round(time.Microsecond))
	}
	return f
}

// due looks at what is under way.
func (t *Trigger) due() Finding {
	for _, q := range []struct {
		*queue
		limit time.Duration
	}{{&t.waits, t.Blocked}, {&t.ready, t.Latency}} {
		for q.head < len(q.entries) && t.now-q.entries[q.head].since > int64(q.limit) {
			e := q.entries[q.head]
			q.head++
			if s, ok := t.current[e.g]; ok && s.since == e.since {
				if f := t.judge(e.g, s, t.now); f.Met() {
					return f
				}
			}
		}
	}
	return Finding{}
}
