package writer

import (
	"math/bits"

	"github.com/loupe-go/loupe/trace/raw"
)

// Sizes of batches, in bytes. The events of one batch may have 64 KiB; a batch is closed before that, so that the largest
// event still fits.
const (
	batchCut   = 60 << 10
	headerRoom = 1 + 4*maxNumber // what the header of a batch takes at most
	maxNumber  = 10              // bytes of the largest number
	maxStep    = 1 << 50         // ticks between two events of a batch at most
	noID       = ^uint64(0)      // stands for no thread and no P
)

// A batch is a batch that is being filled: the events of one thread, or entries of one table.
//
// Batches are encoded here, not by raw.Writer: those of all threads are open at the same time, and keep their events in
// the few bytes that these take in the trace.
type batch struct {
	buf  []byte // room for the header, then what the batch has; empty when it has nothing
	time uint64 // when it begins, in ticks
	last uint64 // when its last event was, in ticks
}

// begin begins a batch. Readers turn its time into a floating-point number, so only times are used that are exact there.
func (b *batch) begin(t uint64) {
	if cap(b.buf) == 0 {
		b.buf = make([]byte, 0, 1<<10)
	}
	b.buf = b.buf[:headerRoom]
	if n := bits.Len64(t); n > 53 {
		t &^= 1<<(n-53) - 1
	}
	b.time, b.last = t, t
}

// size returns how many bytes of events the batch has.
func (b *batch) size() int { return max(len(b.buf)-headerRoom, 0) }

// appendNumber appends a number as traces have it: seven bits in each byte, the lowest first.
func appendNumber(b []byte, x uint64) []byte {
	for x >= 0x80 {
		b = append(b, byte(x)|0x80)
		x >>= 7
	}
	return append(b, byte(x))
}

// flush writes a batch of a thread and empties it.
func (w *Writer) flush(b *batch, thread uint64) {
	if len(b.buf) == 0 {
		return
	}
	var room [headerRoom]byte
	h := append(room[:0], byte(raw.EvEventBatch))
	for _, x := range [...]uint64{w.gen, thread, b.time, uint64(b.size())} {
		h = appendNumber(h, x)
	}
	at := headerRoom - len(h)
	copy(b.buf[at:], h)
	w.output(b.buf[at:])
	b.buf = b.buf[:0]
}

// output writes bytes of the trace. After an error nothing more is written.
func (w *Writer) output(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.out.Write(b)
	w.stats.Bytes += uint64(n)
	w.err = err
}

// emit writes an event of a thread, at the time of the event that is being handled or right after the last one written.
func (w *Writer) emit(m *thread, typ raw.Type, args ...uint64) {
	t := w.last + 1
	if t < w.want {
		t = w.want
	}
	w.last = t
	w.emitAt(m, t, typ, args...)
}

// emitAt writes an event of a thread at a time that is later than that of its last one.
func (w *Writer) emitAt(m *thread, t uint64, typ raw.Type, args ...uint64) {
	b := &m.batch
	if b.size() >= batchCut || len(b.buf) > 0 && t-b.last > maxStep {
		w.flush(b, m.id)
	}
	if len(b.buf) == 0 {
		b.begin(t)
	}
	buf := append(b.buf, byte(typ))
	buf = appendNumber(buf, t-b.last)
	for _, x := range args {
		buf = appendNumber(buf, x)
	}
	b.buf, b.last = buf, t
	w.at = m
	w.stats.Written++
}
