package tracev1

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/internal/memory"
	"github.com/loupe-go/loupe/trace/internal/reader"
	"github.com/loupe-go/loupe/trace/raw"
)

// A Reader makes events of a trace by way of the toolchain's reader. It serves for the formats of before Go 1.22, and in
// tests to compare other formats with.
type Reader struct {
	open   func() (*trace.Reader, error)
	reader *trace.Reader
	err    error
	left   []event.Event // made and not handed over
	m      Mapper
}

// NewReader returns a Reader for a trace of a version, whose header has been read. limit is what memory.Limit takes, and is
// used from the first event on.
func NewReader(in *generation.Input, v raw.Version, limit *int64) *Reader {
	return &Reader{
		open: func() (*trace.Reader, error) {
			o, err := readWhole(in, v, memory.Limit(*limit))
			if err != nil {
				return nil, err
			}
			return o.open()
		},
		m: NewMapper(v),
	}
}

// Fill appends events to part, as many as there is room for, and counts them.
func (r *Reader) Fill(part *reader.Part) error {
	for {
		n := min(len(r.left), cap(part.Events)-len(part.Events))
		part.Events = append(part.Events, r.left[:n]...)
		r.left = r.left[n:]
		if len(r.left) > 0 {
			return nil
		}
		if r.err == nil {
			r.err = r.readRun()
			r.left, part.Stats = r.m.Events, r.m.Stats
			continue
		}
		return r.err
	}
}

// readRun reads the next event. The toolchain's reader tells the goroutines that were runnable when the trace began in
// the order of a map, another one each time: all of them are read together and put into the order of their IDs.
func (r *Reader) readRun() error {
	r.m.Events = r.m.Events[:0]
	for n := 0; ; n++ {
		err := r.read()
		if err == nil && len(r.m.Events) == n+1 && r.unordered(&r.m.Events[n]) {
			continue
		}
		run := r.m.Events[:n]
		if n > 1 {
			first := run[0].Time // the reader has counted on from there
			slices.SortFunc(run, func(a, b event.Event) int { return cmp.Compare(a.G, b.G) })
			for i := range run {
				run[i].Time = first + int64(i)
			}
		}
		return err
	}
}

// unordered reports whether an event is one of those that the toolchain's reader tells in no order.
func (r *Reader) unordered(e *event.Event) bool {
	return r.m.version.V1() && e.Kind == event.GoStatus && e.State == event.StateRunnable && e.TID == 0 && e.P == 0
}

// read reads the next event. The toolchain's reader panics on some malformed traces.
func (r *Reader) read() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(v)
		}
	}()
	if r.reader == nil {
		if r.reader, err = r.open(); err != nil {
			return oneLine(err)
		}
	}
	ev, err := r.reader.ReadEvent()
	if err == io.EOF {
		return err
	}
	if err != nil {
		return oneLine(err)
	}
	r.m.Add(&ev)
	return nil
}

// panicError returns the error for a panic of the toolchain's reader.
func panicError(v any) error {
	return fmt.Errorf("malformed trace: %s", firstLine(fmt.Sprint(v)))
}

// oneLine cuts the text of an error after its first line: some have the reader's whole state.
func oneLine(err error) error {
	text := err.Error()
	if line := firstLine(text); line != text {
		return fmt.Errorf("%s", line)
	}
	return err
}

func firstLine(text string) string {
	for i, c := range text {
		if c == '\n' || c == '\r' {
			return text[:i]
		}
	}
	return text
}

// A Mapper makes events of those of the toolchain's reader, and counts them.
type Mapper struct {
	version raw.Version
	Events  []event.Event
	Stats   reader.Stats
	intern  *reader.Intern
	stacks  map[trace.Stack]*event.Stack
	since   map[uint64]int64 // when system calls began, by goroutine
	wall    int64
	synced  bool
}

// NewMapper returns a Mapper for a trace of a version.
func NewMapper(v raw.Version) Mapper {
	return Mapper{version: v, Stats: reader.Stats{Version: v}, intern: reader.NewIntern(), stacks: map[trace.Stack]*event.Stack{}, since: map[uint64]int64{}}
}

// Add makes events of one.
func (m *Mapper) Add(ev *trace.Event) {
	switch ev.Kind() {
	case trace.EventStateTransition:
		m.transition(ev)
	case trace.EventMetric:
		m.metric(ev)
	case trace.EventRangeBegin, trace.EventRangeActive, trace.EventRangeEnd:
		m.ranges(ev)
	case trace.EventTaskBegin, trace.EventTaskEnd, trace.EventRegionBegin, trace.EventRegionEnd, trace.EventLog:
		m.user(ev)
	case trace.EventStackSample:
		m.new(event.CPUSample, ev, reader.GoID(uint64(ev.Goroutine()))).Stack = m.stack(ev.Stack())
	case trace.EventLabel:
		_ = ev.Label() // which panics if it is malformed
		m.Stats.Labels++
	case trace.EventSync:
		m.sync(ev)
	default:
		m.Stats.Experiments++
	}
}

// sync takes the begin of a generation, or the end of the last one.
func (m *Mapper) sync(ev *trace.Event) {
	m.Stats.Syncs++
	if !m.synced && m.version.V1() {
		m.Stats.Generations = 1
	}
	clear(m.stacks)
	m.intern.Generation()
	if s := ev.Sync(); s.ClockSnapshot != nil && !m.synced {
		m.wall = s.ClockSnapshot.Wall.UnixNano() - int64(s.ClockSnapshot.Trace)
	}
	m.synced = true
}

// new adds an event.
func (m *Mapper) new(kind event.Kind, ev *trace.Event, g uint64) *event.Event {
	p := uint64(ev.Proc())
	if m.version.V1() && p >= fakeProc {
		p = generation.None
	}
	m.Events = append(m.Events, event.Event{
		Time: int64(ev.Time()) + m.wall, Kind: kind, TID: reader.ThreadID(uint64(ev.Thread())), P: reader.ProcOf(p), G: g,
	})
	m.Stats.Events++
	return &m.Events[len(m.Events)-1]
}

// fakeProc is the first of the numbers that the toolchain's reader uses for what is no P, in the formats of before
// Go 1.22.
const fakeProc = 1000000

// stack returns a stack; nil if there is none.
func (m *Mapper) stack(s trace.Stack) *event.Stack {
	if s == trace.NoStack {
		return nil
	}
	if st, ok := m.stacks[s]; ok {
		return st
	}
	var frames []event.Frame
	hash := uint64(0)
	for f := range s.Frames() {
		fr := event.Frame{Func: f.Func, File: f.File, Line: int(reader.Int64(f.Line))}
		frames = append(frames, fr)
		hash = reader.MixHash(hash, m.intern.FrameHash(&fr))
	}
	var st *event.Stack
	if len(frames) > 0 {
		st = m.intern.Stack(frames, len(frames) >= reader.DeepStack, hash)
	}
	m.stacks[s] = st
	return st
}

// metric makes the event of a metric.
func (m *Mapper) metric(ev *trace.Event) {
	switch metric := ev.Metric(); metric.Name {
	case "/memory/classes/heap/objects:bytes":
		m.new(event.HeapAlloc, ev, 0).Value = reader.Int64(metric.Value.Uint64())
	case "/gc/heap/goal:bytes":
		m.new(event.HeapGoal, ev, 0).Value = reader.Int64(metric.Value.Uint64())
	default:
		m.Stats.MaxProcs++
	}
}
