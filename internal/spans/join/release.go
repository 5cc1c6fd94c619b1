package join

import (
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// Limits of idle.
const (
	maxWaits  = 16 // waits for the network or a clock of a goroutine that still belongs to a request that has ended
	loopDepth = 2  // calls from the start function of a worker to the function in which it waits for work
)

// idle reports whether a goroutine that begins to wait no longer belongs to the span in which it was created: the span has ended, and
// the goroutine waits for another one in its start function or in a function that this calls. So it is a worker, and what it does next
// is not part of that span. Deeper waits, and those for the network or a clock, can be for the request, but not for ever.
func (g *goroutine) idle(e *event.Event) bool {
	if g.request != nil || len(g.open) > 0 || g.inherited != nil && g.inherited.End == 0 {
		return false
	}
	switch classOf(e) {
	case spans.Chan, spans.Select, spans.Sync, spans.Other:
		if depth(e.Stack) <= loopDepth {
			return true
		}
	}
	g.waits++
	return g.waits > maxWaits
}

// releaseAfter is the time after which a goroutine that was in a span and began no other one is released, in nanoseconds. A goroutine that
// sends requests one after the other is thus never released, which could otherwise happen just after the next one has begun: the probes
// would not report then what it creates for that. Few programs pause for this time.
const releaseAfter = int64(1370 * time.Millisecond)

// leaving are goroutines that are in no span, and will be released.
type leaving struct {
	since map[uint64]int64 // by goroutine
	order []leave          // oldest first; each goroutine is there once
}

type leave struct {
	id    uint64
	since int64
}

// disown notes that a goroutine no longer belongs to the request in which it was created.
func (t *Tracker) disown(id uint64) {
	if t.opt.Disown != nil {
		t.opt.Disown(id)
	}
	t.leave(id)
}

// leave notes that a goroutine is in no span any more.
func (t *Tracker) leave(id uint64) {
	if t.opt.Release == nil {
		return
	}
	if t.leaving.since[id] == 0 {
		t.leaving.order = append(t.leaving.order, leave{id, t.now})
	}
	t.leaving.since[id] = t.now
}

// releaseIdle releases the goroutines that have been in no span for some time.
func (t *Tracker) releaseIdle() {
	for len(t.leaving.order) > 0 {
		first := t.leaving.order[0]
		if t.now-first.since <= releaseAfter {
			return
		}
		t.leaving.order = t.leaving.order[1:]
		last, alive := t.leaving.since[first.id]
		switch {
		case !alive:
		case t.goroutine(first.id) != nil:
			delete(t.leaving.since, first.id)
		case last != first.since:
			t.leaving.order = append(t.leaving.order, leave{first.id, last})
		default:
			delete(t.leaving.since, first.id)
			t.release(first.id)
		}
	}
}

// release is called for a goroutine that does not belong to a request any more.
func (t *Tracker) release(id uint64) {
	if t.opt.Release != nil {
		t.opt.Release(id)
	}
}
