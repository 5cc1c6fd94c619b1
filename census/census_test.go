package census

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
)

// stackOf makes a stack, leaf first. A name that starts with "-" is a hidden frame.
func stackOf(funcs ...string) []event.StackFrame {
	var stack []event.StackFrame
	for i, f := range funcs {
		name, hidden := strings.CutPrefix(f, "-")
		stack = append(stack, event.StackFrame{Frame: event.Frame{Func: name, File: "/src/" + name + ".go", Line: 10 + i}, Hidden: hidden,
			PC: uint64(0x1000 + i)})
	}
	return stack
}

func waiting(id uint64, reason string, stack []event.StackFrame) event.Goroutine {
	return event.Goroutine{ID: id, State: event.StateWaiting, Reason: reason, Stack: stack}
}

func known(g event.Goroutine, wait time.Duration) event.Goroutine {
	g.Wait, g.WaitKnown = wait, true
	return g
}

func ids(goroutines []*event.Goroutine) []uint64 {
	list := []uint64{}
	for _, g := range goroutines {
		list = append(list, g.ID)
	}
	return list
}

func TestVisible(t *testing.T) {
	got := Visible(stackOf("-runtime.gopark", "-runtime.chanrecv1", "main.worker"))
	if len(got) != 1 || got[0].Func != "main.worker" {
		t.Errorf("visible frames: %v", got)
	}
	if got := Visible(stackOf("-runtime.gopark", "-runtime.bgsweep")); len(got) != 2 {
		t.Errorf("a stack of hidden frames shows %d of 2", len(got))
	}
}

func TestSelect(t *testing.T) {
	worker := known(waiting(3, "chan receive", stackOf("-runtime.gopark", "main.worker")), time.Minute)
	worker.CreatedBy = event.Frame{Func: "main.start"}
	worker.Labels = map[string]string{"tenant": "acme", "path": "/"}
	young := waiting(4, "chan send (nil chan)", stackOf("main.sender"))
	young.WaitMax = 10 * time.Second
	unsure := waiting(5, "select", stackOf("main.loop"))
	unsure.WaitMax = time.Hour
	running := event.Goroutine{ID: 1, State: event.StateRunning, Stack: stackOf("main.main")}
	system := waiting(2, "GC worker (idle)", stackOf("-runtime.gcBgMarkWorker"))
	system.System = true
	snap := &event.Snapshot{Goroutines: []event.Goroutine{running, system, worker, young, unsure}}

	for name, test := range map[string]struct {
		filter Filter
		want   []uint64
	}{
		"all of the program": {Filter{}, []uint64{1, 3, 4, 5}},
		"system too":         {Filter{System: true}, []uint64{1, 2, 3, 4, 5}},
		"state":              {Filter{States: []event.State{event.StateRunning}}, []uint64{1}},
		"reason":             {Filter{Reasons: []string{"CHAN"}}, []uint64{3, 4}},
		"one of two reasons": {Filter{Reasons: []string{"select", "chan send"}}, []uint64{4, 5}},
		"function":           {Filter{Func: regexp.MustCompile(`^main\.wo`)}, []uint64{3}},
		"hidden function":    {Filter{Func: regexp.MustCompile(`gopark`)}, []uint64{3}},
		"creator":            {Filter{CreatedBy: regexp.MustCompile(`start`)}, []uint64{3}},
		"creator of any":     {Filter{CreatedBy: regexp.MustCompile(``)}, []uint64{3}},
		"label":              {Filter{Labels: map[string]string{"tenant": "acme"}}, []uint64{3}},
		"label's key":        {Filter{Labels: map[string]string{"tenant": "", "path": "/"}}, []uint64{3}},
		"other label":        {Filter{Labels: map[string]string{"tenant": "foo"}}, []uint64{}},
		"wait":               {Filter{MinWait: 30 * time.Second}, []uint64{3}},
	} {
		sel := test.filter.Select(snap)
		if got := ids(sel.Goroutines); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	sel := (&Filter{MinWait: 30 * time.Second}).Select(snap)
	if sel.System != 1 || sel.UnknownWait != 1 {
		t.Errorf("left out: %d of the runtime, %d of unknown wait; want 1 and 1", sel.System, sel.UnknownWait)
	}
}

func TestGroups(t *testing.T) {
	// Equal frames in different slices, and hidden frames that differ.
	a := stackOf("-runtime.gopark", "-runtime.chanrecv1", "main.worker")
	b := append(stackOf("-runtime.gopark"), a[2])
	other := stackOf("main.other")
	creator := event.Frame{Func: "main.start", File: "/src/main.go", Line: 5}
	list := []event.Goroutine{
		known(waiting(1, "chan receive", a), 3*time.Second),
		known(waiting(2, "chan receive", b), time.Second),
		waiting(3, "chan receive", a),
		known(waiting(4, "chan receive", other), time.Hour),
		waiting(5, "select", a),
		{ID: 6, State: event.StateRunning, Stack: a, BestEffort: true},
	}
	list[0].CreatedBy, list[1].CreatedBy = creator, creator
	list[0].Labels = map[string]string{"k": "v"}
	list[2].WaitMax = 9 * time.Second
	list[4].WaitMax = 5 * time.Second
	var refs []*event.Goroutine
	for i := range list {
		refs = append(refs, &list[i])
	}

	groups := Groups(refs, false)
	var got [][]uint64
	for _, g := range groups {
		got = append(got, ids(g.Goroutines))
	}
	want := [][]uint64{{4}, {1, 2, 3}, {5}, {6}}
	if !slices.EqualFunc(got, want, func(a, b []uint64) bool { return slices.Equal(a, b) }) {
		t.Fatalf("groups, oldest first: %v, want %v", got, want)
	}
	g := groups[1]
	if want := (Wait{Known: 2, Min: time.Second, Max: 3 * time.Second, Bound: 9 * time.Second}); g.Wait != want {
		t.Errorf("wait of the group: %+v, want %+v", g.Wait, want)
	}
	if len(g.Stack) != 1 || len(g.CreatedBy) != 1 || g.CreatedBy[0] != (Count[event.Frame]{creator, 2}) ||
		len(g.Labels) != 1 || g.Labels[0] != (Count[Label]{Label{"k", "v"}, 1}) {
		t.Errorf("group: stack %v, created by %v, labels %v", g.Stack, g.CreatedBy, g.Labels)
	}
	if n := len(Groups(refs, true)); n != 5 {
		t.Errorf("%d groups when hidden frames count, want 5", n)
	}
}

func TestStackKeysDoNotCollide(t *testing.T) {
	ids := newStackIDs(false)
	one := []event.StackFrame{{Frame: event.Frame{Func: "a", File: "bc"}}}
	two := []event.StackFrame{{Frame: event.Frame{Func: "ab", File: "c"}}}
	if ids.id(one) == ids.id(two) {
		t.Error("different frames with the same letters have one key")
	}
	if ids.id(nil) != ids.id([]event.StackFrame{}) || ids.id(nil) == ids.id(one) {
		t.Error("empty stacks are not one stack of their own")
	}
}

func TestActivityOf(t *testing.T) {
	for _, test := range []struct {
		state  event.State
		reason string
		stack  []event.StackFrame
		want   string
		by     EndedBy
	}{
		{event.StateRunning, "", stackOf("main.main"), "running", ByItself},
		{event.StateSyscall, "", stackOf("runtime.cgocall", "main._Cfunc_f"), "C code", ByOutside},
		{event.StateWaiting, "chan send", stackOf("main.f"), "waiting to send", ByGoroutine},
		{event.StateWaiting, "chan receive (nil chan)", nil, "nil channel", ByNobody},
		{event.StateWaiting, "IO wait", stackOf("internal/poll.(*FD).Accept", "net.(*netFD).accept"), "next network connection", ByOutside},
		{event.StateWaiting, "IO wait", stackOf("internal/poll.(*FD).Read", "net.(*conn).Read"), "data from a network", ByOutside},
		{event.StateWaiting, "semacquire", stackOf("sync.runtime_SemacquireMutex", "sync.(*Mutex).Lock"), "mutex that another", ByGoroutine},
		{event.StateWaiting, "semacquire", stackOf("sync.runtime_Semacquire", "sync.(*WaitGroup).Wait"), "group of goroutines", ByGoroutine},
		{event.StateWaiting, "sync.RWMutex.RLock", nil, "read-lock", ByGoroutine},
		{event.StateWaiting, "sleep", nil, "sleeping", ByTime},
		{event.StateLeaked, "chan receive", nil, "receive from a channel", ByGoroutine},
		{event.StateWaiting, "something new", nil, "waiting (something new)", ByRuntime},
		{event.StateWaiting, "", nil, "waiting", ByRuntime},
	} {
		got := ActivityOf(test.state, test.reason, test.stack)
		if !strings.Contains(got.Doing, test.want) || got.EndedBy != test.by {
			t.Errorf("%s, %s: %q ended by %d, want %q by %d", test.state, test.reason, got.Doing, got.EndedBy, test.want, test.by)
		}
	}
}
