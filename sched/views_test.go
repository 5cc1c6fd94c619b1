package sched

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
)

func TestGoroutines(t *testing.T) {
	m := New(Options{})
	system := &event.Origin{System: true}
	at := func(g uint64, t int64, kind event.Kind, change ...func(*event.Event)) {
		e := ev(t, kind, change...)
		e.G = g
		m.Apply(&e)
	}
	at(1, 100, event.GoStatus, in(event.StateRunning), from(originA))
	at(2, 100, event.GoStatus, in(event.StateWaiting), because("select"), on(stackA), value(50), from(originA))
	at(3, 100, event.GoStatus, in(event.StateWaiting), because("select"), on(stackB), from(originA))
	at(4, 100, event.GoStatus, in(event.StateWaiting), because("sleep"), on(stackB))
	at(5, 100, event.GoStatus, in(event.StateWaiting), because("GC worker (idle)"), from(system))
	at(6, 110, event.GoCreate, from(originA))
	at(6, 115, event.GoStart)
	at(6, 120, event.GoStop, because(event.StopPreempted))
	m.Advance(200)
	first, _ := m.Goroutine(1)
	second, _ := m.Goroutine(2)
	for name, test := range map[string]struct {
		filter Filter
		by     Order
		limit  int
		want   []uint64
		all    int
	}{
		"all":          {Filter{}, ByID, 0, []uint64{1, 2, 3, 4, 6}, 5},
		"system too":   {Filter{System: true}, ByID, 0, []uint64{1, 2, 3, 4, 5, 6}, 6},
		"limit":        {Filter{}, ByID, 2, []uint64{1, 2}, 5},
		"oldest":       {Filter{}, ByOldest, 2, []uint64{2, 1}, 5},
		"newest":       {Filter{}, ByNewest, 1, []uint64{6}, 5},
		"running":      {Filter{}, ByRunning, 2, []uint64{1, 6}, 5},
		"runnable":     {Filter{}, ByRunnable, 1, []uint64{6}, 5},
		"blocked":      {Filter{}, ByBlocked, 3, []uint64{2, 3, 4}, 5},
		"starts":       {Filter{}, ByStarts, 1, []uint64{6}, 5},
		"state":        {Filter{State: event.StateRunnable}, ByID, 0, []uint64{6}, 1},
		"wait reason":  {Filter{Reason: "select"}, ByID, 0, []uint64{2, 3}, 2},
		"stop reason":  {Filter{Reason: event.StopPreempted}, ByID, 0, []uint64{6}, 1},
		"site":         {Filter{HasSite: true, Site: first.Site}, ByID, 0, []uint64{1, 2, 3, 6}, 4},
		"unknown site": {Filter{HasSite: true}, ByID, 0, []uint64{4}, 1},
		"place":        {Filter{HasPlace: true, Place: second.Place}, ByID, 0, []uint64{2}, 1},
		"long":         {Filter{MinState: 101}, ByID, 0, []uint64{2}, 1},
		"match":        {Filter{Match: func(g *Goroutine) bool { return g.Stack == stackB }}, ByID, 0, []uint64{3, 4}, 2},
	} {
		list, matched := m.Goroutines(test.filter, test.by, test.limit)
		var ids []uint64
		for _, g := range list {
			ids = append(ids, g.ID)
		}
		if !slices.Equal(ids, test.want) || matched != test.all {
			t.Errorf("%s: %v of %d, want %v of %d", name, ids, matched, test.want, test.all)
		}
	}
	if _, ok := m.Goroutine(99); ok {
		t.Error("goroutine 99 is found")
	}
	if _, ok := m.Goroutine(0); ok {
		t.Error("goroutine 0 is found")
	}
}

// TestGoroutinesOfMany lists more goroutines than are visited while the lock is held, with and without a limit.
func TestGoroutinesOfMany(t *testing.T) {
	m := New(Options{})
	fill(m, 1, 40_000)
	for g := range uint64(40_000) {
		if g%7 == 0 {
			m.Apply(&event.Event{Kind: event.GoStart, Time: int64(50_000 + g*7919%40_000), G: g + 1})
		}
	}
	for _, by := range []Order{ByID, ByOldest, ByNewest, ByRunning, ByRunnable} {
		all, n := m.Goroutines(Filter{}, by, 0)
		some, k := m.Goroutines(Filter{}, by, 37)
		if n != 40_000 || k != n || len(all) != n || !slices.Equal(some, all[:37]) {
			t.Errorf("order %d: %d of %d, then %d of %d", by, len(all), n, len(some), k)
		}
	}
}

func TestIntervals(t *testing.T) {
	m := New(Options{})
	var events []event.Event
	for g := range uint64(10) {
		e := ev(1000, event.GoStatus, in(event.StateWaiting), because("select"), from(originA))
		e.G = g + 1
		events = append(events, e)
	}
	m.ApplyBatch(events)
	m.Advance(2000)
	before, sites := m.Totals(), m.Sites()
	m.Advance(2100)
	for _, e := range []event.Event{ev(2200, event.GoUnblock), ev(2300, event.GoStart), ev(2400, event.GoCreate), ev(2500, event.GoDestroy)} {
		if e.Kind == event.GoCreate {
			e.G, e.Origin = 50, originA
		}
		m.Apply(&e)
	}
	m.Advance(3000)
	now := m.Totals()
	d := now.Sub(&before)
	want := Times{Blocked: NanosOf(9*1000 + 200), Runnable: NanosOf(100 + 600), Running: NanosOf(200)}
	if d.Done != want || d.Open != (Times{}) || d.Created != 1 || d.Ended != 1 || d.Live != 10 || d.AtStart != 0 || d.Events != 4 ||
		d.Kinds[event.GoStatus] != 0 || d.Kinds[event.GoStart] != 1 {
		t.Errorf("in the interval %+v", d)
	}
	if r := Rate(d.Created, time.Microsecond); r != 1e6 {
		t.Errorf("%v created a second", r)
	}
	if list := SubSites(m.Sites(), sites); len(list) != 1 || list[0].Done != want || list[0].Created != 1 || list[0].Live != 10 {
		t.Errorf("sites in the interval %+v", list)
	}
	if Rate(3, 0) != 0 {
		t.Error("a rate without time")
	}
}

func TestSortSites(t *testing.T) {
	list := []Site{
		{ID: 1, Flow: Flow{Live: 5, Created: 9, Ended: 4, Done: Times{Running: NanosOf(1), Blocked: NanosOf(9)}}},
		{ID: 2, Flow: Flow{Live: 2, Created: 90, Ended: 90, Open: Times{Running: NanosOf(2), Syscall: NanosOf(3)}}},
		{ID: 3, Flow: Flow{Live: 2, Created: 1, Ended: 3, Done: Times{Runnable: NanosOf(4)}}},
	}
	for by, want := range map[SiteOrder][]int{
		SitesByLive: {1, 2, 3}, SitesByCreated: {2, 1, 3}, SitesByEnded: {2, 1, 3}, SitesByGrowth: {1, 2, 3},
		SitesByRunning: {2, 1, 3}, SitesByRunnable: {3, 1, 2}, SitesByBlocked: {1, 2, 3}, SitesBySyscall: {2, 1, 3},
	} {
		SortSites(list, by)
		var ids []int
		for _, s := range list {
			ids = append(ids, s.ID)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("order %d: %v, want %v", by, ids, want)
		}
	}
}

// TestReconcile verifies that a goroutine ends only if it is uncertain, has had no event since, and is not in the list.
func TestReconcile(t *testing.T) {
	m := New(Options{})
	at := func(g uint64, t int64, kind event.Kind) {
		e := ev(t, kind)
		e.G = g
		m.Apply(&e)
	}
	for g := range uint64(4) {
		at(g+1, 100, event.GoCreate)
	}
	m.Apply(&event.Event{Kind: event.Lost, Time: 110, Value: 3})
	at(4, 120, event.GoStart)  // certain again
	at(5, 130, event.GoCreate) // after the loss
	alive := slices.Values([]uint64{1, 9, 0})
	if ended, missing := m.Reconcile(alive, 90); ended != 0 || missing != 1 {
		t.Errorf("a list from before: %d ended, %d missing", ended, missing)
	}
	if ended, missing := m.Reconcile(alive, 140); ended != 2 || missing != 1 {
		t.Errorf("%d ended, %d missing", ended, missing)
	}
	check(t, m)
	var left []uint64
	list, _ := m.Goroutines(Filter{}, ByID, 0)
	for _, g := range list {
		left = append(left, g.ID)
	}
	if total := m.Totals(); !slices.Equal(left, []uint64{1, 4, 5}) || total.Reconciled != 2 || total.Ended != 2 || total.States.Uncertain != 1 {
		t.Errorf("left are %v, totals %+v", left, total)
	}
	unended := New(Options{Kinds: event.KindsOf(event.GoCreate)})
	e := ev(100, event.GoCreate)
	unended.Apply(&e)
	if ended, _ := unended.Reconcile(slices.Values([]uint64(nil)), 200); ended != 1 {
		t.Error("where ends are not observed, a certain goroutine is not ended")
	}
}

// TestConcurrentReaders reads the views while events are applied. The race detector must find nothing, and the counts must
// agree.
func TestConcurrentReaders(t *testing.T) {
	s := newSim(1, true).run(4000)
	m := New(Options{Kinds: simKinds(true), History: 1000})
	done := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			total := m.Totals()
			if int64(total.Live) != int64(total.Created)+total.AtStart+total.Found-int64(total.Ended) {
				t.Errorf("totals %+v", total)
			}
			for _, w := range m.Waits() {
				if w.NowTime.Duration() < 0 {
					t.Errorf("wait %+v", w)
				}
			}
			m.Sites()
			m.Contention(5)
			m.Goroutines(Filter{}, ByOldest, 10)
			m.History(3, 10)
			m.Latency()
			select {
			case <-done:
				return
			case <-time.After(time.Microsecond):
			}
		}
	})
	for i := range s.events {
		m.Apply(&s.events[i])
	}
	close(done)
	readers.Wait()
	check(t, m)
}

// TestGCWait adds up waits for the garbage collector by site.
func TestGCWait(t *testing.T) {
	work := &event.Stack{Frames: []event.Frame{{Func: "runtime.gopark"}, {Func: "runtime.gcMarkDone"}, {Func: "main.a"}}}
	m := New(Options{})
	for _, e := range []event.Event{
		ev(100, event.GoCreate, from(originA)), ev(110, event.GoStart),
		ev(120, event.GoBlock, because("GC assist wait"), on(stackA)), ev(150, event.GoUnblock), ev(160, event.GoStart),
		ev(170, event.GoBlock, because("semacquire"), on(work)), ev(175, event.GoUnblock), ev(176, event.GoStart),
		ev(180, event.GoBlock, because("select"), on(stackA)), ev(200, event.GoUnblock), ev(210, event.GoStart),
		ev(220, event.GoBlock, because("GC assist wait"), on(stackA)), ev(230, event.Lost, value(1)), ev(250, event.GoUnblock), ev(260, event.GoStart),
		ev(270, event.GoBlock, because("GC assist wait"), on(stackA)), ev(290, event.HeapAlloc),
	} {
		m.Apply(&e)
	}
	earlier := m.Sites()
	if total := m.Totals(); len(earlier) != 1 || earlier[0].GCWait != NanosOf(35) || total.GCWait != NanosOf(35) {
		t.Errorf("%v in all, sites %+v", total.GCWait, earlier)
	}
	e := ev(300, event.GoUnblock)
	m.Apply(&e)
	if d := SubSites(m.Sites(), earlier); d[0].GCWait != NanosOf(30) {
		t.Errorf("%v since", d[0].GCWait)
	}
	m = New(long)
	for _, e := range []event.Event{ev(90, event.GoStatus, in(event.StateRunning)), ev(100, event.GoBlock, because("GC assist wait"), value(30)), ev(130, event.GoUnblock)} {
		m.Apply(&e)
	}
	if total := m.Totals(); total.GCWait != NanosOf(30) {
		t.Errorf("%v of a long wait", total.GCWait)
	}
}
