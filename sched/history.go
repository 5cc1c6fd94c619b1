package sched

import (
	"slices"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// record is an event of the history. The number of a place replaces its reason and stack.
type record struct {
	time  int64
	g     uint64
	other uint64 // By, Parent or Object, depending on the kind
	value int64
	place uint32 // the number of a place; for GoCreate the number of a site
	tid   int32
	kind  event.Kind
	state gostate.State
}

// recordChunk is the number of records that are allocated together. Chunks are allocated when they are first used.
const recordChunk = 2048

// history is a ring buffer of recent events.
type history struct {
	chunks []*[recordChunk]record
	size   uint64 // capacity in records; 0 if the history is disabled
	next   uint64 // number of events that have been added
}

// newHistory returns a history with a capacity of at least n events.
func newHistory(n int) history {
	count := (max(n, 0) + recordChunk - 1) / recordChunk
	return history{chunks: make([]*[recordChunk]record, count), size: uint64(count) * recordChunk}
}

func (h *history) enabled() bool { return h.size > 0 }

// at returns the record of event number i.
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

// event converts a record to an event. Fields that a record does not contain are zero: PID, P, and Object of events with By or
// Parent.
func (m *Machine) event(r *record) event.Event {
	e := event.Event{Time: r.time, Kind: r.kind, TID: r.tid, G: r.g, Value: r.value}
	if r.kind == event.GoCreate {
		s := m.sites.at(r.place)
		e.Parent, e.Origin, e.Stack = r.other, m.origins[s.origin], publicStack(s.stack)
		e.State = r.state.Name()
		return e
	}
	p := m.places.at(r.place)
	e.Stack = publicStack(p.stack)
	switch r.kind {
	case event.GoUnblock:
		e.By = r.other
		return e // a GoUnblock has no reason; the reason of the place is the wait reason
	case event.GoStatus:
		e.Parent, e.State = r.other, r.state.Name()
	default:
		e.Object = r.other
	}
	e.Reason, e.TraceReason = p.text, p.trace
	return e
}

// History returns the last limit events of goroutine g, oldest first. If g is 0, it returns events of all goroutines and of
// the program. A limit of 0 means all events that are kept. See [Options].History for their number.
//
// The history of a goroutine does not contain the GoUnblock events by which it unblocks other goroutines. The fields PID, P and
// Text are zero, and so is Origin of GoStatus. If the stack shows work for the runtime, Reason contains the work: see
// event.WaitText.
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

// HistorySize returns the capacity of the history in events, which is 0 if the history is disabled, and the total number of
// events that have been added to it.
func (m *Machine) HistorySize() (capacity int, total uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int(m.history.size), m.history.next
}
