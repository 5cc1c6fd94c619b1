package sched

import (
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// check verifies the invariants of a Machine: incremental sums equal the sums over all goroutines, no time is negative, and
// counts agree.
func check(t testing.TB, m *Machine) {
	t.Helper()
	sites := make([]tally, m.sites.n)
	places := make([]place, m.places.n)
	var open Times
	count := 0
	for id, en := range m.table.All() {
		count++
		if m.table.Find(id) != en {
			t.Fatalf("goroutine %d is not found by its ID", id)
		}
		checkEntry(t, m, id, en)
		if th := m.threads.list[en.thread]; th != nil && (th.en != en || th.g != id) {
			t.Fatalf("goroutine %d is on a thread with another", id)
		}
		addOpen(m, en, &open)
		a, p := &sites[en.site], &places[en.place]
		if en.epoch == m.epoch {
			a.open[en.state].enter(en.counted())
		} else {
			a.stale[en.state].enter(en.counted())
		}
		if en.atPlace() {
			if en.epoch == m.epoch {
				p.open.enter(en.counted())
			} else {
				p.stale.enter(en.counted())
			}
		}
	}
	if m.threads.running != int(m.Totals().States.Running) {
		t.Fatalf("%d goroutines run, counted %d", m.Totals().States.Running, m.threads.running)
	}
	if count != m.table.Len() {
		t.Fatalf("%d entries, %d counted as live", count, m.table.Len())
	}
	for i := range m.sites.n {
		s := m.sites.at(i)
		s.sync(m.epoch)
		if s.open != sites[i].open || s.stale != sites[i].stale {
			t.Fatalf("site %d: open %v, stale %v; by goroutine %v, %v", i, s.open, s.stale, sites[i].open, sites[i].stale)
		}
	}
	for i := range m.places.n {
		p := m.places.at(i)
		p.sync(m.epoch)
		if p.open != places[i].open || p.stale != places[i].stale {
			t.Fatalf("place %d: open %v, stale %v; by goroutine %v, %v", i, p.open, p.stale, places[i].open, places[i].stale)
		}
	}
	checkTotals(t, m)
	if total := m.Totals(); total.Open != open {
		t.Fatalf("open times %+v, by goroutine %+v", total.Open, open)
	}
}

// addOpen adds the time of a goroutine in its current state to open.
func addOpen(m *Machine, en *entry, open *Times) {
	sum := map[gostate.State]*Nanos{gostate.Unknown: &open.Uncertain, gostate.Running: &open.Running, gostate.Runnable: &open.Runnable, gostate.Waiting: &open.Blocked,
		gostate.Syscall: &open.Syscall}[en.state]
	if en.epoch != m.epoch {
		sum = &open.Uncertain
	}
	sum.add(m.now - en.counted())
}

func checkEntry(t testing.TB, m *Machine, id uint64, en *entry) {
	t.Helper()
	for s, d := range en.spent {
		if d < 0 {
			t.Fatalf("goroutine %d: %d ns in state %d", id, d, s+1)
		}
	}
	if en.uncertain() < 0 || en.counted() > m.now || en.counted() < en.seen {
		t.Fatalf("goroutine %d: uncertain %d ns, counted from %d, seen %d, now %d", id, en.uncertain(), en.counted(), en.seen, m.now)
	}
	if m.rules.Reported[en.state] != en.state {
		t.Fatalf("goroutine %d is in state %d, which is not observed", id, en.state)
	}
	var g Goroutine
	m.view(id, en, &g)
	if sum := g.Running + g.Runnable + g.Blocked + g.Syscall + g.InDoubt; sum != time.Duration(m.now-en.seen) {
		t.Fatalf("goroutine %d: times are %d in sum, its life is %d", id, sum, m.now-en.seen)
	}
}

func checkTotals(t testing.TB, m *Machine) {
	t.Helper()
	total := m.Totals()
	if want := int64(total.Created) + total.AtStart + total.Found - int64(total.Ended+total.Unsampled); int64(total.Live) != want || total.Live != uint64(m.table.Len()) {
		t.Fatalf("%d live, %d in the table; created, at start, found, less ended: %d", total.Live, m.table.Len(), want)
	}
	var sites Flow
	for _, s := range m.Sites() {
		sites.Live += s.Live
		sites.Created += s.Created
		sites.States = sites.States.Add(s.States)
		sites.Done, sites.Open = sites.Done.Add(s.Done), sites.Open.Add(s.Open)
	}
	if sites.Live != total.Live || sites.Created != total.Created || sites.States != total.States || sites.Done != total.Done ||
		sites.Open != total.Open {
		t.Fatalf("sum of sites %+v, totals %+v", sites, total.Flow)
	}
	s := total.States
	if s.Running+s.Runnable+s.Waiting+s.Syscall+s.Unknown != total.Live || s.Uncertain > total.Live {
		t.Fatalf("%d live, by state %+v", total.Live, s)
	}
	var waiting uint64
	for _, w := range m.Waits() {
		waiting += w.Now
	}
	if waiting != s.Waiting {
		t.Fatalf("%d goroutines by wait reason, %d waiting", waiting, s.Waiting)
	}
	var delays, latencies uint64
	for _, role := range []Role{Points, Waits, Stops, Syscalls, Wakes} {
		for _, p := range m.Places(role) {
			delays += p.Delay.Count
		}
	}
	latency := m.Latency()
	latencies = latency.All().Count()
	if delays += total.FirstStart.Count; delays != latencies {
		t.Fatalf("%d delays by place, %d latencies", delays, latencies)
	}
	seen := uint64(0)
	for _, n := range total.Kinds {
		seen += n
	}
	if seen != total.Events || total.Kinds[event.Lost] != total.Losses {
		t.Fatalf("events by kind %v, in all %d, losses %d", total.Kinds, total.Events, total.Losses)
	}
}
