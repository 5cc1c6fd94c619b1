package testtarget

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// parseFile parses a dump of testdata/stacks and returns its goroutines by id.
func parseFile(t *testing.T, name string) map[uint64]Goroutine {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "stacks", name))
	if err != nil {
		t.Fatal(err)
	}
	all, err := ParseStacks(string(text))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if headers := strings.Count("\n"+string(text), "\ngoroutine "); len(all) != headers {
		t.Errorf("%s: parsed %d goroutines, the text has %d", name, len(all), headers)
	}
	byID := make(map[uint64]Goroutine)
	for _, g := range all {
		byID[g.ID] = g
	}
	return byID
}

// parsedStacks has goroutines of real dumps as a reader sees them.
var parsedStacks = []struct {
	file string
	want Goroutine
}{
	{"go1.12.txt", Goroutine{
		ID: 17, State: "chan receive", Locked: true,
		Frames: []Frame{
			{"main.zooThreadCallback", "/src/zoo/cgo_export.go", 22, true},
			{"main._cgoexpwrap_7ecd6f6d6e2c_zooThreadCallback", "_cgo_gotypes.go", 103, false},
		},
	}},
	{"go1.12.txt", Goroutine{
		ID: 30, State: "chan receive",
		Frames: []Frame{
			{"main.(*animal).rest", "/src/zoo/calls.go", 99, false},
			{"main.callInterface", "/src/zoo/calls.go", 114, false},
		},
		CreatedBy: Frame{Func: "main.showCalls", File: "/src/zoo/calls.go", Line: 29},
	}},
	{"go1.12.txt", Goroutine{
		ID: 48, State: "chan receive",
		Frames:    []Frame{{"main.größe", "/src/zoo/calls.go", 170, false}},
		CreatedBy: Frame{Func: "main.showCalls", File: "/src/zoo/calls.go", Line: 58},
	}},
	{"go1.20.txt", Goroutine{
		ID: 97, State: "sync.Mutex.Lock",
		Frames: []Frame{
			{"sync.runtime_SemacquireMutex", "/usr/local/go/src/runtime/sema.go", 77, false},
			{"sync.(*Mutex).lockSlow", "/usr/local/go/src/sync/mutex.go", 171, false},
			{"sync.(*Mutex).Lock", "/usr/local/go/src/sync/mutex.go", 90, true},
			{"main.mutexLock", "/src/zoo/locks.go", 51, false},
		},
		CreatedBy: Frame{Func: "main.showLocks", File: "/src/zoo/locks.go", Line: 27},
	}},
	{"go1.20.txt", Goroutine{
		ID: 71, State: "chan receive",
		Frames: []Frame{
			{"main.genericPair[...].func1", "/src/zoo/generic.go", 29, true},
			{"main.genericPair[...]", "/src/zoo/generic.go", 29, false},
		},
		CreatedBy: Frame{Func: "main.showGenerics", File: "/src/zoo/generic.go", Line: 12},
	}},
	{"go1.20.txt", Goroutine{
		ID: 62, State: "select (no cases)",
		Frames:    []Frame{{"main.selectNone", "/src/zoo/channels.go", 104, false}},
		CreatedBy: Frame{Func: "main.showChannels", File: "/src/zoo/channels.go", Line: 20},
	}},
	{"go1.21.txt", Goroutine{
		ID: 48, State: "chan receive",
		Frames:    []Frame{{"main.manyArguments", "/src/zoo/calls.go", 174, false}},
		CreatedBy: Frame{Func: "main.showCalls", File: "/src/zoo/calls.go", Line: 59}, CreatedIn: 1,
	}},
	{"go1.27.txt", Goroutine{
		ID: 131, State: "coroutine",
		Frames: []Frame{
			{"runtime.corostart", "/usr/local/go/src/runtime/coro.go", 69, false},
			{"runtime.goexit", "/usr/local/go/src/runtime/asm_amd64.s", 1264, false},
		},
		CreatedBy: Frame{Func: "iter.Pull[...]", File: "/usr/local/go/src/iter/iter.go", Line: 271}, CreatedIn: 92,
	}},
	{"age-go1.12.txt", Goroutine{
		ID: 99, State: "chan receive", Minutes: 2, Locked: true,
		Frames:    []Frame{{"main.lockedToThread", "/src/zoo/runtime.go", 26, false}},
		CreatedBy: Frame{Func: "main.showThreads", File: "/src/zoo/runtime.go", Line: 20},
	}},
	{"age-go1.27.txt", Goroutine{
		ID: 137, State: "chan receive", Minutes: 2,
		Labels:    map[string]string{"inherited": "yes", "request": "42"},
		Frames:    []Frame{{"main.inheritedLabels", "/src/zoo/runtime.go", 62, false}},
		CreatedBy: Frame{Func: "main.showLabels.func1", File: "/src/zoo/runtime.go", Line: 50}, CreatedIn: 1,
	}},
	{"leaked.txt", Goroutine{
		ID: 59, State: "chan receive (nil chan)", Extra: []string{"leaked"},
		Frames:    []Frame{{"main.chanReceiveNil", "/src/zoo/channels.go", 63, false}},
		CreatedBy: Frame{Func: "main.showChannels", File: "/src/zoo/channels.go", Line: 15}, CreatedIn: 1,
	}},
	{"ancestors.txt", Goroutine{
		ID: 74, State: "chan receive",
		Frames:    []Frame{{"main.grandchild", "/src/zoo/calls.go", 177, false}},
		CreatedBy: Frame{Func: "main.showCalls.func3", File: "/src/zoo/calls.go", Line: 62}, CreatedIn: 54,
	}},
	{"synctest.txt", Goroutine{
		ID: 8, State: "chan receive", Extra: []string{"durable", "synctest bubble 1"},
		Frames:    []Frame{{"st.TestS.func1.1", "/src/st/s_test.go", 3, false}},
		CreatedBy: Frame{Func: "st.TestS.func1", File: "/src/st/s_test.go", Line: 3}, CreatedIn: 7,
	}},
	{"crash.txt", Goroutine{
		ID: 2, State: "force gc (idle)",
		Frames: []Frame{
			{"runtime.gopark", "/usr/local/go/src/runtime/proc.go", 474, false},
			{"runtime.goparkunlock", "/usr/local/go/src/runtime/proc.go", 480, true},
			{"runtime.forcegchelper", "/usr/local/go/src/runtime/proc.go", 387, false},
			{"runtime.goexit", "/usr/local/go/src/runtime/asm_amd64.s", 1264, false},
		},
		CreatedBy: Frame{Func: "runtime.init.7", File: "/usr/local/go/src/runtime/proc.go", Line: 375}, CreatedIn: 1,
	}},
}

// TestParseStacks compares the parser with a reader.
func TestParseStacks(t *testing.T) {
	for _, test := range parsedStacks {
		byID := parseFile(t, test.file)
		if got := byID[test.want.ID]; !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: goroutine %d:\n got %+v\nwant %+v", test.file, test.want.ID, got, test.want)
		}
	}
}

// TestParseStacksLabels reads labels made to be read wrongly.
func TestParseStacksLabels(t *testing.T) {
	byID := parseFile(t, "go1.27.txt")
	for id, want := range map[uint64]map[string]string{
		119: {"exhibit": "one", "key": "value"},
		120: {"exhibit": "unicode", "größe": "大きい", "emoji": "🔍"},
		121: {"exhibit": "empty", "": "empty key", "empty value": ""},
		122: {
			"exhibit": "hostile", "quote": `"a" 'b' \c`, "lines": "first\nsecond\ttab\r", "escape": "\x1b[31mred",
			"brace": "}]:, {", "invalid": "\xff\xfe", "nul": "a\x00b",
		},
		131: nil,
	} {
		if got := byID[id].Labels; !reflect.DeepEqual(got, want) {
			t.Errorf("goroutine %d has the labels %q, want %q", id, got, want)
		}
	}
}

// TestParseStacksElided finds where the runtime left frames out.
func TestParseStacksElided(t *testing.T) {
	byID := parseFile(t, "go1.27.txt")
	g := byID[9]
	if !g.Elided || g.ElidedAfter != 50 || g.ElidedFrames != 201 || len(g.Frames) != 100 {
		t.Errorf("elided %v after %d frames %d, %d frames printed; want true, 50, 201, 100",
			g.Elided, g.ElidedAfter, g.ElidedFrames, len(g.Frames))
	}
	// The wording of releases before 1.21, where the end is left out.
	old, err := ParseStacks("goroutine 1 [running]:\nmain.f(0x1)\n\t/a b/c:d.go:7 +0x1\n...additional frames elided...\ncreated by main.g\n\tx.go:9 +0x2\n")
	if err != nil {
		t.Fatal(err)
	}
	want := Goroutine{
		ID: 1, State: "running", Elided: true, ElidedAfter: 1,
		Frames:    []Frame{{"main.f", "/a b/c:d.go", 7, false}},
		CreatedBy: Frame{Func: "main.g", File: "x.go", Line: 9},
	}
	if len(old) != 1 || !reflect.DeepEqual(old[0], want) {
		t.Errorf("got %+v, want %+v", old, want)
	}
}

// TestParseStacksMalformed expects an error rather than a wrong goroutine.
func TestParseStacksMalformed(t *testing.T) {
	for name, text := range map[string]string{
		"id":              "goroutine x [running]:\n",
		"no state":        "goroutine 1 running:\n",
		"open state":      "goroutine 1 [running:\n",
		"age":             "goroutine 1 [sleep, many minutes]:\n",
		"open labels":     "goroutine 1 [sleep] {a: b:\n",
		"label value":     "goroutine 1 [sleep] {a}:\n",
		"label quote":     "goroutine 1 [sleep] {\"a: b}:\n",
		"no labels":       "goroutine 1 [sleep] abc:\n",
		"no call":         "goroutine 1 [running]:\nmain.f\n\tx.go:1\n",
		"no function":     "goroutine 1 [running]:\n(0x1)\n\tx.go:1\n",
		"open call":       "goroutine 1 [running]:\nmain.f(0x1\n\tx.go:1\n",
		"no place":        "goroutine 1 [running]:\nmain.f(0x1)\n",
		"no line":         "goroutine 1 [running]:\nmain.f(0x1)\n\tx.go\n",
		"bad line":        "goroutine 1 [running]:\nmain.f(0x1)\n\tx.go:one\n",
		"creator":         "goroutine 1 [running]:\ncreated by main.f in goroutine x\n\tx.go:1\n",
		"creator's place": "goroutine 1 [running]:\ncreated by main.f\n",
		"elided":          "goroutine 1 [running]:\n...many frames elided...\n",
	} {
		if got, err := ParseStacks(text); err == nil {
			t.Errorf("%s: no error, but %+v", name, got)
		}
	}
}

// FuzzParseStacks looks for panics, and for goroutines without an identity.
func FuzzParseStacks(f *testing.F) {
	files, err := filepath.Glob("testdata/stacks/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatalf("no dumps to start from (%v)", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseStacks(text)
		if err != nil {
			return
		}
		for _, g := range all {
			if g.ElidedAfter > len(g.Frames) {
				t.Errorf("goroutine %d: a gap after frame %d of %d", g.ID, g.ElidedAfter, len(g.Frames))
			}
			for _, frame := range g.Frames {
				if frame.Func == "" {
					t.Errorf("goroutine %d has a frame without a function", g.ID)
				}
			}
		}
	})
}
