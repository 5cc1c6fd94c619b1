package inline

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/probe/inline/trampoline"
)

// BenchmarkHit measures one hit of gopark, by the depth of stacks. "nothing" is the way there and back, which the others
// contain too; "disabled" is a probe that is in place but not enabled.
func BenchmarkHit(b *testing.B) {
	nothing := func(w *world) uintptr { return w.tail() }
	gopark := func(w *world) uintptr { return w.probe(csrc.ProbesLoupeProbePROBE_gopark) }
	execute := func(w *world) uintptr { return w.probe(csrc.ProbesLoupeProbePROBE_execute) }
	b.Run("nothing", func(b *testing.B) { benchmarkHit(b, 0, true, nothing) })
	b.Run("disabled", func(b *testing.B) { benchmarkHit(b, 0, false, gopark) })
	b.Run("unwanted", func(b *testing.B) { benchmarkHit(b, -1, true, gopark) })
	b.Run("execute", func(b *testing.B) { benchmarkHit(b, 0, true, execute) })
	for _, frames := range []int{0, 1, 10, 32} {
		b.Run(fmt.Sprintf("frames=%d", frames), func(b *testing.B) { benchmarkHit(b, frames, true, gopark) })
	}
}

func benchmarkHit(b *testing.B, frames int, enabled bool, code func(*world) uintptr) {
	w := newWorld(b, func(o *Options) {
		o.Config.StackDepth, o.Config.Procs = uint32(max(frames, 0)), 0
		o.Config.SkipListed = 1
	})
	th := w.thread(7, 1234, 1)
	if frames < 0 {
		if err := w.region.List([]uint64{7}); err != nil {
			b.Fatal(err)
		}
	}
	var pcs []uint64
	for i := range max(frames-1, 0) {
		pcs = append(pcs, 0x401000+uint64(i)*64)
	}
	th.setCaller(0x400123)
	th.frames(pcs...)
	th.args(th.g, 1, 2, 3)
	body := code(w)
	w.region.Enable(enabled)
	lane := w.region.lanes[1]
	for i := 0; b.Loop(); i++ {
		trampoline.Call(body, &th.r)
		if i%4096 == 0 {
			lane.EventsTail = lane.Events.Head
		}
	}
	if lost := w.region.Lost(); lost > 0 {
		b.Errorf("%d lost", lost)
	}
}

// tail puts code into memory that goes back at once.
func (w *world) tail() uintptr {
	at := w.probe(csrc.ProbesLoupeProbePROBE_gopark)
	return w.bodyEnd(at)
}

// BenchmarkDrain measures what it costs to read a record, by the number of lanes that have some.
func BenchmarkDrain(b *testing.B) {
	for _, lanes := range []int{1, 4, 64} {
		b.Run(fmt.Sprintf("lanes=%d", lanes), func(b *testing.B) { benchmarkDrain(b, lanes) })
	}
}

func benchmarkDrain(b *testing.B, lanes int) {
	w := newWorld(b, func(o *Options) {
		o.Geometry.Lanes = max(lanes, minLanes)
		o.Geometry.Ring = 1 << 26 / o.Geometry.Lanes
	})
	perLane := w.region.Ring / int(recordSize)
	b.SetBytes(int64(recordSize))
	b.ReportAllocs()
	var sum uint64
	left := 0
	for b.Loop() {
		if left == 0 {
			b.StopTimer()
			left = w.fill(lanes, perLane)
			b.StartTimer()
			w.reader.Drain(func(raw []byte) bool {
				sum += (*csrc.Record)(unsafe.Pointer(&raw[0])).G
				return true
			})
		}
		left--
	}
	if w.reader.late+w.reader.garbled > 0 || sum == 0 {
		b.Errorf("%d late, %d garbled", w.reader.late, w.reader.garbled)
	}
}

// fill fills the rings of some lanes as probes would, in turns. It returns the number of records.
func (w *world) fill(lanes, perLane int) int {
	n := 0
	for range perLane {
		for i := range lanes {
			q, ring := &w.region.lanes[i].Events, w.reader.lanes[i].events.mem
			at := q.Head & q.Mask
			if q.Mask+1-at < recordSize {
				continue
			}
			*(*csrc.Record)(unsafe.Pointer(&ring[at])) = csrc.Record{Time: ticks(), Kind: uint8(event.GoStart), G: 5, Words: uint16(recordSize / 8)}
			q.Head += recordSize
			n++
		}
	}
	for i := range lanes {
		q := &w.region.lanes[i].Events
		q.Head = (q.Head + q.Mask) &^ q.Mask
	}
	return n
}

// BenchmarkParallel measures hits on as many threads as there are processors, each with a lane of its own. The time is that
// of one hit on each.
func BenchmarkParallel(b *testing.B) {
	w := newWorld(b, func(o *Options) { o.Config.SkipListed = 1; o.Config.StackDepth = 0 })
	body := w.probe(gopark)
	threads := min(runtime.GOMAXPROCS(0), w.region.Lanes)
	each := b.N
	var group sync.WaitGroup
	for id := range threads {
		th, lane := w.thread(7, 1234, uint32(id)), w.region.lanes[id]
		group.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for i := range each {
				trampoline.Call(body, &th.r)
				if i%4096 == 0 {
					lane.EventsTail = lane.Events.Head
				}
			}
		})
	}
	group.Wait()
}

// BenchmarkObserved measures hits of gopark with ten frames while another thread reads the records, as it is in use. Where
// the reader cannot follow, hits are lost; how many is told.
func BenchmarkObserved(b *testing.B) {
	w := newWorld(b, func(o *Options) { o.Config.SkipListed = 1; o.Geometry.Ring = 1 << 22 })
	th := w.thread(7, 1234, 1)
	var pcs []uint64
	for i := range uint64(9) {
		pcs = append(pcs, 0x401000+i*64)
	}
	th.setCaller(0x400123)
	th.frames(pcs...)
	th.args(th.g, 1, 2, 3)
	body := w.probe(gopark)
	var group sync.WaitGroup
	stop := make(chan bool)
	records, reading := 0, time.Duration(0)
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				begin := time.Now()
				w.reader.Drain(func([]byte) bool { records++; return true })
				reading += time.Since(begin)
				time.Sleep(100 * time.Microsecond)
			}
		}
	})
	for b.Loop() {
		trampoline.Call(body, &th.r)
	}
	close(stop)
	group.Wait()
	b.ReportMetric(float64(reading)/float64(records), "ns/read")
	b.ReportMetric(100*float64(w.region.Lost())/float64(b.N), "%lost")
}

// BenchmarkForeign measures a probe that reads memory which need not be valid: the chain of one parcel, in eleven reads. These are
// loads from a known heap, system calls, or not possible because system calls are not allowed.
func BenchmarkForeign(b *testing.B) {
	for _, by := range []string{"heap", "calls", "none"} {
		b.Run(by, func(b *testing.B) {
			heap := newMadeUpHeap(b)
			w := newSetWorld(b, func(o *Options) {
				if by == "heap" {
					heap.use(o)
				}
			})
			w.region.AllowReads(by == "calls")
			th := w.thread(7, 1234, 1)
			parcel, to, city, text := w.object(64), w.object(64), w.object(64), w.object(64)
			for _, s := range []uint64{parcel + 16, to, city} {
				put(s, text)
				put(s+8, 20)
			}
			put(parcel+8, to)
			put(to+16, city)
			for _, object := range []uint64{parcel, to, city, text} {
				heap.set(object, true)
			}
			th.args(0, parcel)
			w.benchmark(b, w.body(Place{Set: 1, Probe: 0, G: gRegister}), th)
		})
	}
}

// BenchmarkTable measures a probe that counts by a key.
func BenchmarkTable(b *testing.B) {
	w := newSetWorld(b)
	th := w.thread(7, 1234, 1)
	th.args(0, 5, 10)
	w.benchmark(b, w.body(Place{Set: 2, Probe: 0, G: gRegister}), th)
}

func (w *world) benchmark(b *testing.B, body uintptr, th *thread) {
	lane := w.region.lanes[1]
	for i := 0; b.Loop(); i++ {
		trampoline.Call(body, &th.r)
		if i%64 == 0 {
			lane.EventsTail = lane.Events.Head
		}
	}
	if lost := w.region.Lost(); lost > 0 {
		b.Errorf("%d lost", lost)
	}
}
