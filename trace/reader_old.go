package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"

	"golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// A readOld makes events of a trace by way of the toolchain's reader. It serves for the formats of before Go 1.22, and in
// tests to hold the model against.
type readOld struct {
	open   func() (*trace.Reader, error)
	reader *trace.Reader
	err    error
	left   []event.Event // made and not handed over
	m      readMapper
}

func newReadOld(in *modelInput, v raw.Version, limit *int64) *readOld {
	return &readOld{
		open: func() (*trace.Reader, error) {
			o, err := readOldInput(in, v, memoryLimit(*limit))
			if err != nil {
				return nil, err
			}
			return o.open()
		},
		m: newReadMapper(v),
	}
}

// open opens the trace with the toolchain's reader, which calls itself once for each of the events in a row that it has no
// counterpart for. A program whose stack is full cannot be saved, so a trace with too many of them is refused.
func (o *oldInput) open() (*trace.Reader, error) {
	if o.deep > readMaxRow {
		return nil, fmt.Errorf("trace with more than %d goroutines created in a row, which is not supported", readMaxRow)
	}
	return trace.NewReader(bytes.NewReader(o.data))
}

// readMaxRow bounds how often the toolchain's reader calls itself.
const readMaxRow = 200_000

// readHeader is the header of a trace.
type readHeader struct {
	v    raw.Version
	done int
}

func (h *readHeader) Read(b []byte) (int, error) {
	header := fmt.Appendf(nil, "go 1.%d trace\x00\x00\x00", h.v)
	if h.done == len(header) {
		return 0, io.EOF
	}
	n := copy(b, header[h.done:])
	h.done += n
	return n, nil
}

// A modelRest reads what an input has left.
type modelRest struct{ in *modelInput }

func (r modelRest) Read(b []byte) (int, error) {
	if !r.in.need(1) {
		return 0, r.in.err
	}
	return copy(b, r.in.take(min(len(b), r.in.size()))), nil
}

// fill implements readSource.
func (r *readOld) fill(part *readPart) error {
	for {
		n := min(len(r.left), cap(part.events)-len(part.events))
		part.events = append(part.events, r.left[:n]...)
		r.left = r.left[n:]
		if len(r.left) > 0 {
			return nil
		}
		if r.err == nil {
			r.err = r.readRun()
			r.left, part.stats = r.m.events, r.m.stats
			continue
		}
		return r.err
	}
}

// readRun reads the next event. The toolchain's reader tells the goroutines that were runnable when the trace began in
// the order of a map, another one each time: all of them are read together and put into the order of their IDs.
func (r *readOld) readRun() error {
	r.m.events = r.m.events[:0]
	for n := 0; ; n++ {
		err := r.read()
		if err == nil && len(r.m.events) == n+1 && r.unordered(&r.m.events[n]) {
			continue
		}
		run := r.m.events[:n]
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
func (r *readOld) unordered(e *event.Event) bool {
	return r.m.version.V1() && e.Kind == event.GoStatus && e.State == event.StateRunnable && e.TID == 0 && e.P == 0
}

// read reads the next event. The toolchain's reader panics on some malformed traces.
func (r *readOld) read() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = readPanicError(v)
		}
	}()
	if r.reader == nil {
		if r.reader, err = r.open(); err != nil {
			return readOneLine(err)
		}
	}
	ev, err := r.reader.ReadEvent()
	if err == io.EOF {
		return err
	}
	if err != nil {
		return readOneLine(err)
	}
	r.m.add(&ev)
	return nil
}

// readPanicError returns the error for a panic of the toolchain's reader.
func readPanicError(v any) error {
	return fmt.Errorf("malformed trace: %s", readFirstLine(fmt.Sprint(v)))
}

// readOneLine cuts the text of an error after its first line: some have the reader's whole state.
func readOneLine(err error) error {
	text := err.Error()
	if line := readFirstLine(text); line != text {
		return fmt.Errorf("%s", line)
	}
	return err
}

func readFirstLine(text string) string {
	for i, c := range text {
		if c == '\n' || c == '\r' {
			return text[:i]
		}
	}
	return text
}

// A readMapper makes events of those of the toolchain's reader.
type readMapper struct {
	version raw.Version
	events  []event.Event
	stats   Stats
	intern  *readIntern
	stacks  map[trace.Stack]*event.Stack
	since   map[uint64]int64 // when system calls began, by goroutine
	wall    int64
	synced  bool
}

func newReadMapper(v raw.Version) readMapper {
	return readMapper{version: v, stats: Stats{Version: v}, intern: newReadIntern(), stacks: map[trace.Stack]*event.Stack{}, since: map[uint64]int64{}}
}

// add makes events of one.
func (m *readMapper) add(ev *trace.Event) {
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
		m.new(event.CPUSample, ev, readGo(uint64(ev.Goroutine()))).Stack = m.stack(ev.Stack())
	case trace.EventLabel:
		_ = ev.Label() // which panics if it is malformed
		m.stats.Labels++
	case trace.EventSync:
		m.sync(ev)
	default:
		m.stats.Experiments++
	}
}

// sync takes the begin of a generation, or the end of the last one.
func (m *readMapper) sync(ev *trace.Event) {
	m.stats.Syncs++
	if !m.synced && m.version.V1() {
		m.stats.Generations = 1
	}
	clear(m.stacks)
	m.intern.generation()
	if s := ev.Sync(); s.ClockSnapshot != nil && !m.synced {
		m.wall = s.ClockSnapshot.Wall.UnixNano() - int64(s.ClockSnapshot.Trace)
	}
	m.synced = true
}

// new adds an event.
func (m *readMapper) new(kind event.Kind, ev *trace.Event, g uint64) *event.Event {
	p := uint64(ev.Proc())
	if m.version.V1() && p >= readFakeProc {
		p = modelNone
	}
	m.events = append(m.events, event.Event{
		Time: int64(ev.Time()) + m.wall, Kind: kind, TID: readThread(uint64(ev.Thread())), P: readProc(p), G: g,
	})
	m.stats.Events++
	return &m.events[len(m.events)-1]
}

// readFakeProc is the first of the numbers that the toolchain's reader uses for what is no P, in the formats of before
// Go 1.22.
const readFakeProc = 1000000

// stack returns a stack; nil if there is none.
func (m *readMapper) stack(s trace.Stack) *event.Stack {
	if s == trace.NoStack {
		return nil
	}
	if st, ok := m.stacks[s]; ok {
		return st
	}
	var frames []event.Frame
	hash := uint64(0)
	for f := range s.Frames() {
		fr := event.Frame{Func: f.Func, File: f.File, Line: int(readInt(f.Line))}
		frames = append(frames, fr)
		hash = readMix(hash, m.intern.frameHash(&fr))
	}
	var st *event.Stack
	if len(frames) > 0 {
		st = m.intern.stack(frames, len(frames) >= readDeep, hash)
	}
	m.stacks[s] = st
	return st
}

// metric makes the event of a metric.
func (m *readMapper) metric(ev *trace.Event) {
	switch metric := ev.Metric(); metric.Name {
	case "/memory/classes/heap/objects:bytes":
		m.new(event.HeapAlloc, ev, 0).Value = readInt(metric.Value.Uint64())
	case "/gc/heap/goal:bytes":
		m.stats.HeapGoals++
	default:
		m.stats.MaxProcs++
	}
}
