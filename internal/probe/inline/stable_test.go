package inline

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// madeUpHeap is a map of the pages of a heap.
type madeUpHeap struct {
	tb     testing.TB
	arenas []uint64 // addresses of the heapArena structs
	base   uint64
}

const (
	atSpans   = 24 // offset of heapArena.spans
	arenaSize = 64 << 20
	heapPage  = 8 << 10
)

func newMadeUpHeap(tb testing.TB) *madeUpHeap {
	h := &madeUpHeap{tb: tb}
	if runtime.GOARCH == "amd64" {
		h.base = 1 << 47
	}
	h.arenas = unsafe.Slice((*uint64)(h.mmap(1<<48/arenaSize*8)), 1<<48/arenaSize)
	return h
}

func (h *madeUpHeap) mmap(size int) unsafe.Pointer {
	h.tb.Helper()
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		h.tb.Fatal(err)
	}
	h.tb.Cleanup(func() { unix.MunmapPtr(p, uintptr(size)) })
	return p
}

// set sets whether the page of an address has a span.
func (h *madeUpHeap) set(addr uint64, has bool) {
	arena := &h.arenas[(addr+h.base)/arenaSize]
	if *arena == 0 {
		*arena = uint64(uintptr(h.mmap(atSpans + arenaSize/heapPage*8)))
	}
	span := uint64(0)
	if has {
		span = 0x1234
	}
	put(*arena+atSpans+(addr+h.base)%arenaSize/heapPage*8, span)
}

func (h *madeUpHeap) use(o *Options) {
	o.Stable.Heap = goproc.HeapMap{Arenas: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(h.arenas)))), Base: h.base, Spans: atSpans}
}

// TestStableReads reads memory of the heap and of the executable without system calls, and no other memory.
func TestStableReads(t *testing.T) {
	const unreadable = 2
	heap := newMadeUpHeap(t)
	pages := uint64(uintptr(heap.mmap(4*heapPage))) &^ (heapPage - 1)
	pages += heapPage                             // the first whole page
	heap.base -= (pages + 2*heapPage) % arenaSize // the third page begins an arena
	part := uint64(uintptr(heap.mmap(4096)))
	w := newSetWorld(t, heap.use, func(o *Options) {
		o.Stable.Image = []goproc.Extent{{Start: 0x400000, Size: 16}, {Start: part, Size: 4096}}
	})
	w.region.AllowReads(false)
	th := w.thread(7, 1234, 1)
	body := w.body(Place{Set: 1, Probe: 0, G: gRegister})
	parcel, to, city := pages, pages+64, pages+128
	label := func(addr, size uint64) {
		put(parcel+8, to)
		put(to+16, city)
		for _, s := range []uint64{to, city} {
			put(s, part)
			put(s+8, 4)
		}
		put(parcel+16, addr)
		put(parcel+24, size)
	}
	for _, c := range []struct {
		name       string
		addr, size uint64
		second     bool // the second page has a span
		good       bool
	}{
		{"heap", pages + 256, 60, false, true}, {"end of a page", pages + heapPage - 20, 20, false, true},
		{"two pages", pages + heapPage - 20, 21, true, true}, {"end of the heap", pages + heapPage - 20, 21, false, false},
		{"second page", pages + heapPage, 8, false, false}, {"second page with a span", pages + heapPage, 8, true, true},
		{"two arenas", pages + 2*heapPage - 20, 21, true, true}, {"second arena", pages + 2*heapPage - 20, 21, false, false},
		{"one byte", pages + 300, 1, false, true}, {"odd", pages + 301, 13, false, true},
		{"executable", part, 4, false, true}, {"all of it", part + 4096 - 64, 64, false, true}, {"beyond", part + 4096 - 3, 4, false, false},
		{"before", part - 1, 4, false, false}, {"no arena", 0x7000_0000_0000 - arenaSize, 8, false, false}, {"low", 0x1000, 8, false, false},
		{"kernel", 1<<47 - 8, 8, false, false}, {"high", ^uint64(7), 8, false, false},
	} {
		heap.set(pages, true)
		heap.set(pages+2*heapPage, true)
		heap.set(pages+heapPage, c.second)
		label(c.addr, c.size)
		th.args(0, parcel).hit(body)
		events, _ := w.events()
		if len(events) != 1 || (events[0].Flags&unreadable == 0) != c.good {
			t.Errorf("%s: %+v, want readable: %t", c.name, events, c.good)
		}
	}
}

// TestStartingHeap hits a probe in a program that was starting when the probe was put there: the probe finds the heap when the runtime has
// stored its map, and only if all that it finds there is right. What it reads until then does not fault.
func TestStartingHeap(t *testing.T) {
	const spanStart, spanPages = 24, 32
	heap := newMadeUpHeap(t)
	arenas := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(heap.arenas))))
	vars := uint64(uintptr(heap.mmap(4096)))
	slot, faults, span := vars, vars+8, vars+64
	w := newSetWorld(t, func(o *Options) {
		o.Stable.Heap = goproc.HeapMap{Base: heap.base, Spans: atSpans,
			Starting: goproc.StartingHeap{Arenas: slot, Faults: [2]uint64{faults, faults + 4}, SpanStart: spanStart, SpanPages: spanPages}}
	})
	th := w.thread(7, 1234, 1)
	body := w.body(Place{Set: 1, Probe: 0, G: gRegister})
	page := th.g &^ (heapPage - 1)
	setSpan := func(addr uint64) {
		heap.set(th.g, true)
		put(heap.arenas[(th.g+heap.base)/arenaSize]+atSpans+(th.g+heap.base)%arenaSize/heapPage*8, addr)
	}
	parcel := w.object(64)
	learns := func() uint64 {
		th.args(0, parcel).hit(body)
		w.events()
		return w.region.shared.Arenas
	}
	good := func() {
		put(slot, arenas)
		put(faults, 0)
		put(span+spanStart, page)
		put(span+spanPages, 1)
		setSpan(span)
		w.region.AllowReads(true)
	}
	for _, c := range []struct {
		name string
		bad  func()
	}{
		{"not initialized", func() { put(slot, 0) }},
		{"wild map", func() { put(slot, 0xdead_beef_0000) }},
		{"no arena", func() { put(slot, uint64(uintptr(heap.mmap(1<<48/arenaSize*8)))) }},
		{"first setting", func() { put(faults, 1) }},
		{"second setting", func() { put(faults, 1<<32) }},
		{"no span", func() { setSpan(0) }},
		{"wild span", func() { setSpan(0xdead_beef_0000) }},
		{"span above the g", func() { put(span+spanStart, page+heapPage) }},
		{"span below the g", func() { put(span+spanStart, page-heapPage) }},
		{"no system calls", func() { w.region.AllowReads(false) }},
	} {
		good()
		c.bad()
		if got := learns(); got != 0 {
			t.Errorf("%s: the map is at %#x", c.name, got)
		}
	}
	good()
	if got := learns(); got != arenas && w.mayRead() {
		t.Errorf("the map is at %#x, want %#x", got, arenas)
	}
	w.region.SetArenas(csrc.NoArenas)
	if got := learns(); got != csrc.NoArenas {
		t.Errorf("the map is at %#x although the heap must not be used", got)
	}
}

// mayRead reports whether this process can read its own memory by a system call: an emulator may lack the call.
func (w *world) mayRead() bool {
	local, remote := make([]byte, 8), make([]byte, 8)
	_, err := unix.ProcessVMReadv(unix.Getpid(), []unix.Iovec{{Base: &local[0], Len: 8}}, []unix.RemoteIovec{{Base: uintptr(addressOf(remote)), Len: 8}}, 0)
	return err == nil
}
