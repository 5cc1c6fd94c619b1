package inline

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/probe/inline/trampoline"
)

// TestHitLeavesNoTrace hits every probe with the same registers: they must be unchanged afterwards, and the stack unwritten.
func TestHitLeavesNoTrace(t *testing.T) {
	w := newWorld(t, nil)
	th := w.thread(7, 1234, 2)
	other := w.thread(8, 1235, 3)
	coro := w.object(64)
	put(coro+atCoroGp, other.g)
	th.frames(0x401000, 0x402000)
	sp := th.r.In[trampoline.SP]
	for probe := range csrc.Probe(len(csrc.Runtime.Probes)) {
		body := w.probe(probe)
		for range 20 {
			for r := range th.r.In {
				if r != trampoline.SP && r != gRegister && r != fpRegister {
					th.r.In[r] = rand.Uint64()
				}
			}
			th.args(other.g, other.g, other.p)
			if probe == csrc.ProbesLoupeProbePROBE_newcoro {
				th.args(coro)
			}
			for a := th.lo; a < sp+trampoline.Room/4; a += 8 {
				put(a, 0x5a5a5a5a00000000|a)
			}
			th.hit(body)
			for r := range th.r.In {
				if r < registers && !scratch[r] && th.r.In[r] != th.r.Out[r] {
					t.Fatalf("probe %d: register %d was %#x, is %#x", probe, r, th.r.In[r], th.r.Out[r])
				}
			}
			if out := th.r.Out[trampoline.SP]; out != sp {
				t.Fatalf("probe %d: the stack pointer moved by %d", probe, int64(out-sp))
			}
			for a := th.lo; a < sp+trampoline.Room/4; a += 8 {
				if *word(a) != 0x5a5a5a5a00000000|a {
					t.Fatalf("probe %d: wrote at SP%+d", probe, int64(a-sp))
				}
			}
		}
	}
	for i, l := range w.region.lanes {
		if l.Busy != 0 {
			t.Errorf("lane %d was not given back", i)
		}
	}
	if w.region.lanes[2].Turns == 0 || w.region.lanes[2].Turns != uint64(20*len(csrc.Runtime.Probes)) {
		t.Errorf("the lane of the P was given back %d times, want %d", w.region.lanes[2].Turns, 20*len(csrc.Runtime.Probes))
	}
}

// TestGopark looks at all of a record.
func TestGopark(t *testing.T) {
	w := newWorld(t, nil)
	th := w.thread(7, 1234, 1)
	th.setCaller(0x400123)
	th.frames(0x401000, 0x402000, 0x403000)
	body := w.probe(csrc.ProbesLoupeProbePROBE_gopark)
	th.args(0, 0xc000123, 14, 3)
	from := uint64(monotonic())
	for range 3 {
		th.hit(body)
	}
	to := uint64(monotonic())
	events, stacks := w.events()
	if len(events) != 3 || len(stacks) != 1 {
		t.Fatalf("%d events, %d stacks", len(events), len(stacks))
	}
	last := from
	for _, e := range events {
		if e.Time < last || e.Time > to {
			t.Errorf("time %d, not between %d and %d", e.Time, last, to)
		}
		last = e.Time
		want := csrc.Record{Time: e.Time, Kind: uint8(event.GoBlock), G: 7, Tid: 1234, Arg: 0xc000123, Reason: 14, TraceReason: 3, Stack: e.Stack, Words: 7}
		if e.Record != want {
			t.Errorf("got  %+v\nwant %+v", e.Record, want)
		}
		if pcs := []uint64{0x400123, 0x401000, 0x402000, 0x403000}; !slices.Equal(stacks[e.Stack], pcs) {
			t.Errorf("stack %#x, want %#x", stacks[e.Stack], pcs)
		}
	}
	w.region.NewEpoch()
	th.hit(body)
	if events, again := w.events(); len(events) != 1 || len(again) != 1 || again[events[0].Stack] == nil || stacks[events[0].Stack] != nil {
		t.Errorf("after a new epoch: %d events, stacks %v", len(events), again)
	}
	if c := w.region.Counts()[event.GoBlock]; c != (csrc.Count{Produced: 4}) || w.region.Lost() != 0 {
		t.Errorf("counted %+v, %d lost", c, w.region.Lost())
	}
}

// hitCase is a probe with what it finds and what it must say.
type hitCase struct {
	name  string
	probe csrc.Probe
	own   bool // on the thread's own g, which has no ID
	args  []uint64
	want  []csrc.Record // without time, tid, stack
	stack string        // "": none; own, parked: whose
}

func TestProbes(t *testing.T) {
	w := newWorld(t, nil)
	th, other := w.thread(7, 1234, 1), w.thread(8, 1235, 2)
	coro, hchan := w.object(64), w.object(64)
	put(hchan+atDataqsiz, 17)
	put(coro+atCoroGp, other.g)
	put(th.g+atCoroarg, coro)
	put(other.g+atGopc, 0x404000)
	put(other.g+atStartpc, 0x405000)
	put(other.g+atParent, 99)
	th.setCaller(0x400123)
	put(th.g+atSchedBP, th.frames(0x401000, 0x402000))
	other.r.In[trampoline.SP] -= 8192
	put(other.g+atSchedBP, other.frames(0x406000))
	kind := func(k event.Kind, g, arg, value uint64) csrc.Record {
		return csrc.Record{Kind: uint8(k), G: g, Arg: arg, Value: value}
	}
	one := func(k event.Kind, g, arg, value uint64) []csrc.Record { return []csrc.Record{kind(k, g, arg, value)} }
	preempted := kind(event.GoStop, 8, 0, 0)
	preempted.Flags = csrc.FlagPreempted
	parked := kind(event.GoBlock, 8, 0, 0)
	parked.Reason, parked.TraceReason = 22, 11
	waiting := kind(event.GoCreate, 8, 99, 0)
	waiting.Flags = csrc.FlagWaiting
	orphan := kind(event.GoCreate, 8, 99, 0)
	orphan.Flags = csrc.FlagNoParent
	start := kind(event.GoStart, 8, 0, 0)
	start.Proc = 2
	swap := csrc.Record{Kind: csrc.KindSwitch, G: 7, Arg: 8, Reason: 33}
	stw := csrc.Record{Kind: uint8(event.STWBegin), G: 7}
	for _, c := range []hitCase{
		{"ready", csrc.ProbesLoupeProbePROBE_ready, true, []uint64{other.g}, one(event.GoUnblock, 8, 7, 0), "own"},
		{"casgstatus wakes", csrc.ProbesLoupeProbePROBE_casgstatus, true, []uint64{other.g, stWaiting, stRunnable}, one(event.GoUnblock, 8, 7, 0), "own"},
		{"borrow_casgstatus borrows", csrc.ProbesLoupeProbePROBE_borrowCasgstatus, true, []uint64{other.g, stDead, stSyscall}, []csrc.Record{orphan}, ""},
		{"borrow_casgstatus returns", csrc.ProbesLoupeProbePROBE_borrowCasgstatus, true, []uint64{other.g, stSyscall, stDead}, one(event.GoDestroy, 8, 0, 0), ""},
		{"casgstatus else", csrc.ProbesLoupeProbePROBE_casgstatus, true, []uint64{other.g, stRunnable, stRunning}, nil, ""},
		{"execute", csrc.ProbesLoupeProbePROBE_execute, true, []uint64{other.g}, []csrc.Record{start}, ""},
		{"goschedImpl", csrc.ProbesLoupeProbePROBE_goschedImpl, true, []uint64{other.g, 0}, one(event.GoStop, 8, 0, 0), "parked"},
		{"goschedImpl preempted", csrc.ProbesLoupeProbePROBE_goschedImpl, true, []uint64{other.g, 1}, []csrc.Record{preempted}, "parked"},
		{"gosched_m", csrc.ProbesLoupeProbePROBE_goschedM, true, []uint64{other.g}, one(event.GoStop, 8, 0, 0), "parked"},
		{"goschedguarded_m", csrc.ProbesLoupeProbePROBE_goschedguardedM, true, []uint64{other.g}, one(event.GoStop, 8, 0, 0), "parked"},
		{"gopreempt_m", csrc.ProbesLoupeProbePROBE_gopreemptM, true, []uint64{other.g}, []csrc.Record{preempted}, "parked"},
		{"goyield_m", csrc.ProbesLoupeProbePROBE_goyieldM, true, []uint64{other.g}, []csrc.Record{preempted}, "parked"},
		{"preemptPark", csrc.ProbesLoupeProbePROBE_preemptPark, true, []uint64{other.g}, []csrc.Record{parked}, "parked"},
		{"newproc_runqput", csrc.ProbesLoupeProbePROBE_newprocRunqput, true, []uint64{th.p, other.g}, one(event.GoCreate, 8, 99, 0), "own"},
		{"newproc1_casgstatus", csrc.ProbesLoupeProbePROBE_newproc1Casgstatus, true, []uint64{other.g, stDead, stRunnable}, one(event.GoCreate, 8, 99, 0), "own"},
		{"newproc1_casgstatus waits", csrc.ProbesLoupeProbePROBE_newproc1Casgstatus, true, []uint64{other.g, stDead, stWaiting}, []csrc.Record{waiting}, "own"},
		{"newcoro", csrc.ProbesLoupeProbePROBE_newcoro, false, []uint64{coro}, []csrc.Record{waiting}, "caller"},
		{"goexit0", csrc.ProbesLoupeProbePROBE_goexit0, true, []uint64{other.g}, one(event.GoDestroy, 8, 0, 0), ""},
		{"coroswitch_m", csrc.ProbesLoupeProbePROBE_coroswitchM, true, []uint64{th.g}, []csrc.Record{swap}, "own"},
		{"reentersyscall", csrc.ProbesLoupeProbePROBE_reentersyscall, false, nil, one(event.GoSyscallBegin, 7, 0, 0), "caller"},
		{"entersyscallblock", csrc.ProbesLoupeProbePROBE_entersyscallblock, false, nil, one(event.GoSyscallBegin, 7, 0, 0), "caller"},
		{"exitsyscall", csrc.ProbesLoupeProbePROBE_exitsyscall, false, nil, one(event.GoSyscallEnd, 7, 0, 0), ""},
		{"makechan", csrc.ProbesLoupeProbePROBE_makechan, false, []uint64{hchan}, one(event.ChanMake, 7, hchan, 17), ""},
		{"chansend", csrc.ProbesLoupeProbePROBE_chansend, false, []uint64{hchan}, one(event.ChanSend, 7, hchan, 0), "caller"},
		{"chanrecv", csrc.ProbesLoupeProbePROBE_chanrecv, false, []uint64{hchan}, one(event.ChanReceive, 7, hchan, 0), "caller"},
		{"closechan", csrc.ProbesLoupeProbePROBE_closechan, false, []uint64{hchan}, one(event.ChanClose, 7, hchan, 0), "caller"},
		{"selectgo", csrc.ProbesLoupeProbePROBE_selectgo, false, []uint64{0, 0, 0, 2, 3}, one(event.Select, 7, 0, 5), "caller"},
		{"semacquire1", csrc.ProbesLoupeProbePROBE_semacquire1, false, []uint64{hchan}, one(event.SemAcquire, 7, hchan, 0), "caller"},
		{"semrelease1", csrc.ProbesLoupeProbePROBE_semrelease1, false, []uint64{hchan}, one(event.SemRelease, 7, hchan, 0), "caller"},
		{"chansend by a timer", csrc.ProbesLoupeProbePROBE_chansend, true, []uint64{hchan}, one(event.ChanSend, 0, hchan, 0), ""},
		{"closechan by the runtime", csrc.ProbesLoupeProbePROBE_closechan, true, []uint64{hchan}, one(event.ChanClose, 0, hchan, 0), ""},
		{"semrelease1 by the runtime", csrc.ProbesLoupeProbePROBE_semrelease1, true, []uint64{hchan}, one(event.SemRelease, 0, hchan, 0), ""},
		{"gcBgMarkStartWorkers", csrc.ProbesLoupeProbePROBE_gcBgMarkStartWorkers, false, nil, one(event.GCBegin, 7, 0, 0), "caller"},
		{"gcMarkTermination", csrc.ProbesLoupeProbePROBE_gcMarkTermination, false, nil, one(event.GCEnd, 0, 0, 0), ""},
		{"stopTheWorldWithSema", csrc.ProbesLoupeProbePROBE_stopTheWorldWithSema, true, []uint64{4}, []csrc.Record{stw}, "own"},
		{"startTheWorldWithSema", csrc.ProbesLoupeProbePROBE_startTheWorldWithSema, true, nil, one(event.STWEnd, 0, 0, 0), ""},
	} {
		t.Run(c.name, func(t *testing.T) { w.checkHit(t, th, c) })
	}
}

// stackNames are the stacks that TestProbes has made, by the addresses that are in them.
var stackNames = map[string][]uint64{
	"own": {0x401000, 0x402000}, "caller": {0x400123, 0x401000, 0x402000}, "parked": {0x406000},
}

func (w *world) checkHit(t *testing.T, th *thread, c hitCase) {
	if th.setG(th.g); c.own {
		th.setG(th.g0)
	}
	w.region.NewEpoch()
	th.args(c.args...).hit(w.probe(c.probe))
	events, stacks := w.events()
	if len(events) != len(c.want) {
		t.Fatalf("%d events, want %d", len(events), len(c.want))
	}
	for i, e := range events {
		if e.Tid != 1234 {
			t.Errorf("thread %d", e.Tid)
		}
		if want := stackNames[c.stack]; !slices.Equal(stacks[e.Stack], want) || (want == nil) != (e.Stack == 0) {
			t.Errorf("stack %#x, want %#x", stacks[e.Stack], want)
		}
		r := e.Record
		r.Time, r.Tid, r.Stack = 0, 0, 0
		want := c.want[i]
		if want.Words = 7; want.Kind == uint8(event.GoCreate) {
			want.Words = 9
		}
		if r != want || len(e.raw) != 8*int(want.Words) {
			t.Errorf("got  %+v in %d bytes\nwant %+v", r, len(e.raw), want)
		}
		if e.Kind == uint8(event.GoCreate) {
			if cr := createOf(e); cr.Gopc != 0x404000 || cr.Startpc != 0x405000 {
				t.Errorf("made at %#x, starts at %#x", cr.Gopc, cr.Startpc)
			}
		}
	}
}
