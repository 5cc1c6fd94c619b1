package sched

import (
	"time"

	"github.com/loupe-go/loupe/event"
)

// phases tracks garbage collections, STW pauses and the size of the heap.
type phases struct {
	gc, stw       phase
	pauses        Histogram
	heap, heapMax int64
	heapAt        int64
}

// phase holds the counts of a Phase.
type phase struct {
	begun     uint64
	since     int64 // start time; valid while active
	active    bool
	count     uint64
	time      Nanos
	max       int64 // nanoseconds
	uncertain uint64
}

func (p *phase) begin(t int64) {
	p.interrupt()
	p.begun++
	p.active, p.since = true, t
}

// end returns the duration of the phase in nanoseconds. The result is false if its start was not observed.
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

// until returns the total duration of the phases until t, in nanoseconds.
func (p *phase) until(t int64) int64 {
	whole := int64(p.time.Duration())
	if p.active {
		whole += max(t-p.since, 0)
	}
	return whole
}

// interrupt ends the current phase as uncertain.
func (p *phase) interrupt() {
	if p.active {
		p.active = false
		p.uncertain++
	}
}

// interrupt ends the current phases as uncertain, because events were lost. If the end of such a phase still arrives, the phase
// counts as uncertain twice.
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

// A Phase summarizes the occurrences of a recurring interval of the program, such as garbage collections. Counts and times are
// since the start of the observation, or since the last Exec event.
type Phase struct {
	Active bool          // a phase has begun and not ended
	Begun  uint64        // phases whose start was observed
	Count  uint64        // phases that were observed from start to end
	Time   Nanos         // total duration of the phases in Count
	Max    time.Duration // the longest duration of the phases in Count

	// Uncertain is the number of starts without an observed end, plus the number of ends without an observed start. A phase
	// during which other events were lost can count twice.
	Uncertain uint64
}

func (p *phase) view() Phase {
	return Phase{p.active, p.begun, p.count, p.time, time.Duration(p.max), p.uncertain}
}

// Runtime is the activity of the Go runtime.
type Runtime struct {
	GC      Phase     // garbage collections, from GCBegin to GCEnd
	STW     Phase     // STW pauses, from STWBegin to STWEnd
	Pauses  Histogram // durations of the STW pauses
	Heap    int64     // size of the heap in bytes, as of the last HeapAlloc event
	HeapAt  int64     // time of that event in nanoseconds since the Unix epoch; 0 if there was none
	HeapMax int64     // maximum size of the heap in bytes
}

// Runtime returns the garbage collections, the STW pauses and the size of the heap.
func (m *Machine) Runtime() Runtime {
	m.mu.Lock()
	defer m.mu.Unlock()
	ph := &m.phases
	return Runtime{ph.gc.view(), ph.stw.view(), ph.pauses, ph.heap, ph.heapAt, ph.heapMax}
}
