package tracev1

import (
	"strings"

	"golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/internal/reader"
	"github.com/loupe-go/loupe/trace/raw"
)

// A change is how a goroutine goes from one state to another.
type change struct{ from, to trace.GoState }

// kinds has the events of the changes of goroutines that make one event.
var kinds = map[change]event.Kind{
	{trace.GoNotExist, trace.GoRunnable}: event.GoCreate,
	{trace.GoNotExist, trace.GoWaiting}:  event.GoCreate,
	{trace.GoRunnable, trace.GoRunning}:  event.GoStart,
	{trace.GoRunning, trace.GoRunnable}:  event.GoStop,
	{trace.GoRunning, trace.GoWaiting}:   event.GoBlock,
	{trace.GoWaiting, trace.GoRunnable}:  event.GoUnblock,
	{trace.GoRunning, trace.GoNotExist}:  event.GoDestroy,
	{trace.GoRunning, trace.GoSyscall}:   event.GoSyscallBegin,
	{trace.GoSyscall, trace.GoRunning}:   event.GoSyscallEnd,
	{trace.GoSyscall, trace.GoRunnable}:  event.GoSyscallEnd,
}

// states has the states that a goroutine may be found in.
var states = map[trace.GoState]event.State{
	trace.GoRunnable: event.StateRunnable,
	trace.GoRunning:  event.StateRunning,
	trace.GoSyscall:  event.StateSyscall,
	trace.GoWaiting:  event.StateWaiting,
}

// transition makes the events of a change of state.
func (m *Mapper) transition(ev *trace.Event) {
	st := ev.StateTransition()
	if st.Resource.Kind != trace.ResourceGoroutine {
		m.Stats.Procs++
		return
	}
	from, to := st.Goroutine()
	g := reader.GoID(uint64(st.Resource.Goroutine()))
	switch kind, ok := kinds[change{from, to}]; {
	case ok:
		m.change(kind, ev, &st, g)
	case from == trace.GoUndetermined:
		e := m.new(event.GoStatus, ev, g)
		e.State, e.Stack = states[to], m.stack(st.Stack)
		if o := reader.RootOrigin(g, e.Stack); !o.Start.IsZero() {
			e.Origin = m.intern.Origin(o)
		}
	case from == trace.GoNotExist && to == trace.GoSyscall:
		m.new(event.GoCreate, ev, g).Parent = reader.GoID(uint64(ev.Goroutine()))
		m.new(event.GoStart, ev, g)
		m.since[g] = m.new(event.GoSyscallBegin, ev, g).Time
	case from == trace.GoSyscall && to == trace.GoNotExist:
		m.new(event.GoSyscallEnd, ev, g)
		m.new(event.GoDestroy, ev, g)
		delete(m.since, g)
	default:
		m.Stats.Statuses++
	}
}

// change makes the event of a change of state that makes one.
func (m *Mapper) change(kind event.Kind, ev *trace.Event, st *trace.StateTransition, g uint64) {
	_, to := st.Goroutine()
	e := m.new(kind, ev, g)
	e.Stack = m.stack(ev.Stack())
	switch kind {
	case event.GoCreate:
		e.Parent, e.Origin = reader.GoID(uint64(ev.Goroutine())), m.origin(e.Stack, m.stack(st.Stack))
		if to == trace.GoWaiting {
			e.State = event.StateWaiting
		}
	case event.GoUnblock:
		e.By = reader.GoID(uint64(ev.Goroutine()))
	case event.GoStop:
		e.Reason = st.Reason
	case event.GoStart, event.GoDestroy:
		e.Stack = nil // in old traces a start has the stack of the creation
	case event.GoBlock:
		if st.Reason == "" && e.Stack == nil && m.switches(g) {
			e.Reason = reader.Coroutine
			break
		}
		why := reader.ReasonOf(st.Reason)
		e.TraceReason, e.Reason = why.Trace, why.WaitAt(e.Stack, m.version)
	case event.GoSyscallBegin:
		m.since[g] = e.Time
	case event.GoSyscallEnd:
		m.syscallEnd(e, to == trace.GoRunnable)
	}
}

// switches reports whether the last event but one may be the first of those that a coroutine makes when it hands over: it
// has unblocked another goroutine.
func (m *Mapper) switches(g uint64) bool {
	n := len(m.Events) - 2
	if m.version < raw.Go123 || n < 0 {
		return false
	}
	e := &m.Events[n]
	return e.Kind == event.GoUnblock && e.By == g && e.Stack == nil
}

// syscallEnd completes the end of a system call.
func (m *Mapper) syscallEnd(e *event.Event, lostP bool) {
	if lostP {
		e.State = event.StateRunnable
	}
	// Old formats have no end of a call that kept its P; the toolchain's reader makes one up.
	if begin, ok := m.since[e.G]; ok && (lostP || !m.version.V1()) {
		e.Value = e.Time - begin
	}
	delete(m.since, e.G)
}

// origin returns where a goroutine comes from, by the stacks of its creator and of its own.
func (m *Mapper) origin(by, own *event.Stack) *event.Origin {
	var o event.Origin
	if by != nil {
		o.CreatedBy = by.Frames[0]
	}
	if own != nil {
		o.Start = own.Frames[len(own.Frames)-1]
		o.System = reader.IsSystem(o.Start.Func)
	}
	if o.CreatedBy.IsZero() && o.Start.IsZero() {
		return nil
	}
	return m.intern.Origin(o)
}

// ranges makes the event of something that begins or ends.
func (m *Mapper) ranges(ev *trace.Event) {
	r := ev.Range()
	begin := ev.Kind() == trace.EventRangeBegin
	stw, isSTW := strings.CutPrefix(r.Name, "stop-the-world (")
	g := reader.GoID(uint64(ev.Goroutine()))
	switch {
	case isSTW && begin:
		e := m.new(event.STWBegin, ev, g)
		e.Reason, e.Stack = strings.TrimSuffix(stw, ")"), m.stack(ev.Stack())
	case isSTW:
		m.new(event.STWEnd, ev, 0)
	case r.Name == "GC incremental sweep":
		m.Stats.Sweeps++
	case r.Name == "GC mark assist" && ev.Kind() == trace.EventRangeActive:
		m.Stats.MarkAssists++
	case r.Name == "GC mark assist" && begin:
		m.new(event.GCMarkAssistBegin, ev, g).Stack = m.stack(ev.Stack())
	case r.Name == "GC mark assist":
		m.new(event.GCMarkAssistEnd, ev, g)
	case ev.Kind() == trace.EventRangeActive:
		m.Stats.GCActive++
	case begin:
		m.new(event.GCBegin, ev, g).Stack = m.stack(ev.Stack())
	default:
		m.new(event.GCEnd, ev, 0)
	}
}

// user makes the event of what the program has said.
func (m *Mapper) user(ev *trace.Event) {
	g := reader.GoID(uint64(ev.Goroutine()))
	var e *event.Event
	switch ev.Kind() {
	case trace.EventTaskBegin:
		t := ev.Task()
		e = m.new(event.UserTaskBegin, ev, g)
		e.Value, e.Object, e.Text = int64(t.ID), reader.GoID(uint64(t.Parent)), t.Type
	case trace.EventTaskEnd:
		e = m.new(event.UserTaskEnd, ev, g)
		e.Value = int64(ev.Task().ID)
	case trace.EventRegionBegin:
		e = m.new(event.UserRegionBegin, ev, g)
	case trace.EventRegionEnd:
		e = m.new(event.UserRegionEnd, ev, g)
	case trace.EventLog:
		l := ev.Log()
		if n, ok := reader.LostEvents(l.Category, l.Message); ok {
			e = m.new(event.Lost, ev, 0)
			e.TID, e.P, e.Value = 0, 0, n
			return
		}
		if kind, n, ok := reader.Counter(l.Category, l.Message); ok {
			m.new(kind, ev, 0).Value = n
			return
		}
		e = m.new(event.UserLog, ev, g)
		e.Value, e.Reason, e.Text = int64(l.Task), l.Category, l.Message
	}
	if ev.Kind() == trace.EventRegionBegin || ev.Kind() == trace.EventRegionEnd {
		r := ev.Region()
		e.Value, e.Text = int64(r.Task), r.Type
	}
	e.Stack = m.stack(ev.Stack())
}
