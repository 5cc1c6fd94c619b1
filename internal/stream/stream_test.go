package stream

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/event"
)

func stackOf(funcs ...string) *event.Stack {
	s := &event.Stack{}
	for _, f := range funcs {
		s.Frames = append(s.Frames, event.Frame{Func: f, File: "/src/" + f + ".go", Line: 7})
	}
	return s
}

var (
	waiter = stackOf("main.wait", "main.main")
	waker  = stackOf("main.wake")
	origin = &event.Origin{CreatedBy: event.Frame{Func: "main.main"}, Start: event.Frame{Func: "main.start"}}
)

// of returns an event of another goroutine.
func of(g uint64, e event.Event) event.Event {
	e.G = g
	return e
}

// life is a goroutine's events, one each 10 ns.
func life(events ...event.Event) []event.Event {
	for i := range events {
		events[i].Time = int64(1000 + 10*i)
		if events[i].G == 0 {
			events[i].G = 5
		}
	}
	return events
}

func block(reason string) event.Event {
	return event.Event{Kind: event.GoBlock, Reason: reason, Stack: waiter}
}

func unblock(s *event.Stack) event.Event { return event.Event{Kind: event.GoUnblock, By: 1, Stack: s} }

var (
	create  = event.Event{Kind: event.GoCreate, Origin: origin, Stack: waker}
	start   = event.Event{Kind: event.GoStart}
	stop    = event.Event{Kind: event.GoStop, Reason: event.StopGosched, Stack: waiter}
	destroy = event.Event{Kind: event.GoDestroy}
	lost    = event.Event{Kind: event.Lost, Value: 3}
	exec    = event.Event{Kind: event.Exec}
)

func TestTransitions(t *testing.T) {
	waits := func(s event.State, reason string) event.Event {
		return event.Event{Kind: event.GoStatus, State: s, Reason: reason, Stack: waiter}
	}
	coroutine := create
	coroutine.State = event.StateWaiting
	early := unblock(waker)
	early.Time = 1 // before what it ends, which a clock that is not quite monotonic can make
	for _, test := range []struct {
		name   string
		events []event.Event
		want   string // state:duration:reason for each interval
	}{
		{"a whole life", life(create, start, block("select"), unblock(waker), start, stop, start, destroy),
			"runnable:10: waiting:10:select runnable:10:select runnable:10:runtime.Gosched"},
		{"alive before", life(waits(event.StateWaiting, "sleep"), unblock(nil), start), "waiting:10:sleep:partial runnable:10:sleep"},
		{"runnable before", life(waits(event.StateRunnable, ""), start), "runnable:10::partial"},
		{"running before", life(waits(event.StateRunning, ""), block("select"), unblock(waker)), "waiting:10:select"},
		{"a coroutine", life(coroutine, unblock(waker), start), "waiting:10: runnable:10:"},
		{"loss within", life(block("select"), lost, unblock(waker), start), "waiting:20:select:doubtful runnable:10:select"},
		{"loss before", life(lost, block("select"), unblock(waker)), "waiting:10:select"},
		{"the unblock is lost", life(block("select"), lost, start, block("sleep"), unblock(nil)), "waiting:10:sleep"},
		{"the block is lost", life(start, lost, unblock(waker), start), "runnable:10:"},
		{"another program", life(block("select"), exec, unblock(waker)), ""},
		{"the end is the end", life(block("select"), destroy, unblock(waker)), ""},
		{"backwards", []event.Event{life(block("select"))[0], early}, "waiting:0:select"},
	} {
		tr := NewTransitions(event.KindsDefault)
		var got []string
		for i := range test.events {
			if test.events[i].G == 0 {
				test.events[i].G = 5
			}
			in := tr.Next(&test.events[i])
			if in.State == "" {
				continue
			}
			s := fmt.Sprintf("%s:%d:%s", in.State, in.Duration, in.Reason)
			if in.Partial {
				s += ":partial"
			}
			if in.Doubtful {
				s += ":doubtful"
			}
			got = append(got, s)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %s\nwant %s", test.name, strings.Join(got, " "), test.want)
		}
	}
}

// TestTransitionsOfMany interleaves goroutines whose places among the recent ones are the same.
func TestTransitionsOfMany(t *testing.T) {
	const goroutines = 5
	tr := NewTransitions(event.KindsDefault)
	at := int64(0)
	for round := range 3 {
		for _, step := range []struct {
			event event.Event
			want  event.State
		}{{create, ""}, {start, event.StateRunnable}, {block("select"), ""}, {unblock(nil), event.StateWaiting}, {start, event.StateRunnable}, {destroy, ""}} {
			for g := range uint64(goroutines) {
				at++
				e := step.event
				e.Time, e.G = at, 7+g*256
				in := tr.Next(&e)
				if in.State != step.want || in.State != "" && in.Duration != goroutines {
					t.Errorf("round %d, goroutine %d, %v: %+v, want %q", round, e.G, e.Kind, *in, step.want)
				}
			}
		}
	}
	if tr.goroutines.Len() != 0 {
		t.Errorf("%d goroutines remembered", tr.goroutines.Len())
	}
}

// TestTransitionsForget holds that nothing is remembered that no event would end.
func TestTransitionsForget(t *testing.T) {
	for _, test := range []struct {
		kinds  event.Kinds
		events []event.Event
		want   int
	}{
		{event.KindsOf(event.GoBlock, event.GoUnblock), life(block("select"), unblock(waker)), 0},
		{event.KindsOf(event.GoBlock), life(block("select")), 0},
		{event.KindsOf(event.GoCreate), life(create), 0},
		{event.KindsOf(event.GoCreate, event.GoStart), life(create, start), 0},
		{event.KindsDefault, life(create, start), 1},
		{event.KindsDefault, life(create), 1},
		{event.KindsDefault, life(create, destroy), 0},
	} {
		tr := NewTransitions(test.kinds)
		for i := range test.events {
			tr.Next(&test.events[i])
		}
		if tr.goroutines.Len() != test.want {
			t.Errorf("%v after %d events: %d goroutines remembered, want %d", test.kinds.List(), len(test.events), tr.goroutines.Len(), test.want)
		}
	}
}

func TestSelector(t *testing.T) {
	events := life(create, start, block("chan send"), unblock(waker), start, block("IO wait"), unblock(nil), lost, destroy)
	for _, test := range []struct {
		filter Filter
		want   string
	}{
		{Filter{}, "GoCreate GoStart GoBlock GoUnblock GoStart GoBlock GoUnblock Lost GoDestroy"},
		{Filter{Kinds: event.KindsOf(event.GoStart)}, "GoStart GoStart Lost"},
		{Filter{Reasons: []string{"SEND", "sleep"}}, "GoBlock GoUnblock Lost"},
		{Filter{Reasons: []string{"io"}, Kinds: event.KindsOf(event.GoUnblock)}, "GoUnblock Lost"},
		{Filter{Func: regexp.MustCompile(`^main\.w`)}, "GoCreate GoBlock GoUnblock GoBlock Lost"},
		{Filter{Func: regexp.MustCompile(`start$`)}, "GoCreate Lost"},
		{Filter{Func: regexp.MustCompile(`wait`), Reasons: []string{"io"}}, "GoBlock Lost"},
	} {
		tr, sel := NewTransitions(event.KindsDefault), test.filter.Select()
		var got []string
		for i := range events {
			if sel.Wants(&events[i], tr.Next(&events[i])) {
				got = append(got, events[i].Kind.String())
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%+v: %v, want %s", test.filter, got, test.want)
		}
	}
}

// TestSelectorIsBounded feeds more distinct reasons than a Selector remembers, as a hostile target could.
func TestSelectorIsBounded(t *testing.T) {
	sel := Filter{Reasons: []string{"77"}}.Select()
	matched := 0
	for i := range 2 * maxRemembered {
		if sel.Wants(&event.Event{Kind: event.GoBlock, Reason: fmt.Sprint(i)}, &Interval{}) {
			matched++
		}
	}
	want := 0
	for i := range 2 * maxRemembered {
		if strings.Contains(fmt.Sprint(i), "77") {
			want++
		}
	}
	if matched != want || len(sel.reasons) > maxRemembered {
		t.Errorf("%d wanted, want %d; %d remembered", matched, want, len(sel.reasons))
	}
}

func TestTally(t *testing.T) {
	tally := NewTally(event.KindsDefault)
	status := event.Event{Kind: event.GoStatus}
	for _, e := range []event.Event{of(1, status), of(2, status), of(3, create), of(2, destroy), of(9, destroy), of(3, start)} {
		tally.Add(&e)
	}
	if tally.Created != 1 || tally.Ended != 2 || tally.Alive() != 2 {
		t.Errorf("%+v, %d alive", tally, tally.Alive())
	}
	tally.Add(&exec)
	if tally.Alive() != 0 {
		t.Errorf("%d alive in another program", tally.Alive())
	}
	tally = NewTally(event.KindsOf(event.GoCreate))
	tally.Add(&create)
	if tally.Created != 1 || tally.Alive() != 0 {
		t.Errorf("a goroutine whose end would not be seen is kept: %+v", tally)
	}
}

// profileOf makes a profile and reads it back: values by the functions of the stack and the reason.
func profileOf(t *testing.T, name string, reasons []string, events []event.Event) (map[string][]int64, *profile.Profile) {
	t.Helper()
	kind, ok := ProfileTypeOf(name)
	if !ok {
		t.Fatalf("no type %s", name)
	}
	p := NewProfile(kind, reasons)
	for i := range events {
		p.Add(&events[i])
	}
	var doc bytes.Buffer
	if err := p.Build(time.Unix(100, 0), time.Second).Write(&doc); err != nil {
		t.Fatal(err)
	}
	parsed, err := profile.Parse(&doc)
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string][]int64{}
	for _, s := range parsed.Sample {
		var words []string
		for _, l := range s.Location {
			words = append(words, l.Line[0].Function.Name)
		}
		words = append(words, s.Label["reason"]...)
		samples[strings.Join(words, " ")] = s.Value
	}
	return samples, parsed
}

func TestProfiles(t *testing.T) {
	unlock := stackOf("internal/sync.(*Mutex).Unlock", "sync.(*Mutex).Unlock", "main.free")
	done := stackOf("sync.(*WaitGroup).Done", "main.work")
	unknown := create
	unknown.Stack, unknown.Origin = nil, nil
	noStack := create
	noStack.Stack = nil
	waits := life(block("chan receive (durable)"), unblock(waker), block("chan receive (durable)"), unblock(waker), block("IO wait"), unblock(nil),
		block("sync.RWMutex.Lock"), unblock(unlock), block("semacquire"), unblock(unlock), block("semacquire"), unblock(done), block("select (no cases)"), unblock(nil))
	for _, test := range []struct {
		kind    string
		reasons []string
		events  []event.Event
		want    map[string][]int64
	}{
		{"create", nil, life(create, start, of(6, create), destroy, of(7, noStack), of(8, unknown)), map[string][]int64{
			"main.start main.wake": {2}, "main.start main.main": {1}, "(stack not recorded)": {1}}},
		{"block", nil, waits, map[string][]int64{"main.wait main.main chan receive (durable)": {2, 20},
			"main.wait main.main sync.RWMutex.Lock": {1, 10}, "main.wait main.main semacquire": {2, 20}}},
		{"block", []string{"io", "CASES"}, waits, map[string][]int64{"main.wait main.main IO wait": {1, 10}, "main.wait main.main select (no cases)": {1, 10}}},
		{"mutex", nil, waits, map[string][]int64{"internal/sync.(*Mutex).Unlock sync.(*Mutex).Unlock main.free sync.RWMutex.Lock": {1, 10},
			"internal/sync.(*Mutex).Unlock sync.(*Mutex).Unlock main.free semacquire": {1, 10}}},
		{"sched", nil, life(create, start, stop, start, block("IO wait"), unblock(waker), start, destroy), map[string][]int64{
			"main.start main.wake": {1, 10}, "main.wait main.main": {2, 20}}},
	} {
		got, doc := profileOf(t, test.kind, test.reasons, test.events)
		if !maps.EqualFunc(got, test.want, slices.Equal) {
			t.Errorf("%s %v: %v, want %v", test.kind, test.reasons, got, test.want)
		}
		if doc.DurationNanos != 1e9 || doc.DefaultSampleType != doc.SampleType[len(doc.SampleType)-1].Type || len(doc.Comments) != 0 {
			t.Errorf("%s: %v", test.kind, doc)
		}
	}
}

// TestProfileTypesSuffice holds that each type observes the kinds that it is made from: with no other events its profile
// is the same.
func TestProfileTypesSuffice(t *testing.T) {
	events := life(create, start, block("select"), unblock(waker), start, stop, start, destroy)
	for _, kind := range ProfileTypes() {
		whole, _ := profileOf(t, kind.Name, nil, events)
		part, _ := profileOf(t, kind.Name, nil, slices.DeleteFunc(slices.Clone(events), func(e event.Event) bool { return !kind.Kinds.Has(e.Kind) }))
		if kind.Name != "mutex" && len(whole) == 0 || !maps.EqualFunc(whole, part, slices.Equal) {
			t.Errorf("%s: %v with all events, %v with its own", kind.Name, whole, part)
		}
	}
}

func TestProfileTellsDoubt(t *testing.T) {
	deep := stackOf("main.deep")
	deep.Truncated = true
	e := block("select")
	e.Stack = deep
	_, doc := profileOf(t, "block", nil, life(block("select"), lost, unblock(waker), block("select"), unblock(waker), e, unblock(waker)))
	want := []string{"1 of 2 stacks truncated (increase --stack)", "waits during which events were lost, not counted: 1"}
	if !slices.Equal(doc.Comments, want) {
		t.Errorf("%q", doc.Comments)
	}
}

func BenchmarkTransitions(b *testing.B) {
	for _, goroutines := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			events := life(create, start, block("select"), unblock(waker), start, stop, start, destroy)
			tr := NewTransitions(event.KindsDefault)
			b.ReportAllocs()
			for i := range b.N {
				e := &events[i/goroutines%len(events)]
				e.G = uint64(i%goroutines + 1)
				tr.Next(e)
			}
		})
	}
}

func BenchmarkProfile(b *testing.B) {
	for _, kind := range ProfileTypes() {
		b.Run(kind.Name, func(b *testing.B) {
			events := life(create, start, block("select"), unblock(waker), start, stop, start, destroy)
			p := NewProfile(kind, nil)
			b.ReportAllocs()
			for i := range b.N {
				e := &events[i%len(events)]
				e.G = uint64(i / len(events) % 1000)
				p.Add(e)
			}
		})
	}
}
