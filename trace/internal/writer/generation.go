package writer

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// advance notes the time of the next event, and begins a new generation where one is due.
func (w *Writer) advance(e *event.Event) {
	w.want = uint64(min(max(e.Time, 1), maxTime))
	w.begun = w.begun || e.Kind != event.GoStatus
	switch {
	case w.gen == 0:
		w.beginGeneration(max(w.want-1, 1))
	case w.begun && w.due():
		// The snapshot with which a stream begins is in one generation: only there goroutines can be told of as they are.
		w.turnGeneration()
	}
}

// due reports whether the generation is to end. While the world is stopped it goes on, unless that takes very long.
func (w *Writer) due() bool {
	late, size, threads := w.genEnd, maxTables, maxNewThreads
	if w.stw != nil {
		late, size, threads = late+uint64(w.opt.Generation), 2*size, 2*threads
	}
	return w.want >= late || w.tables.size >= size || w.newThreads >= threads
}

// turnGeneration ends the generation and begins the next one.
func (w *Writer) turnGeneration() {
	w.settleAll()
	w.tellExecuting()
	if w.stw != nil {
		w.endSTW(w.stw)
	}
	if w.gcUntold {
		m := w.user()
		w.tellGC(m)
		w.leave(m)
	}
	w.endGeneration()
	w.prune()
	w.beginGeneration(max(w.want-1, w.last+gap))
	w.tellAll()
}

// tellAll tells what everything does, so that the generations from this one on are a trace by themselves.
func (w *Writer) tellAll() {
	for _, m := range w.order {
		if m.p != nil {
			w.tellProc(m.p, m)
		}
		if m.g != nil {
			w.tellStatus(m.g, m)
		}
	}
	if len(w.all) > 0 {
		m := w.aside()
		for _, g := range w.all {
			w.tellStatus(g, m)
		}
	}
	w.gcUntold = w.gc == gcRunning
}

// beginGeneration begins the next generation.
func (w *Writer) beginGeneration(t uint64) {
	w.gen++
	w.genBegin, w.last = t, t
	w.genEnd = t + min(uint64(w.opt.Generation), maxTime)
	w.tables.reset()
	w.newThreads = 0
}

// endGeneration writes all that is left of the generation.
func (w *Writer) endGeneration() {
	for _, m := range w.order {
		w.flush(&m.batch, m.id)
	}
	w.flush(&w.samples, noID)
	w.flush(&w.tables.stackBatch, noID)
	w.flush(&w.tables.stringBatch, noID)
	w.sync()
	if w.opt.Version >= raw.Go126 {
		w.output([]byte{byte(raw.EvEndOfGeneration)})
	}
	w.stats.Generations++
}

// frequency is how many ticks a second has: they are nanoseconds since the Unix epoch.
const frequency = 1e9

// sync writes what relates the trace's clock to others.
func (w *Writer) sync() {
	var b batch
	b.begin(w.genBegin)
	if w.opt.Version >= raw.Go125 {
		b.buf = append(b.buf, byte(raw.EvSync))
	}
	b.buf = append(b.buf, byte(raw.EvFrequency))
	b.buf = appendNumber(b.buf, frequency)
	if w.opt.Version >= raw.Go125 {
		b.buf = append(b.buf, byte(raw.EvClockSnapshot))
		// The monotonic clock is the trace's own: that of the process is not known.
		for _, x := range [...]uint64{0, b.time, b.time / frequency, b.time % frequency} {
			b.buf = appendNumber(b.buf, x)
		}
	}
	w.flush(&b, noID)
}

// prune forgets threads that have neither a goroutine nor a P. Readers know as much of a thread that is new to them.
func (w *Writer) prune() {
	left := w.order[:0]
	for _, m := range w.order {
		if m.g != nil || m.p != nil {
			left = append(left, m)
			continue
		}
		delete(w.threads, m.id)
		if m == w.observer {
			w.observer = nil
		}
	}
	clear(w.order[len(left):])
	w.order = left
	w.at, w.lastM = nil, nil
	spare := w.spareM[:0]
	for _, m := range w.spareM {
		if m.p != nil {
			spare = append(spare, m)
		}
	}
	clear(w.spareM[len(spare):])
	w.spareM = spare
}
