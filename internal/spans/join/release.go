package join

import "time"

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
		case t.goroutines[first.id] != nil:
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
