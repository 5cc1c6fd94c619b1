package goproc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/loupe-go/loupe/event"
)

// Reading the runtime's counters of memory while the program changes them. A reading is one image of the counters, the counts
// in the caches of the Ps, and the image again: if both images and the caches are equal, the numbers belong together.

const (
	quietAttempts = 20                     // readings until a torn one is accepted
	maxReading    = 500 * time.Millisecond // after which a process whose numbers contradict each other is refused
	cachesAtOnce  = 32                     // Ps whose caches are read with one system call

	maxSpanObjects = 1 << 16 // in a span with small objects; the smallest have 8 bytes in a span of 8 KiB
)

// heapReading is one consistent or torn reading.
type heapReading struct {
	img bookImage

	// Counts of objects that the caches of the Ps have allocated and freed beyond the counters in img, by size class.
	allocs, smallFrees    []int64
	tiny                  uint64
	largeFree, largeFrees uint64

	torn bool

	// changing is the size of the objects in spans that a P was exchanging for others. Their counts may be wrong by that.
	changing uint64
}

var errBooks = errors.New("the runtime's memory counters contradict each other")

// heapBooks returns the places of the process's counters.
func (p *Process) heapBooks() (*heapBooks, error) {
	p.booksOnce.Do(func() { p.books, p.booksErr = newHeapBooks(p.layout, p.main.bin.Globals(), p.main.bias) })
	if p.booksErr != nil {
		return nil, fmt.Errorf("process %d: %w: %s: %w", p.pid, ErrLayout, p.main.bin.Path(), p.booksErr)
	}
	return p.books, nil
}

// readHeap fills the parts of m that come from the runtime.
func (p *Process) readHeap(ctx context.Context, m *event.Memory) error {
	b, err := p.heapBooks()
	if err != nil {
		return err
	}
	var best *event.Memory
	var problem error
	deadline := time.Now().Add(maxReading)
	for n := 1; ; n++ {
		r, after, err := p.readOnce(b)
		if err != nil && !errors.Is(err, errBooks) {
			return err
		}
		var now event.Memory
		if err == nil {
			now, err = b.memory(r)
		}
		if err == nil {
			now.Time, now.Reading = time.Now(), event.MemoryReading{Attempts: n, Torn: r.torn}
			if r.torn {
				b.moved(&now, r, after)
			}
			if best == nil || !now.Reading.Torn || now.Reading.Allocated+now.Reading.Freed < best.Reading.Allocated+best.Reading.Freed {
				best = &now
			}
		} else {
			problem = err
		}
		switch {
		case best != nil && (!best.Reading.Torn || n >= quietAttempts):
			best.Reading.Attempts = n
			m.Time, m.Heap, m.Runtime, m.GC, m.BySize, m.Reading = best.Time, best.Heap, best.Runtime, best.GC, best.BySize, best.Reading
			return nil
		case time.Now().After(deadline) && n >= quietAttempts:
			return fmt.Errorf("process %d: %w: %w", p.pid, ErrLayout, problem)
		}
		if err := p.alive(ctx); err != nil {
			return err
		}
		if n%4 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// moved notes how far the counters of a torn reading moved meanwhile.
func (b *heapBooks) moved(m *event.Memory, r *heapReading, after bookImage) {
	again := *r
	again.img = after
	before, _ := b.counts(r)
	later, _ := b.counts(&again)
	m.Reading.Allocated = distance(before.TotalAlloc, later.TotalAlloc) + r.changing
	m.Reading.Freed = distance(before.TotalAlloc-before.Alloc, later.TotalAlloc-later.Alloc)
}

func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// readOnce reads the counters once. It also returns the image of the counters as of after the reading.
func (p *Process) readOnce(b *heapBooks) (r *heapReading, after bookImage, err error) {
	r = &heapReading{allocs: make([]int64, len(b.classes)), smallFrees: make([]int64, len(b.classes))}
	ps, err := p.readAllp(b)
	if err != nil {
		return nil, nil, err
	}
	heads, err := p.readProcHeads(b, ps)
	if err != nil {
		return nil, nil, err
	}
	if r.img, err = p.readBooks(b); err != nil {
		return nil, nil, err
	}
	caches, err := p.readCaches(b, heads, r)
	if err != nil {
		return nil, nil, err
	}
	if after, err = p.readBooks(b); err != nil {
		return nil, nil, err
	}
	headsAgain, err := p.readProcHeads(b, ps)
	if err != nil {
		return nil, nil, err
	}
	cachesAgain, err := p.readCaches(b, headsAgain, nil)
	if err != nil {
		return nil, nil, err
	}
	r.torn = !bytes.Equal(r.img, after) || caches != cachesAgain
	r.torn = r.torn || r.changing > 0
	for i := range heads {
		r.torn = r.torn || heads[i] != headsAgain[i] || heads[i].statsSeq%2 != 0
	}
	return r, after, nil
}

// readBooks reads the image of the counters.
func (p *Process) readBooks(b *heapBooks) (bookImage, error) {
	img := make(bookImage, b.size)
	spans := make([]span, len(b.places))
	at := 0
	for i, place := range b.places {
		spans[i] = span{addr: place.addr, buf: img[at : at+place.size]}
		at += place.size
	}
	if err := p.mem.readSpans(spans); err != nil {
		return nil, err
	}
	for _, s := range spans {
		if !s.ok {
			return nil, fmt.Errorf("process %d: %w: no readable memory at %#x", p.pid, ErrLayout, s.addr)
		}
	}
	return img, nil
}

// readAllp returns the addresses of the Ps.
func (p *Process) readAllp(b *heapBooks) ([]uint64, error) {
	var header [16]byte
	if err := p.mem.read(header[:], b.allp); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(header[8:])
	if n == 0 || n > maxGOMAXPROCS {
		return nil, fmt.Errorf("%w: %d Ps", errBooks, n)
	}
	list := make([]byte, 8*n)
	if err := p.mem.read(list, binary.LittleEndian.Uint64(header[:])); err != nil {
		return nil, fmt.Errorf("%w: %w", errBooks, err)
	}
	return words(list), nil
}

// procHead is what a P itself says about its counts.
type procHead struct {
	mcache   uint64
	statsSeq uint32 // odd while the P updates memstats.heapStats
}

func (p *Process) readProcHeads(b *heapBooks, ps []uint64) ([]procHead, error) {
	caches, err := p.words(ps, b.procs.mcache)
	if err != nil {
		return nil, err
	}
	seqs := make([]uint64, len(ps))
	if b.procs.statsSeq != none {
		if seqs, err = p.words(ps, b.procs.statsSeq); err != nil {
			return nil, err
		}
	}
	heads := make([]procHead, len(ps))
	for i := range heads {
		heads[i] = procHead{caches[i], uint32(seqs[i])}
	}
	return heads, nil
}

// readCaches adds the counts in the caches of the Ps to r, unless that is nil. It returns a hash of what the caches refer to.
func (p *Process) readCaches(b *heapBooks, heads []procHead, r *heapReading) (sum uint64, err error) {
	c := &b.procs
	buf := make([]byte, cachesAtOnce*c.cacheSize)
	spans := make([]span, 0, cachesAtOnce)
	var hash maphash.Hash
	hash.SetSeed(stackSeed)
	for len(heads) > 0 {
		n := min(len(heads), cachesAtOnce)
		spans = spans[:0]
		for i, h := range heads[:n] {
			if h.mcache == 0 {
				return 0, fmt.Errorf("%w: a P has no cache", errBooks)
			}
			spans = append(spans, span{addr: h.mcache, buf: buf[i*c.cacheSize : (i+1)*c.cacheSize]})
		}
		heads = heads[n:]
		if err := p.mem.readSpans(spans); err != nil {
			return 0, err
		}
		var cached []uint64
		for _, s := range spans {
			if !s.ok {
				return 0, fmt.Errorf("%w: no cache of a P at %#x", errBooks, s.addr)
			}
			hash.Write(s.buf[c.alloc : c.alloc+8*c.spanClasses])
			if r != nil {
				r.addCache(b, s.buf)
				cached = append(cached, words(s.buf[c.alloc:c.alloc+8*c.spanClasses])...)
			}
		}
		if err := p.readCachedSpans(b, cached, r); err != nil {
			return 0, err
		}
	}
	return hash.Sum64(), nil
}

// addCache adds the counters in a runtime.mcache.
func (r *heapReading) addCache(b *heapBooks, cache []byte) {
	c := &b.procs
	word := func(off int) uint64 {
		if off == none {
			return 0
		}
		return binary.LittleEndian.Uint64(cache[off:])
	}
	r.tiny += word(c.tiny)
	r.largeFree += word(c.largeFree)
	r.largeFrees += word(c.largeFrees)
	if c.smallFrees != none {
		for class := range r.smallFrees {
			r.smallFrees[class] += int64(word(c.smallFrees + 8*class))
		}
	}
}

// readCachedSpans adds what the spans in caches say. Since Go 1.19 the counters lack the objects that were allocated since a
// span is in a cache. Until Go 1.18 they contain all its objects, allocated or not (mcache.refill and releaseAll).
func (p *Process) readCachedSpans(b *heapBooks, addrs []uint64, r *heapReading) error {
	if len(addrs) == 0 {
		return nil
	}
	c := &b.procs
	size := c.spanHi - c.spanLo
	buf := make([]byte, size*len(addrs))
	spans := make([]span, len(addrs))
	for i, addr := range addrs {
		spans[i] = span{addr: addr + uint64(c.spanLo), buf: buf[size*i : size*(i+1)]}
	}
	if err := p.mem.readSpans(spans); err != nil {
		return err
	}
	for i, s := range spans {
		if !s.ok {
			return fmt.Errorf("%w: no span of a cache at %#x", errBooks, addrs[i])
		}
		if err := r.addSpan(b, s.buf, i%c.spanClasses); err != nil {
			return err
		}
	}
	return nil
}

// addSpan adds what a span in a cache says. class is the span class that the cache has it for.
func (r *heapReading) addSpan(b *heapBooks, s []byte, class int) error {
	c := &b.procs
	half := func(off int) int64 { return int64(binary.LittleEndian.Uint16(s[off-c.spanLo:])) }
	elems := half(c.elems)
	if c.elemsSize == 8 {
		elems = int64(binary.LittleEndian.Uint64(s[c.elems-c.spanLo:]))
	}
	allocs := half(c.allocs)
	if elems == 0 && allocs == 0 {
		return nil // emptymspan
	}
	size := binary.LittleEndian.Uint64(s[c.elemSize-c.spanLo:])
	own := int(s[c.spanClass-c.spanLo])
	if own != class || class/2 == 0 || size != uint64(b.classes[class/2]) || allocs > elems || elems > maxSpanObjects {
		return fmt.Errorf("%w: a cache of span class %d has a span of class %d with %d of %d objects of %d bytes", errBooks, class, own, allocs, elems, size)
	}
	// A span that has left the cache is counted in full, and stays there until the P has another one (mcache.refill).
	current := uint32(b.u64(r.img, fieldSweepgen))
	if gen := binary.LittleEndian.Uint32(s[c.sweepgen-c.spanLo:]); gen != current+3 && gen != current+1 {
		r.changing += uint64(elems) * size
		return nil
	}
	if c.beforeCache == none {
		r.allocs[class/2] -= elems - allocs
		return nil
	}
	before := half(c.beforeCache)
	if before > allocs {
		return fmt.Errorf("%w: a span has %d objects and had %d before", errBooks, allocs, before)
	}
	r.allocs[class/2] += allocs - before
	return nil
}
