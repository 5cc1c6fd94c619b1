package census

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
)

// stackOf makes a stack, leaf first. A name that starts with "-" is a hidden frame.
func stackOf(funcs ...string) []goproc.Frame {
	var stack []goproc.Frame
	for i, f := range funcs {
		name, hidden := strings.CutPrefix(f, "-")
		stack = append(stack, goproc.Frame{Frame: event.Frame{Func: name, File: "/src/" + name + ".go", Line: 10 + i}, Hidden: hidden,
			PC: uint64(0x1000 + i)})
	}
	return stack
}

func waiting(id uint64, reason string, stack []goproc.Frame) goproc.Goroutine {
	return goproc.Goroutine{ID: id, State: event.StateWaiting, Reason: reason, Stack: stack}
}

func known(g goproc.Goroutine, wait time.Duration) goproc.Goroutine {
	g.Wait, g.WaitKnown = wait, true
	return g
}

func ids(goroutines []*goproc.Goroutine) []uint64 {
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

func TestNames(t *testing.T) {
	for _, test := range []struct{ function, pkg, short string }{
		{"main.main", "main", "main.main"},
		{"net/http.(*conn).serve", "net/http", "http.(*conn).serve"},
		{"github.com/a/b.v2.F.func1", "github.com/a/b", "b.v2.F.func1"},
		{"slices.SortFunc[go.shape.[]example.com/x/y.T]", "slices", "slices.SortFunc[go.shape.[]example.com/x/y.T]"},
		{"goexit", "goexit", "goexit"},
		{"", "", ""},
	} {
		if got := Package(test.function); got != test.pkg {
			t.Errorf("Package(%q) = %q, want %q", test.function, got, test.pkg)
		}
		if got := ShortFunc(test.function); got != test.short {
			t.Errorf("ShortFunc(%q) = %q, want %q", test.function, got, test.short)
		}
	}
}

func TestShortFile(t *testing.T) {
	for _, test := range []struct{ function, file, module, want string }{
		{"example.com/app/internal/db.Open", "/home/x/app/internal/db/open.go", "example.com/app", "internal/db/open.go"},
		{"example.com/app/internal/db.Open", "example.com/app/internal/db/open.go", "example.com/app", "internal/db/open.go"},
		{"net/http.Serve", "/usr/local/go/src/net/http/server.go", "example.com/app", "http/server.go"},
		{"main.main", "/src/main.go", "", "src/main.go"},
		{"main.main", "main.go", "", "main.go"},
	} {
		if got := ShortFile(event.Frame{Func: test.function, File: test.file}, test.module); got != test.want {
			t.Errorf("ShortFile(%q, %q) = %q, want %q", test.file, test.module, got, test.want)
		}
	}
}

func TestPlace(t *testing.T) {
	for _, test := range []struct {
		stack  []goproc.Frame
		module string
		want   string
	}{
		{stackOf("-runtime.gopark", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.serve", "main.main"), "", "main.serve"},
		{stackOf("sync.(*Mutex).Lock", "example.com/lib.Get", "main.main"), "", "example.com/lib.Get"},
		{stackOf("sync.(*Mutex).Lock", "myapp/store.Get", "myapp.main"), "myapp", "myapp/store.Get"},
		{stackOf("-runtime.gopark", "net/http.(*conn).serve"), "", ""},
		{nil, "", ""},
	} {
		if got := Place(test.stack, test.module); got.Func != test.want {
			t.Errorf("Place(%v) = %q, want %q", test.stack, got.Func, test.want)
		}
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
	running := goproc.Goroutine{ID: 1, State: event.StateRunning, Stack: stackOf("main.main")}
	system := waiting(2, "GC worker (idle)", stackOf("-runtime.gcBgMarkWorker"))
	system.System = true
	snap := &goproc.Snapshot{Goroutines: []goproc.Goroutine{running, system, worker, young, unsure}}

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
	list := []goproc.Goroutine{
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
	var refs []*goproc.Goroutine
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
	one := []goproc.Frame{{Frame: event.Frame{Func: "a", File: "bc"}}}
	two := []goproc.Frame{{Frame: event.Frame{Func: "ab", File: "c"}}}
	if ids.id(one) == ids.id(two) {
		t.Error("different frames with the same letters have one key")
	}
	if ids.id(nil) != ids.id([]goproc.Frame{}) || ids.id(nil) == ids.id(one) {
		t.Error("empty stacks are not one stack of their own")
	}
}

func TestActivityOf(t *testing.T) {
	for _, test := range []struct {
		state  event.State
		reason string
		stack  []goproc.Frame
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

func TestProfile(t *testing.T) {
	stack := []goproc.Frame{
		{Frame: event.Frame{Func: "main.inlined", File: "/src/a.go", Line: 3}, PC: 0x4010, Inlined: true},
		{Frame: event.Frame{Func: "main.outer", File: "/src/a.go", Line: 9}, PC: 0x4010},
		{Frame: event.Frame{Func: "main.main", File: "/src/a.go", Line: 20}, PC: 0x4100},
	}
	list := []goproc.Goroutine{known(waiting(1, "select", stack), time.Second), waiting(2, "select", stack), waiting(3, "select", stack),
		waiting(4, "GC worker (idle)", stack)}
	list[2].Labels = map[string]string{"k": "v"}
	list[3].System = true
	locs := locations(stack)
	if len(locs) != 2 || len(locs[0].Lines) != 2 || locs[0].Addr != 0x4010 || locs[1].Addr != 0x40ff {
		t.Errorf("locations: %+v", locs)
	}
	prof := Profile(&goproc.Snapshot{Time: time.Unix(1, 0), Goroutines: list}, pprofMapping)
	if n := prof.Samples(); n != 2 {
		t.Errorf("%d samples, want 2: one for each set of labels", n)
	}
}
