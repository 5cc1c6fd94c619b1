package raw

import "fmt"

// writeCompound writes an event of which any part may be present, and looks after batches.
func (w *Writer) writeCompound(ev *Event, c *code) error {
	if w.closed {
		return errClosed
	}
	out := &w.out
	if out.err != nil {
		return out.err
	}
	if w.RecomputeSizes && !w.f.version.V1() {
		switch ev.Type {
		case EvEventBatch:
			return w.startBatch(ev)
		case EvExperimentalBatch, EvEndOfGeneration:
			w.batch.end(out)
		}
	}
	if !w.room(maxPlain + maxVarint) {
		return out.err
	}
	if c.plain && len(ev.Widths) == 0 {
		w.putPlain(ev)
	} else if !w.putParts(ev, c) {
		return out.err
	}
	if w.batch.open && w.batch.events(out) > MaxBatch {
		out.err = errBatch
	}
	return out.err
}

// errBatch is the error of a batch whose size is recomputed, and that has become too big.
var errBatch = fmt.Errorf("batch exceeds %d bytes of events, the limit of readers", MaxBatch)

// room makes room for n more bytes. Events of an open batch stay in the buffer.
func (w *Writer) room(n int) bool {
	out := &w.out
	if !w.batch.open {
		return out.room(n)
	}
	// startBatch has made room for all that a batch may have.
	if out.err == nil && len(out.buf)-out.size < n {
		out.err = errBatch
	}
	return out.err == nil
}

// putParts puts an event into the buffer, number by number, each in the width that ev.Widths asks for.
func (w *Writer) putParts(ev *Event, c *code) bool {
	out := &w.out
	out.buf[out.size] = w.f.first[ev.Type]
	out.size++
	widths := ev.Widths
	if c.length {
		rest := widths
		if len(rest) > 0 {
			rest = rest[1:]
		}
		widths = w.put(partsSize(ev, rest), widths)
	}
	for _, x := range ev.Args {
		widths = w.put(x, widths)
	}
	for i := range ev.Frames {
		if !w.room(4 * maxVarint) {
			return false
		}
		f := &ev.Frames[i]
		widths = w.put(f.PC, widths)
		widths = w.put(f.Func, widths)
		widths = w.put(f.File, widths)
		widths = w.put(f.Line, widths)
	}
	if !c.spec.HasData {
		return true
	}
	if !w.room(maxVarint) {
		return false
	}
	w.put(uint64(len(ev.Data)), widths)
	if w.batch.open && !w.room(len(ev.Data)) {
		return false
	}
	return out.add(ev.Data)
}

// put puts a number into the buffer, which has room for it, in the first of some widths. It returns the other widths.
func (w *Writer) put(x uint64, widths []uint8) []uint8 {
	out := &w.out
	b := (*[maxVarint]byte)(out.buf[out.size:])
	if len(widths) == 0 {
		out.size += putVarint(b, x)
		return nil
	}
	out.size += putVarintWidth(b, x, min(widths[0], maxVarint))
	return widths[1:]
}

// partsSize returns how many bytes the arguments and frames of an event take.
func partsSize(ev *Event, widths []uint8) uint64 {
	size := 0
	add := func(x uint64) {
		n := varintSize(x)
		if len(widths) > 0 {
			n = max(n, int(min(widths[0], maxVarint)))
			widths = widths[1:]
		}
		size += n
	}
	for _, x := range ev.Args {
		add(x)
	}
	for _, f := range ev.Frames {
		add(f.PC)
		add(f.Func)
		add(f.File)
		add(f.Line)
	}
	return uint64(size)
}

// An openBatch is a batch in an output buffer whose size is not known yet.
type openBatch struct {
	open  bool
	start int // where its header is
	size  int // where its size has to go; its events begin maxVarint bytes later
	width uint8
}

// startBatch ends the open batch and begins the one that ev is the header of.
func (w *Writer) startBatch(ev *Event) error {
	out := &w.out
	w.batch.end(out)
	if !out.room(2*maxPlain + MaxBatch) {
		return out.err
	}
	w.batch = openBatch{open: true, start: out.size}
	out.buf[out.size] = w.f.first[ev.Type]
	out.size++
	widths := ev.Widths
	last := len(ev.Args) - 1
	for _, x := range ev.Args[:last] {
		widths = w.put(x, widths)
	}
	if len(widths) > 0 {
		w.batch.width = min(widths[0], maxVarint)
	}
	w.batch.size = out.size
	out.size += maxVarint
	return nil
}

// events returns how many bytes the events of the batch take so far.
func (b *openBatch) events(out *outputBuffer) int { return out.size - b.size - maxVarint }

// end puts the size of the batch into its header.
func (b *openBatch) end(out *outputBuffer) {
	if !b.open {
		return
	}
	b.open = false
	size := b.events(out)
	n := putVarintWidth((*[maxVarint]byte)(out.buf[b.size:]), uint64(size), b.width)
	copy(out.buf[b.size+n:], out.buf[b.size+maxVarint:out.size])
	out.size -= maxVarint - n
}

// moved tells that what is before the batch has left the buffer.
func (b *openBatch) moved() {
	b.size -= b.start
	b.start = 0
}
