package inline

import (
	"slices"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/sampling"
)

// hitAs hits a probe as a goroutine.
func (th *thread) hitAs(goid uint64, body uintptr) {
	put(th.g+atGoid, goid)
	th.hit(body)
}

// goroutines returns those of the events that are there.
func (w *world) goroutines() []uint64 {
	var ids []uint64
	events, _ := w.events()
	for _, e := range events {
		ids = append(ids, e.G)
	}
	return ids
}

func TestFilters(t *testing.T) {
	ids := []uint64{5, 7, 100, csrc.SmallIDs - 1, csrc.SmallIDs, csrc.SmallIDs + 1, csrc.SmallIDs + 2, 1 << 20, 1<<20 + 4096, 1<<20 + 8192, 1 << 40}
	listed := map[uint64]bool{7: true, csrc.SmallIDs - 1: true, csrc.SmallIDs + 1: true, 1 << 20: true, 1 << 40: true}
	for _, c := range []struct {
		name   string
		change func(*csrc.Config)
		sample int // one in so many
		want   func(id uint64) bool
	}{
		{"none", func(*csrc.Config) {}, 1, func(uint64) bool { return true }},
		{"only listed", func(c *csrc.Config) { c.OnlyListed = 1 }, 1, func(id uint64) bool { return listed[id] }},
		{"skip listed", func(c *csrc.Config) { c.SkipListed = 1 }, 1, func(id uint64) bool { return !listed[id] }},
		{"sample", func(*csrc.Config) {}, 3, sampling.OneIn(3).Selects},
		{"sample skip", func(c *csrc.Config) { c.SkipListed = 1 }, 3, func(id uint64) bool { return sampling.OneIn(3).Selects(id) && !listed[id] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { c.change(&o.Config) })
			w.region.Sample(sampling.OneIn(c.sample))
			var list []uint64
			for id := range listed {
				list = append(list, id)
			}
			if err := w.region.List(list); err != nil {
				t.Fatal(err)
			}
			th, body := w.thread(7, 1234, 1), w.probe(gopark)
			want := 0
			for _, id := range ids {
				th.hitAs(id, body)
				if c.want(id) {
					want++
				}
			}
			got := w.goroutines()
			for _, id := range got {
				if !c.want(id) {
					t.Errorf("goroutine %d was reported", id)
				}
			}
			if len(got) != want || w.region.Counts()[event.GoBlock].Produced != uint64(want) {
				t.Errorf("goroutines %v, want %d of them", got, want)
			}
		})
	}
}

// TestTotals: all goroutines are counted but those of the runtime, whichever are sampled, and which are sampled changes.
func TestTotals(t *testing.T) {
	const system, other, n = 0x500000, 0x600000, 1000
	w := newWorld(t, func(o *Options) { o.Config.SkipListed, o.Starts = 1, []uint64{system} })
	th, made := w.thread(1, 1234, 1), w.thread(0, 0, 2)
	th.setG(th.g0)
	create, exit := w.probe(csrc.ProbesLoupeProbePROBE_newproc1Casgstatus), w.probe(csrc.ProbesLoupeProbePROBE_goexit0)
	hits := uint64(0)
	for round, oneIn := range []int{100, 1, 7} {
		rule := sampling.OneIn(oneIn)
		w.region.Sample(rule)
		for id := uint64(2); id < 2+n; id++ {
			for _, start := range []uint64{system, other} {
				put(made.g+atGoid, id)
				put(made.g+atStartpc, start)
				th.args(made.g, stDead, stRunnable).hit(create)
				th.hit(exit)
				hits += 2
			}
		}
		want := csrc.Totals{Hits: hits, Created: uint64(n * (round + 1)), Ended: uint64(n * (round + 1))}
		if got := w.region.Totals(); got != want {
			t.Errorf("one in %d: %+v, want %+v", oneIn, got, want)
		}
		got := map[uint64]int{}
		for _, id := range w.goroutines() {
			got[id]++
		}
		for id := uint64(2); id < 2+n; id++ {
			if want := map[bool]int{true: 2}[rule.Selects(id)]; got[id] != want {
				t.Errorf("one in %d: %d events of goroutine %d, want %d", oneIn, got[id], id, want)
			}
		}
	}
}

// TestSystemGoroutines: goroutines that start with a function of the runtime itself are left out from then on, until they
// end.
func TestSystemGoroutines(t *testing.T) {
	const system, other = 0x500000, 0x600000
	w := newWorld(t, func(o *Options) {
		o.Config.SkipListed = 1
		o.Starts = []uint64{system, system + 0x100, 0}
		for i := range uint64(50) {
			o.Starts = append(o.Starts, 0x700000+i)
		}
	})
	th, made := w.thread(1, 1234, 1), w.thread(0, 0, 2)
	th.setG(th.g0)
	create, exit, ready := w.probe(csrc.ProbesLoupeProbePROBE_newproc1Casgstatus), w.probe(csrc.ProbesLoupeProbePROBE_goexit0), w.probe(csrc.ProbesLoupeProbePROBE_ready)
	for _, id := range []uint64{20, 5000, 1 << 30} {
		put(made.g+atGoid, id)
		put(made.g+atStartpc, system+0x100)
		th.args(made.g, stDead, stRunnable).hit(create)
		th.hit(ready)
		th.hit(exit)
		put(made.g+atGoid, id+1)
		put(made.g+atStartpc, other)
		th.hit(create)
		th.hit(ready)
		th.hit(exit)
		if got := w.goroutines(); len(got) != 3 || got[0] != id+1 {
			t.Errorf("goroutines %v, want three times %d", got, id+1)
		}
	}
	for _, entry := range w.region.listed {
		if entry != 0 {
			t.Errorf("goroutine %d is still in the filter", entry)
		}
	}
	w.checkCounters(t)
}

// checkCounters fails the test if the numbers of listed goroutines are not those of the filter.
func (w *world) checkCounters(t *testing.T) {
	t.Helper()
	var want csrc.Filter
	for _, entry := range w.region.listed {
		if entry != 0 {
			want.Add(entry, 1)
		}
	}
	if w.region.shared.Filter != want {
		t.Error("the filter counts other goroutines than it lists")
	}
}

// TestDisown: the context that a goroutine has inherited is removed, that of a request that it serves meanwhile is not.
func TestDisown(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Geometry.Contexts = csrc.TableWindow })
	const inherited, serving, other = 5, 5000, 1 << 30
	key := func(g uint64) uint64 { return g<<3 | uint64(csrc.ContextScope) }
	for i, g := range []uint64{inherited, serving, other} {
		w.region.scopes[i].Key, w.region.scopes[i].Span = key(g), g
	}
	w.region.scopes[1].About = 4
	left := func() (list []uint64) {
		for i := range w.region.scopes {
			if c := &w.region.scopes[i]; c.Key != 0 {
				list = append(list, c.Key>>3)
			}
		}
		return list
	}
	w.region.Disown(inherited)
	w.region.Disown(serving)
	if got := left(); !slices.Equal(got, []uint64{serving, other}) {
		t.Errorf("contexts of %v are left", got)
	}
	w.region.Unlist(serving)
	if got := left(); !slices.Equal(got, []uint64{other}) {
		t.Errorf("contexts of %v are left", got)
	}
}

// TestFilterFull: goroutines of the runtime that the filter has no room for are counted, as the reader's own are refused.
func TestFilterFull(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Config.SkipListed, o.Starts, o.Geometry.Listed = 1, []uint64{0x500000}, csrc.TableWindow
	})
	th, made := w.thread(1, 1234, 1), w.thread(0, 0, 2)
	put(made.g+atStartpc, 0x500000)
	create := w.probe(csrc.ProbesLoupeProbePROBE_newproc1Casgstatus)
	for i := range uint64(csrc.TableWindow + 3) {
		put(made.g+atGoid, 10000+i)
		th.args(made.g, stDead, stRunnable).hit(create)
	}
	if n := w.region.Unlisted(); n != 3 {
		t.Errorf("no room for %d goroutines, want 3", n)
	}
	if err := w.region.List([]uint64{10000, 50000}); err == nil {
		t.Error("a full filter took another goroutine")
	}
	w.checkCounters(t)
	w.region.Unlist(10000)
	w.region.Unlist(10000)
	w.checkCounters(t)
}

// TestMinBlock: only waits that were long are told, when they are over, with the time that they began.
func TestMinBlock(t *testing.T) {
	const long = 2 * time.Millisecond
	const slack = uint64(100 * time.Microsecond) // of the clock on a busy machine, see TestClockBusy
	w := newWorld(t, func(o *Options) {
		o.Config.MinBlock = uint64(long)
		o.Waits = 32
	})
	th, sched := w.thread(7, 1234, 1), w.thread(1, 77, 2)
	sched.setG(sched.g0)
	park, ready := w.probe(gopark), w.probe(csrc.ProbesLoupeProbePROBE_ready)
	th.args(0, 0xc000123, 14, 3)
	th.setCaller(0x400123)

	sched.args(th.g)
	for short := false; !short; {
		begin := time.Now()
		th.hit(park)
		sched.hit(ready)
		short = time.Since(begin) < long // the machine may have been busy with something else
		if r := w.goroutines(); short && len(r) != 0 {
			t.Fatalf("a short wait of %v was told", r)
		}
	}
	sched.hit(ready) // of no wait
	w.region.NewEpoch()
	before := uint64(monotonic())
	th.hit(park)
	after := uint64(monotonic())
	time.Sleep(2 * long)
	woken := uint64(monotonic())
	sched.hit(ready)
	end := uint64(monotonic())
	events, stacks := w.events()
	if len(events) != 2 {
		t.Fatalf("%d events, want a wait and its end", len(events))
	}
	block, unblock := events[0], events[1]
	if block.Kind != uint8(event.GoBlock) || block.G != 7 || block.Tid != 1234 || block.Reason != 14 || block.TraceReason != 3 || block.Arg != 0xc000123 ||
		len(stacks[block.Stack]) == 0 {
		t.Errorf("%+v", block.Record)
	}
	ended := block.Time + block.Value
	if block.Time+slack < before || block.Time > after+slack || ended+slack < woken || ended > end+slack {
		t.Errorf("waited from %d for %d, want from %d to %d", block.Time, block.Value, after, end)
	}
	if unblock.Kind != uint8(event.GoUnblock) || unblock.G != 7 || unblock.Arg != 1 || unblock.Tid != 77 || unblock.Time < block.Time+block.Value {
		t.Errorf("%+v", unblock.Record)
	}
}

// TestWaitsFull: waits for which there is no room are counted as lost, and room is used again.
func TestWaitsFull(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.MinBlock, o.Waits = 1, csrc.TableWindow })
	th, sched := w.thread(7, 1234, 1), w.thread(1, 77, 2)
	sched.setG(sched.g0)
	park, ready := w.probe(gopark), w.probe(csrc.ProbesLoupeProbePROBE_ready)
	for round := range uint64(3) {
		const more = 4
		for i := range uint64(csrc.TableWindow + more) {
			th.hitAs(100*round+i+1, park)
		}
		if lost := w.region.Lost(); lost != uint32(more*(round+1)) {
			t.Errorf("round %d: %d lost", round, lost)
		}
		time.Sleep(time.Microsecond) // some ticks of the slowest counter
		for i := range uint64(csrc.TableWindow + more) {
			put(th.g+atGoid, 100*round+i+1)
			sched.args(th.g).hit(ready)
		}
		if n := len(w.goroutines()); n != 2*csrc.TableWindow {
			t.Errorf("round %d: %d events, want %d", round, n, 2*csrc.TableWindow)
		}
	}
	if c := w.region.Counts()[event.GoBlock]; c.Unreadable != 12 || c.Produced != 12+3*uint64(csrc.TableWindow) {
		t.Errorf("counted %+v", c)
	}
}

// TestMinBlockResampled: a wait that began while its goroutine was sampled is forgotten if it ends while the goroutine is not, by a wake-up
// or because the goroutine ends.
func TestMinBlockResampled(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.MinBlock, o.Waits = 1, csrc.TableWindow })
	th, sched := w.thread(7, 1234, 1), w.thread(1, 77, 2)
	sched.setG(sched.g0)
	park, ready, exit := w.probe(gopark), w.probe(csrc.ProbesLoupeProbePROBE_ready), w.probe(csrc.ProbesLoupeProbePROBE_goexit0)
	rule := sampling.OneIn(1000)
	id := uint64(7)
	for range 3 * csrc.TableWindow {
		for _, ends := range []uintptr{ready, exit} {
			for id++; rule.Selects(id); id++ {
			}
			th.hitAs(id, park)
			w.region.Sample(rule)
			sched.args(th.g).hit(ends)
			w.region.Sample(0)
			sched.hit(ready)
		}
	}
	if ids := w.goroutines(); len(ids) > 0 || w.region.Lost() != 0 {
		t.Errorf("events of %d goroutines, %d lost", len(ids), w.region.Lost())
	}
}
