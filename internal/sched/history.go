package sched

import (
	"slices"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// record is an event of the history, with reason and stack as the number of a place.
type record struct {
	time  int64
	g     uint64
	other uint64 // By, Parent or Object, by kind
	value int64
	place uint32 // of a site for GoCreate
	tid   int32
	kind  event.Kind
	state gostate.State
}

// recordChunk is how many records are allocated at once, so that a short history takes little memory.
const recordChunk = 2048

// history is a ring of the last events.
type history struct {
	chunks []*[recordChunk]record
	size   uint64 // of the ring; 0 if there is no history
	next   uint64 // events so far
}

// newHistory returns a ring for at least n events.
func newHistory(n int) history {
	count := (max(n, 0) + recordChunk - 1) / recordChunk
	return history{chunks: make([]*[recordChunk]record, count), size: uint64(count) * recordChunk}
}

func (h *history) on() bool { return h.size > 0 }

func (h *history) at(i uint64) *record {
	i %= h.size
	chunk := &h.chunks[i/recordChunk]
	if *chunk == nil {
		*chunk = new([recordChunk]record)
	}
	return &(*chunk)[i%recordChunk]
}

func (h *history) add(e *event.Event, t int64, place uint32) {
	r := h.at(h.next)
	h.next++
	*r = record{time: t, g: e.G, other: e.Object, value: e.Value, place: place, tid: e.TID, kind: e.Kind}
	switch e.Kind {
	case event.GoUnblock:
		r.other = e.By
	case event.GoCreate, event.GoStatus:
		r.other = e.Parent
		r.state = gostate.Of(e.State)
	}
}

// event returns the event of a record. Fields that are not stored are zero: PID, and Object of events with By or Parent.
func (m *Machine) event(r *record) event.Event {
	e := event.Event{Time: r.time, Kind: r.kind, TID: r.tid, G: r.g, Value: r.value}
	if r.kind == event.GoCreate {
		s := m.sites.at(r.place)
		e.Parent, e.Origin, e.Stack = r.other, m.origins[s.origin], shown(s.stack)
		e.State = r.state.Name()
		return e
	}
	p := m.places.at(r.place)
	e.Stack = shown(p.stack)
	switch r.kind {
	case event.GoUnblock:
		e.By = r.other
		return e // the reason of the place is that of the wait
	case event.GoStatus:
		e.Parent, e.State = r.other, r.state.Name()
	default:
		e.Object = r.other
	}
	e.Reason, e.TraceReason = p.text, p.trace
	return e
}

// History returns the last events of a goroutine, of all goroutines and the whole program for g 0, the oldest first and
// at most limit; limit 0 means all that are kept. A waker's own goroutine has no event when it wakes another. Values that
// are not kept are zero: PID, and the origin on GoStatus.
func (m *Machine) History(g uint64, limit int) []event.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := &m.history
	var list []event.Event
	for i := h.next; i > 0 && h.next-i < h.size && (limit <= 0 || len(list) < limit); i-- {
		if r := h.at(i - 1); g == 0 || r.g == g {
			list = append(list, m.event(r))
		}
	}
	slices.Reverse(list)
	return list
}

// HistorySize returns how many events the history holds at most, and how many have come in all.
func (m *Machine) HistorySize() (holds int, all uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int(m.history.size), m.history.next
}
