package sched

import (
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
)

var (
	stackA  = &event.Stack{Frames: []event.Frame{{Func: "main.a", Line: 1}}}
	stackB  = &event.Stack{Frames: []event.Frame{{Func: "main.b", Line: 2}}}
	originA = &event.Origin{Start: event.Frame{Func: "main.worker"}, CreatedBy: event.Frame{Func: "main.main", Line: 7}}
)

// ev returns an event of goroutine 7, modified by the given functions.
func ev(t int64, kind event.Kind, change ...func(*event.Event)) event.Event {
	e := event.Event{Time: t, Kind: kind, G: 7}
	for _, c := range change {
		c(&e)
	}
	return e
}

func because(reason string) func(*event.Event) { return func(e *event.Event) { e.Reason = reason } }
func value(v int64) func(*event.Event)         { return func(e *event.Event) { e.Value = v } }
func by(g uint64) func(*event.Event)           { return func(e *event.Event) { e.By = g } }
func in(s event.State) func(*event.Event)      { return func(e *event.Event) { e.State = s } }
func on(s *event.Stack) func(*event.Event)     { return func(e *event.Event) { e.Stack = s } }
func from(o *event.Origin) func(*event.Event)  { return func(e *event.Event) { e.Origin = o } }

// numbers holds the results of a sequence of events: the times of the goroutine, and counts of the machine.
type numbers struct {
	state     event.State
	uncertain bool
	since     int64

	running, runnable, blocked, syscall, doubt time.Duration

	starts, blocks                     uint64
	waits, latencies                   uint64
	latency, wait                      time.Duration // total durations
	repairs, confirmed, resumed, found uint64
}

// Options for some of the sequences.
var (
	long  = Options{MinBlock: 10}
	calls = Options{Kinds: event.KindsDefault.Union(event.KindsSyscall)}
)

// sequences are sequences of events of goroutine 7, with the expected results.
var sequences = map[string]struct {
	opt    Options
	events []event.Event
	want   numbers
}{
	"a life": {events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoStart), ev(130, event.GoBlock, because("select")), ev(170, event.GoUnblock),
		ev(175, event.GoStart), ev(185, event.GoStop, because(event.StopPreempted)), ev(188, event.GoStart), ev(189, event.HeapAlloc),
	}, want: numbers{state: event.StateRunning, since: 188, running: 20 + 10 + 1, runnable: 10 + 5 + 3, blocked: 40, starts: 3,
		blocks: 1, waits: 1, wait: 40, latencies: 3, latency: 18}},
	"alive at the start": {events: []event.Event{
		ev(1000, event.GoStatus, in(event.StateWaiting), because("select"), value(900)), ev(1010, event.GoUnblock), ev(1012, event.GoStart),
	}, want: numbers{state: event.StateRunning, since: 1012, blocked: 10, runnable: 2, starts: 1, waits: 1, wait: 10, latencies: 1, latency: 2}},
	"waits since before the start": {events: []event.Event{
		ev(1000, event.GoStatus, in(event.StateWaiting), value(900)), ev(1010, event.HeapAlloc),
	}, want: numbers{state: event.StateWaiting, since: 100, blocked: 10}},
	"runnable at the start: the latency is not known": {events: []event.Event{
		ev(100, event.GoStatus, in(event.StateRunnable)), ev(110, event.GoStart),
	}, want: numbers{state: event.StateRunning, since: 110, runnable: 10, starts: 1}},
	"a stack that is moved runs": {events: []event.Event{
		ev(100, event.GoStatus, in(event.StateCopystack)), ev(110, event.GoBlock),
	}, want: numbers{state: event.StateWaiting, since: 110, running: 10, blocks: 1}},
	"leaked": {events: []event.Event{
		ev(100, event.GoStatus, in(event.StateLeaked)), ev(110, event.HeapAlloc),
	}, want: numbers{state: event.StateLeaked, since: 100, blocked: 10}},
	"coroutine": {events: []event.Event{
		ev(100, event.GoCreate, in(event.StateWaiting)), ev(110, event.GoStart), ev(120, event.GoBlock, because("coroutine")),
		ev(150, event.GoStart),
	}, want: numbers{state: event.StateRunning, since: 150, running: 10, blocked: 40, starts: 2, blocks: 1, waits: 2, wait: 40}},
	"a long system call that is not observed": {events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoStart), ev(150, event.GoStart), ev(160, event.GoBlock),
	}, want: numbers{state: event.StateWaiting, since: 160, running: 50, runnable: 10, starts: 2, blocks: 1, latencies: 1, latency: 10,
		resumed: 1}},
	"in a system call at the start, not observed": {events: []event.Event{
		ev(100, event.GoStatus, in(event.StateSyscall)), ev(150, event.GoBlock), ev(160, event.GoUnblock),
	}, want: numbers{state: event.StateRunnable, since: 160, doubt: 50, blocked: 10, blocks: 1, waits: 1, wait: 10}},
	"system calls": {opt: calls, events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoStart), ev(120, event.GoSyscallBegin), ev(125, event.GoSyscallEnd, value(5)),
		ev(130, event.GoSyscallBegin), ev(190, event.GoStart), ev(191, event.GoSyscallEnd, value(61)), ev(195, event.GoDestroy),
		ev(195, event.GoCreate, func(e *event.Event) { e.G = 8 }),
	}, want: numbers{}},
	"a long system call": {opt: calls, events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoStart), ev(120, event.GoSyscallBegin), ev(180, event.GoStart), ev(190, event.GoStop),
	}, want: numbers{state: event.StateRunnable, since: 190, runnable: 10, running: 20, syscall: 60, starts: 2, latencies: 1, latency: 10}},
	"a system call that ends without a P": {opt: calls, events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoStart), ev(120, event.GoSyscallBegin), ev(180, event.GoSyscallEnd, in(event.StateRunnable)),
		ev(187, event.GoStart), ev(190, event.GoStop),
	}, want: numbers{state: event.StateRunnable, since: 190, runnable: 10 + 7, running: 10 + 3, syscall: 60, starts: 2, latencies: 2,
		latency: 10 + 7}},
	"first seen when a system call ends without a P": {opt: calls, events: []event.Event{
		ev(100, event.GoSyscallEnd, in(event.StateRunnable)), ev(110, event.GoStart),
	}, want: numbers{state: event.StateRunning, since: 110, runnable: 10, starts: 1, latencies: 1, latency: 10, found: 1}},
	"a system call in C that did not end is a repair": {opt: calls, events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoStart), ev(120, event.GoSyscallBegin), ev(180, event.GoBlock),
	}, want: numbers{state: event.StateWaiting, since: 180, runnable: 10, running: 10, doubt: 60, starts: 1, blocks: 1, latencies: 1,
		latency: 10, repairs: 1}},
	"a start of a running goroutine, with calls observed": {opt: calls, events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoStart), ev(150, event.GoStart), ev(160, event.GoBlock),
	}, want: numbers{state: event.StateWaiting, since: 160, running: 10, runnable: 10, doubt: 40, starts: 2, blocks: 1, latencies: 1,
		latency: 10, resumed: 1}},
	"a start after a loss need not be a return from a call": {events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoStart), ev(120, event.Lost, value(2)), ev(150, event.GoStart),
	}, want: numbers{state: event.StateRunning, since: 150, runnable: 10, doubt: 40, starts: 2, latencies: 1, latency: 10, confirmed: 1}},
	"a coroutine that waits for something else is unblocked": {events: []event.Event{
		ev(100, event.GoCreate, in(event.StateWaiting)), ev(110, event.GoStart), ev(120, event.GoBlock, because("select")),
		ev(150, event.GoStart),
	}, want: numbers{state: event.StateRunning, since: 150, running: 10, blocked: 10, doubt: 30, starts: 2, blocks: 1, waits: 1, wait: 10,
		repairs: 1}},
	"loss in a wait that stays": {events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoStart), ev(120, event.GoBlock), ev(130, event.Lost, value(5)), ev(150, event.GoUnblock),
		ev(160, event.GoStart),
	}, want: numbers{state: event.StateRunning, since: 160, runnable: 20, running: 10, doubt: 30, starts: 2, blocks: 1, latencies: 2,
		latency: 20, confirmed: 1}},
	"loss under way": {events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoStart), ev(120, event.GoBlock), ev(130, event.Lost, value(5)), ev(150, event.HeapAlloc),
	}, want: numbers{state: event.StateWaiting, uncertain: true, since: 120, runnable: 10, running: 10, doubt: 30, starts: 1, blocks: 1,
		latencies: 1, latency: 10}},
	"loss of the wakening": {events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoStart), ev(120, event.GoBlock), ev(130, event.Lost, value(2)), ev(150, event.GoBlock),
		ev(160, event.GoUnblock),
	}, want: numbers{state: event.StateRunnable, since: 160, runnable: 10, running: 10, doubt: 30, blocked: 10, starts: 1, blocks: 2,
		waits: 1, wait: 10, latencies: 1, latency: 10, repairs: 1}},
	"loss over the latency": {events: []event.Event{
		ev(100, event.GoCreate), ev(105, event.Lost, value(2)), ev(110, event.GoStart),
	}, want: numbers{state: event.StateRunning, since: 110, doubt: 10, starts: 1, confirmed: 1}},
	"a missing start without a loss": {events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoBlock), ev(115, event.GoStart),
	}, want: numbers{state: event.StateRunning, since: 115, doubt: 15, starts: 1, blocks: 1, repairs: 2}},
	"first seen late": {events: []event.Event{
		ev(100, event.GoUnblock, by(3)), ev(110, event.GoStart), ev(115, event.GoBlock),
	}, want: numbers{state: event.StateWaiting, since: 115, runnable: 10, running: 5, starts: 1, blocks: 1, latencies: 1, latency: 10, found: 1}},
	"a snapshot mends what a loss has left": {events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoStart), ev(120, event.Lost, value(5)),
		ev(200, event.GoStatus, in(event.StateWaiting), because("select"), value(50)), ev(210, event.GoUnblock),
	}, want: numbers{state: event.StateRunnable, since: 210, runnable: 10, running: 0, doubt: 40, blocked: 60, starts: 1, waits: 1,
		wait: 60, latencies: 1, latency: 10, repairs: 1}},
	"a snapshot of what is known changes nothing": {events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoStart), ev(120, event.GoStatus, in(event.StateRunning)), ev(130, event.GoBlock),
	}, want: numbers{state: event.StateWaiting, since: 130, runnable: 10, running: 20, starts: 1, blocks: 1, latencies: 1, latency: 10}},
	"time does not go back": {events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoStart), ev(90, event.GoBlock), ev(105, event.GoUnblock), ev(120, event.GoStart),
	}, want: numbers{state: event.StateRunning, since: 120, runnable: 20, starts: 2, blocks: 1, waits: 1, latencies: 2, latency: 20}},
	"long waits only": {opt: long, events: []event.Event{
		ev(100, event.GoCreate), ev(120, event.GoBlock, value(30)), ev(150, event.GoUnblock, by(1)), ev(180, event.GoBlock, value(15)),
		ev(195, event.GoUnblock), ev(200, event.HeapAlloc),
	}, want: numbers{since: 195, doubt: 55, blocked: 45, blocks: 2, waits: 2, wait: 45}},
	"long waits only, a wait from before the goroutine was seen": {opt: long, events: []event.Event{
		ev(100, event.GoStatus, in(event.StateWaiting)), ev(20, event.GoBlock, value(100)), ev(120, event.GoUnblock),
	}, want: numbers{since: 120, blocked: 20, blocks: 1, waits: 1, wait: 20}},
	"long waits only, with loss": {opt: long, events: []event.Event{
		ev(100, event.GoCreate), ev(110, event.Lost, value(1)), ev(120, event.GoBlock, value(30)), ev(150, event.Lost, value(1)),
		ev(180, event.GoBlock, value(15)), ev(195, event.GoUnblock),
	}, want: numbers{since: 195, doubt: 50, blocked: 45, blocks: 2, waits: 2, wait: 45, confirmed: 2}},
	"creations only": {opt: Options{Kinds: event.KindsOf(event.GoCreate, event.GoDestroy)}, events: []event.Event{
		ev(100, event.GoCreate), ev(130, event.HeapAlloc),
	}, want: numbers{since: 100, doubt: 30}},
}

func TestSequences(t *testing.T) {
	for name, test := range sequences {
		t.Run(name, func(t *testing.T) {
			m := New(test.opt)
			for i := range test.events {
				m.Apply(&test.events[i])
				check(t, m)
			}
			g, _ := m.Goroutine(7)
			total, latency := m.Totals(), m.Latency()
			got := numbers{g.State, g.Uncertain, g.Since, g.Running, g.Runnable, g.Blocked, g.Syscall, g.InDoubt, g.Starts, g.Blocks,
				0, latency.All().Count(), latency.All().Sum().Duration(), 0, total.Repairs, total.Confirmed, total.Resumed, uint64(total.Found)}
			for _, w := range m.Waits() {
				got.waits += w.Count
				got.wait += w.Time.Duration()
			}
			if test.want == (numbers{}) { // the goroutine has ended
				test.want = numbers{latencies: 1, latency: 10}
			}
			if got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestCountsOfLives(t *testing.T) {
	m := New(Options{})
	other := func(g uint64) func(*event.Event) { return func(e *event.Event) { e.G = g } }
	for _, e := range []event.Event{
		ev(100, event.GoStatus, in(event.StateRunning), from(originA), other(1)),
		ev(110, event.GoCreate, from(originA), on(stackA), other(2)),
		ev(110, event.GoCreate, from(&event.Origin{Start: originA.Start, CreatedBy: originA.CreatedBy}), on(stackB), other(3)),
		ev(120, event.GoStart, other(2)),
		ev(150, event.GoDestroy, other(2)),
		ev(160, event.GoStart, other(5)),
		ev(170, event.GoDestroy, other(6)),
		ev(170, event.GoStart, other(0)),
		ev(180, event.Kind(60)),
	} {
		m.Apply(&e)
		check(t, m)
	}
	total := m.Totals()
	if total.Live != 3 || total.Created != 2 || total.Ended != 1 || total.AtStart != 1 || total.Found != 1 || total.EndedUnseen != 1 ||
		total.Ignored != 1 || total.UnknownKinds != 1 || total.Events != 8 || total.Start != 100 || total.Now != 180 {
		t.Errorf("totals %+v", total)
	}
	sites := m.Sites()
	if len(sites) != 2 || *sites[0].Origin != *originA || sites[0].Live != 2 || sites[0].Created != 2 || sites[0].AtStart != 1 ||
		sites[0].Ended != 1 || sites[0].Lived != 1 || sites[0].Lifetime != NanosOf(40) || sites[0].FirstStart.Max != 10 || sites[1].Origin != nil {
		t.Errorf("sites %+v", sites)
	}
	byStack := m.Creations()
	if len(byStack) != 4 || byStack[0].Stack != stackA || byStack[0].Ended != 1 || byStack[1].Stack != stackB || byStack[1].Live != 1 {
		t.Errorf("creations %+v", byStack)
	}
}

func TestOriginArrivesLater(t *testing.T) {
	m := New(Options{})
	for _, e := range []event.Event{
		ev(100, event.GoStart),
		ev(110, event.GoStatus, in(event.StateRunning), from(originA), func(e *event.Event) { e.Parent = 3 }),
		ev(120, event.GoCreate),
	} {
		m.Apply(&e)
		check(t, m)
	}
	g, _ := m.Goroutine(7)
	total := m.Totals()
	if g.Origin != originA || g.Parent != 3 || !g.Found || total.Live != 1 || total.Created != 0 || total.Found != 1 || g.Repairs != 1 {
		t.Errorf("goroutine %+v, totals %+v", g, total)
	}
}

func TestPlaces(t *testing.T) {
	m := New(Options{})
	for _, e := range []event.Event{
		ev(100, event.GoCreate), ev(110, event.GoStart),
		ev(120, event.GoBlock, because("sync.Mutex.Lock"), on(stackA)), ev(150, event.GoUnblock, by(3), on(stackB)), ev(160, event.GoStart),
		ev(170, event.GoBlock, because("sync.Mutex.Lock"), on(stackA)), ev(171, event.GoUnblock, by(4), on(stackB)), ev(173, event.GoStart),
		ev(180, event.GoBlock, because("select"), on(stackA)), ev(200, event.Lost, value(1)), ev(250, event.GoUnblock), ev(260, event.GoStart),
		ev(270, event.GoBlock, because("select"), on(stackA)), ev(300, event.HeapAlloc, value(5)),
	} {
		m.Apply(&e)
	}
	list := m.Contention(0)
	if len(list) != 2 {
		t.Fatalf("%d places, want 2", len(list))
	}
	lock, sel := list[0], list[1]
	if lock.Reason != "sync.Mutex.Lock" || lock.Stack != stackA || lock.Count != 2 || lock.Time != NanosOf(31) || lock.Max != 30 ||
		lock.Delay != (Delays{2, NanosOf(12), 10}) || lock.Now != 0 {
		t.Errorf("lock %+v", lock)
	}
	if sel.Count != 0 || sel.UncertainCount != 1 || sel.UncertainTime != NanosOf(70) || sel.Now != 1 || sel.NowTime != NanosOf(30) ||
		sel.NowUncertain != 0 || sel.Delay.Count != 1 {
		t.Errorf("select %+v", sel)
	}
	wakes := m.Places(Wakes)
	if len(wakes) != 2 || wakes[0].Stack != stackB || wakes[0].Reason != "sync.Mutex.Lock" || wakes[0].Count != 2 ||
		wakes[0].Time != NanosOf(31) || wakes[1].UncertainCount != 1 || wakes[1].Reason != "select" {
		t.Errorf("wakes %+v", wakes)
	}
	if one := m.Contention(1); len(one) != 1 || one[0].ID != lock.ID {
		t.Errorf("the first place %+v", one)
	}
	before := m.Places(Waits)
	m.Advance(310)
	e := ev(320, event.GoUnblock)
	m.Apply(&e)
	for _, p := range SubPlaces(m.Places(Waits), before) {
		want := Place{}
		if p.ID == sel.ID {
			want.Count, want.Time = 1, NanosOf(20)
		}
		if p.Count != want.Count || p.Time != want.Time || p.UncertainCount != 0 {
			t.Errorf("in the interval %+v", p)
		}
	}
}

// TestWakeAfterLostWake covers a wait that is reported when it ends, and whose GoUnblock is missing. The next GoUnblock belongs
// to another wait.
func TestWakeAfterLostWake(t *testing.T) {
	m := New(Options{})
	for _, e := range []event.Event{
		ev(100, event.GoStart), ev(110, event.GoBlock, value(500), because("select")), ev(700, event.GoStart),
		ev(710, event.GoBlock, because("select")), ev(730, event.GoUnblock),
	} {
		m.Apply(&e)
		check(t, m)
	}
	if wakes := m.Places(Wakes); len(wakes) != 1 || wakes[0].Count != 1 || wakes[0].Time != NanosOf(20) {
		t.Errorf("wakes %+v", wakes)
	}
	if waits := m.Places(Waits); len(waits) != 1 || waits[0].Count != 2 || waits[0].Time != NanosOf(520) {
		t.Errorf("waits %+v", waits)
	}
}

func TestExecResets(t *testing.T) {
	m := New(Options{History: 10})
	s := newSim(3, false).run(500)
	m.ApplyBatch(s.events)
	old, oldSites, oldLatency := m.Totals(), m.Sites(), m.Latency()
	m.Apply(&event.Event{Kind: event.Exec, Time: s.now + 5})
	check(t, m)
	total := m.Totals()
	if total.Live != 0 || total.Created != 0 || total.Execs != 1 || total.Events != 1 || total.Start != s.now+5 || len(m.Sites()) != 0 ||
		len(m.Waits()) != 0 {
		t.Errorf("after exec: %+v", total)
	}
	e := ev(s.now+10, event.GoCreate, from(originA))
	m.Apply(&e)
	total = m.Totals()
	latency := m.Latency()
	if d := total.Sub(&old); d.Created != 1 {
		t.Errorf("since before the exec: %+v", d)
	}
	if d := SubSites(m.Sites(), oldSites); len(d) != 1 || d[0].Created != 1 {
		t.Errorf("sites since before the exec: %+v", d)
	}
	if d := latency.Sub(&oldLatency); d.All().Count() != 0 {
		t.Errorf("%d latencies since the exec", d.All().Count())
	}
	if got := m.History(0, 0); len(got) != 2 || got[0].Kind != event.Exec || got[1].G != 7 {
		t.Errorf("history %+v", got)
	}
}

func TestRuntime(t *testing.T) {
	m := New(Options{})
	events := []event.Event{
		{Time: 90, Kind: event.STWEnd},
		{Time: 100, Kind: event.STWBegin}, {Time: 103, Kind: event.GCBegin, G: 5}, {Time: 110, Kind: event.STWEnd},
		{Time: 120, Kind: event.HeapAlloc, Value: 500}, {Time: 150, Kind: event.GCEnd}, {Time: 160, Kind: event.HeapAlloc, Value: 200},
		{Time: 200, Kind: event.GCBegin}, {Time: 205, Kind: event.Lost, Value: 3}, {Time: 220, Kind: event.STWBegin}, {Time: 221, Kind: event.STWEnd},
		{Time: 290, Kind: event.STWBegin}, {Time: 300, Kind: event.STWBegin},
	}
	m.ApplyBatch(events)
	r := m.Runtime()
	if r.GC != (Phase{Begun: 2, Count: 1, Time: NanosOf(47), Max: 47, Uncertain: 1}) ||
		r.STW != (Phase{Active: true, Begun: 4, Count: 2, Time: NanosOf(11), Max: 10, Uncertain: 2}) ||
		r.Heap != 200 || r.HeapMax != 500 || r.HeapAt != 160 || r.Pauses.Count() != 2 || r.Pauses.Max() != 10 {
		t.Errorf("GC %+v, STW %+v, heap %d of %d at %d", r.GC, r.STW, r.Heap, r.HeapMax, r.HeapAt)
	}
	m.Apply(&event.Event{Time: 307, Kind: event.STWEnd})
	if now := m.Runtime(); now.STW.Count != 3 || now.STW.Time != NanosOf(18) || now.GC != r.GC || now.Pauses.Count() != 3 {
		t.Errorf("later STW %+v", now.STW)
	}
}

func TestHistory(t *testing.T) {
	m := New(Options{History: 100})
	want := []event.Event{
		{Time: 100, Kind: event.GoCreate, G: 7, Parent: 1, Origin: originA, Stack: stackA, TID: 4},
		{Time: 101, Kind: event.GoStatus, G: 8, Parent: 2, State: event.StateWaiting, Reason: "select", Stack: stackB, Value: 12},
		{Time: 110, Kind: event.GoStart, G: 7, TID: 5},
		{Time: 111, Kind: event.ChanReceive, G: 7, Object: 0xc0001, Stack: stackB},
		{Time: 112, Kind: event.GoBlock, G: 7, Reason: "chan receive", TraceReason: "chan receive", Stack: stackB},
		{Time: 115, Kind: event.STWBegin, G: 8, Reason: "stop tracing"},
		{Time: 120, Kind: event.GoUnblock, G: 7, By: 8, Stack: stackA},
		{Time: 130, Kind: event.Lost, Value: 9},
		{Time: 140, Kind: event.GoDestroy, G: 7},
	}
	m.ApplyBatch(want)
	got := m.History(0, 0)
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %+v\nwant %+v", got[i], want[i])
		}
	}
	if last := m.History(7, 2); len(last) != 2 || last[0].Kind != event.GoUnblock || last[1].Kind != event.GoDestroy {
		t.Errorf("the last two events of goroutine 7: %+v", last)
	}
	holds, all := m.HistorySize()
	if holds < 100 || all != uint64(len(want)) {
		t.Errorf("the history holds %d, %d in all", holds, all)
	}
	for i := range 3 * holds {
		e := ev(int64(200+i), event.GoStart)
		m.Apply(&e)
	}
	full := m.History(0, 0)
	if len(full) != holds || full[len(full)-1].Time != int64(200+3*holds-1) || full[0].Time != int64(200+2*holds) {
		t.Errorf("%d events of a full history, from %d on", len(full), full[0].Time)
	}
}

// TestCreator verifies that a Machine keeps ended creators up to the limit.
func TestCreator(t *testing.T) {
	m := New(Options{History: 100})
	origin := &event.Origin{Start: event.Frame{Func: "main.f"}}
	const n = maxAncestors + 100
	for g := uint64(2); g <= n; g++ {
		m.Apply(&event.Event{Kind: event.GoCreate, Time: int64(g), G: g, Parent: g - 1, Origin: origin})
		m.Apply(&event.Event{Kind: event.GoDestroy, Time: int64(g), G: g - 1})
	}
	for g, want := range map[uint64]bool{0: false, 1: false, 50: false, n - maxAncestors: true, n - 1: true, n: true, n + 1: false} {
		parent, o, ok := m.Creator(g)
		if ok != want || ok && (parent != g-1 || o.Start != origin.Start) {
			t.Errorf("goroutine %d: parent %d, %v, %v", g, parent, o, ok)
		}
	}
	m.Apply(&event.Event{Kind: event.Exec, Time: n})
	if _, _, ok := m.Creator(n - 1); ok {
		t.Error("a goroutine of the program that was replaced is known")
	}
}
