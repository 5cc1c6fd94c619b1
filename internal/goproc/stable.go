package goproc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
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

	Starting StartingHeap // if Arenas is 0 because the runtime is starting
}

// StartingHeap is what code in a process requires to find the map of its heap itself, when the runtime has goroutines: as heapMap does.
type StartingHeap struct {
	Arenas               uint64    // address of element 0 of mheap.arenas
	Faults               [2]uint64 // addresses of settings, int32, that make freed memory unreadable unless they are 0; 0: no setting
	SpanStart, SpanPages uint64    // offsets of mspan.startAddr and mspan.npages
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
// While the runtime is starting, the heap is not known yet: call it again later.
func (p *Process) StableMemory() (StableMemory, error) {
	maps, err := p.maps()
	if err != nil {
		return StableMemory{}, err
	}
	s := StableMemory{Image: p.image(maps)}
	s.Heap, err = p.heapMap()
	if errors.Is(err, errStarting) {
		s.Heap, err = p.startingHeap(s.Image)
	}
	if err != nil {
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
	settings, err := p.faultSettings()
	if err != nil {
		return err
	}
	for name, addr := range settings {
		var value [4]byte
		if err := p.mem.read(value[:], addr); err != nil {
			return err
		}
		if n := int32(binary.LittleEndian.Uint32(value[:])); n != 0 {
			return fmt.Errorf("freed memory is unreadable with GODEBUG=%s=%d", name, n)
		}
	}
	return nil
}

// faultSettings returns the addresses of the settings that make pages of the heap unreadable unless they are 0.
func (p *Process) faultSettings() (map[string]uint64, error) {
	bin := p.main.bin
	minor := bin.Version().Minor
	if minor > gobin.NewestMinor {
		return nil, fmt.Errorf("the runtime of %s is unknown", bin.GoVersion())
	}
	// Go 1.20 and later. The linker includes the function in programs that use package arena. With the experiment, plugins can use it.
	_, ok := bin.LookupFunc("runtime.(*mheap).allocUserArenaChunk")
	if ok || strings.Contains(bin.GoVersion(), "arenas") {
		return nil, errors.New("the program can use package arena, which makes freed memory unreadable")
	}
	names := []string{"efence"}
	if minor >= 18 {
		names = append(names, "harddecommit")
	}
	settings := map[string]uint64{}
	for _, name := range names {
		addr, ok := bin.Setting(name)
		if !ok {
			return nil, fmt.Errorf("the variable with the setting %s of GODEBUG cannot be found", name)
		}
		settings[name] = addr + p.main.bias
	}
	return settings, nil
}

// startingHeap returns what is known of the heap before the runtime has goroutines. What code in the process reads of it without a check
// is in the image.
func (p *Process) startingHeap(image []Extent) (HeapMap, error) {
	settings, err := p.faultSettings()
	if err != nil {
		return HeapMap{}, err
	}
	h, at, err := p.heapLayout()
	if err != nil {
		return HeapMap{}, err
	}
	r := fieldReader{layout: p.layout}
	h.Starting = StartingHeap{Arenas: at, SpanStart: uint64(r.need("runtime.mspan.startAddr")), SpanPages: uint64(r.need("runtime.mspan.npages"))}
	if r.err != nil {
		return HeapMap{}, r.err
	}
	words := append(slices.Collect(maps.Values(settings)), at)
	copy(h.Starting.Faults[:], words[:len(settings)])
	for _, addr := range words {
		if !slices.ContainsFunc(image, func(e Extent) bool { return addr-e.Start < e.Size && e.Size-(addr-e.Start) >= 8 }) {
			return HeapMap{}, fmt.Errorf("the variable at %#x is not in the executable", addr)
		}
	}
	return h, nil
}

func (p *Process) findHeapMap() (HeapMap, error) {
	h, at, err := p.heapLayout()
	if err != nil {
		return HeapMap{}, err
	}
	h.Arenas, err = p.mem.u64(at)
	return h, err
}

// heapLayout returns the map without Arenas, and the address at which the runtime stores that.
func (p *Process) heapLayout() (h HeapMap, arenas uint64, err error) {
	for name, want := range map[string]int64{"runtime.heapArenaBytes": arenaBytes, "runtime._PageSize": pageBytes} {
		if n, ok := p.layout.Const(name); ok && n != want {
			return HeapMap{}, 0, fmt.Errorf("%s is %d", name, n)
		}
	}
	mheap := p.main.bin.Globals().Mheap
	if mheap == 0 {
		return HeapMap{}, 0, errors.New("the address of runtime.mheap_ could not be found")
	}
	r := fieldReader{layout: p.layout}
	arenas = mheap + p.main.bias + uint64(r.need("runtime.mheap.arenas"))
	h.Spans = uint64(r.need("runtime.heapArena.spans"))
	if r.err != nil {
		return HeapMap{}, 0, r.err
	}
	if p.main.bin.Arch() == insn.AMD64 {
		h.Base = 1 << 47 // arenaBaseOffset, negated (runtime/malloc.go)
	}
	return h, arenas, nil
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
