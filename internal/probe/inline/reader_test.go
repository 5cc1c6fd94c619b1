package inline

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// madeUp are lanes whose records the test writes itself.
type madeUp struct {
	t      *testing.T
	region *Region
	clock  *Clock
	reader *Reader
	first  uint64 // a tick
}

func newMadeUp(t *testing.T, g Geometry) *madeUp {
	t.Helper()
	clock, err := NewClock()
	if err != nil {
		t.Fatal(err)
	}
	region, err := NewRegion(make([]byte, g.Size()), g)
	if err != nil {
		t.Fatal(err)
	}
	if err := region.Place(Alignment); err != nil {
		t.Fatal(err)
	}
	reader := NewReader(region, clock)
	first, _ := clock.Sample()
	return &madeUp{t, region, clock, reader, first}
}

// write writes a record of a kind to a lane, at a time after the first and with a number, as probes do.
func (m *madeUp) write(lane int, kind uint8, time, number uint64) bool {
	l := m.region.lanes[lane]
	q, tail, ring, size := &l.Events, l.EventsTail, m.reader.lanes[lane].events.mem, recordSize
	switch kind {
	case csrc.KindStack:
		q, tail, ring = &l.Stacks, l.StacksTail, m.reader.lanes[lane].stacks.mem
		size += 8 * 5
	case uint8(event.GoCreate):
		size = uint64(unsafe.Sizeof(csrc.Create{}))
	}
	at, rest := q.Head&q.Mask, q.Mask+1-q.Head&q.Mask
	pad := uint64(0)
	if rest < size {
		pad = rest
	}
	if q.Head+pad+size-tail > q.Mask+1 {
		return false
	}
	if pad > 0 {
		if pad >= recordSize {
			(*csrc.Record)(unsafe.Pointer(&ring[at])).Kind = 0
		}
		q.Head, at = q.Head+pad, 0
	}
	r := (*csrc.Record)(unsafe.Pointer(&ring[at]))
	*r = csrc.Record{Time: m.first + time, Kind: kind, G: number, Words: uint16(size / 8)}
	if kind == csrc.KindStack {
		r.Value = 5
	}
	q.Head += size
	return true
}

// read returns the numbers of the records that are there.
func (m *madeUp) read() []uint64 {
	var numbers []uint64
	m.reader.Drain(func(raw []byte) bool {
		numbers = append(numbers, (*csrc.Record)(unsafe.Pointer(&raw[0])).G)
		return true
	})
	return numbers
}

func small() Geometry { return Geometry{Lanes: 8, Ring: 1 << 16, Listed: 16} }

// TestMerge writes events of all sizes to lanes at random, many times around their rings: they come in the order of their
// times, whole.
func TestMerge(t *testing.T) {
	m := newMadeUp(t, small())
	kinds := []uint8{uint8(event.GoStart), uint8(event.GoCreate)}
	sizes := map[uint8]int{kinds[0]: 56, kinds[1]: 72}
	written, read := uint64(0), uint64(0)
	for range 200 {
		for range rand.IntN(3000) {
			lane := rand.IntN(8)
			if lane > 5 {
				lane = 0
			}
			if !m.write(lane, kinds[rand.IntN(2)], written/3*2, written) { // some have the same time
				break
			}
			written++
		}
		stop := rand.IntN(4000)
		same := map[uint64]bool{}
		var lastTime uint64
		m.reader.Drain(func(raw []byte) bool {
			r := (*csrc.Record)(unsafe.Pointer(&raw[0]))
			if len(raw) != sizes[r.Kind] || r.Time < lastTime || r.G/3 != read/3 || same[r.G] {
				t.Fatalf("record %d of kind %d at place %d in %d bytes, time %d after %d", r.G, r.Kind, read, len(raw), r.Time, lastTime)
			}
			same[r.G], lastTime = true, r.Time
			read++
			stop--
			return stop != 0
		})
	}
	read += uint64(len(m.read()))
	if read != written || m.reader.Garbled()+m.reader.Late() > 0 || m.reader.Pending() > 0 {
		t.Errorf("wrote %d, read %d; %d garbled, %d late", written, read, m.reader.Garbled(), m.reader.Late())
	}
}

// TestLossAddsUp: each lane says what was lost there; records say what was lost in all, never less than before.
func TestLossAddsUp(t *testing.T) {
	m := newMadeUp(t, small())
	lose := func(lane int, time uint64, lost uint32) {
		l := m.region.lanes[lane]
		at := l.Events.Head & l.Events.Mask
		m.write(lane, uint8(event.GoStart), time, 0)
		(*csrc.Record)(unsafe.Pointer(&m.reader.lanes[lane].events.mem[at])).Lost = lost
		l.Lost = lost
	}
	lose(1, 1, 3)
	lose(2, 2, 0)
	lose(2, 4, 10)
	lose(1, 3, 5)
	m.region.shared.Control.Lost = 100
	check := func(want ...uint32) {
		t.Helper()
		var got []uint32
		m.reader.Drain(func(raw []byte) bool {
			if r := (*csrc.Record)(unsafe.Pointer(&raw[0])); r.Kind != uint8(event.Lost) {
				got = append(got, r.Lost)
			}
			return true
		})
		if !slices.Equal(got, want) {
			t.Errorf("lost %v, want %v", got, want)
		}
	}
	check(3, 5, 15, 15) // a loss is told as soon as its lane was read up to it
	lose(3, 5, 1)
	lose(2, 6, 10)
	check(116, 116)
	if lost := m.region.Lost(); lost != 116 {
		t.Errorf("lost %d in all", lost)
	}
}

// TestStackFirst: stacks come before all events, whatever lane they are in, many times around their rings.
func TestStackFirst(t *testing.T) {
	m := newMadeUp(t, small())
	for round := range uint64(8 * 3000) {
		stack := int(round % 8)
		for lane := range 8 {
			m.write(lane, uint8(event.GoBlock), round, 2)
			if lane == stack {
				m.write(lane, csrc.KindStack, round+10, 1)
			}
		}
		if got := m.read(); len(got) != 9 || got[0] != 1 {
			t.Fatalf("round %d, with a stack in lane %d: order %v", round, stack, got)
		}
	}
}

// TestYounger: what was written after the reader began to look is left for the next time, when no lane can hold anything
// older.
func TestYounger(t *testing.T) {
	var m *madeUp
	ahead := 30 * time.Millisecond
	for began := false; !began; ahead *= 2 {
		m = newMadeUp(t, small())
		m.region.Enable(true)
		comes := ticks() + m.clock.Ticks(ahead)
		m.write(1, uint8(event.GoStart), comes-m.first, 2)
		got := m.read()
		m.write(2, uint8(event.GoStart), ticks()-m.first, 1)
		began = ticks() < comes // else the machine was busy with something else
		if began && len(got) != 0 {
			t.Errorf("records %v of a time that has not come", got)
		}
	}
	time.Sleep(ahead) // twice the time that was ahead
	if got := m.read(); !slices.Equal(got, []uint64{1, 2}) || m.reader.Late() > 0 {
		t.Errorf("order %v, %d late", got, m.reader.Late())
	}
}

// TestLongWaits: a wait has the time at which it began and its place in the order where it ended.
func TestLongWaits(t *testing.T) {
	m := newMadeUp(t, small())
	ring := m.reader.lanes[2].events.mem
	m.write(1, uint8(event.GoStart), 100, 1)
	m.write(2, uint8(event.GoBlock), 50, 2)
	(*csrc.Record)(unsafe.Pointer(&ring[0])).Value = 100
	m.write(1, uint8(event.GoStart), 200, 3)
	if got := m.read(); !slices.Equal(got, []uint64{1, 2, 3}) || m.reader.Late() > 0 {
		t.Errorf("order %v, %d late", got, m.reader.Late())
	}
}

// TestLaneInUse: while a lane is in use, others are held back to when it was last seen free, but not for long.
func TestLaneInUse(t *testing.T) {
	var m *madeUp
	for soon := false; !soon; {
		m = newMadeUp(t, small())
		m.region.Enable(true)
		time.Sleep(time.Millisecond) // readDelay
		m.write(1, uint8(event.GoStart), 1, 1)
		for got := []uint64(nil); len(got) == 0; {
			got = m.read()
		}
		m.region.lanes[2].Busy = 1
		m.write(1, uint8(event.GoStart), ticks()-m.first, 3)
		begin := time.Now()
		got := m.read()
		m.region.lanes[2].Stamp = m.first + 1
		got = append(got, m.read()...)
		soon = time.Since(begin) < stuckAfter // else the machine was busy with something else
		if soon && len(got) != 0 {
			t.Errorf("records %v were not held back", got)
		}
	}
	m.write(2, uint8(event.GoStart), m.clock.Ticks(time.Microsecond), 2) // older, from the lane that is in use
	m.region.lanes[2].Busy = 0
	var got []uint64
	for begin := time.Now(); len(got) < 2 && time.Since(begin) < time.Minute; {
		got = append(got, m.read()...)
	}
	if !slices.Equal(got, []uint64{2, 3}) || m.reader.Late() > 0 {
		t.Errorf("order %v, %d late", got, m.reader.Late())
	}

	m.region.lanes[2].Busy = 1
	m.write(1, uint8(event.GoStart), ticks()-m.first, 5)
	begin := time.Now()
	for got = nil; len(got) == 0 && time.Since(begin) < time.Minute; {
		got = m.read()
	}
	if held := time.Since(begin); !slices.Equal(got, []uint64{5}) || held < stuckAfter/2 {
		t.Errorf("%v was held back for %v", got, held)
	}
	m.write(2, uint8(event.GoStart), m.clock.Ticks(time.Microsecond), 4)
	m.region.lanes[2].Busy = 0
	for got = nil; len(got) == 0 && time.Since(begin) < 2*time.Minute; {
		got = m.read()
	}
	if !slices.Equal(got, []uint64{4}) || m.reader.Late() != 1 {
		t.Errorf("%v, %d late, want 4, one late", got, m.reader.Late())
	}
}

// TestDrainAll: a hit in progress is waited for, longer than other reads wait for it, but not forever.
func TestDrainAll(t *testing.T) {
	m := newMadeUp(t, small())
	m.region.Enable(true)
	time.Sleep(time.Millisecond) // readDelay
	m.region.lanes[2].Busy = 1
	m.write(2, uint8(event.GoStart), ticks()-m.first, 1)
	m.write(1, uint8(event.GoStart), ticks()-m.first, 2)
	var got []uint64
	note := func(raw []byte) bool {
		got = append(got, (*csrc.Record)(unsafe.Pointer(&raw[0])).G)
		return true
	}
	time.AfterFunc(2*stuckAfter, func() { atomic.StoreUint32(&m.region.lanes[2].Busy, 0) })
	if all := m.reader.DrainAll(note); !all || !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("drained %v, all: %t", got, all)
	}
	m.region.lanes[2].Busy = 1
	m.write(1, uint8(event.GoStart), ticks()-m.first, 3)
	got = nil
	if all := m.reader.DrainAll(note); all || !slices.Equal(got, []uint64{3}) {
		t.Errorf("drained %v, all: %t although a hit is in progress", got, all)
	}
}

// TestStamp: a lane in use holds back nothing that is older than the last time that was read in it.
func TestStamp(t *testing.T) {
	m := newMadeUp(t, small())
	m.region.Enable(true)
	m.region.lanes[2].Busy = 1
	for _, n := range []uint64{1, 2, 3} {
		m.write(1, uint8(event.GoStart), ticks()-m.first, n)
	}
	m.region.lanes[2].Stamp = ticks()
	time.Sleep(time.Millisecond)
	m.write(1, uint8(event.GoStart), ticks()-m.first, 4)
	if got := m.read(); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("records %v, want 1, 2 and 3", got)
	}
}

// TestTurns: a lane that is in use each time it is looked at, by another hit each time, holds nothing back.
func TestTurns(t *testing.T) {
	m := newMadeUp(t, small())
	l := &m.reader.lanes[0]
	l.shared.Busy = 1
	if !l.busy() {
		t.Error("a lane in use was taken for free")
	}
	var stop atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for i := 1; !stop.Load(); i++ {
			atomic.AddUint64(&l.shared.Turns, 1)
			if i%1000 == 0 {
				runtime.Gosched() // under an emulator nothing else lets the collector stop it
			}
		}
	})
	begin, free := time.Now(), false
	for !free && time.Since(begin) < time.Minute {
		free = !l.busy()
	}
	stop.Store(true)
	group.Wait()
	if !free {
		t.Error("a lane that goes from hand to hand was taken for stuck")
	}
}

// TestGaps: records in a gap of another lane are followed by a mark, because their effects may be lost.
func TestGaps(t *testing.T) {
	m := newMadeUp(t, small())
	write := func(lane int, time uint64, lost uint32) {
		l := m.region.lanes[lane]
		at := l.Events.Head & l.Events.Mask
		m.write(lane, uint8(event.GoStart), time, time)
		(*csrc.Record)(unsafe.Pointer(&m.reader.lanes[lane].events.mem[at])).Lost = lost
		l.Lost = lost
	}
	check := func(want ...string) {
		t.Helper()
		var got []string
		m.reader.Drain(func(raw []byte) bool {
			if r := (*csrc.Record)(unsafe.Pointer(&raw[0])); r.Kind == uint8(event.Lost) {
				got = append(got, "mark")
			} else {
				got = append(got, fmt.Sprint(r.G, " ", r.Lost))
			}
			return true
		})
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for time := range uint64(5) {
		write(1, 1+2*time, 0)
	}
	write(2, 0, 0)
	write(2, 4, 0)
	write(2, 8, 7) // the seven are of time 4 to 8
	check("0 0", "1 0", "3 0", "4 0", "5 7", "7 7", "mark", "8 7", "9 7")

	write(1, 10, 0)
	write(2, 11, 7)
	m.region.lanes[2].Lost = 9
	write(1, 12, 0)
	write(1, 14, 0)
	check("10 7", "11 7", "12 9", "14 9", "mark")
	if !m.reader.AllReported() {
		t.Error("something is still to be told")
	}
	check()
}

// TestHostileLanes gives the reader lanes of a target that writes what it likes: it must come to an end, and see no byte
// that is not in a ring.
func TestHostileLanes(t *testing.T) {
	m := newMadeUp(t, Geometry{Lanes: 4, Ring: 1 << 16, Listed: 16})
	garbled := uint64(0)
	for round := range 2000 {
		for i := range m.reader.lanes {
			l := m.region.lanes[i]
			for q, ring := range map[*csrc.ProbesLoupeRing][]byte{&l.Events: m.reader.lanes[i].events.mem, &l.Stacks: m.reader.lanes[i].stacks.mem} {
				for range 20 {
					at := rand.IntN(len(ring)/8) * 8
					*(*uint64)(unsafe.Pointer(&ring[at])) = rand.Uint64() >> rand.IntN(64)
				}
				switch rand.IntN(4) {
				case 0:
					q.Head = rand.Uint64()
				case 1:
					q.Head += rand.Uint64N(1 << 17)
				case 2:
					q.Head -= rand.Uint64N(100)
				case 3:
					q.Head += 8 * rand.Uint64N(1<<13)
				}
				q.Addr, q.Mask = rand.Uint64(), rand.Uint64()
			}
			l.EventsTail, l.StacksTail = rand.Uint64(), rand.Uint64()
		}
		seen := 0
		m.reader.Drain(func(raw []byte) bool {
			seen += len(raw)
			if len(raw) < int(recordSize) || len(raw) > csrc.MaxRecord || seen > 8*(1<<16) {
				t.Fatalf("round %d: %d bytes, %d in all", round, len(raw), seen)
			}
			return true
		})
		garbled = m.reader.Garbled()
	}
	if garbled == 0 {
		t.Error("nothing was found garbled")
	}
}

// TestGeometry checks shapes for machines.
func TestGeometry(t *testing.T) {
	for _, c := range []struct {
		processors, buffer, listed int
		want                       Geometry
	}{
		{1, 1 << 20, 0, Geometry{4, 1 << 18, 1 << 15, 0, 0, 0}},
		{2, 1 << 24, 100000, Geometry{4, 1 << 22, 1 << 20, 0, 0, 0}},
		{96, 1 << 24, 0, Geometry{256, 1 << 16, 1 << 15, 0, 0, 0}},
		{1 << 20, 1, 1 << 40, Geometry{maxLanes, minRing, maxListed, 0, 0, 0}},
	} {
		g := GeometryFor(c.processors, c.buffer, c.listed)
		if g != c.want || g.check() != nil {
			t.Errorf("for %d processors, %d bytes, %d goroutines: %+v (%v), want %+v", c.processors, c.buffer, c.listed, g, g.check(), c.want)
		}
	}
	if err := newMadeUp(t, small()).region.Place(4096); err == nil {
		t.Error("a region that is not aligned")
	}
}
