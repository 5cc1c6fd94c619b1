package sched

import (
	"time"

	"github.com/loupe-go/loupe/event"
)

// phases follows the garbage collector, stops of the whole program and the heap.
type phases struct {
	gc, stw       phase
	pauses        Histogram
	heap, heapMax int64
	heapAt        int64
}

// phase is a recurring interval, such as a garbage collection.
type phase struct {
	begun     uint64
	since     int64 // start time; meaningful while active
	active    bool
	count     uint64 // phases observed from start to end
	time      Nanos
	max       int64
	uncertain uint64 // phases whose start or end was missed
}

func (p *phase) begin(t int64) {
	p.interrupt()
	p.begun++
	p.active, p.since = true, t
}

// end returns the length of the phase; false if its start was missed.
func (p *phase) end(t int64) (int64, bool) {
	if !p.active {
		p.uncertain++
		return 0, false
	}
	d := max(t-p.since, 0)
	p.active = false
	p.count++
	p.time.add(d)
	p.max = max(p.max, d)
	return d, true
}

// until returns how long phases have been active until t.
func (p *phase) until(t int64) int64 {
	whole := int64(p.time.Duration())
	if p.active {
		whole += max(t-p.since, 0)
	}
	return whole
}

// interrupt abandons the current phase, whose end was missed.
func (p *phase) interrupt() {
	if p.active {
		p.active = false
		p.uncertain++
	}
}

// interrupt abandons the current phases after a loss. A later end is known to belong to one of these, and
// is counted as uncertain at most twice.
func (ph *phases) interrupt() {
	ph.gc.interrupt()
	ph.stw.interrupt()
}

func (ph *phases) apply(e *event.Event, t int64) {
	switch e.Kind {
	case event.GCBegin:
		ph.gc.begin(t)
	case event.GCEnd:
		ph.gc.end(t)
	case event.STWBegin:
		ph.stw.begin(t)
	case event.STWEnd:
		if d, ok := ph.stw.end(t); ok {
			ph.pauses.Add(time.Duration(d))
		}
	case event.HeapAlloc:
		ph.heap, ph.heapAt = max(e.HeapBytes(), 0), t
		ph.heapMax = max(ph.heapMax, ph.heap)
	}
}

// Phase is something that the whole program goes through again and again: a garbage collection, a stop of the world.
type Phase struct {
	Active    bool          // under way now
	Begun     uint64        // how often it began
	Count     uint64        // how often it was seen from begin to end
	Time      Nanos         // how long these took together
	Max       time.Duration // and the longest of them
	Uncertain uint64        // how often the begin or the end was not seen
}

func (p *phase) view() Phase {
	return Phase{p.active, p.begun, p.count, p.time, time.Duration(p.max), p.uncertain}
}

// Runtime is what the Go runtime itself does.
type Runtime struct {
	GC      Phase
	STW     Phase     // stops of the whole program
	Pauses  Histogram // the lengths of these stops
	Heap    int64     // bytes of heap objects when it was last told, at HeapAt
	HeapAt  int64     // nanoseconds since the Unix epoch; 0 when it was never told
	HeapMax int64
}

// Runtime returns what is known of the garbage collector, stops of the world and the heap.
func (m *Machine) Runtime() Runtime {
	m.mu.Lock()
	defer m.mu.Unlock()
	ph := &m.phases
	return Runtime{ph.gc.view(), ph.stw.view(), ph.pauses, ph.heap, ph.heapAt, ph.heapMax}
}
