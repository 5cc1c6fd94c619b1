package goproc

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/gobin/layout"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// somewhere are addresses for variables that no process has.
var somewhere = gobin.Globals{Allp: 1 << 12, Memstats: 1 << 20, Mheap: 2 << 20, GCController: 3 << 20, Work: 4 << 20, Gcpercent: 5 << 20}

// booksOf returns the books of a release from the table of layouts.
func booksOf(t testing.TB, version, arch string) *heapBooks {
	t.Helper()
	l, err := layout.ForVersion("go"+version, arch)
	if err != nil {
		t.Fatal(err)
	}
	b, err := newHeapBooks(l, somewhere, 0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestHeapBooksEveryRelease finds the counters in the layouts of every release on both architectures.
func TestHeapBooksEveryRelease(t *testing.T) {
	for _, version := range testtarget.Versions() {
		amd64, arm64 := booksOf(t, version, "amd64"), booksOf(t, version, "arm64")
		if len(amd64.fields) != len(arm64.fields) || amd64.size != arm64.size {
			t.Errorf("Go %s: %d fields in %d bytes on amd64, %d in %d on arm64", version, len(amd64.fields), amd64.size, len(arm64.fields), arm64.size)
		}
		if amd64.arenaBase+0x80c0_0000_0000/amd64.arenaBytes*amd64.arenaBytes != 0xc0_0000_0000 || arm64.arenaBase != 0 {
			t.Errorf("Go %s: arena 0 is at %#x on amd64 and %#x on arm64", version, amd64.arenaBase, arm64.arenaBase)
		}
	}
}

// TestHeapBooksUnknownVariable refuses executables in which a variable was not found.
func TestHeapBooksUnknownVariable(t *testing.T) {
	l, err := layout.ForVersion("go1.16.15", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	for _, forget := range []func(*gobin.Globals){
		func(g *gobin.Globals) { g.Allp = 0 }, func(g *gobin.Globals) { g.Memstats = 0 }, func(g *gobin.Globals) { g.Mheap = 0 },
		func(g *gobin.Globals) { g.GCController = 0 }, func(g *gobin.Globals) { g.Work = 0 }, func(g *gobin.Globals) { g.Gcpercent = 0 },
	} {
		g := somewhere
		forget(&g)
		if b, err := newHeapBooks(l, g, 0); err == nil {
			t.Errorf("found the counters with the variables at %+v: %+v", g, b.places)
		}
	}
}

// set sets a field of 4 or 8 bytes.
func (b *heapBooks) set(img bookImage, path string, i int, v uint64) {
	f := b.fields[path]
	if f.size == 4 {
		binary.LittleEndian.PutUint32(img[f.at:], uint32(v))
	} else {
		binary.LittleEndian.PutUint64(img[f.at+8*i:], v)
	}
}

// plausibleReading returns a reading whose numbers agree.
func plausibleReading(b *heapBooks) *heapReading {
	r := &heapReading{img: make(bookImage, b.size), allocs: make([]int64, len(b.classes)), smallFrees: make([]int64, len(b.classes))}
	for path, v := range map[string]uint64{
		"runtime.gcControllerState.gcPercent": 100, fieldGcpercent: 100, fieldMemoryLimit: math.MaxInt64, fieldSweepgen: 2,
		"runtime.mstats.numgc": 1, "runtime.workType.cycles": 1, "runtime.mstats.last_gc_unix": 1e18, "runtime.mstats.pause_ns": 1000,
		"runtime.mstats.pause_end": 1e18, "runtime.mstats.pause_total_ns": 1000, "runtime.mstats.heap_sys": 4 << 20,
		"runtime.mstats.heap_inuse": 1 << 20, "runtime.mstats.heap_idle": 3 << 20, "runtime.gcControllerState.heapInUse": 1 << 20,
		"runtime.gcControllerState.heapFree": 3 << 20, "runtime.mstats.mspan_sys": 1 << 16, "runtime.mstats.mcache_sys": 1 << 14,
	} {
		if b.has(path) {
			b.set(r.img, path, 0, v)
		}
	}
	return r
}

// TestHeapBooksWild computes the values of images with random numbers in them. None may be shown that no process has.
func TestHeapBooksWild(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	wild := []uint64{0, 1, math.MaxUint64, 1 << 63, math.MaxInt64, 1 << 48, 0xdeadbeefdeadbeef, math.Float64bits(math.NaN()), math.Float64bits(math.Inf(1))}
	for _, version := range testtarget.Versions() {
		b := booksOf(t, version, "amd64")
		refused := 0
		if _, err := b.memory(plausibleReading(b)); err != nil {
			t.Errorf("Go %s: a plausible reading: %v", version, err)
		}
		for range 2000 {
			r := plausibleReading(b)
			for range 1 + random.IntN(8) {
				at := random.IntN(len(r.img)/8) * 8
				binary.LittleEndian.PutUint64(r.img[at:], wild[random.IntN(len(wild))])
			}
			r.allocs[random.IntN(len(r.allocs))] = int64(wild[random.IntN(len(wild))])
			m, err := b.memory(r)
			if err == nil {
				checkBelievable(t, &m)
			} else if !errors.Is(err, errBooks) {
				t.Fatal(err)
			} else {
				refused++
			}
		}
		if refused < 500 {
			t.Errorf("Go %s: %d of 2000 wild readings were refused", version, refused)
		}
	}
}

// checkBelievable checks what holds for every process.
func checkBelievable(t *testing.T, m *event.Memory) {
	t.Helper()
	h, r, gc := &m.Heap, &m.Runtime, &m.GC
	for _, n := range []uint64{h.Alloc, h.Live, h.Inuse, h.Idle, h.Released, h.Sys, r.StackInuse, r.MSpanInuse, r.MCacheInuse, r.GCSys, r.Sys} {
		if n > maxSize {
			t.Fatalf("%#x bytes in %+v", n, m)
		}
	}
	if h.Frees > h.Mallocs || h.Alloc > h.TotalAlloc || h.Released > h.Idle || !(gc.CPUFraction >= 0 && gc.CPUFraction <= 2) || gc.Percent < -1 || gc.PauseTotal < 0 {
		t.Fatalf("%+v", m)
	}
	for _, c := range m.BySize {
		if c.Frees > c.Mallocs {
			t.Fatalf("%+v", c)
		}
	}
}

// TestCachedSpanWild adds spans that no cache contains.
func TestCachedSpanWild(t *testing.T) {
	b := booksOf(t, testtarget.Latest(), "amd64")
	c := &b.procs
	const class = 10 // objects of 48 bytes with pointers
	good := func() []byte {
		s := make([]byte, c.spanHi-c.spanLo)
		binary.LittleEndian.PutUint16(s[c.elems-c.spanLo:], 170)
		binary.LittleEndian.PutUint16(s[c.allocs-c.spanLo:], 100)
		binary.LittleEndian.PutUint16(s[c.beforeCache-c.spanLo:], 30)
		binary.LittleEndian.PutUint64(s[c.elemSize-c.spanLo:], uint64(b.classes[class/2]))
		s[c.spanClass-c.spanLo] = class
		binary.LittleEndian.PutUint32(s[c.sweepgen-c.spanLo:], 5)
		return s
	}
	r := plausibleReading(b)
	if err := r.addSpan(b, good(), class); err != nil || r.allocs[class/2] != 70 || r.changing != 0 {
		t.Fatalf("%v, %d objects", err, r.allocs[class/2])
	}
	for name, spoil := range map[string]func(s []byte){
		"more objects than room": func(s []byte) { binary.LittleEndian.PutUint16(s[c.elems-c.spanLo:], 99) },
		"more before":            func(s []byte) { binary.LittleEndian.PutUint16(s[c.beforeCache-c.spanLo:], 101) },
		"another size":           func(s []byte) { binary.LittleEndian.PutUint64(s[c.elemSize-c.spanLo:], 47) },
		"another class":          func(s []byte) { s[c.spanClass-c.spanLo]++ },
	} {
		s := good()
		spoil(s)
		if err := r.addSpan(b, s, class); !errors.Is(err, errBooks) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := good()
	binary.LittleEndian.PutUint32(s[c.sweepgen-c.spanLo:], 2)
	if err := r.addSpan(b, s, class); err != nil || r.changing != 170*48 || r.allocs[class/2] != 70 {
		t.Errorf("a span that has left the cache: %v, %d objects, %d bytes changing", err, r.allocs[class/2], r.changing)
	}
}
