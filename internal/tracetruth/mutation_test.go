package tracetruth

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// A mutation is one way in which an observer can be wrong.
type mutation struct {
	name string
	// change makes one observation of a perfect one wrong. It returns nil when there is nothing that it could change.
	change func(m *mutator) []event.Event
	// found are the failures of which at least one must be reported.
	found []string
	since int // the first minor release that has what is changed
}

// mutator changes events between the marks.
type mutator struct {
	rng    *rand.Rand
	truth  *Trace
	events []event.Event // a copy for every mutation
}

// offset of the observers' clock.
const mutatedOffset = 1_700_000_000_000_000_000

// one returns the index of an event between the marks that fits, or -1.
func (m *mutator) one(fits func(*event.Event) bool) int { return m.between(0, fits) }

// inner is one for changes that may not be found near the marks, where Loupe may see more than the trace has.
func (m *mutator) inner(fits func(*event.Event) bool) int { return m.between(slack, fits) }

func (m *mutator) between(margin int64, fits func(*event.Event) bool) int {
	return pick(m.rng, m.events, func(ev *event.Event) bool {
		at := ev.Time - mutatedOffset
		return at > m.truth.Begin+margin && at < m.truth.End-margin && fits(ev)
	})
}

// kind is inner for a kind.
func (m *mutator) kind(k event.Kind) int {
	return m.inner(func(ev *event.Event) bool { return ev.Kind == k })
}

// next returns the index of the next event of the same goroutine, or -1.
func (m *mutator) next(i int) int {
	for j := i + 1; j < len(m.events); j++ {
		if m.events[j].G == m.events[i].G && m.events[j].Kind != event.GoStatus {
			return j
		}
	}
	return -1
}

// without returns the events without some.
func (m *mutator) without(drop ...int) []event.Event {
	var rest []event.Event
	for i := range m.events {
		if !slices.Contains(drop, i) {
			rest = append(rest, m.events[i])
		}
	}
	return rest
}

// edit changes one event of a kind.
func edit(k event.Kind, change func(*event.Event)) func(*mutator) []event.Event {
	return editWhere(func(ev *event.Event) bool { return ev.Kind == k }, change)
}

func editWhere(fits func(*event.Event) bool, change func(*event.Event)) func(*mutator) []event.Event {
	return func(m *mutator) []event.Event {
		i := m.one(fits)
		if i < 0 {
			return nil
		}
		change(&m.events[i])
		return m.events
	}
}

// drop leaves out an event of a kind.
func drop(k event.Kind) func(*mutator) []event.Event {
	return func(m *mutator) []event.Event {
		for range 1000 {
			i := m.one(func(ev *event.Event) bool { return ev.Kind == k })
			if i < 0 {
				return nil
			}
			if !isRestart(m.events, i) {
				return m.without(i)
			}
		}
		return nil
	}
}

// isRestart reports whether an event is a start after a system call or before one, of which one may be missing.
func isRestart(events []event.Event, i int) bool {
	if events[i].Kind != event.GoStart {
		return false
	}
	for _, next := range events[i+1:] {
		if next.G == events[i].G {
			if next.Kind == event.GoStart {
				return true
			}
			break
		}
	}
	last := event.Kind(0)
	for j := i - 1; j >= 0 && last == 0; j-- {
		if events[j].G == events[i].G {
			last = events[j].Kind
		}
	}
	return last != event.GoUnblock && last != event.GoStop && last != event.GoCreate
}

// dropRun leaves out events of a goroutine that follow each other, of given kinds.
func dropRun(kinds ...event.Kind) func(*mutator) []event.Event {
	return func(m *mutator) []event.Event {
		for range 1000 {
			i := m.kind(kinds[0])
			if i < 0 {
				return nil
			}
			run := []int{i}
			for _, k := range kinds[1:] {
				if i = m.next(i); i < 0 || m.events[i].Kind != k {
					break
				}
				run = append(run, i)
			}
			if len(run) == len(kinds) {
				return m.without(run...)
			}
		}
		return nil
	}
}

// insert adds events after one of a kind.
func insert(after event.Kind, make func(*event.Event) []event.Event) func(*mutator) []event.Event {
	return func(m *mutator) []event.Event {
		i := m.kind(after)
		if i < 0 {
			return nil
		}
		return slices.Insert(m.events, i+1, make(&m.events[i])...)
	}
}

// shift moves all times of a kind; of all events when it is 0.
func shift(k event.Kind, by time.Duration) func(*mutator) []event.Event {
	return func(m *mutator) []event.Event {
		for i := range m.events {
			if k == 0 || m.events[i].Kind == k {
				m.events[i].Time += int64(by)
			}
		}
		return m.events
	}
}

// isBlock returns what an event must be to be a wait with a tracer's reason or, before there were any, a wait reason.
func isBlock(reason string) func(*event.Event) bool {
	return func(ev *event.Event) bool { return ev.Kind == event.GoBlock && ev.Reason == reason }
}

// isWakeBy reports whether one goroutine woke another.
func isWakeBy(ev *event.Event) bool { return ev.Kind == event.GoUnblock && ev.By != 0 }

// isExactWake reports whether a goroutine woke another on purpose.
func isExactWake(ev *event.Event) bool {
	return isWakeBy(ev) && ev.Stack != nil && !isRuntime(ev.Stack.Frames[0].Func)
}

var mutations = []mutation{
	{name: "no GoCreate", change: drop(event.GoCreate), found: []string{FailSequence}},
	{name: "no GoStart", change: drop(event.GoStart), found: []string{FailSequence}},
	{name: "no GoStop", change: drop(event.GoStop), found: []string{FailSequence}},
	{name: "no GoBlock", change: drop(event.GoBlock), found: []string{FailSequence}},
	{name: "no GoUnblock", change: drop(event.GoUnblock), found: []string{FailSequence}},
	{name: "no GoDestroy", change: drop(event.GoDestroy), found: []string{FailSequence}},
	{name: "no GCBegin", change: drop(event.GCBegin), found: []string{FailSequence}},
	{name: "no STWBegin", since: minorTraceV2, change: drop(event.STWBegin), found: []string{FailSequence}},
	{name: "no preemption", change: dropRun(event.GoStop, event.GoStart), found: []string{FailSequence}},
	{name: "no wait", change: dropRun(event.GoBlock, event.GoUnblock, event.GoStart), found: []string{FailSequence}},
	{name: "no goroutine", change: dropGoroutine, found: []string{FailSequence}},
	{name: "two starts", change: insert(event.GoStart, repeat), found: []string{FailSequence}},
	{name: "two blocks", change: insert(event.GoBlock, repeat), found: []string{FailSequence}},
	{name: "two ends", change: insert(event.GoDestroy, repeat), found: []string{FailSequence}},
	{name: "a wait that was none", change: insert(event.GoStart, phantomWait), found: []string{FailSequence}},
	{name: "a goroutine that was none", change: insert(event.GoStart, phantomGoroutine), found: []string{FailSequence}},
	{name: "start before its cause", change: swapWithNext(event.GoUnblock), found: []string{FailSequence}},
	{name: "end before the last start", change: swapWithNext(event.GoStart), found: []string{FailSequence}},
	{name: "wake after its waker's block", change: delayWake, found: []string{FailSequence}},
	{name: "of another goroutine", change: editWhere(isWakeBy, func(ev *event.Event) { ev.G = ev.By }), found: []string{FailSequence}},
	{name: "cut off", change: cutOff, found: []string{FailSequence}},

	{name: "other waker", change: editWhere(isExactWake, func(ev *event.Event) { ev.By++ }), found: []string{FailWaker}},
	{name: "no waker", change: editWhere(isExactWake, func(ev *event.Event) { ev.By = 0 }), found: []string{FailWaker}},
	{name: "waker of nobody's wake", found: []string{FailWaker}, change: editWhere(
		func(ev *event.Event) bool { return ev.Kind == event.GoUnblock && ev.By == 0 }, func(ev *event.Event) { ev.By = ev.G + 1 })},
	{name: "other parent", change: edit(event.GoCreate, func(ev *event.Event) { ev.Parent += 3 }), found: []string{FailParent}},
	{name: "no parent", found: []string{FailParent}, change: editWhere(
		func(ev *event.Event) bool { return ev.Kind == event.GoCreate && ev.Parent != 0 }, func(ev *event.Event) { ev.Parent = 0 })},
	{name: "other function", found: []string{FailStart}, change: edit(event.GoCreate, func(ev *event.Event) {
		ev.Origin = &event.Origin{Start: event.Frame{Func: "main.other"}}
	})},
	{name: "no function", change: edit(event.GoCreate, func(ev *event.Event) { ev.Origin = nil }), found: []string{FailStart}},
	{name: "coroutine created runnable", since: minorSwitch, found: []string{FailState}, change: editWhere(
		func(ev *event.Event) bool { return ev.Kind == event.GoCreate && ev.State == event.StateWaiting },
		func(ev *event.Event) { ev.State = "" })},
	{name: "unknown at the begin", change: dropStatus, found: []string{FailState}},

	{name: "other wait", change: editWhere(isBlock("chan receive"), func(ev *event.Event) { ev.Reason = "chan send" }), found: []string{FailReason}},
	{name: "unknown wait", change: edit(event.GoBlock, func(ev *event.Event) { ev.Reason = "tea" }), found: []string{FailReason}},
	{name: "wait of a later release", found: []string{FailReason}, change: editWhere(isBlock("select"),
		func(ev *event.Event) { ev.Reason = "select (for ever)" })},
	{name: "wait of the same tracer's reason", since: 20, found: []string{FailReason}, change: editWhere(
		isBlock("sync.Mutex.Lock"), func(ev *event.Event) { ev.Reason = "semacquire" })},
	{name: "nil channel taken for none", found: []string{FailReason}, change: editWhere(
		isBlock("chan send (nil chan)"), func(ev *event.Event) { ev.Reason = "chan receive (nil chan)" })},
	{name: "coroutine taken for a wait", since: minorSwitch, found: []string{FailReason}, change: editWhere(
		isBlock("coroutine"), func(ev *event.Event) { ev.Reason = "chan receive" })},
	{name: "other tracer's reason", found: []string{FailReason}, change: edit(event.GoBlock, func(ev *event.Event) { ev.TraceReason += "!" })},
	{name: "no tracer's reason", since: minorTraceV2, found: []string{FailReason}, change: editWhere(
		isBlock("select"), func(ev *event.Event) { ev.TraceReason = "" })},
	{name: "preempted for Gosched", found: []string{FailReason}, change: editWhere(
		func(ev *event.Event) bool { return ev.Kind == event.GoStop && ev.Reason == event.StopGosched },
		func(ev *event.Event) { ev.Reason = event.StopPreempted })},

	{name: "world stopped for another reason", since: minorTraceV2, found: []string{FailReason}, change: edit(event.STWBegin,
		func(ev *event.Event) { ev.Reason += "?" })},

	{name: "stack without its innermost frames", found: []string{FailStack}, change: editWhere(
		func(ev *event.Event) bool { return hasProgramStack(ev) && ev.Kind == event.GoBlock }, editStack(dropInnermost))},
	{name: "stop without its innermost frame", found: []string{FailStack}, change: editWhere(
		func(ev *event.Event) bool {
			return hasProgramStack(ev) && ev.Kind == event.GoStop && ev.Reason == event.StopGosched
		},
		editStack(dropInnermost))},
	{name: "stack without a frame", found: []string{FailStack}, change: editWhere(hasProgramStack, editStack(func(s *event.Stack) {
		s.Frames = slices.Delete(s.Frames, len(s.Frames)-2, len(s.Frames)-1)
	}))},
	{name: "stack with one frame more", found: []string{FailStack}, change: editWhere(hasProgramStack, editStack(func(s *event.Stack) {
		s.Frames = append([]event.Frame{{Func: "main.none"}}, s.Frames...)
	}))},
	{name: "another line", found: []string{FailStack}, change: editWhere(hasProgramStack, editStack(func(s *event.Stack) {
		s.Frames[len(s.Frames)-1].Line++
	}))},
	{name: "a collection begun elsewhere", found: []string{FailStack}, change: editWhere(
		func(ev *event.Event) bool { return hasProgramStack(ev) && ev.Kind == event.GCBegin }, editStack(dropInnermost))},
	{name: "a world stopped elsewhere", since: minorTraceV2, found: []string{FailStack}, change: editWhere(
		func(ev *event.Event) bool { return hasProgramStack(ev) && ev.Kind == event.STWBegin }, editStack(dropInnermost))},
	{name: "preempted two frames further in", found: []string{FailStack}, change: editWhere(isChecked, editStack(func(s *event.Stack) {
		s.Frames = append([]event.Frame{{Func: "main.none"}, {Func: "main.none"}}, s.Frames...)
	}))},
	{name: "a stack where the trace has none", found: []string{FailStack}, change: edit(event.GoStart, func(ev *event.Event) {
		ev.Stack = &event.Stack{Frames: []event.Frame{{Func: "main.none"}}}
	})},
	{name: "creation without a stack", found: []string{FailStack}, change: editWhere(
		func(ev *event.Event) bool { return hasProgramStack(ev) && ev.Kind == event.GoCreate },
		func(ev *event.Event) { ev.Stack = nil })},

	{name: "blocks late", change: shift(event.GoBlock, time.Millisecond), found: []string{FailTime}},
	{name: "starts early", change: shift(event.GoStart, -200*time.Microsecond), found: []string{FailTime}},
	{name: "another clock", change: shift(0, time.Second), found: []string{FailTime}},
	{name: "a clock that runs fast", change: func(m *mutator) []event.Event { return faster(m, 20) }, found: []string{FailTime, FailLength, FailSequence}},
	{name: "lost", found: []string{FailLost}, change: insert(event.GoStart, func(ev *event.Event) []event.Event {
		return []event.Event{{Time: ev.Time, Kind: event.Lost, Value: 1}}
	})},
}

// hasProgramStack reports whether an event has a stack that is compared frame by frame: not one that may have been cut off, or
// that a signal has interrupted.
func hasProgramStack(ev *event.Event) bool {
	return ev.Stack != nil && ev.Reason != event.StopPreempted && len(ev.Stack.Frames) > 2 && len(ev.Stack.Frames) < minDeep &&
		isProgram(Frame{ev.Stack.Frames[len(ev.Stack.Frames)-1].Func, 0}) && isProgram(Frame{ev.Stack.Frames[len(ev.Stack.Frames)-2].Func, 0})
}

// isChecked reports whether a goroutine of the program was preempted where a function checks its stack.
func isChecked(ev *event.Event) bool {
	if ev.Kind != event.GoStop || ev.Reason != event.StopPreempted || ev.Stack == nil || len(ev.Stack.Frames) >= minDeep {
		return false
	}
	isMain := func(f event.Frame) bool { return isProgram(Frame{Func: f.Func}) }
	isAsync := func(f event.Frame) bool { return f.Func == "runtime.asyncPreempt" }
	return slices.ContainsFunc(ev.Stack.Frames, isMain) && !slices.ContainsFunc(ev.Stack.Frames, isAsync)
}

// dropInnermost leaves out the innermost frame of the program's code and those that it called.
func dropInnermost(s *event.Stack) {
	s.Frames = s.Frames[1+slices.IndexFunc(s.Frames, func(f event.Frame) bool { return isProgram(Frame{f.Func, f.Line}) }):]
}

// editStack changes a copy of an event's stack.
func editStack(change func(*event.Stack)) func(*event.Event) {
	return func(ev *event.Event) {
		s := &event.Stack{Frames: slices.Clone(ev.Stack.Frames)}
		change(s)
		ev.Stack = s
	}
}

func repeat(ev *event.Event) []event.Event { return []event.Event{*ev} }

func phantomWait(ev *event.Event) []event.Event {
	return []event.Event{
		{Time: ev.Time, Kind: event.GoBlock, G: ev.G, Reason: "IO wait"},
		{Time: ev.Time, Kind: event.GoUnblock, G: ev.G}, {Time: ev.Time, Kind: event.GoStart, G: ev.G},
	}
}

func phantomGoroutine(ev *event.Event) []event.Event {
	const g = 1 << 40
	return []event.Event{
		{Time: ev.Time, Kind: event.GoCreate, G: g, Parent: ev.G}, {Time: ev.Time, Kind: event.GoStart, G: g},
		{Time: ev.Time, Kind: event.GoDestroy, G: g},
	}
}

// dropGoroutine leaves out all of a goroutine.
func dropGoroutine(m *mutator) []event.Event {
	i := m.kind(event.GoCreate)
	g := m.events[i].G
	return slices.DeleteFunc(m.events, func(ev event.Event) bool { return ev.G == g })
}

// dropStatus leaves out the state of a goroutine at the begin.
func dropStatus(m *mutator) []event.Event {
	i := pick(m.rng, m.events, func(ev *event.Event) bool { return ev.Kind == event.GoStatus })
	return m.without(i)
}

// swapWithNext exchanges an event of a kind with the next one of its goroutine.
func swapWithNext(k event.Kind) func(*mutator) []event.Event {
	return func(m *mutator) []event.Event {
		for range 1000 {
			i := m.kind(k)
			if j := m.next(i); j > 0 && m.events[j].Kind != k {
				m.events[i], m.events[j] = m.events[j], m.events[i]
				return m.events
			}
		}
		return nil
	}
}

// mayBeRuntime reports whether the runtime itself may end the wait that a wake ends. Such a wake has no place among the events
// of its waker.
func (m *mutator) mayBeRuntime(wake int) bool {
	for i := wake - 1; i >= 0; i-- {
		if ev := &m.events[i]; ev.G == m.events[wake].G && ev.Kind == event.GoBlock {
			return mayBeRuntime(&Record{Reason: ev.Reason, TraceReason: ev.TraceReason}, m.truth.Release)
		}
	}
	return true // it began earlier
}

// delayWake moves a wake behind the next event of its waker.
func delayWake(m *mutator) []event.Event {
	for range 1000 {
		i := m.inner(isExactWake)
		if m.mayBeRuntime(i) {
			continue
		}
		wake := m.events[i]
		for j := i + 1; j < len(m.events) && m.events[j].G != wake.G; j++ {
			if m.events[j].G != wake.By {
				continue
			}
			if m.events[j].Kind != event.GoBlock {
				break // a start after a system call may be anywhere
			}
			rest := slices.Insert(m.events, j+1, wake)
			return slices.Delete(rest, i, i+1)
		}
	}
	return nil
}

// cutOff leaves out everything from some moment on.
func cutOff(m *mutator) []event.Event { return m.events[:m.kind(event.GoUnblock)] }

// TestMutations makes a perfect observer wrong in every way, and expects each to be found and named.
func TestMutations(t *testing.T) {
	tries := 1 // at a place that is chosen at random
	if testtarget.Complete() {
		tries = 3
	}
	for _, release := range testtarget.Last(t, testtarget.Among(t, "1.12.17", "1.21.13", testtarget.Latest())) {
		t.Run("go"+release, func(t *testing.T) {
			r := recordAll(t, release)
			perfect := r.truth.Events(event.KindsDefault, mutatedOffset)
			rng := rand.New(rand.NewPCG(5, 6))
			for _, mut := range mutations {
				if r.truth.Release < mut.since {
					continue
				}
				for range tries {
					m := &mutator{rng: rng, truth: r.truth, events: slices.Clone(perfect)}
					events := mut.change(m)
					if events == nil {
						t.Errorf("%s: there is nothing to change", mut.name)
						break
					}
					report := Compare(r.truth, events, Options{Kinds: event.KindsDefault, Offset: Bounds{mutatedOffset - 1000, mutatedOffset + 1000}})
					if !slices.ContainsFunc(mut.found, func(what string) bool { return report.Failed(what) > 0 }) {
						t.Errorf("%s: not found, the report is\n%v", mut.name, report)
					}
				}
			}
		})
	}
}

// TestRules changes what a perfect observer may see differently. It must be accepted and counted.
func TestRules(t *testing.T) {
	r := recordAll(t, testtarget.Latest())
	perfect := r.truth.Events(event.KindsDefault, mutatedOffset)
	runtimeWait := make(map[uint64]bool)
	for _, test := range []struct {
		rule   Rule
		change func(ev *event.Event, last event.Kind) bool // false drops it
	}{
		{RuleSelfWake, func(ev *event.Event, last event.Kind) bool {
			if ev.Kind == event.GoUnblock && ev.By == 0 && last == event.GoBlock {
				ev.By = ev.G
			}
			return true
		}},
		{RuleRuntimeWaker, func(ev *event.Event, _ event.Kind) bool {
			switch {
			case ev.Kind == event.GoBlock:
				runtimeWait[ev.G] = byRuntime[ev.TraceReason] && ev.Reason != waitCoroutine
			case ev.Kind == event.GoUnblock && runtimeWait[ev.G] && !isExactWake(ev):
				ev.By = 0
			}
			return true
		}},
		{RuleSyscallStart, func(ev *event.Event, last event.Kind) bool {
			return ev.Kind != event.GoStart || last == event.GoUnblock || last == event.GoStop || last == event.GoCreate
		}},
	} {
		last := make(map[uint64]event.Kind)
		var events []event.Event
		for _, ev := range perfect {
			if test.change(&ev, last[ev.G]) {
				events = append(events, ev)
			}
			last[ev.G] = ev.Kind
			if ev.Kind == event.GoStatus && ev.State == event.StateRunnable {
				last[ev.G] = event.GoStop
			}
		}
		report := Compare(r.truth, events, Options{Kinds: event.KindsDefault})
		if !report.OK() || report.Rules[test.rule] == 0 {
			t.Errorf("%v: used %d times\n%v", test.rule, report.Rules[test.rule], report)
		}
	}
}
