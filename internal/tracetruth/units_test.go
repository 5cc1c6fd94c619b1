package tracetruth

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
)

// handmade is the trace of two goroutines that pass something to each other: 1 creates 2, which blocks and is woken.
func handmade() *Trace {
	t := &Trace{Release: 22, Begin: 0, End: int64(time.Second), initial: map[uint64]event.State{1: event.StateRunning}}
	at := int64(100 * time.Millisecond)
	add := func(r Record) {
		at += int64(time.Millisecond)
		r.Time, r.Index = at, len(t.Records)
		t.Records = append(t.Records, r)
	}
	add(Record{Kind: event.GoCreate, G: 2, By: 1, Start: "main.second"})
	add(Record{Kind: event.GoStart, G: 2})
	for range 30 {
		add(Record{Kind: event.GoBlock, G: 2, TraceReason: "chan receive"})
		add(Record{Kind: event.GoUnblock, G: 2, By: 1})
		add(Record{Kind: event.GoStart, G: 2})
	}
	add(Record{Kind: event.GoStop, G: 2, TraceReason: event.StopGosched})
	add(Record{Kind: event.GoStart, G: 2})
	add(Record{Kind: event.GoDestroy, G: 2})
	return t
}

func TestHandmade(t *testing.T) {
	truth := handmade()
	report := Compare(truth, truth.Events(event.KindsGoroutine, 5000), Options{})
	if !report.OK() || report.Goroutines != 2 || report.Offset != 5000 {
		t.Errorf("%d goroutines, offset %d\n%v", report.Goroutines, report.Offset, report)
	}
	if got := report.Matched[event.GoBlock]; got != 30 {
		t.Errorf("%d blocks were compared, not 30", got)
	}
}

// TestLateAtEnd has Loupe see a wake half a second before the last mark that is behind the mark in the trace, as if the thread
// had lost the processor between the two looks at the clock. Without that record in the trace, it is a difference.
func TestLateAtEnd(t *testing.T) {
	for _, traced := range []bool{true, false} {
		truth := handmade()
		at := truth.Records[len(truth.Records)-1].Time
		for _, r := range []Record{
			{Kind: event.GoCreate, G: 3, By: 1, Start: "main.third", Time: at + 1e6},
			{Kind: event.GoStart, G: 3, Time: at + 2e6},
			{Kind: event.GoBlock, G: 3, TraceReason: "sleep", Time: at + 3e6},
			{Kind: event.GoUnblock, G: 3, Time: truth.End + 1e6},
		} {
			r.Index = len(truth.Records)
			truth.Records = append(truth.Records, r)
		}
		events := truth.Events(event.KindsGoroutine, 5000)
		wake := &events[len(events)-1]
		if wake.Kind != event.GoUnblock || wake.G != 3 {
			t.Fatalf("the last event is %+v", wake)
		}
		wake.Time = at + 4e6 + 5000
		if !traced {
			truth.Records = truth.Records[:len(truth.Records)-1]
		}
		report := Compare(truth, events, Options{})
		if report.OK() != traced || traced && report.Rules[RuleEdge] == 0 {
			t.Errorf("the trace has it: %t\n%v", traced, report)
		}
	}
}

// TestExcerpt looks at how a difference is shown.
func TestExcerpt(t *testing.T) {
	truth := handmade()
	events := truth.Events(event.KindsGoroutine, 0)
	for i := range events {
		if events[i].Kind == event.GoUnblock {
			events = append(events[:i], events[i+1:]...)
			break
		}
	}
	text := Compare(truth, events, Options{}).String()
	for _, want := range []string{
		"wrong sequence, goroutine 1",
		"wrong sequence, goroutine 2",
		">   104000.0 GoUnblock g2 by g1                                            |   105000.0 GoStart g2",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestLengths has an observer measure waits that are right in their order and near in their times, and wrong in length.
func TestLengths(t *testing.T) {
	r := &Report{Rules: make(RuleCounts), Times: make(map[event.Kind]Spread), Lengths: make(map[string]Lengths)}
	timing := newTiming(0)
	for i := range int64(100) {
		begin := i * int64(time.Second)
		truth := []*Record{{Time: begin, Kind: event.GoBlock}, {Time: begin + 300_000, Kind: event.GoUnblock}}
		seen := []*Record{{Time: begin - 40_000, Kind: event.GoBlock}, {Time: begin + 340_000, Kind: event.GoUnblock}}
		timing.add([]pair{{truth[0], seen[0]}, {truth[1], seen[1]}})
	}
	timing.judge(r, Options{})
	if r.Failed(FailLength) != 1 || r.Failed(FailTime) != 0 {
		t.Errorf("waits that are 27 %% too long: %v", r)
	}
	r.Failures = nil
	if timing.judge(r, Options{Untimed: true}); !r.OK() || r.Lengths["wait"].Count == 0 {
		t.Errorf("untimed: %v", r)
	}
}

func TestClock(t *testing.T) {
	var m marks
	// The trace's clock began at 1000 and loses a tenth. The second message of each group came at once.
	for _, log := range []struct {
		category, message string
		at                int64
	}{
		{logBegin, "1090", 95}, {logBegin, "1100", 90}, {logBegin, "1200", 195}, {logPhase, "work", 300},
		{logEnd, "11090", 9095}, {logEnd, "11100", 9090}, {logEnd, "11110", 9190},
	} {
		isMark, err := m.add(log.category, log.message, log.at, false)
		if err != nil || isMark != (log.category != logPhase) {
			t.Fatalf("message %v: mark %v, %v", log, isMark, err)
		}
	}
	c, err := m.clock(false)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int64]int64{90: 1100, 9090: 11100, 4590: 6100, 0: 1000} {
		if got := c.mono(at); got != want {
			t.Errorf("%d is mapped to %d, not %d", at, got, want)
		}
	}
	// Times that were moved do not count; where all of a group were, the next stamp does.
	m.add(logClock, "5100", 4190, false)
	m.add(logClock, "9100", 7295, false)
	m.add(logEnd, "11090", 9089, true)
	if again, err := m.clock(false); err != nil || again != c {
		t.Errorf("with a mark that was moved the clock is %v, not %v (%v)", again, c, err)
	}
	for i := range m.end {
		m.end[i].moved = true
	}
	if c, err := m.clock(false); err != nil || c.last.mono != 9100 || m.movedBy(c) < 0 {
		t.Errorf("without marks at the end the clock is %v, %v", c, err)
	}
	if _, err := (&marks{begin: m.begin, end: m.end}).clock(false); err == nil {
		t.Error("a trace whose last marks were moved is accepted without stamps")
	}
	if _, err := m.add(logEnd, "soon", 1, false); err == nil {
		t.Error("a mark without a number is accepted")
	}
	if _, err := new(marks).clock(false); err == nil {
		t.Error("a trace without marks is accepted")
	}
	backwards := marks{begin: []mark{{mono: 100, trace: 100}}, end: []mark{{mono: 50, trace: 200}}}
	if _, err := backwards.clock(false); err == nil {
		t.Error("marks that go back are accepted")
	}
}

// TestMonotonicClock: where both clocks run at the same speed, one mark without a delay is enough.
func TestMonotonicClock(t *testing.T) {
	m := marks{begin: []mark{{mono: 100, trace: 112}}, between: []mark{{mono: 500, trace: 501}}, end: []mark{{mono: 900, trace: 930}}}
	c, err := m.clock(true)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int64]int64{101: 100, 501: 500, 100_001: 100_000} {
		if got := c.mono(at); got != want {
			t.Errorf("%d is mapped to %d, not %d", at, got, want)
		}
	}
}

// TestReasons looks for what is twice or without a reason in the tables.
func TestReasons(t *testing.T) {
	seen := make(map[string]bool)
	for _, r := range reasons {
		if seen[r.wait] {
			t.Errorf("%q is there twice", r.wait)
		}
		seen[r.wait] = true
		if r.now == "" && r.until == 0 {
			t.Errorf("%q has no tracer's reason", r.wait)
		}
	}
	for _, p := range waitPlaces {
		for _, wait := range []string{p.wait, p.before} {
			if wait != "" && !seen[wait] {
				t.Errorf("%s waits for %q, which is no reason", p.function, wait)
			}
		}
	}
	for rule := RuleResize; rule < numRules; rule++ {
		if ruleNames[rule] == "" {
			t.Errorf("rule %d has no name", rule)
		}
	}
}

func TestClockOffset(t *testing.T) {
	b, err := ClockOffset()
	if err != nil {
		t.Fatal(err)
	}
	if b.Min > b.Max || b.Min <= 0 {
		t.Errorf("the offset of the clocks is between %d and %d", b.Min, b.Max)
	}
	if w := b.Widen(Bounds{b.Min - 5, b.Max - 5}, 10); w.Min != b.Min-15 || w.Max != b.Max+10 {
		t.Errorf("%v widened is %v", b, w)
	}
}

// FuzzCompare compares a trace with any events. It must come to an end, and to a report that can be printed.
func FuzzCompare(f *testing.F) {
	f.Add([]byte{2, 1, 0, 0, 3, 2, 1, 0, 6, 2, 0, 3})
	f.Add([]byte{1, 1, 1, 1, 6, 1, 2, 9, 7, 1, 1, 0, 8, 1, 0, 0})
	truth := handmade()
	perfect := truth.Events(event.KindsGoroutine, 0)
	all := event.KindsAll.List()
	f.Fuzz(func(t *testing.T, data []byte) {
		events := append([]event.Event{}, perfect...)
		for ; len(data) >= 4; data = data[4:] {
			ev := event.Event{
				Kind: all[int(data[0])%len(all)], G: uint64(data[1] % 8), By: uint64(data[2] % 8), Parent: uint64(data[2] % 8),
				Time: int64(data[3]) * int64(time.Millisecond), Reason: reasons[int(data[2])%len(reasons)].wait,
			}
			events[int(data[3])%len(events)] = ev
			if data[0]%2 == 0 {
				events = append(events, ev)
			}
		}
		for _, kinds := range []event.Kinds{{}, event.KindsDefault.Union(event.KindsSyscall)} {
			if report := Compare(truth, events, Options{Kinds: kinds}); report.String() == "" {
				t.Error("the report is empty")
			}
		}
	})
}

// TestBeginsLast has goroutine 1 be preempted before or after a begin was seen: both are the same then. A wake that the runtime may
// have done is not of the goroutine that the trace names.
func TestBeginsLast(t *testing.T) {
	begin := Record{Kind: event.GCBegin, G: 1}
	stop := Record{Kind: event.GoStop, G: 1, TraceReason: event.StopPreempted}
	start, block := Record{Kind: event.GoStart, G: 1}, Record{Kind: event.GoBlock, G: 1}
	create := Record{Kind: event.GoCreate, G: 3, By: 1}
	wake, wakeWorker := Record{Kind: event.GoUnblock, G: 2, By: 1}, Record{Kind: event.GoUnblock, G: 4, By: 1}
	yield := stop
	yield.TraceReason = event.StopGosched
	for _, test := range []struct {
		list  []Record
		want  string
		moved int
	}{
		{[]Record{begin, stop, start, block}, "GoStop GoStart GCBegin GoBlock", 1},
		{[]Record{stop, start, begin, block}, "GoStop GoStart GCBegin GoBlock", 0},
		{[]Record{begin, wakeWorker, stop, start, block}, "GoStop GoStart GCBegin GoBlock", 1},
		{[]Record{begin, wake, stop, start, block}, "GCBegin GoUnblock GoStop GoStart GoBlock", 0},
		{[]Record{begin, stop, start, stop, start, create}, "GoStop GoStart GoStop GoStart GCBegin GoCreate", 2},
		{[]Record{begin, create, stop, start}, "GCBegin GoCreate GoStop GoStart", 0},
		{[]Record{begin, stop, start, create, stop, start}, "GoStop GoStart GCBegin GoCreate GoStop GoStart", 1},
		{[]Record{begin, yield, start}, "GCBegin GoStop GoStart", 0},
		{[]Record{begin, block, start}, "GCBegin GoBlock GoStart", 0},
		{[]Record{begin, stop}, "GCBegin GoStop", 0},
	} {
		l := lanes(test.list, map[uint64]bool{4: true}, 16)[1]
		moved := l.beginsLast(1)
		var got []string
		for _, r := range l {
			got = append(got, r.Kind.String())
		}
		if text := strings.Join(got, " "); text != test.want || moved != test.moved {
			t.Errorf("%s, %d moved, want %s, %d", text, moved, test.want, test.moved)
		}
	}
}

// TestDeepStop compares stacks that are cut off at a limit, of a goroutine that was preempted where a function begins.
func TestDeepStop(t *testing.T) {
	deep := slices.Repeat([]Frame{{Func: "main.dive", Line: 196}}, minDeep)
	inner := append([]Frame{{Func: "main.dive", Line: 189}}, deep[1:]...)
	other := append([]Frame{{Func: "main.dive", Line: 189}, {Func: "main.other", Line: 1}}, deep[2:]...)
	for _, test := range []struct {
		release int
		seen    []Frame
		rule    Rule
		same    bool
	}{{18, deep, RuleDepth, true}, {18, inner, RuleStopFrame, true}, {18, other, 0, false}, {minorStopFrame, inner, 0, false}} {
		c := &comparison{truth: &Trace{Release: test.release}}
		p := pair{truth: &Record{Kind: event.GoStop, TraceReason: event.StopPreempted}}
		if rule, same := c.sameStack(p, deep, test.seen); same != test.same || same && rule != test.rule {
			t.Errorf("Go 1.%d, %v: %v, %v", test.release, test.seen[:2], rule, same)
		}
	}
}

// TestMovedStack compares a stack that ends where the runtime moved it with the whole one.
func TestMovedStack(t *testing.T) {
	truth := []Frame{{"runtime.gcMarkDone", 892}, {"runtime.gcAssistAlloc", 477}, {"runtime.mallocgc", 973}, {"main.locked", 61}}
	skipped := []Frame{{"runtime.goready", 371}, {"runtime.semrelease", 156}}
	for _, test := range []struct {
		release int
		seen    []Frame
		want    bool
	}{
		{18, slices.Concat(skipped, truth[:2]), true},
		{18, slices.Concat(skipped, truth[:1]), true},
		{20, truth[:2], true},
		{21, slices.Concat(skipped, truth[:2]), false},                                      // systemstack restores the frame pointer
		{18, slices.Concat(skipped, truth[:3]), false},                                      // mallocgc does not call systemstack there
		{18, slices.Concat(skipped, truth[1:2]), false},                                     // a frame is missing
		{18, slices.Concat(skipped, []Frame{{"runtime.gcAssistAlloc", 478}}), false},        // another line
		{18, slices.Concat(truth[:2], []Frame{{"main.other", 1}}), false},                   // another caller
		{18, slices.Concat([]Frame{{"runtime.gcMarkDone", 1}}, truth[1:2], skipped), false}, // it does not end there
	} {
		for used, want := range []bool{test.want, false} { // the rule explains one stack of a program
			c := comparison{truth: &Trace{Release: test.release}, report: &Report{Rules: RuleCounts{RuleMovedStack: used}}}
			if rule, ok := c.sameStack(pair{truth: &Record{}}, truth, test.seen); ok != want || ok && rule != RuleMovedStack {
				t.Errorf("Go 1.%d, %v, after %d: %v by rule %d", test.release, test.seen, used, ok, rule)
			}
		}
	}
}
