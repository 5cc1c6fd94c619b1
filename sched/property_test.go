package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
)

// seeds is the number of random streams for each property.
const seeds = 12

func simKinds(syscalls bool) event.Kinds {
	kinds := event.KindsDefault.Union(event.KindsChannel)
	if syscalls {
		kinds = kinds.Union(event.KindsSyscall)
	}
	return kinds
}

// same compares the measurements of a Machine with the truth.
func same(t *testing.T, what string, truth map[spot]*measure, got func(spot) (Place, bool), measureOf func(Place) measure) {
	t.Helper()
	for key, want := range truth {
		p, ok := got(key)
		if have := measureOf(p); !ok || have != *want {
			t.Errorf("%s at %v: %+v, want %+v", what, key, have, *want)
		}
	}
}

// placesOf returns a function that finds a place of a role by its stack and reason.
func placesOf(m *Machine, role Role) func(spot) (Place, bool) {
	list := m.Places(role)
	return func(key spot) (Place, bool) {
		i := slices.IndexFunc(list, func(p Place) bool { return p.Stack == key.stack && p.Reason == key.reason })
		if i < 0 {
			return Place{}, false
		}
		return list[i], true
	}
}

func timeOf(p Place) measure { return measure{p.Count, int64(p.Time.Duration()), int64(p.Max)} }

// countOf returns the number of all measurements in truth.
func countOf(truth map[spot]*measure) (n uint64) {
	for _, m := range truth {
		n += m.count
	}
	return n
}

func sumCounts(list []Place) (n uint64) {
	for _, p := range list {
		n += p.Count
	}
	return n
}

// TestTruth compares a Machine with the simulator. All values must be equal.
func TestTruth(t *testing.T) {
	for _, syscalls := range []bool{false, true} {
		for seed := range uint64(seeds) {
			t.Run(fmt.Sprintf("syscalls=%v/seed=%d", syscalls, seed), func(t *testing.T) {
				s := newSim(seed, syscalls).run(6000)
				m := New(Options{Kinds: simKinds(syscalls)})
				for i := range s.events {
					m.Apply(&s.events[i])
					if g, ok := m.Goroutine(s.events[i].G); ok != (s.after[i] != "") || g.State != s.after[i] {
						t.Fatalf("event %d, %v of %d: state %q, want %q", i, s.events[i].Kind, s.events[i].G, g.State, s.after[i])
					}
				}
				m.Advance(s.now)
				check(t, m)
				compareGoroutines(t, s, m)
				compareTruth(t, s, m)
			})
		}
	}
}

func compareGoroutines(t *testing.T, s *sim, m *Machine) {
	t.Helper()
	for _, want := range s.live {
		g, ok := m.Goroutine(want.id)
		if !ok {
			t.Fatalf("goroutine %d is missing", want.id)
		}
		spent := map[event.State]int64{want.state: s.now - want.since}
		for state, d := range want.spent {
			spent[state] += d
		}
		for state, got := range map[event.State]time.Duration{
			event.StateRunning: g.Running, event.StateRunnable: g.Runnable, event.StateWaiting: g.Blocked,
			event.StateSyscall: g.Syscall, "uncertain": g.InDoubt,
		} {
			if int64(got) != spent[state] {
				t.Errorf("goroutine %d: %d ns %s, want %d", g.ID, got, state, spent[state])
			}
		}
		if g.Parent != want.parent || g.Origin != want.origin || g.Seen != want.seen || (g.Created == 0) != want.atStart ||
			g.Starts != want.starts || g.Blocks != want.blocks || g.Woken != want.woken || g.Waker != want.waker ||
			g.Stack != want.stack || g.Uncertain || g.Found || g.Repairs > 0 {
			t.Errorf("goroutine %+v, want %+v", g, want)
		}
	}
}

func compareTruth(t *testing.T, s *sim, m *Machine) {
	t.Helper()
	same(t, "waits", s.truth.waits, placesOf(m, Waits), timeOf)
	same(t, "wakes", s.truth.wakes, placesOf(m, Wakes), timeOf)
	same(t, "system calls", s.truth.calls, placesOf(m, Syscalls), timeOf)
	for what, pair := range map[string][2]uint64{
		"waits": {sumCounts(m.Places(Waits)), countOf(s.truth.waits)},
		"wakes": {sumCounts(m.Places(Wakes)), countOf(s.truth.wakes)},
		"calls": {sumCounts(m.Places(Syscalls)), countOf(s.truth.calls)},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %d, want %d", what, pair[0], pair[1])
		}
	}
	places := slices.Concat(m.Places(Waits), m.Places(Stops))
	same(t, "delays", s.truth.delays, func(key spot) (Place, bool) {
		i := slices.IndexFunc(places, func(p Place) bool { return p.Stack == key.stack && p.Reason == key.reason })
		return places[max(i, 0)], i >= 0
	}, func(p Place) measure {
		return measure{p.Delay.Count, int64(p.Delay.Sum.Duration()), int64(p.Delay.Max)}
	})

	l := m.Latency()
	for cause, h := range map[string]*Histogram{"created": &l.Created, "woken": &l.Woken, "stopped": &l.Stopped} {
		want := at(s.truth.latency, cause)
		if got := (measure{h.Count(), int64(h.Sum().Duration()), int64(h.Max())}); got != *want {
			t.Errorf("latency of %s goroutines: %+v, want %+v", cause, got, *want)
		}
	}
	created := uint64(0)
	for _, site := range m.Sites() {
		if site.Created != s.truth.created[site.Origin] || site.Ended != s.truth.ended[site.Origin] {
			t.Errorf("site %v: %d created, %d ended; want %d, %d", site.Origin, site.Created, site.Ended,
				s.truth.created[site.Origin], s.truth.ended[site.Origin])
		}
		created += s.truth.created[site.Origin]
	}
	total := m.Totals()
	if total.AtStart != 8 || total.Created != created || total.Live != uint64(len(s.live)) || total.Repairs != 0 ||
		total.Found != 0 || total.Resumed != s.truth.resumed || total.Done.Uncertain != (Nanos{}) {
		t.Errorf("totals %+v", total)
	}
	if created < 100 || countOf(s.truth.waits) < 500 || len(s.truth.latency) < 3 {
		t.Errorf("the simulator did little: %d created, %d waits", created, countOf(s.truth.waits))
	}
}

// lose drops random runs of events, and replaces each run with a Lost event. It returns the remaining events, and the index of
// each of them in events, which is -1 for Lost.
func lose(rng *rand.Rand, events []event.Event) (left []event.Event, origin []int) {
	lost := int64(0)
	for i := 0; i < len(events); {
		if i > 20 && rng.IntN(150) == 0 {
			n := min(1+rng.IntN(40), len(events)-i)
			lost += int64(n)
			i += n
			continue
		}
		if lost > 0 {
			left = append(left, event.Event{Kind: event.Lost, Time: events[i].Time, Value: lost})
			origin = append(origin, -1)
			lost = 0
		}
		left, origin = append(left, events[i]), append(origin, i)
		i++
	}
	if lost > 0 {
		left = append(left, event.Event{Kind: event.Lost, Time: events[len(events)-1].Time, Value: lost})
		origin = append(origin, -1)
	}
	return left, origin
}

// TestLoss drops random events. The state of each goroutine must be correct after its next event, and certain times and counts
// must not exceed the truth.
func TestLoss(t *testing.T) {
	for _, syscalls := range []bool{false, true} {
		for seed := range uint64(seeds) {
			t.Run(fmt.Sprintf("syscalls=%v/seed=%d", syscalls, seed), func(t *testing.T) {
				s := newSim(seed, syscalls).run(6000)
				events, origin := lose(s.rng, s.events)
				m := New(Options{Kinds: simKinds(syscalls)})
				for i := range events {
					m.Apply(&events[i])
					if i%500 == 0 {
						check(t, m)
					}
					if origin[i] < 0 {
						continue
					}
					g, ok := m.Goroutine(events[i].G)
					want := s.after[origin[i]]
					if ok != (want != "") || g.State != want || g.Uncertain {
						t.Fatalf("event %d, %v of %d: state %q, uncertain %v; want %q", i, events[i].Kind, events[i].G,
							g.State, g.Uncertain, want)
					}
				}
				m.Advance(s.now)
				check(t, m)
				notMore(t, s, m)
				reconciled(t, s, m)
			})
		}
	}
}

// notMore verifies that certain times and counts do not exceed the truth.
func notMore(t *testing.T, s *sim, m *Machine) {
	t.Helper()
	for _, want := range s.live {
		g, ok := m.Goroutine(want.id)
		if !ok {
			continue
		}
		for state, got := range map[event.State]time.Duration{
			event.StateRunning: g.Running, event.StateRunnable: g.Runnable, event.StateWaiting: g.Blocked, event.StateSyscall: g.Syscall,
		} {
			all := want.spent[state]
			if want.state == state {
				all += s.now - want.since
			}
			if int64(got) > all {
				t.Errorf("goroutine %d: %d ns %s is told as certain, all is %d", g.ID, got, state, all)
			}
		}
		if g.Starts > want.starts || g.Blocks > want.blocks {
			t.Errorf("goroutine %d: %d starts, %d waits; in truth %d, %d", g.ID, g.Starts, g.Blocks, want.starts, want.blocks)
		}
	}
	for _, p := range m.Places(Waits) {
		want := at(s.truth.waits, spot{p.Stack, p.Reason})
		if p.Count > want.count || int64(p.Time.Duration()) > want.sum || int64(p.Max) > want.max {
			t.Errorf("waits at %v for %s: %+v, in truth %+v", p.Stack, p.Reason, timeOf(p), *want)
		}
	}
	total := m.Totals()
	if total.Losses == 0 || total.Repairs == 0 || total.Confirmed == 0 || total.Found == 0 || total.Done.Uncertain == (Nanos{}) {
		t.Errorf("the loss did little: %+v", total)
	}
}

// reconciled verifies that Reconcile ends all goroutines that are not alive.
func reconciled(t *testing.T, s *sim, m *Machine) {
	t.Helper()
	m.Apply(&event.Event{Kind: event.Lost, Time: s.now, Value: 1})
	var alive []uint64
	known := 0
	for _, g := range s.live {
		alive = append(alive, g.id)
		if _, ok := m.Goroutine(g.id); ok {
			known++
		}
	}
	before := m.Totals()
	ended, missing := m.Reconcile(slices.Values(alive), s.now+1)
	check(t, m)
	after := m.Totals()
	if after.Live != uint64(known) || ended != int(before.Live)-known || missing != len(alive)-known ||
		after.Ended-before.Ended != uint64(ended) || after.Repairs != before.Repairs {
		t.Errorf("%d ended, %d missing, %d live; %d of %d were known, %d live before", ended, missing, after.Live, known, len(alive), before.Live)
	}
}

// longOnly converts a stream to one that was observed with a MinBlock of least nanoseconds.
func longOnly(events []event.Event, least int64) []event.Event {
	var list []event.Event
	begin := map[uint64]event.Event{}
	for _, e := range events {
		switch e.Kind {
		case event.GoStart, event.GoStop:
		case event.GoBlock:
			begin[e.G] = e
		case event.GoUnblock:
			block, ok := begin[e.G]
			if !ok || e.Time-block.Time < least {
				continue
			}
			block.Value = e.Time - block.Time
			list = append(list, block, e)
		default:
			list = append(list, e)
		}
	}
	return list
}

// TestLongWaitsOnly compares the counts and times of waits if only long waits are observed, with and without loss.
func TestLongWaitsOnly(t *testing.T) {
	for seed := range uint64(seeds) {
		s := newSim(seed, false).run(6000)
		least := int64(1) << (seed%14 + 8)
		m := New(Options{Kinds: simKinds(false), MinBlock: time.Duration(least)})
		waits, wakes := map[spot]*measure{}, map[spot]*measure{}
		last := event.Event{}
		blocked := map[uint64]int64{}
		rng := rand.New(rand.NewPCG(seed, 1))
		for _, e := range longOnly(s.events, least) {
			if rng.IntN(100) == 0 {
				m.Apply(&event.Event{Kind: event.Lost, Time: s.now / 2, Value: 1})
			}
			m.Apply(&e)
			if e.Kind == event.GoBlock {
				at(waits, spot{e.Stack, e.Reason}).add(e.Value)
				last = e
				blocked[e.G] += e.Value
			}
			if e.Kind == event.GoUnblock {
				at(wakes, spot{e.Stack, last.Reason}).add(last.Value)
			}
			if g, ok := m.Goroutine(e.G); ok && (g.State != "" || int64(g.Blocked) != blocked[e.G]) {
				t.Fatalf("after %+v: state %q, blocked %d of %d", e, g.State, g.Blocked, blocked[e.G])
			}
		}
		check(t, m)
		same(t, "waits", waits, placesOf(m, Waits), timeOf)
		same(t, "wakes", wakes, placesOf(m, Wakes), timeOf)
		total := m.Totals()
		latency := m.Latency()
		if total.Repairs != 0 || latency.All().Count() != 0 || sumCounts(m.Places(Waits)) != countOf(waits) || len(waits) == 0 {
			t.Errorf("seed %d: %d repairs, %d latencies, %d waits, want %d", seed, total.Repairs, latency.All().Count(),
				sumCounts(m.Places(Waits)), countOf(waits))
		}
	}
}

// FuzzApply verifies the invariants after arbitrary events in arbitrary order.
func FuzzApply(f *testing.F) {
	f.Add([]byte{1, 1, 0, 10, 2, 2, 1, 10, 3, 2, 0, 1}, false, false)
	f.Add([]byte{5, 1, 200, 3, 22, 0, 0, 1, 6, 1, 0, 9, 7, 1, 0, 9}, true, false)
	f.Add([]byte{2, 1, 4, 1, 5, 1, 255, 255, 6, 1, 0, 3, 7, 1, 0, 0}, false, true)
	f.Add([]byte{2, 3, 0, 1, 23, 0, 0, 1, 3, 3, 0, 3, 8, 3, 0, 0, 3, 3, 0, 1}, true, true)
	stacks := []*event.Stack{nil, {Frames: []event.Frame{{Func: "a"}}}, {Frames: []event.Frame{{Func: "b"}}}, {}, {}}
	origins := []*event.Origin{nil, {System: true}, {Start: event.Frame{Func: "a"}}, {Start: event.Frame{Func: "a"}}, {Start: event.Frame{Func: "b"}}}
	reasons := []string{"", "chan receive", "coroutine", event.StopPreempted, "select"}
	states := []event.State{"", event.StateWaiting, event.StateRunning, event.StateSyscall, event.StateRunnable, event.StateLeaked,
		event.StateCopystack, "?"}
	times := []int64{0, 1, 1000, -5, 1 << 62, -1 << 63, 1<<63 - 1}
	f.Fuzz(func(t *testing.T, data []byte, syscalls, long bool) {
		opt := Options{Kinds: simKinds(syscalls), MaxGoroutines: 10, MaxSites: 3, MaxPlaces: 6, History: 1}
		if long {
			opt.MinBlock = 1
		}
		m := New(opt)
		now := int64(0)
		for len(data) >= 4 {
			kind, g, pick, dt := data[0], data[1], data[2], data[3]
			data = data[4:]
			now += int64(dt)
			e := event.Event{Kind: event.Kind(kind % 32), G: uint64(g % 16), Time: now, By: uint64(pick % 4), Parent: uint64(pick % 5),
				Reason: reasons[int(pick)%len(reasons)], Stack: stacks[int(pick/2)%len(stacks)], Origin: origins[int(pick/3)%len(origins)],
				State: states[int(pick/4)%len(states)]}
			if pick > 128 {
				e.Value = int64(dt) << (pick % 64)
			}
			if g > 250 {
				e.Time = times[int(dt)%len(times)]
			}
			if kind == 255 {
				alive := func(yield func(uint64) bool) { _ = yield(1) && yield(uint64(pick)) }
				m.Reconcile(alive, now)
				continue
			}
			m.Apply(&e)
		}
		check(t, m)
		m.History(0, 0)
		m.Goroutines(Filter{}, ByOldest, 3)
	})
}
