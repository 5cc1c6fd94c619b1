package join

import "github.com/loupe-go/loupe/spans"

// allocated is what a goroutine has allocated, as of the current note or event.
type allocated struct {
	g    uint64
	sums spans.Allocations
}

// of returns the sums of a goroutine if they are those of the current note.
func (a *allocated) of(g uint64) spans.Allocations {
	if a.g != g {
		return spans.Allocations{}
	}
	return a.sums
}

// CountAllocations makes the breakdown of requests have what they allocate, which Allocated reports. It is called before the first span.
func (t *Tracker) CountAllocations() { t.allocs = true }

// Allocated takes what a goroutine has allocated since it was listed by the filter of requests. It is called before the note or the event
// that reports it.
func (t *Tracker) Allocated(id, bytes, objects uint64) {
	now := spans.Allocations{Bytes: bytes, Objects: objects}
	t.allocated = allocated{id, now}
	g := t.goroutine(id)
	if g == nil {
		return
	}
	before := g.allocated
	if now.Bytes < before.Bytes { // the goroutine was listed anew
		before = spans.Allocations{}
	}
	g.allocated = now
	if g.request == nil || g.request.span.Work.Allocated == nil {
		return
	}
	sums := g.request.span.Work.Allocated
	sums.Bytes += now.Bytes - before.Bytes
	sums.Objects += max(now.Objects, before.Objects) - before.Objects // a record of a wait has at most a limited number
}
