package census

import (
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
)

var goStatement = event.Frame{Func: "main.handle", File: "/src/main.go", Line: 41}

// blockedAt makes goroutines with the given IDs that wait at one place, all of one population.
func blockedAt(reason, function string, ids ...uint64) []event.Goroutine {
	stack := stackOf("-runtime.gopark", function)
	var list []event.Goroutine
	for _, id := range ids {
		g := waiting(id, reason, stack)
		g.CreatedBy = goStatement
		g.Start = event.Frame{Func: "main.ask"}
		list = append(list, g)
	}
	return list
}

var firstLook = time.Unix(1000, 0)

func compared(first, second []event.Goroutine) *Comparison {
	return Compare(&event.Snapshot{Time: firstLook, Goroutines: first},
		&event.Snapshot{Time: firstLook.Add(30 * time.Second), Goroutines: second})
}

func TestCompareFindsLeak(t *testing.T) {
	c := compared(blockedAt("chan send", "main.ask", 1, 2, 3), blockedAt("chan send", "main.ask", 1, 2, 3, 7, 8))
	if c.Before != 3 || c.After != 5 || len(c.Populations) != 1 || c.Interval != 30*time.Second {
		t.Fatalf("comparison: %+v", c)
	}
	suspects := c.Suspects()
	if len(suspects) != 1 {
		t.Fatalf("%d suspects, want 1", len(suspects))
	}
	s := suspects[0]
	if s.Population.CreatedBy != goStatement || s.After != 5 || s.Stayed != 3 || s.GrowthPerMinute != 4 || s.Certain {
		t.Errorf("suspect: %+v", s)
	}
	if s.Oldest != 30*time.Second || s.OldestExact {
		t.Errorf("oldest %v, exact %v: those that stayed have waited for the interval at least", s.Oldest, s.OldestExact)
	}
	if want := "all 3 of the first snapshot are still blocked here 30s later, and 2 more have joined"; s.Evidence != want {
		t.Errorf("evidence: %q, want %q", s.Evidence, want)
	}
}

func TestCompareSparesWhatIsNotLeaked(t *testing.T) {
	long := func(list []event.Goroutine, wait time.Duration) []event.Goroutine {
		for i := range list {
			list[i] = known(list[i], wait)
		}
		return list
	}
	system := blockedAt("chan send", "main.ask", 1, 2, 3, 4)
	for i := range system {
		system[i].System = true
	}
	for name, test := range map[string]struct{ first, second []event.Goroutine }{
		"a steady pool":          {blockedAt("chan receive", "main.f", 1, 2, 3), blockedAt("chan receive", "main.f", 1, 2, 3)},
		"traffic":                {blockedAt("chan send", "main.f", 1, 2, 3), blockedAt("chan send", "main.f", 4, 5, 6, 7, 8)},
		"a burst":                {nil, blockedAt("chan send", "main.f", 4, 5, 6)},
		"idle connections":       {blockedAt("IO wait", "net.(*conn).Read", 1), blockedAt("IO wait", "net.(*conn).Read", 1, 2, 3)},
		"sleepers":               {blockedAt("sleep", "main.f", 1), blockedAt("sleep", "main.f", 1, 2, 3)},
		"one more":               {blockedAt("chan send", "main.f", 1, 2), blockedAt("chan send", "main.f", 1, 2, 3)},
		"the runtime's own":      {system[:1], system},
		"back at the same place": {long(blockedAt("chan send", "main.f", 1, 2), time.Minute), long(blockedAt("chan send", "main.f", 1, 2, 3, 4), time.Second)},
		"wait forgotten":         {long(blockedAt("chan send", "main.f", 1, 2), time.Minute), blockedAt("chan send", "main.f", 1, 2, 3, 4)},
	} {
		if s := compared(test.first, test.second).Suspects(); len(s) != 0 {
			t.Errorf("%s: suspected, %s", name, s[0].Evidence)
		}
	}
}

func TestCompareKnownWait(t *testing.T) {
	first, second := blockedAt("chan send", "main.f", 1, 2), blockedAt("chan send", "main.f", 1, 2, 3, 4)
	first[0], second[0] = known(first[0], time.Minute), known(second[0], 90*time.Second)
	second[1] = known(second[1], 10*time.Second) // noted since the first look
	suspects := compared(first, second).Suspects()
	if len(suspects) != 1 || suspects[0].Stayed != 2 || suspects[0].Oldest != 90*time.Second || !suspects[0].OldestExact {
		t.Errorf("suspects: %+v", suspects)
	}
}

func TestRuntimesFindingIsCertain(t *testing.T) {
	list := blockedAt("chan receive", "main.f", 1)
	list[0].State = event.StateLeaked
	suspects := compared(nil, list).Suspects()
	if len(suspects) != 1 || !suspects[0].Certain {
		t.Errorf("suspects: %+v", suspects)
	}
}

func TestFastestGrowthFirst(t *testing.T) {
	first := append(blockedAt("chan send", "main.slow", 1), blockedAt("chan send", "main.fast", 2)...)
	second := append(blockedAt("chan send", "main.slow", 1, 3, 4), blockedAt("chan send", "main.fast", 2, 5, 6, 7)...)
	suspects := compared(first, second).Suspects()
	if len(suspects) != 2 || suspects[0].Stack[0].Func != "main.fast" {
		t.Errorf("suspects: %+v", suspects)
	}
}

func TestPopulationOfSpawner(t *testing.T) {
	spawned := func(id uint64, funcs ...string) event.Goroutine {
		g := waiting(id, "chan receive", stackOf(append(append([]string{"-runtime.gopark"}, funcs...), "sync.(*WaitGroup).Go.func1", "-runtime.goexit")...))
		g.CreatedBy = event.Frame{Func: "sync.(*WaitGroup).Go", Line: 238}
		g.Start = event.Frame{Func: "sync.(*WaitGroup).Go.func1"}
		return g
	}
	list := []event.Goroutine{
		spawned(1, "main.take", "main.run.func1"),
		spawned(2, "main.pack", "main.run.func2.1", "runtime/pprof.Do", "main.run.func2"),
		spawned(3, "main.pack", "main.run.func2.1", "runtime/pprof.Do", "main.run.func2"),
		spawned(4, "main.a", "main.run.func3"),
		spawned(5, "main.b", "main.run.func3"),
		spawned(6, "main.named"),
	}
	c := compared(nil, list)
	got := map[string]int{}
	for _, p := range c.Populations {
		got[p.Name()] = p.After
	}
	want := map[string]int{"main.take": 1, "main.pack": 2, "main.run.func3": 2, "main.named": 1}
	if len(got) != len(want) {
		t.Fatalf("populations: %v, want %v", got, want)
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("populations: %v, want %v", got, want)
		}
	}
}
