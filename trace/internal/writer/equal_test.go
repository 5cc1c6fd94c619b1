package writer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// A step is a transition of a goroutine, as a reader of the trace sees it.
type step struct {
	from, to xtrace.GoState
	reason   string
	by       uint64 // the goroutine that it happened on
	stack    string
	start    string // of a created goroutine
	time     int64
	p        xtrace.ProcID
	m        xtrace.ThreadID
}

func (s step) is(from, to xtrace.GoState) bool { return s.from == from && s.to == to }

// A recording is what a reader sees of a trace.
type recording struct {
	steps map[uint64][]step
	other []string // everything but transitions, and what the writer adds
	clock *xtrace.ClockSnapshot
	procs uint64
	marks []string // messages of the writer
}

func xStack(s xtrace.Stack) string {
	var b strings.Builder
	for f := range s.Frames() {
		fmt.Fprintf(&b, "%s %s:%d\n", f.Func, f.File, f.Line)
	}
	return b.String()
}

func framesText(frames ...event.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "%s %s:%d\n", f.Func, f.File, f.Line)
	}
	return b.String()
}

func stackText(s *event.Stack) string {
	if s == nil {
		return ""
	}
	return framesText(s.Frames...)
}

func xGoID(g xtrace.GoID) uint64 {
	if g == xtrace.NoGoroutine {
		return 0
	}
	return uint64(g)
}

// readSteps reads a trace.
func readSteps(t testing.TB, data []byte) *recording {
	t.Helper()
	r := &recording{steps: map[uint64][]step{}}
	last := xtrace.Time(0)
	readAll(t, data, func(ev xtrace.Event) {
		if ev.Time() <= last {
			t.Errorf("%v is not later than %d", ev, last)
		}
		last = ev.Time()
		r.add(ev)
	})
	return r
}

func (r *recording) add(ev xtrace.Event) {
	note := func(format string, args ...any) {
		r.other = append(r.other, fmt.Sprintf(format, args...)+"\n"+xStack(ev.Stack()))
	}
	switch ev.Kind() {
	case xtrace.EventSync:
		if c := ev.Sync().ClockSnapshot; c != nil && r.clock == nil {
			r.clock = c
		}
	case xtrace.EventRangeBegin, xtrace.EventRangeEnd:
		if scope := ev.Range().Scope; scope.Kind == xtrace.ResourceGoroutine && ev.Range().Name == "GC mark assist" {
			note("G%d %v %s", scope.Goroutine(), ev.Kind(), ev.Range().Name)
		} else {
			note("%v %s", ev.Kind(), ev.Range().Name)
		}
	case xtrace.EventMetric:
		if m := ev.Metric(); strings.Contains(m.Name, "gomaxprocs") {
			r.procs = m.Value.Uint64()
		} else {
			note("heap %d", m.Value.Uint64())
		}
	case xtrace.EventTaskBegin, xtrace.EventTaskEnd:
		note("G%d %v %d %s %d", ev.Goroutine(), ev.Kind(), ev.Task().ID, ev.Task().Type, max(0, int64(ev.Task().Parent)))
	case xtrace.EventRegionBegin, xtrace.EventRegionEnd:
		note("G%d %v %d %s", ev.Goroutine(), ev.Kind(), ev.Region().Task, ev.Region().Type)
	case xtrace.EventLog:
		if l := ev.Log(); l.Category == logCategory {
			r.marks = append(r.marks, l.Message)
		} else {
			note("G%d log %d %s %s", ev.Goroutine(), l.Task, l.Category, l.Message)
		}
	case xtrace.EventStackSample:
		note("G%d sample", ev.Goroutine())
	case xtrace.EventStateTransition:
		tr := ev.StateTransition()
		if tr.Resource.Kind != xtrace.ResourceGoroutine {
			return
		}
		from, to := tr.Goroutine()
		g := uint64(tr.Resource.Goroutine())
		if from == to {
			return
		}
		s := step{from: from, to: to, reason: tr.Reason, by: xGoID(ev.Goroutine()), stack: xStack(ev.Stack()),
			time: int64(ev.Time()), p: ev.Proc(), m: ev.Thread()}
		if from == xtrace.GoNotExist {
			s.start = xStack(tr.Stack)
		}
		r.steps[g] = append(r.steps[g], s)
	}
}

// otherText is what add notes for an event.
func otherText(e *event.Event, tasks map[int64]string) string {
	stack := stackText(e.Stack)
	switch e.Kind {
	case event.GCBegin:
		return "RangeBegin GC concurrent mark phase\n"
	case event.GCEnd:
		return "RangeEnd GC concurrent mark phase\n"
	case event.STWBegin:
		return "RangeBegin stop-the-world (" + e.Reason + ")\n"
	case event.STWEnd:
		return "RangeEnd stop-the-world (GC mark termination)\n"
	case event.GCMarkAssistBegin:
		return fmt.Sprintf("G%d RangeBegin GC mark assist\n%s", e.G, stack)
	case event.GCMarkAssistEnd:
		return fmt.Sprintf("G%d RangeEnd GC mark assist\n", e.G)
	case event.HeapAlloc, event.HeapGoal:
		return fmt.Sprintf("heap %d\n", e.Value)
	case event.ChanSend:
		return fmt.Sprintf("G%d log 0 ChanSend 0x%x\n%s", e.G, e.Object, stack)
	case event.UserLog:
		return fmt.Sprintf("G%d log %d %s %s\n%s", e.G, e.Value, e.Reason, e.Text, stack)
	case event.UserRegionBegin:
		return fmt.Sprintf("G%d RegionBegin %d %s\n%s", e.G, e.Value, e.Text, stack)
	case event.UserRegionEnd:
		return fmt.Sprintf("G%d RegionEnd %d %s\n%s", e.G, e.Value, e.Text, stack)
	case event.UserTaskBegin:
		tasks[e.Value] = fmt.Sprintf("%s %d", e.Text, e.Object)
		return fmt.Sprintf("G%d TaskBegin %d %s\n%s", e.G, e.Value, tasks[e.Value], stack)
	case event.UserTaskEnd:
		what := tasks[e.Value]
		if what == "" {
			what = " 0"
		}
		delete(tasks, e.Value)
		return fmt.Sprintf("G%d TaskEnd %d %s\n%s", e.G, e.Value, what, stack)
	case event.CPUSample:
		return fmt.Sprintf("G%d sample\n%s", e.G, stack)
	}
	return ""
}

// A lane compares what happened to one goroutine with what a reader sees.
type lane struct {
	t       *testing.T
	version raw.Version
	opt     simOptions
	maxMove int64
	cuts    bool // the trace has several generations
	g       uint64
	events  []event.Event
	steps   []step
	running map[*event.Event]bool // for events of kind GoUnblock, whether the waker was running
}

func (l *lane) fail(e *event.Event, format string, args ...any) {
	l.t.Helper()
	l.t.Fatalf("G%d, %+v: %s; next are %+v", l.g, *e, fmt.Sprintf(format, args...), l.steps[:min(4, len(l.steps))])
}

// take takes the next step, which must be from one state to another at the time of an event.
func (l *lane) take(e *event.Event, from, to xtrace.GoState) step {
	l.t.Helper()
	if len(l.steps) == 0 || !l.steps[0].is(from, to) {
		l.fail(e, "the next step is not from %v to %v", from, to)
	}
	s := l.steps[0]
	l.steps = l.steps[1:]
	if late := s.time - e.Time; late < 0 || late > l.maxMove+8 {
		l.fail(e, "written %d ns late", late)
	}
	return s
}

// skip drops the next steps if they are the given ones.
func (l *lane) skip(states ...xtrace.GoState) bool {
	for i := range states[1:] {
		if i >= len(l.steps) || !l.steps[i].is(states[i], states[i+1]) {
			return false
		}
	}
	l.steps = l.steps[len(states)-1:]
	return true
}

// on verifies where a step was.
func (l *lane) on(e *event.Event, s step) {
	l.t.Helper()
	if l.opt.known && e.P != 0 && s.p != xtrace.ProcID(e.P-1) {
		l.fail(e, "on P %d", s.p)
	}
	if e.TID != 0 && s.m != xtrace.ThreadID(e.TID) {
		l.fail(e, "on thread %d", s.m)
	}
}

const (
	xNone     = xtrace.GoNotExist
	xRunnable = xtrace.GoRunnable
	xRunning  = xtrace.GoRunning
	xWaiting  = xtrace.GoWaiting
	xSyscall  = xtrace.GoSyscall
)

func (l *lane) compare() {
	l.t.Helper()
	for i := range l.events {
		e := &l.events[i]
		if i == 1 && l.events[0].Kind == event.GoStatus {
			l.status(&l.events[0])
			if e.Kind != event.GoStart && !l.opt.syscalls {
				l.skip(xSyscall, xRunnable, xRunning)
			}
		}
		// Calls that are not observed show when the goroutine has another P. Other events than its own tell so, too.
		for !l.opt.syscalls && len(l.steps) > 2 && (e.Kind != event.GoStart || l.steps[2].time < e.Time) && l.skip(xRunning, xSyscall, xRunnable, xRunning) {
		}
		var next event.Event
		if i+1 < len(l.events) {
			next = l.events[i+1]
		}
		l.event(e, next.Kind, next.Time)
	}
}

// status takes the status of a goroutine, which may be told only when it does something.
func (l *lane) status(e *event.Event) {
	s := l.steps[0]
	if s.from != xtrace.GoUndetermined {
		l.fail(e, "no status")
	}
	l.steps = l.steps[1:]
	want := map[event.State]xtrace.GoState{event.StateWaiting: xWaiting, event.StateLeaked: xWaiting, event.StateRunnable: xRunnable}[e.State]
	if want != 0 && s.to != want {
		l.fail(e, "status %v", s.to)
	}
	stack := stackText(e.Stack)
	if e.Origin != nil && (e.Stack == nil || e.Stack.Truncated) {
		stack += framesText(e.Origin.Start)
	}
	if l.version < raw.Go123 {
		stack = ""
	}
	if s.stack != stack {
		l.fail(e, "stack %s, want %s", s.stack, stack)
	}
}

func (l *lane) event(e *event.Event, next event.Kind, then int64) {
	l.t.Helper()
	stack := stackText(e.Stack)
	var s step
	switch e.Kind {
	case event.GoStatus:
		return // see compare
	case event.GoCreate:
		to := xRunnable
		if e.State == event.StateWaiting && l.version >= raw.Go123 {
			to = xWaiting
		}
		s = l.take(e, xNone, to)
		if e.State != "" && to == xRunnable && !l.skip(xRunnable, xRunning, xWaiting) {
			l.fail(e, "does not wait")
		}
		start := ""
		if e.Origin != nil {
			start = framesText(e.Origin.Start)
		}
		if s.by != e.Parent || s.start != start {
			l.fail(e, "created by %d with %s", s.by, s.start)
		}
	case event.GoStart:
		l.skip(xRunning, xSyscall, xRunnable)
		l.skip(xSyscall, xRunnable) // after the status of one that was in a system call all the time
		s = l.take(e, xRunnable, xRunning)
	case event.GoStop, event.GoBlock:
		to := map[event.Kind]xtrace.GoState{event.GoStop: xRunnable, event.GoBlock: xWaiting}[e.Kind]
		s = l.take(e, xRunning, to)
		if want := blockReason(e); s.reason != want {
			l.fail(e, "reason %q, want %q", s.reason, want)
		}
	case event.GoDestroy:
		s = l.take(e, xRunning, xNone)
	case event.GoUnblock:
		s = l.take(e, xWaiting, xRunnable)
		by := e.By
		if !l.running[e] {
			by = 0
		}
		if s.by != by {
			l.fail(e, "by %d, want %d", s.by, by)
		}
		s.m, s.p = xtrace.ThreadID(e.TID), xtrace.ProcID(e.P-1)
	case event.GoSyscallBegin:
		s = l.take(e, xRunning, xSyscall)
	case event.GoSyscallEnd:
		// A generation that ends before the next event cannot know that the goroutine has to wait for a P.
		if l.cuts && next == event.GoStart && len(l.steps) > 1 && (l.steps[1].time < then || l.steps[0].to == xRunning) && (l.skip(xSyscall, xRunning, xSyscall, xRunnable) ||
			l.skip(xSyscall, xRunnable, xRunning, xSyscall, xRunnable)) {
			return
		}
		if next == event.GoStart || len(l.steps) > 0 && l.steps[0].is(xSyscall, xRunnable) {
			s = l.take(e, xSyscall, xRunnable)
			if next != event.GoStart && !l.skip(xRunnable, xRunning) && next != 0 {
				l.fail(e, "does not run")
			}
		} else {
			s = l.take(e, xSyscall, xRunning)
		}
	}
	if s.stack != stack {
		l.fail(e, "stack %s", s.stack)
	}
	l.on(e, s)
}

// TestWriterEqual writes valid streams, and expects a reader to see the same: for each goroutine the same transitions with
// their reasons, stacks, threads, Ps and times, and all else in the same order.
func TestWriterEqual(t *testing.T) {
	for _, v := range versions {
		for i, opt := range simulations {
			for seed := range uint64(2) {
				t.Run(fmt.Sprintf("%v/%d/seed=%d", v, i, seed), func(t *testing.T) {
					s := newSimulation(seed, opt).run(2500)
					least, generation := uint64(1), time.Hour
					if seed%2 == 1 {
						least, generation = 3, 10*time.Millisecond
					}
					data, stats := writeAll(t, s.events, Options{Version: v, Generation: generation})
					if stats.Repaired > 0 || stats.Found > 0 || stats.Lost > 0 || len(stats.Skipped) > 0 || stats.MaxMove > 1000 {
						t.Errorf("stats %+v", stats)
					}
					if stats.Generations < least || len(s.events) < 1000 {
						t.Errorf("%d generations, %d events", stats.Generations, len(s.events))
					}
					compareStream(t, s, v, readSteps(t, data), stats)
				})
			}
		}
	}
}

func compareStream(t *testing.T, s *simulation, v raw.Version, read *recording, stats Stats) {
	t.Helper()
	lanes := map[uint64]*lane{}
	running := map[uint64]bool{}
	tasks := map[int64]string{}
	wakers := map[*event.Event]bool{}
	var other, samples []string
	for i := range s.events {
		e := s.events[i]
		if text := otherText(&e, tasks); text != "" {
			if e.Kind == event.CPUSample {
				samples = append(samples, text)
			} else {
				other = append(other, text)
			}
			continue
		}
		l := lanes[e.G]
		if l == nil {
			l = &lane{t: t, version: v, opt: s.simOptions, maxMove: int64(stats.MaxMove), cuts: stats.Generations > 1, g: e.G, steps: read.steps[e.G], running: wakers,
				events: make([]event.Event, 0, 4096)}
			lanes[e.G] = l
		}
		l.events = append(l.events, e)
		last := &l.events[len(l.events)-1]
		switch e.Kind {
		case event.GoBlock, event.GoStop, event.GoDestroy:
			running[e.G] = false
		case event.GoStart, event.GoSyscallEnd:
			running[e.G] = true
		case event.GoStatus:
			running[e.G] = e.State == event.StateRunning || e.State == event.StateSyscall
		case event.GoUnblock:
			// A coroutine that hands over wakes the next one before it waits itself.
			wakers[last] = running[e.By] || i > 0 && s.events[i-1].G == e.By && s.events[i-1].Reason == "coroutine"
		}
	}
	for _, l := range lanes {
		l.compare()
	}
	delete(read.steps, guestID)
	if len(read.marks) > 0 || len(read.steps) != len(lanes) {
		t.Errorf("marks %q; %d goroutines, want %d", read.marks, len(read.steps), len(lanes))
	}
	compareOther(t, read, other, samples)
	if v >= raw.Go125 {
		if d := read.clock.Wall.UnixNano() - int64(read.clock.Trace); d != 0 {
			t.Errorf("clock %+v", *read.clock)
		}
	}
	// A P more may have been needed while all were in use by what the writer knew.
	if s.known && (read.procs < uint64(s.procs) || read.procs > uint64(s.procs)+2) {
		t.Errorf("%d Ps, want %d", read.procs, s.procs)
	}
}

// compareOther compares what is not about the states of goroutines. Samples may come out of order.
func compareOther(t *testing.T, read *recording, other, samples []string) {
	t.Helper()
	var readSamples []string
	read.other = slices.DeleteFunc(read.other, func(s string) bool {
		is := strings.Contains(s, " sample\n")
		if is {
			readSamples = append(readSamples, s)
		}
		return is
	})
	slices.Sort(samples)
	slices.Sort(readSamples)
	if !slices.Equal(samples, readSamples) {
		t.Errorf("%d samples, want %d", len(readSamples), len(samples))
	}
	for i := range other {
		if i >= len(read.other) || read.other[i] != other[i] {
			t.Fatalf("%d of %d: %q, want %q", i, len(other), read.other[min(i, len(read.other)-1)], other[i])
		}
	}
	if len(read.other) != len(other) {
		t.Errorf("%d other events, want %d", len(read.other), len(other))
	}
}
