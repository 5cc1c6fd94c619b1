package tracetruth

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
)

// A Trace is what a program recorded of itself.
type Trace struct {
	Release int // minor release of Go whose tracer made it: 22 for Go 1.22

	// Records are all steps of goroutines, in an order in which causes come before what they cause. System calls, garbage
	// collections and stops of the world are among them.
	Records []Record

	// Begin and End bound what counts, in nanoseconds of CLOCK_MONOTONIC: from the first mark to the last.
	Begin, End int64

	// Phases are the parts of the program's work, in order.
	Phases []Phase

	// Moved describes the times that are not the runtime's. They are not compared.
	Moved Moved

	start int64 // of the recording, before Begin

	regions []region // of the program

	// initial has the states of goroutines that were alive when the trace began.
	initial map[uint64]event.State
}

// Moved describes the events of a trace whose times its reader changed, to put them after an event whose time is late.
type Moved struct {
	Events int
	By     time.Duration // the most that a mark or stamp of the program was moved by
}

// A Phase is a part of the program's work. It lasts until the next one.
type Phase struct {
	Name  string
	Begin int64 // nanoseconds of CLOCK_MONOTONIC
}

// maxRecords bounds the memory that a trace can take.
const maxRecords = 20 << 20

// Parse reads an execution trace that a program of the given minor release recorded of itself.
func Parse(r io.Reader, release int) (t *Trace, err error) {
	// The reader of traces panics on some that are damaged.
	defer func() {
		if v := recover(); v != nil {
			t, err = nil, fmt.Errorf("read trace: %v", v)
		}
	}()
	in := bufio.NewReader(r)
	// Go 1.22 built with GOEXPERIMENT=noexectracer2 writes what Go 1.21 does.
	var version int
	if head, _ := in.Peek(len("go 1.21 trace")); len(head) > 0 {
		if _, err := fmt.Sscanf(string(head), "go 1.%d trace", &version); err == nil && version < minorTraceV2 {
			release = min(release, minorTraceV2-1)
		}
	}
	p := &parser{t: &Trace{Release: release, initial: make(map[uint64]event.State)}}
	reader, err := trace.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	for {
		ev, err := reader.ReadEvent()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read trace after %d records: %w", len(p.t.Records), err)
		}
		if err := p.add(ev); err != nil {
			return nil, fmt.Errorf("read trace: %w", err)
		}
		if len(p.t.Records) > maxRecords {
			return nil, fmt.Errorf("read trace: more than %d records", maxRecords)
		}
	}
	if err := p.finish(); err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	return p.t, nil
}

// parser makes a Trace of a trace's events.
type parser struct {
	t     *Trace
	marks marks
	first int64 // the trace's time of the first event
	last  int64 // and of the event before
}

func (p *parser) add(ev trace.Event) error {
	at := int64(ev.Time())
	moved := p.note(at)
	switch ev.Kind() {
	case trace.EventLog:
		log := ev.Log()
		isMark, err := p.marks.add(log.Category, log.Message, at, moved)
		if err == nil && !isMark && log.Category == logPhase {
			p.t.Phases = append(p.t.Phases, Phase{log.Message, at})
		}
		return err
	case trace.EventStateTransition:
		if tr := ev.StateTransition(); tr.Resource.Kind == trace.ResourceGoroutine {
			return p.transition(ev, tr, moved)
		}
	case trace.EventRegionBegin, trace.EventRegionEnd:
		p.t.regions = append(p.t.regions, region{name: ev.Region().Type, g: goid(ev.Goroutine()), at: at, begin: ev.Kind() == trace.EventRegionBegin,
			index: len(p.t.Records), moved: moved})
	case trace.EventRangeBegin:
		p.rangeBegin(ev, moved)
	}
	return nil
}

// rangeBegin takes the begin of a garbage collection, or of a stop of the world. The old format has the stops for the garbage
// collector alone, and without stacks: they are left out.
func (p *parser) rangeBegin(ev trace.Event, moved bool) {
	r := Record{Time: int64(ev.Time()), Moved: moved, G: goid(ev.Goroutine()), Stack: frames(ev.Stack()), Index: len(p.t.Records)}
	name := ev.Range().Name
	stop, isStop := strings.CutPrefix(name, "stop-the-world (")
	switch {
	case name == "GC concurrent mark phase":
		r.Kind = event.GCBegin
	case isStop && p.t.Release >= minorTraceV2:
		r.Kind, r.TraceReason = event.STWBegin, strings.TrimSuffix(stop, ")")
	default:
		return
	}
	p.t.Records = append(p.t.Records, r)
}

// note takes the time of the next event and reports whether the reader of traces moved it. The runtime reads the clock after
// it has given an event its sequence number. A thread that loses the processor in between writes an event whose time is late,
// by as long as the thread waits: 100 ms on a busy machine. Readers keep the order of the sequence numbers. They give each
// event that comes after the late one and has an earlier time one nanosecond more than the event before. The runtime's own
// times are equal, or at least 64 ns apart since Go 1.22.
func (p *parser) note(at int64) (moved bool) {
	if p.first == 0 {
		p.first = at
	}
	if moved = at == p.last+1; moved {
		p.t.Moved.Events++
	}
	p.last = at
	return moved
}

// A step is how a goroutine goes from one state to another.
type step struct{ from, to trace.GoState }

// kinds has what the steps of a goroutine are called.
var kinds = map[step]event.Kind{
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

// states has the states that a goroutine can be in when a trace begins.
var states = map[trace.GoState]event.State{
	trace.GoRunnable: event.StateRunnable,
	trace.GoRunning:  event.StateRunning,
	trace.GoWaiting:  event.StateWaiting,
	trace.GoSyscall:  event.StateSyscall,
}

func (p *parser) transition(ev trace.Event, tr trace.StateTransition, moved bool) error {
	from, to := tr.Goroutine()
	g := goid(tr.Resource.Goroutine())
	if from == trace.GoUndetermined {
		p.t.initial[g] = states[to]
		return nil
	}
	if from == to {
		return nil // each part of a trace begins with the states of all goroutines
	}
	kind, ok := kinds[step{from, to}]
	if !ok {
		return fmt.Errorf("goroutine %d goes from %v to %v", g, from, to)
	}
	r := Record{Time: int64(ev.Time()), Moved: moved, Kind: kind, G: g, Stack: frames(ev.Stack()), Index: len(p.t.Records)}
	switch kind {
	case event.GoCreate:
		r.By, r.Waiting = goid(ev.Goroutine()), to == trace.GoWaiting
		if start := frames(tr.Stack); len(start) > 0 {
			r.Start = start[0].Func
		}
	case event.GoUnblock:
		r.By = goid(ev.Goroutine())
	case event.GoStop:
		r.TraceReason = tr.Reason
	case event.GoBlock:
		r.TraceReason = tr.Reason
		r.Switch = p.t.Release >= minorSwitch && tr.Reason == ""
	case event.GoSyscallEnd:
		r.lostP = to == trace.GoRunnable
		// Old traces have no end of a system call that kept its P; the reader invents one.
		r.Instant = p.t.Release < minorTraceV2 && to == trace.GoRunning
	}
	p.t.Records = append(p.t.Records, r)
	return nil
}

// The first releases with what changes a trace.
const (
	minorTraceV2 = 22 // a new format, with reasons in words and the time of CLOCK_MONOTONIC
	minorSwitch  = 23 // coroutine switches

	minorFramePointers = 14 // frame pointers that all functions preserve

	minorSystemstack = 21 // systemstack that restores the frame pointer

	minorStopFrame = 25 // GoStop with the innermost frames of its stack
)

// finish maps all times to CLOCK_MONOTONIC.
func (p *parser) finish() error {
	c, err := p.marks.clock(p.t.Release >= minorTraceV2)
	if err != nil {
		return err
	}
	for i := range p.t.Records {
		p.t.Records[i].Time = c.mono(p.t.Records[i].Time)
	}
	for i := range p.t.regions {
		p.t.regions[i].at = c.mono(p.t.regions[i].at)
	}
	for i := range p.t.Phases {
		p.t.Phases[i].Begin = c.mono(p.t.Phases[i].Begin)
	}
	p.t.Begin, p.t.End = p.marks.begin[0].mono, p.marks.end[len(p.marks.end)-1].mono
	p.t.Moved.By = p.marks.movedBy(c)
	p.t.start = c.mono(p.first)
	return nil
}

// phaseAt returns the name of the part of the program's work at a time.
func (t *Trace) phaseAt(at int64) string {
	name := ""
	for _, p := range t.Phases {
		if p.Begin > at {
			break
		}
		name = p.Name
	}
	return name
}

// goid returns a goroutine's ID, 0 for none.
func goid(g trace.GoID) uint64 {
	if g < 0 {
		return 0
	}
	return uint64(g)
}

// frames returns the frames of a stack.
func frames(s trace.Stack) []Frame {
	var list []Frame
	for f := range s.Frames() {
		list = append(list, Frame{f.Func, int(f.Line)})
	}
	return list
}

// Drop removes the goroutines for which drop returns true: those that Loupe is not to observe. What they wake up, and the collections that
// they start, have no goroutine if silent returns true.
func (t *Trace) Drop(drop, silent func(g uint64) bool) {
	ofProgram := func(r *Record) bool { return r.Kind == event.GCBegin || r.Kind == event.STWBegin }
	t.Records = slices.DeleteFunc(t.Records, func(r Record) bool { return r.G != 0 && !ofProgram(&r) && drop(r.G) })
	for i := range t.Records {
		r := &t.Records[i]
		if silent(r.By) {
			r.By, r.Stack = 0, nil
		}
		if ofProgram(r) && silent(r.G) {
			r.G, r.Stack = 0, nil
		}
	}
	maps.DeleteFunc(t.initial, func(g uint64, _ event.State) bool { return drop(g) })
}
