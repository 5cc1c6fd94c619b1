package goproc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/procmap"
)

// StableMemory describes memory of a process that stays readable as long as the process lives: code in the process can read it
// without a system call.
type StableMemory struct {
	Heap  HeapMap
	Image []Extent // the readable segments of the image with the runtime
}

// HeapMap is the map of the heap's pages that the runtime keeps: a page is readable if the runtime has a span for it. The zero value
// means that it is unknown.
type HeapMap struct {
	Arenas uint64 // address of the array of pointers to heapArena structs: element 0 of mheap.arenas
	Base   uint64 // added to an address, and then divided by the size of an arena: the index
	Spans  uint64 // offset of heapArena.spans, the array of pointers to mspan structs by page
}

// An Extent is a range of addresses.
type Extent struct{ Start, Size uint64 }

// Numbers that have been the same in all releases on 64-bit Linux (runtime/malloc.go). heapMap compares them with the target's
// layout.
const (
	arenaBytes = 64 << 20
	pageBytes  = 8 << 10
)

// StableMemory returns the readable memory of the process. The error is why its heap is unknown; the image is valid nevertheless.
func (p *Process) StableMemory() (StableMemory, error) {
	maps, err := p.maps()
	if err != nil {
		return StableMemory{}, err
	}
	s := StableMemory{Image: p.image(maps)}
	if s.Heap, err = p.heapMap(); err != nil {
		return s, fmt.Errorf("process %d: the pages of its heap are unknown: %w", p.pid, err)
	}
	return s, nil
}

// image returns the readable segments of the image, which the loader never unmaps: the executable stays until exec, and Go libraries
// cannot be unloaded. Other mappings of the same file do not count, because the program may unmap them.
func (p *Process) image(maps []procmap.Mapping) []Extent {
	var parts []Extent
	for _, s := range p.main.bin.Segments() {
		if part := (Extent{s.Addr + p.main.bias, s.Size}); s.Readable && mappedReadable(maps, part) {
			parts = append(parts, part)
		}
	}
	return parts
}

// mappedReadable reports whether all of a range is mapped readable. The mappings are sorted.
func mappedReadable(maps []procmap.Mapping, e Extent) bool {
	at, end := e.Start, e.Start+e.Size
	for _, m := range maps {
		if m.Start <= at && at < m.End && strings.HasPrefix(m.Perms, "r") {
			at = m.End
		}
	}
	return e.Start < end && end <= at
}

// heapMap finds the map of the heap, and checks that it has the first goroutine's g.
//
// A page with a span is readable. The runtime maps pages before it stores their spans (mheap.grow), it never unmaps them, and it
// releases them by madvise. keepsPages checks the exceptions.
func (p *Process) heapMap() (HeapMap, error) {
	gs, err := p.readAllgs()
	if err != nil {
		return HeapMap{}, err
	}
	if len(gs) == 0 {
		return HeapMap{}, errStarting
	}
	if err := p.keepsPages(); err != nil {
		return HeapMap{}, err
	}
	h, err := p.findHeapMap()
	if err != nil {
		return HeapMap{}, err
	}
	return h, p.checkSpan(h, gs[0])
}

// keepsPages returns an error if the runtime may make pages of the heap unreadable (the callers of sysFault, and sysUnusedOS). It
// has read its settings before it has goroutines, and never changes these settings.
func (p *Process) keepsPages() error {
	bin := p.main.bin
	minor := bin.Version().Minor
	if minor > gobin.NewestMinor {
		return fmt.Errorf("the runtime of %s is unknown", bin.GoVersion())
	}
	// Go 1.20 and later. The linker includes the function in programs that use package arena. With the experiment, plugins can use it.
	_, ok := bin.LookupFunc("runtime.(*mheap).allocUserArenaChunk")
	if ok || strings.Contains(bin.GoVersion(), "arenas") {
		return errors.New("the program can use package arena, which makes freed memory unreadable")
	}
	settings := []string{"efence"}
	if minor >= 18 {
		settings = append(settings, "harddecommit")
	}
	for _, name := range settings {
		addr, ok := bin.Setting(name)
		if !ok {
			return fmt.Errorf("the variable with the setting %s of GODEBUG cannot be found", name)
		}
		var value [4]byte
		if err := p.mem.read(value[:], addr+p.main.bias); err != nil {
			return err
		}
		if n := int32(binary.LittleEndian.Uint32(value[:])); n != 0 {
			return fmt.Errorf("freed memory is unreadable with GODEBUG=%s=%d", name, n)
		}
	}
	return nil
}

func (p *Process) findHeapMap() (h HeapMap, err error) {
	for name, want := range map[string]int64{"runtime.heapArenaBytes": arenaBytes, "runtime._PageSize": pageBytes} {
		if n, ok := p.layout.Const(name); ok && n != want {
			return h, fmt.Errorf("%s is %d", name, n)
		}
	}
	mheap := p.main.bin.Globals().Mheap
	if mheap == 0 {
		return h, errors.New("the address of runtime.mheap_ could not be found")
	}
	r := fieldReader{layout: p.layout}
	arenas := mheap + p.main.bias + uint64(r.need("runtime.mheap.arenas"))
	h.Spans = uint64(r.need("runtime.heapArena.spans"))
	if r.err != nil {
		return HeapMap{}, r.err
	}
	if p.main.bin.Arch() == insn.AMD64 {
		h.Base = 1 << 47 // arenaBaseOffset, negated (runtime/malloc.go)
	}
	h.Arenas, err = p.mem.u64(arenas)
	return h, err
}

// checkSpan checks that the span for the page of a g contains the g.
func (p *Process) checkSpan(h HeapMap, g uint64) error {
	r := fieldReader{layout: p.layout}
	start, pages := uint64(r.need("runtime.mspan.startAddr")), uint64(r.need("runtime.mspan.npages"))
	if r.err != nil {
		return r.err
	}
	span, err := p.spanOf(h, g)
	if err != nil {
		return err
	}
	first, errFirst := p.mem.u64(span + start)
	n, errN := p.mem.u64(span + pages)
	if err := errors.Join(errFirst, errN); err != nil {
		return err
	}
	if g < first || g-first >= n*pageBytes {
		return fmt.Errorf("the span for %#x is from %#x to %#x", g, first, first+n*pageBytes)
	}
	return nil
}

// spanOf returns the address of the mspan of a page of the heap.
func (p *Process) spanOf(h HeapMap, addr uint64) (uint64, error) {
	arena, err := p.mem.u64(h.Arenas + (addr+h.Base)/arenaBytes*8)
	if err != nil {
		return 0, err
	}
	return p.mem.u64(arena + h.Spans + (addr+h.Base)%arenaBytes/pageBytes*8)
}
