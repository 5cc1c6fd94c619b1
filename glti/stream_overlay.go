//go:build loupe_glti

package glti

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// rtGoroutine is runtime.gltiGoroutine.
type rtGoroutine struct {
	g       uintptr
	goid    uint64
	parent  uint64
	gopc    uintptr
	startpc uintptr
	since   int64
	thread  uint64
	stack   uint64
	status  uint8
	reason  uint8
	system  bool
	quiet   bool
}

// rtCall is runtime.gltiFrame.
type rtCall struct {
	name, file  string
	line, start int32
	wrapper     bool
}

func rt_stacks(depth uint32)
func rt_stack(id uint64, into []uintptr) int
func rt_stacksFull() uint64
func rt_goroutines(from int, into []rtGoroutine) (n, next int)
func rt_waitReason(n uint8) string
func rt_heapLive() uint64
func rt_calls(pc uintptr, into []rtCall) int
func rt_traceReason(n uint8) string
func rt_startPC(pc uintptr) uintptr

// streamEvents are the events that streams can have, as a mask. They go to rings, except GoCreate and GoEnd.
const streamEvents = 1<<EvGoPark | 1<<EvGoYield | 1<<EvGoCreate | 1<<EvGoEnd | 1<<EvGoStart | 1<<EvGoPreempt | 1<<EvGoUnblock |
	1<<EvGoSysCall | 1<<EvGoSysExit | 1<<EvGCStart | 1<<EvGCDone | 1<<EvGCSTWStart | 1<<EvGCSTWDone |
	1<<EvGCMarkAssistStart | 1<<EvGCMarkAssistDone

// evGoReady is runtime.gltiGoReady: a GoUnblock of streams alone. It is wanted as long as there is a stream.
const evGoReady Event = 4

// openStreams are the streams.
type openStreams struct {
	mu   sync.Mutex // held to change the list
	list atomic.Pointer[[]*Stream]
	lost atomic.Uint64 // events for which the rings had no room
}

func (o *openStreams) get() []*Stream {
	if list := o.list.Load(); list != nil {
		return *list
	}
	return nil
}

// change replaces the list, and selects the events and the stacks that streams need.
func (o *overlay) changeStreams(change func([]*Stream) []*Stream) {
	o.streams.mu.Lock()
	defer o.streams.mu.Unlock()
	list := change(slices.Clone(o.streams.get()))
	o.streams.list.Store(&list)
	events, depth := uint64(0), 0
	system := false
	for _, s := range list {
		events |= s.events | 1<<evGoReady
		system = system || s.system
		depth = max(depth, s.stack)
	}
	rt_stacks(uint32(depth))
	o.changed.Lock()
	defer o.changed.Unlock()
	o.streamMask, o.streamSystem = events, system
	o.selectEvents()
}

func (o *overlay) openStream(s *Stream) error {
	for ev := Event(0); ev < 64; ev++ {
		if s.events>>ev&1 != 0 && streamEvents>>ev&1 == 0 {
			return Capability{Method: "a stream of " + ev.String(), Why: "streams do not have the event"}.err()
		}
	}
	if s.events>>EvGoUnblock&1 != 0 {
		s.events |= 1 << evGoReady
	}
	o.changeStreams(func(list []*Stream) []*Stream { return append(list, s) })
	return nil
}

func (o *overlay) closeStream(s *Stream) {
	o.changeStreams(func(list []*Stream) []*Stream {
		return slices.DeleteFunc(list, func(other *Stream) bool { return other == s })
	})
}

func (o *overlay) streamLost() (events, stacks uint64) { return o.streams.lost.Load(), rt_stacksFull() }

// pass passes records on to the streams. batch has room for them.
func (o *overlay) pass(records []rtRecord, batch []StreamRecord) {
	for _, s := range o.streams.get() {
		batch = batch[:0]
		for i := range records {
			if s.wants(&records[i]) {
				batch = append(batch, records[i].streamed())
			}
		}
		if len(batch) > 0 {
			s.sink(batch, 0)
		}
	}
}

// wants reports whether a stream has a record. A goroutine that runs without a thread was running already: GOMAXPROCS has taken its processor.
func (s *Stream) wants(r *rtRecord) bool {
	return s.events>>r.event&1 != 0 && (Event(r.event) != EvGoStart || r.args[0] != 0)
}

// passed reports to the streams that all records from before a time have been passed on.
func (o *overlay) passed(until int64) {
	for _, s := range o.streams.get() {
		s.sink(nil, until)
	}
}

// streamed returns the record for streams.
func (r *rtRecord) streamed() StreamRecord {
	s := StreamRecord{Event: Event(r.event), Time: r.time, G: G{r.g, r.goid}, P: r.p, Args: r.args, Stack: r.stack}
	if r.by != 0 {
		s.By = G{r.by, r.byGoid}
	}
	switch s.Event {
	case EvGoPark:
		s.Args = [2]uint64{r.args[0] & 0xff, r.args[0] >> 8}
	case evGoReady:
		s.Event = EvGoUnblock
	case EvGoStart, EvGoUnblock, EvGoSysExit:
		s.Args[1] = 0 // marks of the variants
	}
	return s
}

// goroutineStates are the states by the constants of the runtime: _Grunnable and so on. The others have no row.
var goroutineStates = [...]GoroutineState{1: GoroutineRunnable, 2: GoroutineRunning, 3: GoroutineSyscall, 4: GoroutineWaiting,
	8: GoroutineRunning, // its stack is being moved
	9: GoroutinePreempted, 10: GoroutineWaiting}

func (*overlay) listGoroutines(each func(*StreamGoroutine) bool) {
	buf := make([]rtGoroutine, 256)
	for from := 0; ; {
		n, next := rt_goroutines(from, buf)
		now := nanotime()
		for i := range buf[:n] {
			g := &buf[i]
			if int(g.status) >= len(goroutineStates) || goroutineStates[g.status] == 0 {
				continue
			}
			found := StreamGoroutine{G: G{g.g, g.goid}, Parent: g.parent, State: goroutineStates[g.status], Reason: g.reason, Thread: g.thread,
				CreatedBy: g.gopc, StartPC: g.startpc, Stack: g.stack, System: g.system, Agent: g.quiet}
			if g.since > 0 {
				found.Wait = time.Duration(max(now-g.since, 0))
			}
			if !each(&found) {
				return
			}
		}
		if next == 0 {
			return
		}
		from = next
	}
}

func (*overlay) stackPCs(id uint64, into []uintptr) int { return rt_stack(id, into) }
func (*overlay) waitReason(n uint8) string              { return rt_waitReason(n) }
func (*overlay) startPC(pc uintptr) uintptr             { return rt_startPC(pc) }
func (*overlay) heapLive() uint64                       { return rt_heapLive() }
func (*overlay) traceReason(n uint8) string             { return rt_traceReason(n) }

func (*overlay) calls(pc uintptr) []StreamCall {
	var buf [64]rtCall
	list := make([]StreamCall, rt_calls(pc, buf[:]))
	for i := range list {
		c := &buf[i]
		list[i] = StreamCall{Func: c.name, File: c.file, Line: int(c.line), Start: int(c.start), Wrapper: c.wrapper}
	}
	return list
}
