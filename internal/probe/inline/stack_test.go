package inline

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/probe/inline/trampoline"
)

// TestDeepStacks: no more addresses than asked for are recorded, and whether there are more is told.
func TestDeepStacks(t *testing.T) {
	for _, depth := range []int{1, 5, csrc.MaxStack} {
		w := newWorld(t, func(o *Options) { o.Config.StackDepth = uint32(depth) })
		th := w.thread(7, 1234, 1)
		th.r.In[trampoline.SP] -= 16384
		var pcs []uint64
		for i := range csrc.MaxStack + 10 {
			pcs = append(pcs, 0x401000+uint64(i))
		}
		th.setCaller(pcs[0])
		th.frames(pcs[1:]...)
		th.hit(w.probe(gopark))
		var flags uint8
		for _, r := range w.drain() {
			if r.Kind == csrc.KindStack {
				flags = r.Flags
				got := make([]uint64, r.Value)
				for i := range got {
					got[i] = *word(addressOf(r.raw[int(recordSize)+8*i:]))
				}
				if !slices.Equal(got, pcs[:depth]) {
					t.Errorf("depth %d: %d addresses, %#x", depth, len(got), got)
				}
			}
		}
		if flags == 0 {
			t.Errorf("depth %d: it is not told that the stack goes on", depth)
		}
	}
}

// TestBadFramePointers gives probes frame pointers that lead nowhere. Beside the stack is memory whose reading ends the
// process.
func TestBadFramePointers(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Config.StackDepth = uint32(csrc.MaxStack)
		o.Config.PreemptStart, o.Config.PreemptSize = 0x700000, 0x100
	})
	th, other := w.thread(7, 1234, 1), w.thread(8, 1235, 2)
	park, yield := w.probe(gopark), w.probe(csrc.ProbesLoupeProbePROBE_goyieldM)
	hit := func(fp uint64) {
		th.r.In[fpRegister] = fp
		th.args(other.g).hit(park)
		put(other.g+atSchedBP, fp)
		th.hit(yield)
		put(th.g+atStack, other.lo)
		put(th.g+atStack+8, other.hi)
		th.hit(park)
		put(th.g+atStack, th.lo)
		put(th.g+atStack+8, th.hi)
	}
	hits := 0
	for _, base := range []uint64{0, 1, 1 << 16, th.lo, th.hi, other.lo, other.hi, 1 << 47, 1 << 63, ^uint64(0)} {
		for d := int64(-40); d <= 40; d++ {
			hit(base + uint64(d))
			hits++
		}
	}
	for range 20000 { // stacks of words that point to and fro, round in circles, and out of the stack
		at := other.lo + rand.Uint64N(stackSizeMade/8)*8
		switch rand.IntN(4) {
		case 0:
			put(at, other.lo+rand.Uint64N(stackSizeMade))
		case 1:
			put(at, other.hi-rand.Uint64N(64))
		case 2:
			put(at, 0x700000+rand.Uint64N(0x100))
		case 3:
			put(at, rand.Uint64())
		}
		hit(other.lo + rand.Uint64N(stackSizeMade/8)*8)
		hits++
		if hits%1000 == 0 {
			w.drain()
		}
	}
	for _, bounds := range [][2]uint64{{0, 0}, {8, 0}, {th.hi, th.lo}, {th.lo, th.lo + 8}, {th.lo, th.lo + 16}, {th.lo, th.lo + 24}} {
		put(other.g+atStack, bounds[0])
		put(other.g+atStack+8, bounds[1])
		for d := range uint64(40) {
			put(other.g+atSchedBP, bounds[0]+d-8)
			th.hit(yield)
			hits++
		}
	}
	w.drain()
	if c := w.region.Counts(); c[event.GoBlock].Produced+c[event.GoStop].Produced < uint64(hits) || c[event.GoBlock].Unreadable > 0 {
		t.Errorf("counted %+v and %+v of %d hits", c[event.GoBlock], c[event.GoStop], hits)
	}
}

// TestStopped: the stack of a goroutine that stops begins with the function that it stops in, whichever way it stops.
func TestStopped(t *testing.T) {
	const async, async2, pc, caller, outer, hidden = 0x700050, 0x710020, 0x400100, 0x401000, 0x402000, 0x403000
	w := newWorld(t, func(o *Options) {
		o.Config.PreemptStart, o.Config.PreemptSize = 0x700000, 0x100
		o.Config.Preempt2Start, o.Config.Preempt2Size = 0x710000, 0x100
	})
	th, other := w.thread(7, 1234, 1), w.thread(8, 1235, 2)
	th.setG(th.g0)
	impl, yield, park := w.probe(csrc.ProbesLoupeProbePROBE_goschedImpl), w.probe(csrc.ProbesLoupeProbePROBE_goyieldM),
		w.probe(csrc.ProbesLoupeProbePROBE_preemptPark)
	for _, test := range []struct {
		name      string
		body      uintptr
		preempted uint64
		pc        uint64
		frames    []uint64 // return addresses from the frame pointer on
		want      []uint64
	}{
		{"runtime.Gosched", impl, 0, pc, []uint64{caller, outer}, []uint64{pc, caller, outer}},
		{"runtime.goyield", yield, 0, pc, []uint64{caller}, []uint64{pc, caller}},
		{"check of a prologue", impl, 1, pc, []uint64{hidden, outer}, []uint64{pc, caller, hidden, outer}},
		{"check of a prologue, for the collector", park, 0, pc, []uint64{hidden}, []uint64{pc, caller, hidden}},
		{"interrupted", impl, 1, async2, []uint64{async, pc, outer}, []uint64{async2, async, pc, outer}},
		{"interrupted, for the collector", park, 0, async2, []uint64{async, pc, caller}, []uint64{async2, async, pc, caller}},
	} {
		inner := other.frames(test.frames...)
		put(other.lo, caller) // where the check of a prologue leaves the return address: on the stack, or in the link register
		put(*word(inner)+16, hidden)
		put(other.g+atSchedPC, test.pc)
		put(other.g+atSchedSP, other.lo)
		put(other.g+atSchedLR, caller)
		put(other.g+atSchedBP, inner)
		th.args(other.g, test.preempted).hit(test.body)
		events, stacks := w.events()
		if len(events) != 1 {
			t.Errorf("%s: %d events", test.name, len(events))
			continue
		}
		if got := stacks[events[0].Stack]; !slices.Equal(got, test.want) {
			t.Errorf("%s: the stack is %#x, want %#x", test.name, got, test.want)
		}
	}
}

// TestHiddenCaller: the word on top of a goroutine's stack where the runtime interrupted it is told.
func TestHiddenCaller(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Config.PreemptStart, o.Config.PreemptSize = 0x700000, 0x100
		o.Config.Preempt2Start, o.Config.Preempt2Size = 0x710000, 0x100
	})
	th, other := w.thread(7, 1234, 1), w.thread(8, 1235, 2)
	inner := other.frames(0x700050, 0x401000)
	outer := *word(inner)
	put(outer+16, 0x402000) // what the interrupted function found on top of its stack
	put(other.g+atSchedPC, 0x710020)
	put(other.g+atSchedBP, inner)
	th.setG(th.g0)
	th.args(other.g, 1).hit(w.probe(csrc.ProbesLoupeProbePROBE_goschedImpl))
	stacks := 0
	for _, r := range w.drain() {
		if r.Kind != csrc.KindStack {
			continue
		}
		if stacks++; r.Arg != 0x402000 {
			t.Errorf("hidden caller %#x, want 0x402000", r.Arg)
		}
	}
	if stacks != 1 {
		t.Errorf("%d stacks", stacks)
	}
	// The same where the frame is the last on its stack: there is no word above it.
	put(other.hi-16, other.hi-16)
	put(other.hi-8, 0x700050)
	put(other.g+atSchedBP, other.hi-16)
	th.hit(w.probe(csrc.ProbesLoupeProbePROBE_goschedImpl))
	if e := w.drain(); len(e) != 2 || e[0].Arg != 0 {
		t.Errorf("%d records, hidden caller %#x", len(e), e[0].Arg)
	}
}

// TestManyStacks sends more stacks than the table has room for, twice: each is sent before the first event that refers to
// it, and those of one place in the table do not push each other out all the time.
func TestManyStacks(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Geometry.Ring = 1 << 24 })
	th := w.thread(7, 1234, 1)
	body := w.probe(gopark)
	known := map[uint64]bool{}
	sent := 0
	const stacks, rounds = 1 << 14, 4
	for range rounds {
		for i := range uint64(stacks) {
			th.frames(0x401000+i*16, 0x402000)
			th.hit(body)
		}
		for _, r := range w.drain() {
			if r.Kind == csrc.KindStack {
				known[r.Stack] = true
				sent++
			} else if !known[r.Stack] {
				t.Fatal("an event refers to a stack that was not sent")
			}
		}
	}
	if len(known) != stacks || sent > stacks*5/4 || w.region.Lost() != 0 {
		t.Errorf("%d stacks, sent %d times, want %d; %d lost", len(known), sent, stacks, w.region.Lost())
	}
}
