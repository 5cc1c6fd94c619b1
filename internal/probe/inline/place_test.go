package inline

import (
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/probe/inline/trampoline"
)

const gopark = csrc.ProbesLoupeProbePROBE_gopark

// TestStackArguments hits probes of releases that pass arguments on the stack, where these may be anywhere in a word, at a
// place to which a call leads.
func TestStackArguments(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.RegAbi = 0 })
	th, other := w.thread(7, 1234, 1), w.thread(8, 1235, 2)
	th.setG(th.g0)
	sp := th.r.In[trampoline.SP]
	th.r.In[trampoline.SP] = sp - 8 // what a call has pushed
	put(sp+8, other.g)
	put(sp+16, uint64(stWaiting)|uint64(stRunnable)<<32)
	th.hit(w.body(Place{Probe: csrc.ProbesLoupeProbePROBE_casgstatus, G: gRegister, SPAdjust: 8}))
	if out := th.r.Out[trampoline.SP]; out != sp-8 {
		t.Errorf("the stack pointer moved by %d", int64(out-(sp-8)))
	}
	th.r.In[trampoline.SP] = sp
	th.setG(th.g)
	put(sp+8+16, 14|3<<8|0xee<<16)
	put(sp+8+8, 0xc000123)
	th.hit(w.probe(gopark))
	events, _ := w.events()
	if len(events) != 2 || events[0].Kind != uint8(event.GoUnblock) || events[0].G != 8 || events[0].Arg != 7 {
		t.Fatalf("%+v", events)
	}
	if e := events[1]; e.Reason != 14 || e.TraceReason != 3 || e.Arg != 0xc000123 {
		t.Errorf("%+v", e.Record)
	}
}

// TestSPAdjust moves the stack pointer both ways: the stack begins with the word that a probe's settings mean.
func TestSPAdjust(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Sets[0].Sites[gopark].SpMoved = 16 })
	th := w.thread(7, 1234, 1)
	th.frames(0x401000)
	sp := th.r.In[trampoline.SP]
	for i := range 10 {
		put(sp+uint64(8*i), 0x500000+uint64(i))
	}
	th.r.In[trampoline.SP] = sp + 24
	for _, adjust := range []int32{0, 8, -8} {
		th.hit(w.body(Place{Probe: gopark, G: gRegister, SPAdjust: adjust}))
		if out := th.r.Out[trampoline.SP]; out != sp+24 {
			t.Errorf("adjusted by %d: the stack pointer moved by %d", adjust, int64(out-(sp+24)))
		}
		events, stacks := w.events()
		// arm64 finds the caller at the stack pointer itself where it has moved.
		want := 0x500000 + uint64(24+int64(adjust)+callerAfterMove)/8
		if len(events) != 1 || !slices.Equal(stacks[events[0].Stack], []uint64{want, 0x401000}) {
			t.Errorf("adjusted by %d: %d events, stacks %#x, want %#x", adjust, len(events), stacks, want)
		}
	}
}

// TestNoGoroutine hits a probe where there is no g, or no M: nothing must happen.
func TestNoGoroutine(t *testing.T) {
	w := newWorld(t, nil)
	th := w.thread(7, 1234, 1)
	body := w.probe(gopark)
	th.setG(0)
	th.hit(body)
	put(th.g+atGoM, 0)
	th.setG(th.g)
	th.hit(body)
	if r := w.drain(); len(r) != 0 || w.region.Lost() != 0 {
		t.Errorf("%d records, %d lost", len(r), w.region.Lost())
	}
}

// TestForked hits a probe in a child, which finds the program's own memory wiped, while probes are enabled.
func TestForked(t *testing.T) {
	w := newWorld(t, nil)
	th := w.thread(7, 1234, 1)
	body := w.probe(gopark)
	clear(w.private[:64])
	th.hit(body)
	if r := w.drain(); len(r) != 0 || w.region.Lost() != 0 || w.region.lanes[1].Turns != 0 {
		t.Errorf("%d records, %d lost", len(r), w.region.Lost())
	}
}

// TestNoP hits probes on a thread that has no P: it has some lane.
func TestNoP(t *testing.T) {
	w := newWorld(t, nil)
	body := w.probe(gopark)
	for range 3 {
		th := w.thread(7, 1234, 1)
		put(th.m+atP, 0)
		th.hit(body)
	}
	if e, _ := w.events(); len(e) != 3 {
		t.Errorf("%d events, want 3", len(e))
	}
}

// TestThreadUnknown: a thread whose number is not there yet loses no event.
func TestThreadUnknown(t *testing.T) {
	for _, change := range []func(*Options){nil, func(o *Options) { o.Config.M_procid = csrc.NoField }} {
		w := newWorld(t, change)
		w.thread(7, 0, 1).hit(w.probe(gopark))
		if e, _ := w.events(); len(e) != 1 || e[0].Tid != 0 {
			t.Errorf("%+v", e)
		}
	}
}

// TestBusyLanes hits probes while lanes are in use, as from a signal handler in the middle of a hit.
func TestBusyLanes(t *testing.T) {
	w := newWorld(t, nil)
	th := w.thread(7, 1234, 2)
	body := w.probe(gopark)
	order := []int{2, 3, 0, 1}
	for i, lane := range order {
		before := w.region.lanes[lane].Turns
		th.hit(body)
		if w.region.lanes[lane].Turns != before+1 {
			t.Errorf("with %d lanes in use, lane %d was not taken", i, lane)
		}
		w.region.lanes[lane].Busy = 1
	}
	th.hit(body)
	th.hit(w.probe(csrc.ProbesLoupeProbePROBE_exitsyscall))
	missed := w.region.Missed()
	if missed[gopark] != 1 || missed[csrc.ProbesLoupeProbePROBE_exitsyscall] != 1 || w.region.Lost() != 2 {
		t.Errorf("missed %v, lost %d", missed, w.region.Lost())
	}
	for _, l := range w.region.lanes {
		l.Busy = 0
	}
	before := w.drain()
	th.hit(body)
	after := w.drain()
	if len(before) != 5 || before[4].Lost != 0 || len(after) != 1 || after[0].Lost != 2 {
		t.Errorf("%d records, then %d, want 5 (one of a stack) and one that knows of 2 that were lost", len(before), len(after))
	}
}

// TestBodyRefused asks for bodies that cannot be.
func TestBodyRefused(t *testing.T) {
	clock, err := NewClock()
	if err != nil {
		t.Fatal(err)
	}
	g := GeometryFor(2, 1<<20, 0)
	for _, c := range []struct {
		name, arch string
		config     csrc.Config
		program    uint64
		place      Place
		want       string
	}{
		{"far", "amd64", madeUpConfig(), 1 << 40, Place{G: r14, Addr: 1 << 20}, "too far"},
		{"scratch register", "amd64", madeUpConfig(), 1 << 20, Place{G: r12, Addr: 1 << 22}, "register 12"},
		{"nowhere", "amd64", madeUpConfig(), 1 << 20, Place{G: csrc.NoRegister, Addr: 1 << 22}, "is unknown"},
		{"far", "arm64", madeUpConfig(), 1 << 40, Place{G: x28, Addr: 1 << 20}, "too far"},
		{"other register", "arm64", madeUpConfig(), 1 << 20, Place{G: 27, Addr: 1 << 22}, "register 27"},
		{"field", "arm64", csrc.Config{G_m: 1 << 20}, 1 << 20, Place{G: x28, Addr: 1 << 22}, "out of reach"},
		{"probe", "arm64", madeUpConfig(), 1 << 20, Place{Probe: 200, G: x28}, "no probe 200"},
	} {
		t.Run(c.arch+" "+c.name, func(t *testing.T) {
			p, err := NewProgram(Options{Arch: c.arch, Config: c.config, Sets: madeUpSets(), Geometry: g, Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Body(c.program, c.place); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := NewProgram(Options{Arch: "riscv64", Sets: madeUpSets(), Geometry: g, Clock: clock}); err == nil {
		t.Error("a program for a machine that has no probes")
	}
	if _, err := NewProgram(Options{Arch: "amd64", Sets: madeUpSets(), Geometry: Geometry{Lanes: 3, Ring: 1 << 16, Listed: 16}, Clock: clock}); err == nil {
		t.Error("three lanes")
	}
}

// TestTwoSets hits probes of two sets, whose code and settings are in different places: each has its own settings, and both
// write to the same lanes.
func TestTwoSets(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Sets = append(o.Sets, madeUpSet("the same again", &csrc.Runtime, len(csrc.Runtime.Probes)))
		o.Sets[1].Sites[gopark].SpMoved = 16
	})
	th := w.thread(7, 1234, 1)
	sp := th.r.In[trampoline.SP]
	put(sp, 0x500008)
	put(sp+16, 0x500016)
	th.setCaller(0x500000) // at the stack pointer, or in a register
	th.r.In[fpRegister] = 0
	first, second := w.body(Place{Set: 0, Probe: gopark, G: gRegister}), w.body(Place{Set: 1, Probe: gopark, G: gRegister})
	for _, body := range []uintptr{first, second} {
		th.hit(body)
	}
	events, stacks := w.events()
	if len(events) != 2 || len(stacks) != 2 {
		t.Fatalf("%d events, %d stacks, want 2 of each", len(events), len(stacks))
	}
	if a, b := stacks[events[0].Stack], stacks[events[1].Stack]; slices.Equal(a, b) {
		t.Errorf("both sets found the stack %#x, but read it at different places", a)
	}
	for i := range w.region.lanes {
		w.region.lanes[i].Busy = 1
	}
	th.hit(second)
	if missed := w.region.Missed(); missed[gopark] != 0 || missed[len(csrc.Runtime.Probes)+int(gopark)] != 1 {
		t.Errorf("missed %v", missed[:2*len(csrc.Runtime.Probes)])
	}
	if _, err := w.program.Body(w.code, Place{Set: 2}); err == nil {
		t.Error("a body for a set that is not there")
	}
}
