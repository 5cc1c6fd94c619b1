package inline

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

const (
	recordSize = uint64(unsafe.Sizeof(csrc.Record{}))

	// stuckAfter is how long a lane in use delays the records of other lanes: the kernel may have preempted its thread
	// in the middle of a hit.
	stuckAfter = 10 * time.Millisecond
	// drainPatience is the same for DrainAll, whose caller needs each record.
	drainPatience = time.Second
	// looks is how many times a lane in use is polled, about every 20 ns. Most hits take less time than all polls.
	looks = 32
	// freeEvery is the number of bytes read after which their space is freed while reading continues.
	freeEvery = 64 << 10
	// lastKey is above every key. The key of an event is its tick; the key of a wait is the tick of its end.
	lastKey = math.MaxUint64
)

// Reader reads the records of a region in the order of their times.
//
// # Order
//
// A record's time is read after its lane was taken, or so little before that the clock's delay covers it, and before the lane is
// given back, and is no less than that before it in the lane: the times in one lane never go back. Between lanes the reader
// merges. It reads the counter (T0, from which the delay is taken) and then looks at each lane. One that nobody has at that
// moment can only be taken later, so what will be written there is younger than T0, and what was written there is seen by
// reading its end after that. The same holds when a lane is in use but was given back since T0. Else it may still get an older
// record, though none older than the last time that was read in that lane: the reader goes on only up to there, or to the T0 of
// when it was last sure of the lane, but for no longer than stuckAfter (drainPatience in DrainAll). What comes even later is delivered when it comes, and
// counted.
//
// A stack comes before the events that refer to it: stacks have rings of their own, which are emptied first. A stack is known
// to other threads only after its record can be read, so those of all events whose end was found before are there.
//
// # Loss
//
// What a lane has lost is known when the lane was read up to the gap, and the next record says so, whatever lane it is of: it
// may be the effect of a lost event. The lost events are anywhere in the gap. The gap ends at the lane's next record. If the lane has
// no other record, the gap ends when its count of lost events is read. Events that followed the records of other lanes in the gap may
// be among the lost ones, so a record of kind Lost marks the end of the gap.
type Reader struct {
	region *Region
	clock  *Clock
	packed bool // values of waits are not their lengths: see probe.Want.Allocated
	lanes  []readLane
	order  []*readLane // heap of lanes with records, oldest record first

	delivered uint64        // the latest key so far
	until     uint64        // key up to which the last Drain went
	lost      uint32        // events lost by all lanes, as their last records say
	patience  time.Duration // how long a lane in use delays others
	stuck     bool          // a lane was in use for longer than that
	gap       uint64        // key at which the last gap ends; lastKey if its end was reported
	missed    uint32        // of these, events lost because no lane was free
	late      uint64
	garbled   uint64
	doubts    doubts // error bounds of times, with a coarse clock
}

// readLane is the reader's state of a lane.
type readLane struct {
	shared *csrc.Lane
	events readRing
	stacks readRing
	key    uint64 // key of the first event
	freed  uint64 // end of the events whose space was freed

	safe  uint64 // ticks: no older record will follow
	lost  uint32 // according to its last record
	inUse bool   // by the same hit at every poll
	since uint64 // nanoseconds: when it was first found in use
}

// NewReader returns a reader of a region.
func NewReader(region *Region, clock *Clock) *Reader {
	r := &Reader{region: region, clock: clock, patience: stuckAfter, gap: lastKey, lanes: make([]readLane, region.Lanes), order: make([]*readLane, 0, region.Lanes)}
	now, _ := clock.Sample()
	now -= clock.delay
	for i := range r.lanes {
		l := region.lanes[i]
		if !clock.coarse && l.Stamp == 0 {
			l.Stamp = now // of records of hits that do not read the time
		}
		r.lanes[i] = readLane{
			shared: l, safe: now,
			events: region.ring(region.rings()+i*region.Ring, region.Ring, &l.Events.Head, &l.EventsTail),
			stacks: region.ring(region.stacks()+i*region.stackRing(), region.stackRing(), &l.Stacks.Head, &l.StacksTail),
		}
	}
	return r
}

// Late returns how many records came after younger ones had been delivered.
func (r *Reader) Late() uint64 { return r.late }

// Garbled returns how often a lane held what no probe writes; the rest of the lane was passed over then.
func (r *Reader) Garbled() uint64 { return r.garbled }

// AllReported reports whether all events and the ends of all gaps were delivered.
func (r *Reader) AllReported() bool { return r.gap == lastKey && r.Pending() == 0 }

// Pending returns how many bytes of events are there to be read.
func (r *Reader) Pending() uint64 {
	var sum uint64
	for i := range r.lanes {
		q := &r.lanes[i].events
		sum += atomic.LoadUint64(q.head) - q.tail
	}
	return sum
}

// Drain calls record with each record that is there, events in the order of their times, until it returns false. Times are
// CLOCK_MONOTONIC then. The bytes are valid during the call only. While probes are enabled, records of the last moments may
// be left for the next call; when they are not, none are.
func (r *Reader) Drain(record func(raw []byte) bool) {
	missed := r.region.missedInAll()
	until := r.look()
	if !r.region.enabled() {
		for wait := stuckAfter; until != lastKey && wait > 0; wait -= time.Millisecond {
			time.Sleep(time.Millisecond)
			until = r.look()
		}
		until = lastKey
	}
	r.until = until
	if r.readStacks(record) && r.merge(until, record) {
		r.endGap(until, record)
	}
	// These were lost somewhere between the records just read. Report the loss after them, so that consumers reset there.
	r.lost, r.missed = r.lost+missed-r.missed, missed
	for i := range r.lanes {
		r.lanes[i].free()
	}
}

// DrainAll is like Drain, and waits for the hits that are in progress. It reports whether all events that happened before the call were
// delivered: not if the kernel does not run a thread in the middle of a hit for drainPatience, or if record returned false.
func (r *Reader) DrainAll(record func(raw []byte) bool) (all bool) {
	goOn := true
	deliver := func(raw []byte) bool {
		goOn = record(raw)
		return goOn
	}
	r.patience = drainPatience
	defer func() { r.patience = stuckAfter }()
	for now, _ := r.clock.Sample(); goOn; time.Sleep(50 * time.Microsecond) {
		r.Drain(deliver)
		if r.until > now {
			return goOn && !r.stuck
		}
	}
	return false
}

// look reads the ends of all lanes and returns the key up to which the records before them are complete; lastKey if no
// lane is in use and probes are not enabled.
func (r *Reader) look() uint64 {
	enabled := r.region.enabled()
	t0, now := r.clock.Sample()
	until := t0 - r.clock.delay
	busy := 0
	r.stuck = false
	for i := range r.lanes {
		l := &r.lanes[i]
		was := l.inUse
		if l.inUse = l.busy(); !l.inUse {
			l.safe = t0 - r.clock.delay
			l.events.look()
			continue
		}
		busy++
		if !was {
			l.since = now
		}
		l.safe = max(l.safe, l.stamp(t0))
		if now-l.since < uint64(r.patience) {
			until = min(until, l.safe)
		} else {
			r.stuck = true
		}
	}
	for i := range r.lanes {
		if l := &r.lanes[i]; l.inUse {
			l.events.look()
		}
	}
	if busy == 0 && !enabled {
		return lastKey
	}
	return until
}

// stamp returns the tick before the last one read by a hit in the lane, but never a tick after now.
func (l *readLane) stamp(now uint64) uint64 {
	return min(max(atomic.LoadUint64(&l.shared.Stamp), 1)-1, now)
}

// busy reports whether the same hit has the lane at every poll.
func (l *readLane) busy() bool {
	turn := atomic.LoadUint64(&l.shared.Turns)
	for range looks {
		if atomic.LoadUint32(&l.shared.Busy) == 0 || atomic.LoadUint64(&l.shared.Turns) != turn {
			return false
		}
		ticks() // takes about 20 ns
	}
	return true
}

// readStacks delivers all stacks. It returns false if record did.
func (r *Reader) readStacks(record func(raw []byte) bool) bool {
	for i := range r.lanes {
		q := &r.lanes[i].stacks
		for q.look(); q.next(); {
			raw := q.take()
			rec := (*csrc.Record)(unsafe.Pointer(&raw[0]))
			if rec.Kind != csrc.KindStack {
				r.garbled++
				continue
			}
			rec.Lost, rec.Time = r.lost, 0
			if !record(raw) {
				return false
			}
		}
		r.noteGarbled(q)
		q.free()
	}
	return true
}

// merge delivers events up to a key. It returns false if record did.
func (r *Reader) merge(until uint64, record func(raw []byte) bool) bool {
	r.order = r.order[:0]
	for i := range r.lanes {
		if l := &r.lanes[i]; r.next(l) {
			r.order = append(r.order, l)
		}
	}
	for i := len(r.order)/2 - 1; i >= 0; i-- {
		r.sink(i)
	}
	for len(r.order) > 0 && r.order[0].key <= until {
		if !r.endGap(r.order[0].key, record) {
			return false
		}
		more, ok := r.run(r.order[0], min(until, r.second()), record)
		if !ok {
			return false
		}
		if !more {
			last := len(r.order) - 1
			r.order[0] = r.order[last]
			r.order = r.order[:last]
		}
		r.sink(0)
	}
	return true
}

// run delivers the records of one lane up to a key, or to the end of a gap. more reports whether the lane has others, ok whether
// to continue.
func (r *Reader) run(l *readLane, until uint64, record func(raw []byte) bool) (more, ok bool) {
	for more = true; more && l.key <= until && l.key < r.gap; more = r.next(l) {
		raw := l.events.take()
		if l.key < r.delivered {
			r.late++
		} else {
			r.delivered = l.key
		}
		r.convert((*csrc.Record)(unsafe.Pointer(&raw[0])))
		if !record(raw) {
			return true, false
		}
		if l.events.tail-l.freed >= freeEvery {
			l.free()
		}
	}
	return more, true
}

// convert converts the ticks in a record to CLOCK_MONOTONIC, and the loss of its lane to the loss of all lanes.
func (r *Reader) convert(rec *csrc.Record) {
	rec.Lost = r.lost
	ticks := rec.Time
	rec.Time = r.clock.Nanos(ticks)
	if r.clock.coarse {
		r.doubts.add(r.clock.Doubt(ticks))
	}
	if r.isWait(rec) {
		rec.Value = r.clock.Nanos(ticks+rec.Value) - rec.Time
	}
}

// isWait reports whether a record is about a complete wait. The value of such a record is the length of the wait.
func (r *Reader) isWait(rec *csrc.Record) bool {
	return rec.Kind == uint8(event.GoBlock) && rec.Value != 0 && !r.packed
}

// noteLoss records the events that a lane has lost in a gap that ends at a key. If it is lastKey, the gap ends now.
func (r *Reader) noteLoss(l *readLane, lost uint32, end uint64) {
	more := lost - l.lost
	if int32(more) <= 0 {
		return
	}
	r.lost += more
	l.lost = lost
	if end == lastKey {
		end, _ = r.clock.Sample()
	}
	if r.gap == lastKey || r.gap < end {
		r.gap = end
	}
}

// endGap reports missing events again, if the last gap ends before a key. It returns false if record did.
func (r *Reader) endGap(key uint64, record func(raw []byte) bool) bool {
	if key < r.gap || r.gap == lastKey {
		return true
	}
	r.gap = lastKey
	mark := csrc.Record{Kind: uint8(event.Lost), Lost: r.lost}
	return record(unsafe.Slice((*byte)(unsafe.Pointer(&mark)), unsafe.Sizeof(mark)))
}

// next finds the next event of a lane and sets its size and key.
func (r *Reader) next(l *readLane) bool {
	q := &l.events
	if q.next() {
		rec := q.record()
		l.key = rec.Time
		if r.isWait(rec) {
			l.key += rec.Value
		}
		r.noteLoss(l, rec.Lost, l.key)
		return true
	}
	if r.noteGarbled(q) {
		r.lost++ // at least one: the rest of the lane
	}
	r.noteLoss(l, atomic.LoadUint32(&l.shared.Lost), lastKey)
	return false
}

// noteGarbled skips the rest of a ring that has no valid next record.
func (r *Reader) noteGarbled(q *readRing) bool {
	if q.tail == q.end {
		return false
	}
	r.garbled++
	q.tail = q.end
	return true
}

// free frees the space of the events that were read.
func (l *readLane) free() {
	if l.events.tail != l.freed {
		l.events.free()
		l.freed = l.events.tail
	}
}

// second returns the key of the second lane of the heap.
func (r *Reader) second() uint64 {
	key := uint64(lastKey)
	for _, l := range r.order[1:min(3, len(r.order))] {
		key = min(key, l.key)
	}
	return key
}

// sink restores the heap order after the key of a lane has increased.
func (r *Reader) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(r.order) {
			return
		}
		if other := child + 1; other < len(r.order) && r.order[other].key < r.order[child].key {
			child = other
		}
		if r.order[i].key <= r.order[child].key {
			return
		}
		r.order[i], r.order[child] = r.order[child], r.order[i]
		i = child
	}
}
