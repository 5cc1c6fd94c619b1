package observe

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/glti/observe/wire"
)

// stream makes events of messages.
type stream struct {
	s     *Session
	yield func(*event.Event) bool
	conv  converter
	order order

	list     []wire.Goroutine // those that existed at the start, until they have been yielded
	started  int64            // when the stream began
	listedAt int64            // when the list was complete; 0 until it is
	begun    bool

	lost     uint64 // events, as of the last Lost event
	gapEnd   int64  // events before are missing that the last Lost event precedes; 0 if there is no such gap
	yielded  uint64
	received [wire.NumEvents]uint64
}

func newStream(s *Session, yield func(*event.Event) bool) *stream {
	st := &stream{s: s, yield: yield}
	st.conv = converter{names: s.names, opt: s.opt, pid: int32(s.PID()), offset: s.offset, threads: map[uint64]int32{}, hidden: map[uint64]bool{}}
	return st
}

// add processes a message. It returns false if the events end.
func (st *stream) add(m wire.Message) bool {
	switch m := m.(type) {
	case *wire.Started:
		st.started = m.Time
		st.order.passed = m.Time
	case *wire.Goroutines:
		st.list = append(st.list, m.List...)
	case *wire.GoroutinesEnd:
		st.listedAt = m.Time
		st.s.mu.Lock()
		st.s.agents = m.Agents
		st.s.mu.Unlock()
	case *wire.Events:
		for i := range m.Records {
			st.received[m.Records[i].Event]++
		}
		st.order.add(m)
		st.s.keep(m)
		return st.tellLoss(m) && st.release(st.order.horizon())
	default:
		if !st.s.names.add(m) {
			st.s.fail(fmt.Errorf("%w: the agent sends more names than a program has", wire.ErrGarbage))
			return false
		}
	}
	return true
}

// release yields the events up to a time.
func (st *stream) release(to int64) bool {
	if !st.begun {
		if st.listedAt == 0 || to < st.listedAt && len(st.order.held) < maxHeld {
			return true
		}
		if !st.begin() {
			return false
		}
	}
	records := st.order.take(to)
	for i := range records {
		if e := st.conv.event(&records[i]); e != nil && !st.pass(e) {
			return false
		}
	}
	st.s.counted(st.yielded, &st.received, st.order.late)
	if st.gapEnd != 0 && to >= st.gapEnd {
		st.gapEnd = 0
		return st.mark(0)
	}
	return true
}

// begin yields the goroutines that existed when the stream began.
func (st *stream) begin() bool {
	st.begun = true
	slices.SortStableFunc(st.order.held, func(a, b wire.Record) int { return cmp.Compare(a.Time, b.Time) })
	alive := st.conv.begin(st.list, st.order.held)
	st.list = nil
	slices.SortFunc(alive, func(a, b wire.Goroutine) int { return cmp.Compare(a.ID, b.ID) })
	for i := range alive {
		if e := st.conv.status(&alive[i], st.started); e != nil && !st.pass(e) {
			return false
		}
	}
	return true
}

func (st *stream) pass(e *event.Event) bool {
	st.yielded++
	return st.yield(e)
}

// tellLoss marks the begin of a gap if a message says that events were lost. They are missing between the last event that was passed on
// and the end of the message, where release marks the end of the gap.
func (st *stream) tellLoss(m *wire.Events) bool {
	lost := m.Lost
	for _, n := range m.Dropped {
		lost += n
	}
	if lost <= st.lost {
		return true
	}
	more := lost - st.lost
	st.lost, st.gapEnd = lost, m.Until
	return !st.begun || st.mark(int64(more))
}

func (st *stream) mark(missing int64) bool {
	return st.yield(&event.Event{Time: st.order.passed + st.s.offset, Kind: event.Lost, PID: st.conv.pid, Value: missing})
}

// finish yields the rest.
func (st *stream) finish() {
	if st.listedAt == 0 { // the program ended before the agent had listed its goroutines
		st.listedAt = 1
	}
	st.release(1<<63 - 1)
}
