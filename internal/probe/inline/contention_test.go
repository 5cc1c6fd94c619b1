package inline

import (
	"io"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// emulated reports whether this runs on an emulator of arm64: less is done, and no signals may come (a handler would take
// the made-up g for its own).
const emulated = runtime.GOARCH == "arm64"

// checker looks at records as they come.
type checker struct {
	t        *testing.T
	last     uint64            // time of the last record
	seq      map[uint64]uint64 // by goroutine: the number of its last hit
	stacks   map[uint64]bool
	kinds    [event.KindLimit]uint64
	backward uint64 // times that are before the last
	gaps     uint64 // hits that are missing
	unknown  uint64 // events that refer to stacks that were not sent
}

func newChecker(t *testing.T) *checker {
	return &checker{t: t, seq: map[uint64]uint64{}, stacks: map[uint64]bool{}}
}

// check looks at a record: of hit i of a goroutine, which says so in all of its fields.
func (c *checker) check(raw []byte) bool {
	r := (*csrc.Record)(unsafe.Pointer(&raw[0]))
	if r.Kind == uint8(event.Lost) { // the end of a gap
		return true
	}
	c.kinds[r.Kind]++
	if r.Kind == csrc.KindStack {
		c.stacks[r.Stack] = true
		return true
	}
	if r.Time < c.last {
		c.backward++
	}
	c.last = max(c.last, r.Time)
	switch {
	case r.Kind == uint8(event.GoBlock):
		if r.Reason != uint8(r.Arg) || r.TraceReason != uint8(r.Arg>>8) || r.Tid != uint32(1000+r.G) {
			c.t.Errorf("torn: %+v", r)
		}
		if !c.stacks[r.Stack] {
			c.unknown++
		}
	case r.Kind != uint8(event.ChanSend):
		c.t.Errorf("a record of kind %d", r.Kind)
	}
	if at, ok := c.seq[r.G]; ok && !emulated { // the emulator's counter counts microseconds, in which there are several hits
		if r.Arg <= at {
			c.t.Errorf("hit %d of %d came after hit %d", r.Arg, r.G, at)
		}
		c.gaps += r.Arg - at - 1
	}
	c.seq[r.G] = r.Arg
	return true
}

// TestContention hits probes on more threads than there are lanes, while the records are read and signals arrive.
func TestContention(t *testing.T) {
	t.Run("counter", func(t *testing.T) { testContention(t, nil) })
	t.Run("coarse", func(t *testing.T) { testContention(t, coarse(t)) })
}

// coarse makes worlds with a coarse clock.
func coarse(t *testing.T) func(*Options) {
	return func(o *Options) {
		var err error
		if o.Clock, err = NewCoarseClock(); err != nil {
			t.Fatal(err)
		}
	}
}

func testContention(t *testing.T, change func(*Options)) {
	const threads = 8
	hits := uint64(200_000)
	if emulated {
		hits = 3_000
	} else if err := pprof.StartCPUProfile(io.Discard); err == nil {
		defer pprof.StopCPUProfile()
	}
	for _, ring := range []int{1 << 16, 1 << 24} {
		w := newWorld(t, func(o *Options) {
			o.Geometry.Ring = ring
			if change != nil {
				change(o)
			}
		})
		park, send := w.probe(gopark), w.probe(csrc.ProbesLoupeProbePROBE_chansend)
		var group sync.WaitGroup
		for id := range uint64(threads) {
			th := w.thread(id, 1000+id, uint32(id%3))
			put(th.g+atGoid, id+1)
			put(th.m+atProcid, 1001+id)
			th.setCaller(0x400123)
			group.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				for i := range hits {
					if i%4 == 3 {
						th.args(i).hit(send)
						continue
					}
					if i%64 == 0 {
						th.frames(0x401000+i, 0x402000)
					}
					th.args(0, i, i&0xff, i>>8&0xff).hit(park)
				}
			})
		}
		var done atomic.Bool
		go func() { group.Wait(); done.Store(true) }()
		c := newChecker(t)
		for !done.Load() {
			w.reader.Drain(c.check)
			time.Sleep(100 * time.Microsecond) // so that much is read at once
		}
		group.Wait()
		w.region.Enable(false)
		w.reader.Drain(c.check)
		c.balance(w, threads*hits)
		t.Logf("rings of %d: %d records, %d lost, %d late", ring, c.kinds[event.GoBlock]+c.kinds[event.ChanSend], w.region.Lost(), w.reader.Late())
	}
}

// balance checks that each hit was received or counted as lost.
func (c *checker) balance(w *world, hits uint64) {
	var sum, missed uint64
	for k, count := range w.region.Counts() {
		if uint8(k) != csrc.KindStack && count.Produced != c.kinds[k]+count.NoRoom {
			c.t.Errorf("kind %d: produced %d, received %d, lost %d", k, count.Produced, c.kinds[k], count.NoRoom)
		}
		sum += count.Produced
	}
	for _, n := range w.region.Missed() {
		missed += n
	}
	if sum+missed != hits {
		c.t.Errorf("%d hits: produced %d, missed %d", hits, sum, missed)
	}
	received := c.kinds[event.GoBlock] + c.kinds[event.ChanSend]
	if lost := uint64(w.region.Lost()); received+lost != hits || c.gaps > lost {
		c.t.Errorf("%d hits: received %d, lost %d; %d missing between", hits, received, lost, c.gaps)
	}
	if c.backward > w.reader.Late() {
		c.t.Errorf("%d times went back, %d records were late", c.backward, w.reader.Late())
	}
	if c.unknown > 0 && w.region.StacksLost() == 0 {
		c.t.Errorf("%d events refer to stacks that were not sent", c.unknown)
	}
	if w.reader.Garbled() > 0 {
		c.t.Errorf("garbled %d times", w.reader.Garbled())
	}
	if w.reader.Pending() > 0 {
		c.t.Errorf("%d bytes were left", w.reader.Pending())
	}
}

// TestCauseAndEffect hits probes on threads in turns: each begins when it sees that the one before is done, with a probe whose
// event may follow from what others do, and ends with one whose event does not. Their records must come in that order, whatever
// lane they were in.
func TestCauseAndEffect(t *testing.T) {
	t.Run("counter", func(t *testing.T) { testCauseAndEffect(t, func(*Options) {}) })
	t.Run("coarse", func(t *testing.T) { testCauseAndEffect(t, coarse(t)) })
}

func testCauseAndEffect(t *testing.T, change func(*Options)) {
	turns := causesAndEffects()
	w := newWorld(t, func(o *Options) { o.Geometry.Ring = 1 << 24; change(o) })
	effect, cause := w.probe(csrc.ProbesLoupeProbePROBE_chansend), w.probe(gopark)
	w.inTurns(turns, func(th *thread, i uint64) {
		th.args(2 * i).hit(effect)
		th.args(0, 2*i+1).hit(cause)
	})
	times := make([]uint64, 2*turns)
	next, wrong := uint64(0), 0
	w.reader.Drain(func(raw []byte) bool {
		r := (*csrc.Record)(unsafe.Pointer(&raw[0]))
		if r.Kind != csrc.KindStack {
			if r.Arg != next {
				wrong++
			}
			next, times[r.Arg] = r.Arg+1, r.Time
		}
		return true
	})
	if i := slices.Index(times, 0); i >= 0 || !slices.IsSorted(times) {
		t.Errorf("the times of causes and effects are not in order (no time for hit %d)", i)
	}
	if wrong > 0 && !emulated || w.reader.Late() > 0 || w.region.Lost() > 0 {
		t.Errorf("of %d hits %d were in the wrong place; %d late, %d lost", len(times), wrong, w.reader.Late(), w.region.Lost())
	}
}

// TestGoroutineInOrder has a goroutine made runnable, started and blocked by one thread after the other, each as soon as it sees
// that the one before is done. What is told of it must come in that order, although no fence is waited for.
func TestGoroutineInOrder(t *testing.T) {
	t.Run("counter", func(t *testing.T) { testGoroutineInOrder(t, func(*Options) {}) })
	t.Run("coarse", func(t *testing.T) { testGoroutineInOrder(t, coarse(t)) })
}

func testGoroutineInOrder(t *testing.T, change func(*Options)) {
	turns := causesAndEffects()
	w := newWorld(t, func(o *Options) { o.Geometry.Ring, o.Config.Procs = 1<<24, 0; change(o) })
	ready, execute, park := w.probe(csrc.ProbesLoupeProbePROBE_ready), w.probe(csrc.ProbesLoupeProbePROBE_execute), w.probe(gopark)
	w.inTurns(turns, func(th *thread, i uint64) {
		switch i % 3 {
		case 0:
			th.args(th.g).hit(ready)
		case 1:
			th.args(th.g).hit(execute)
		default:
			th.args().hit(park)
		}
	})
	order := []event.Kind{event.GoUnblock, event.GoStart, event.GoBlock}
	n, wrong, last := uint64(0), 0, uint64(0)
	w.reader.Drain(func(raw []byte) bool {
		r := (*csrc.Record)(unsafe.Pointer(&raw[0]))
		if r.Kind != csrc.KindStack {
			if event.Kind(r.Kind) != order[n%3] || r.Time < last {
				wrong++
			}
			n, last = n+1, r.Time
		}
		return true
	})
	if n != turns || wrong > 0 || w.reader.Late() > 0 || w.region.Lost() > 0 {
		t.Errorf("%d hits of %d, %d in the wrong place; %d late, %d lost", n, turns, wrong, w.reader.Late(), w.region.Lost())
	}
}

// TestLastTime tells of a goroutine whose last time is later than the counter, as if the processor had read that too early: the
// event comes after that time, and so does what comes in the same lane next.
func TestLastTime(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.StackDepth = 0 })
	th, lane, park := w.thread(5, 1, 0), w.region.lanes[0], w.probe(gopark)
	th.hit(park)
	last := (*uint64)(unsafe.Pointer(&w.private[w.program.timesAt-w.program.PrivateAt()+5*64]))
	if *last == 0 || *last != lane.Stamp {
		t.Fatalf("the goroutine's last time is %d, the hit's %d", *last, lane.Stamp)
	}
	before := w.drain()
	*last += 1 << 32 // seconds
	later := *last + 1
	th.hit(park)
	if *last != later || lane.Stamp != later {
		t.Errorf("the goroutine's last time is %d, the lane's %d, want %d", *last, lane.Stamp, later)
	}
	put(th.g+atGoid, 6)
	th.hit(park)
	after := w.drain()
	if len(before) != 1 || len(after) != 2 || after[0].Time <= before[0].Time+uint64(time.Second) || after[1].Time != after[0].Time {
		t.Errorf("%d and %d events: %+v, %+v", len(before), len(after), before, after)
	}
}

// causesAndEffects returns how many times threads take turns.
func causesAndEffects() uint64 {
	if emulated {
		return 3_000
	}
	return 200_000
}

// inTurns calls f for numbers up to turns, on one thread after the other, each as soon as it sees that the one before is done.
// Then it switches the probes off. The threads run goroutine 5.
func (w *world) inTurns(turns uint64, f func(th *thread, i uint64)) {
	var turn atomic.Uint64
	var group sync.WaitGroup
	const threads = 2
	for id := range uint64(threads) {
		th := w.thread(5, 1, uint32(id))
		put(th.g+atSchedBP, 0)
		group.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for i := id; i < turns; i += threads {
				for spin := 0; turn.Load() != i; spin++ {
					if spin > 1<<14 {
						runtime.Gosched()
					}
				}
				f(th, i)
				turn.Store(i + 1)
			}
		})
	}
	group.Wait()
	w.region.Enable(false)
}
